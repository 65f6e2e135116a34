//! Tiers of a modelled machine by the names that placements use.

use std::collections::BTreeMap;

use nearfar_memory::PlacementSpec;
use nearfar_model::simulation::{DeviceIndex, Machine, MachineError, TierName};
use nearfar_topology::Profile;
use nearfar_topology::names::{self, NamedTier};

use crate::access::spec::Mistake;

/// A tier and its devices.
#[derive(Debug)]
struct DeviceTier {
    name: &'static str,
    devices: Vec<DeviceIndex>,
    /// What one device holds, where it is known.
    device_bytes: Option<u64>,
}

impl DeviceTier {
    /// The tier as far as names go: a modelled machine has no nodes.
    fn named(&self) -> NamedTier<'_> {
        NamedTier {
            name: self.name,
            is_allocatable: true,
            devices: self.devices.len(),
            nodes: Vec::new(),
        }
    }
}

/// All tiers of a modelled machine, near to far.
#[derive(Debug)]
pub(crate) struct DeviceTiers {
    profile: String,
    tiers: Vec<DeviceTier>,
}

impl DeviceTiers {
    /// # Errors
    /// [`MachineError::NoSuchDevice`] where a tier has no devices.
    pub(crate) fn new(machine: &Machine, profile: &Profile) -> Result<Self, MachineError> {
        let tier = |(name, tier): &(TierName, nearfar_topology::SimulatedTier)| {
            let capacity_bytes = match name {
                TierName::Near => profile.near.capacity_bytes.get(),
                TierName::Far => profile.far.capacity_bytes.get(),
                TierName::Remote => None,
            };
            Ok(DeviceTier {
                name: name.name(),
                devices: machine.devices(*name, tier.devices)?,
                device_bytes: capacity_bytes.map(|bytes| bytes / u64::from(tier.devices)),
            })
        };
        Ok(Self {
            profile: machine.profile.clone(),
            tiers: machine.tiers.iter().map(tier).collect::<Result<_, _>>()?,
        })
    }

    /// Their names.
    pub(crate) fn names(&self) -> Vec<String> {
        self.tiers.iter().map(|tier| tier.name.to_owned()).collect()
    }

    /// The devices of a tier (`far`), of one of its devices (`far2`) or of several (`far0-1`).
    pub(crate) fn devices(&self, name: &str) -> Result<Vec<DeviceIndex>, Mistake> {
        let named: Vec<NamedTier<'_>> = self.tiers.iter().map(DeviceTier::named).collect();
        let place = names::find(&named, name).map_err(|error| {
            Mistake::unknown_tier(format!(
                "the modelled machine has no tier {name:?}; profile {} has: {}",
                self.profile,
                error.known.join(", ")
            ))
        })?;
        let devices = &self.tiers[place.tier].devices;
        Ok(match place.devices {
            Some(chosen) => devices[chosen].to_vec(),
            None => devices.clone(),
        })
    }

    /// The devices that a placement names.
    pub(crate) fn devices_of(
        &self,
        placement: &PlacementSpec,
    ) -> Result<Vec<DeviceIndex>, Mistake> {
        let devices: Vec<Vec<_>> = placement
            .places()
            .map(|name| self.devices(name.as_str()))
            .collect::<Result<_, _>>()?;
        Ok(devices.concat())
    }

    fn tier_of(&self, device: DeviceIndex) -> Option<&DeviceTier> {
        self.tiers
            .iter()
            .find(|tier| tier.devices.contains(&device))
    }

    /// What the smallest of these tiers holds, where one is known.
    pub(crate) fn available_bytes(&self, devices: &[DeviceIndex]) -> Option<u64> {
        let of_device = |device: &DeviceIndex| {
            let tier = self.tier_of(*device)?;
            tier.device_bytes
                .map(|bytes| bytes * tier.devices.len() as u64)
        };
        devices.iter().filter_map(of_device).min()
    }

    /// Whether devices hold what is needed on them, as far as their size is known.
    pub(crate) fn check(&self, needed: &BTreeMap<DeviceIndex, u64>) -> Result<(), String> {
        for (device, needed) in needed {
            let Some(tier) = self.tier_of(*device) else {
                continue;
            };
            let Some(bytes) = tier.device_bytes.filter(|bytes| needed > bytes) else {
                continue;
            };
            let (name, profile) = (tier.name, &self.profile);
            let each = if tier.devices.len() > 1 {
                "a device of "
            } else {
                ""
            };
            return Err(format!(
                "{each}tier {name} of profile {profile} has {bytes} bytes, but the regions need \
                 {needed} there: make them smaller or place them elsewhere"
            ));
        }
        Ok(())
    }
}
