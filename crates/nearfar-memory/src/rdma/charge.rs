//! The account of tiers of other hosts.

use std::sync::Arc;

use super::error::RdmaError;
use crate::region::RegionError;
use crate::system::{MemorySystem, Taken};
use crate::tier::{TierBytes, TierId};

/// Bytes of a tier of another host that are taken; dropping it gives them back.
#[derive(Debug)]
pub struct RemoteCharge {
    _taken: Taken,
    bytes: u64,
}

impl RemoteCharge {
    /// Bytes that are taken.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl MemorySystem {
    /// Takes `bytes` of a tier of another host, which count as a region's.
    ///
    /// # Errors
    /// [`RdmaError::Budget`], and [`RdmaError::NotRemote`] for any other tier.
    pub fn take_remote(
        self: &Arc<Self>,
        tier: TierId,
        bytes: u64,
    ) -> Result<RemoteCharge, RdmaError> {
        let info = self.info(tier);
        if info.backend.host().is_none() {
            let tier = info.name.clone();
            return Err(RdmaError::NotRemote { tier });
        }
        let mut wanted = TierBytes::ZERO;
        wanted[tier] = bytes;
        let _taken = self.take(wanted).map_err(|tier| {
            let state = self.ledger().state(tier);
            RdmaError::Budget(RegionError::OverBudget {
                tier: info.name.clone(),
                requested_bytes: bytes,
                available_bytes: state.budget_bytes.saturating_sub(state.used_bytes),
                budget_bytes: state.budget_bytes,
            })
        })?;
        Ok(RemoteCharge { _taken, bytes })
    }
}

#[cfg(test)]
mod tests {
    use nearfar_topology::TierKind;

    use super::*;
    use crate::{Budgets, TierSpec};

    #[test]
    fn bytes_of_another_host_are_counted_and_limited() {
        let near = TierSpec::new("near", TierKind::LocalDram, [0], 1 << 20);
        let far = TierSpec::rdma("b", "b:7475", 1000);
        let budgets = Budgets::new().with("b", 900);
        let system = MemorySystem::from_specs(vec![near, far], &budgets).unwrap();
        let tier = system.tier("b").unwrap();
        let charge = system.take_remote(tier, 600).unwrap();
        assert_eq!(system.usage(tier).region_bytes, 600);
        let error = system.take_remote(tier, 301).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tier \"b\" has 300 bytes left of its budget of 900 bytes, but 301 bytes are needed: \
             raise the budget or place less there"
        );
        assert_eq!(
            (charge.bytes(), system.usage(tier).used_bytes()),
            (600, 600)
        );
        drop(charge);
        assert_eq!(system.usage(tier).used_bytes(), 0);
        let near = system.take_remote(TierId::NEAR, 1).unwrap_err();
        assert_eq!(near.to_string(), "tier \"near\" is memory of this host");
    }

    #[test]
    fn nothing_is_put_on_another_host_as_if_it_were_memory_of_this_one() {
        let near = TierSpec::new("near", TierKind::LocalDram, [0], 1 << 20);
        let far = TierSpec::rdma("b", "b:7475", 1 << 20);
        let system = MemorySystem::from_specs(vec![near, far], &Budgets::new()).unwrap();
        assert!(system.place("b").is_err());
        assert!(
            system.tier("far").is_err(),
            "far is a tier that pages can be put on"
        );
    }
}
