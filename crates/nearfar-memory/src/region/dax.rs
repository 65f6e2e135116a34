//! What of a region lies on DAX devices.

use crate::dax::{DaxError, DaxExtents};
use crate::layout::Layout;
use crate::placement::{PageSize, Placement};
use crate::region::{RegionError, Verification};
use crate::sys::{Mapping, SysError};
use crate::system::MemorySystem;
use crate::tier::TierId;

/// Whether pages of `layout` lie on devices.
pub(super) fn is_on_devices(system: &MemorySystem, layout: &Layout) -> bool {
    device_tiers(system, layout).next().is_some()
}

/// Bytes of a page of a region under a placement whose tiers exist. Opens the devices.
pub(super) fn page_bytes(
    system: &MemorySystem,
    placement: &Placement,
    page_size: PageSize,
) -> Result<usize, RegionError> {
    let page_bytes = page_size.bytes();
    let is_alone = placement
        .tiers()
        .all(|tier| Some(tier) == placement.tiers().next());
    let mut largest = page_bytes;
    for tier in placement.tiers() {
        let device = system
            .device(tier)
            .map_err(|source| failed(system, tier, source))?;
        let Some(device) = device else {
            continue;
        };
        if !is_alone && !page_bytes.is_multiple_of(device.page_bytes()) {
            return Err(RegionError::DevicePages {
                tier: system.name(tier),
                device: device.path().to_owned(),
                device_page_bytes: device.page_bytes(),
                page_bytes,
            });
        }
        largest = largest.max(device.page_bytes());
    }
    Ok(largest)
}

/// Takes what `layout` has on devices, and puts it, all zero, in its place in `map`.
pub(super) fn map(
    system: &MemorySystem,
    map: &Mapping,
    layout: &Layout,
) -> Result<Vec<(TierId, DaxExtents)>, RegionError> {
    let bytes = layout.all_bytes();
    let tiers = device_tiers(system, layout);
    let mapped = tiers.map(|tier| {
        let take = || {
            let Some(device) = system.device(tier)? else {
                unreachable!("these are the tiers of devices")
            };
            let extents = device.take(bytes[tier])?;
            extents.map_zeroed(map, &layout.ranges(|other| other == tier))?;
            Ok(extents)
        };
        let extents = take().map_err(|source| failed(system, tier, source))?;
        Ok((tier, extents))
    });
    mapped.collect()
}

/// What is known of the places of all pages, those of devices included, of a region just made.
pub(super) fn verify(
    system: &MemorySystem,
    map: &Mapping,
    layout: &Layout,
    dax: &[(TierId, DaxExtents)],
    of_nodes: Verification,
) -> Result<Verification, RegionError> {
    if dax.is_empty() {
        return Ok(of_nodes);
    }
    let of_devices = match check(system, map, layout, dax)? {
        Ok(()) => Verification::ByMapping,
        Err(reason) => Verification::Unverified { reason },
    };
    Ok(match of_nodes {
        unverified @ Verification::Unverified { .. } => unverified,
        Verification::Verified | Verification::ByMapping => of_devices,
    })
}

/// Checks that the bytes of devices are mapped where they should be; the inner error is that of asking.
pub(super) fn check(
    system: &MemorySystem,
    map: &Mapping,
    layout: &Layout,
    dax: &[(TierId, DaxExtents)],
) -> Result<Result<(), SysError>, RegionError> {
    for (tier, extents) in dax {
        let places = layout.ranges(|other| other == *tier);
        let asked = extents.check(map, &places);
        if let Err(error) = asked.map_err(|source| failed(system, *tier, source))? {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

fn device_tiers<'a>(
    system: &'a MemorySystem,
    layout: &Layout,
) -> impl Iterator<Item = TierId> + use<'a> {
    let places = layout.places().into_iter();
    places.filter(|tier| system.info(*tier).backend.device().is_some())
}

fn failed(system: &MemorySystem, tier: TierId, source: DaxError) -> RegionError {
    RegionError::Dax {
        tier: system.name(tier),
        source,
    }
}
