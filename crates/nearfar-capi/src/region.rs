//! Regions: memory whose pages lie where they were asked to.

use std::ffi::{c_char, c_void};

use nearfar_memory::{
    OverBudget, Placement, PlacementSpec, Region, RegionError, RegionOptions, TierId, Verification,
};

use crate::failure::{Failure, Status, guarded, result, text};
use crate::handles::{Handle, Handles};
use crate::system::{SYSTEMS, System};

/// The pages of a region.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSize {
    /// 4 KiB.
    Base = 0,
    /// 2 MiB, as far as there are some.
    Huge = 1,
}

/// What is known of where pages are.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// The kernel was asked of every page.
    Verified = 0,
    /// Those on DAX devices lie there by what is mapped; the others are verified.
    ByMapping = 1,
    /// The kernel could not be asked: the message says why.
    Unverified = 2,
}

struct Mapped {
    region: Region,
    /// Where its memory begins, which never changes. It is used by the caller only: nobody takes a slice
    /// of the region once this is given out.
    data: usize,
}

static REGIONS: Handles<Mapped> = Handles::new("region");

/// Takes `bytes` bytes, all zero, with a placement such as `near`, `far` or `interleave:2:1`. Every page is
/// populated, and the kernel is asked where it is.
///
/// # Safety
/// `placement` ends with a zero byte, and `region` points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_region_allocate(
    system: Handle,
    bytes: usize,
    placement: *const c_char,
    page_size: u32,
    region: *mut Handle,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let region = unsafe { result(region, "region") }?;
        let system = SYSTEMS.get(system)?;
        // SAFETY: the caller says so.
        let placement = placement_of(&system, unsafe { text(placement, "placement") }?)?;
        let page_size = match page_size {
            page if page == PageSize::Base as u32 => nearfar_memory::PageSize::Base,
            page if page == PageSize::Huge as u32 => nearfar_memory::PageSize::Huge,
            other => {
                let message = format!("there is no size {other} of pages");
                return Err(Failure::new(Status::Argument, message));
            }
        };
        let options = RegionOptions {
            page_size,
            over_budget: OverBudget::Refuse,
        };
        let mut made = Region::allocate(&system.memory, bytes, &placement, options)
            .map_err(Failure::of(Status::Memory))?;
        let data = made.as_mut_slice().as_mut_ptr().expose_provenance();
        *region = REGIONS.add(Mapped { region: made, data });
        Ok(())
    })
}

fn placement_of(system: &System, text: &str) -> Result<Placement, Failure> {
    let spec: PlacementSpec = text.parse().map_err(Failure::of(Status::Name))?;
    spec.resolve(&system.memory)
        .map_err(Failure::of(Status::Name))
}

/// Its memory, which is the caller's until the region is freed, and stays where it is when it moves.
///
/// # Safety
/// `data` and `bytes` point to a pointer and a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_region_data(
    region: Handle,
    data: *mut *mut c_void,
    bytes: *mut usize,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let (data, bytes) = unsafe { (result(data, "data")?, result(bytes, "bytes")?) };
        let mapped = REGIONS.get(region)?;
        *data = std::ptr::with_exposed_provenance_mut(mapped.data);
        *bytes = mapped.region.len();
        Ok(())
    })
}

/// Asks the kernel again where every page is. `placed`, which may be null, says what is known; where it is
/// `Unverified`, the last error of the thread says why, and the status is ok.
///
/// # Safety
/// `placed` is null or points to a `Placed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_region_verify(region: Handle, placed: *mut Placed) -> Status {
    let mut found = Placed::Verified;
    let status = guarded(|| {
        let mapped = REGIONS.get(region)?;
        mapped.region.verify().map_err(|error| match error {
            RegionError::Misplaced { .. } => Failure::new(Status::Misplaced, error),
            other => Failure::new(Status::Memory, other),
        })?;
        match mapped.region.verification() {
            Verification::Verified => {}
            Verification::ByMapping => found = Placed::ByMapping,
            Verification::Unverified { reason } => {
                found = Placed::Unverified;
                return Err(Failure::new(Status::Ok, reason));
            }
            other => {
                found = Placed::Unverified;
                return Err(Failure::new(Status::Ok, format!("{other:?}")));
            }
        }
        Ok(())
    });
    // SAFETY: the caller says so.
    if let Some(placed) = unsafe { placed.as_mut() } {
        *placed = found;
    }
    status
}

/// Moves it to another placement, while others read and write it.
///
/// # Safety
/// `placement` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_region_migrate(
    system: Handle,
    region: Handle,
    placement: *const c_char,
) -> Status {
    guarded(|| {
        let system = SYSTEMS.get(system)?;
        // SAFETY: the caller says so.
        let placement = placement_of(&system, unsafe { text(placement, "placement") }?)?;
        let moved = REGIONS
            .get(region)?
            .region
            .migrate(&placement, OverBudget::Refuse);
        moved.map(drop).map_err(Failure::of(Status::Memory))
    })
}

/// How many of its bytes are on the tier of this place, the nearest first.
///
/// # Safety
/// `bytes` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_region_tier_bytes(
    region: Handle,
    tier_index: usize,
    bytes: *mut u64,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let bytes = unsafe { result(bytes, "bytes") }?;
        let mapped = REGIONS.get(region)?;
        let none = || Failure::new(Status::Name, format!("there is no tier {tier_index}"));
        let tier = TierId::from_index(tier_index).ok_or_else(none)?;
        *bytes = mapped.region.tier_bytes(0..mapped.region.len())[tier];
        Ok(())
    })
}

/// Gives its memory back.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_region_free(region: Handle) -> Status {
    guarded(|| REGIONS.remove(region))
}
