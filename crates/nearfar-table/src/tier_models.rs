//! The emulated tiers of a machine: what is read from them and written to them takes as long as they
//! would.

use nearfar_memory::{TierBytes, TierId};
use nearfar_model::{EmulatedTier, Pattern};
use std::sync::Arc;

/// The models of those tiers that are emulated. A copy is of the same models.
#[derive(Debug, Clone, Default)]
pub struct TierModels(Arc<[(TierId, Arc<EmulatedTier>)]>);

impl TierModels {
    /// These models; those of one machine have one clock.
    pub fn new(models: impl IntoIterator<Item = (TierId, Arc<EmulatedTier>)>) -> Self {
        Self(models.into_iter().collect())
    }

    /// Whether no tier is emulated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The model of `tier`, where it is emulated.
    #[must_use]
    pub fn of(&self, tier: TierId) -> Option<&Arc<EmulatedTier>> {
        let found = self.0.iter().find(|(emulated, _)| *emulated == tier);
        found.map(|(_, model)| model)
    }

    /// Delays the calling thread for what it has read of the tiers in a row, and then written to them.
    pub fn transfer(&self, read: TierBytes, written: TierBytes) {
        for (tier, model) in self.0.iter() {
            model.read(Pattern::First, read[*tier]);
            model.write(Pattern::First, written[*tier]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_model::{BandwidthShare, Clock, EmulationParameters, VirtualClock};

    /// A tier whose link and core transfer so many bytes in a nanosecond.
    fn model(bytes_per_ns: f64, clock: &Arc<VirtualClock>) -> Arc<EmulatedTier> {
        let parameters = EmulationParameters {
            latency_ns: 100.0,
            near_latency_ns: 100.0,
            read_bandwidth_bytes_per_s: bytes_per_ns * 1e9,
            write_bandwidth_bytes_per_s: bytes_per_ns * 1e9,
            cores: 1,
            outstanding_sequential: 1000.0,
            outstanding_random: 16.0,
            cache_bytes: None,
            copy_engine_bandwidth_bytes_per_s: None,
        };
        let share = BandwidthShare::WholeDevice;
        EmulatedTier::with_clock(parameters, share, Arc::clone(clock) as _).expect("a tier")
    }

    #[test]
    fn each_tier_takes_its_own_time_one_after_the_other() {
        let clock = Arc::new(VirtualClock::new());
        let [near, far, farther] = [0, 1, 2].map(|tier| TierId::from_index(tier).expect("a tier"));
        let models = TierModels::new([(far, model(4.0, &clock)), (farther, model(1.0, &clock))]);
        assert!(models.of(near).is_none() && models.of(farther).is_some());
        let mut read = TierBytes::ZERO;
        (read[near], read[far], read[farther]) = (1 << 30, 4000, 0);
        let mut written = TierBytes::ZERO;
        written[farther] = 2000;
        models.transfer(read, written);
        // Each begins with a latency.
        assert_eq!(clock.now().as_ns(), 1000 + 100 + 2000 + 100);
    }
}
