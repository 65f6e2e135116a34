//! Tiers of a profile beside those of a machine.

use crate::known::Known;
use crate::names::NEAR;
use crate::profile::{Profile, TierProfile};
use crate::topology::{Tier, TierKind, Topology, free_name};

impl Topology {
    /// Appends the memory that the profile models as tiers of kind
    /// [`TierKind::Modelled`], from near to far and backed by the near tier's nodes.
    ///
    /// The capacity of each is the near tier's, or the profile's where that is
    /// smaller; all share the same memory. Modelled tiers that are already there
    /// are replaced. One that has the name of a tier of the machine gets a number
    /// behind it. A topology without tiers stays as it is.
    #[must_use]
    pub fn with_profile(mut self, profile: &Profile) -> Self {
        self.tiers.retain(|tier| tier.kind != TierKind::Modelled);
        let Some(near) = self.tiers.first().cloned() else {
            return self;
        };
        for (name, modelled) in profile.modelled() {
            let taken = |name: &str| self.tiers.iter().any(|tier| tier.name == name);
            let name = free_name(name, taken);
            self.tiers
                .push(modelled_tier(name, &near, modelled, profile));
        }
        self
    }

    /// The tiers that a profile models, each with what that says of it, once they are part of the topology.
    pub fn modelled<'a>(
        &'a self,
        profile: &'a Profile,
    ) -> impl Iterator<Item = (&'a Tier, &'a TierProfile)> {
        let modelled = |tier: &&Tier| tier.kind == TierKind::Modelled;
        let profiles = profile.modelled().into_iter().map(|(_, tier)| tier);
        self.tiers.iter().filter(modelled).zip(profiles)
    }
}

fn modelled_tier(name: String, near: &Tier, modelled: &TierProfile, profile: &Profile) -> Tier {
    let capacity_bytes = match (near.capacity_bytes.get(), modelled.capacity_bytes.get()) {
        (Some(real), Some(modelled)) => Known::Value(real.min(modelled)),
        _ => near.capacity_bytes.clone(),
    };
    Tier {
        name,
        kind: TierKind::Modelled,
        nodes: near.nodes.clone(),
        capacity_bytes,
        free_bytes: near.free_bytes.clone(),
        distance: Known::unavailable("modelled tier"),
        memory_tier: Known::unavailable("modelled tier"),
        declared: modelled.performance(&profile.name),
        devices: Vec::new(),
        allocatable: near.allocatable,
        note: Some(format!(
            "modelled after profile {:?}: pages lie in tier {NEAR:?} and share its capacity",
            profile.name
        )),
    }
}
