//! One thread whose accesses are charged and delayed.

use std::sync::Arc;
use std::time::Duration;

use super::misses::{Charged, MissModel};
use super::probe::EmulatedProbe;
use super::tier::EmulatedTier;

/// Charges what a thread's probe kept, and has the thread wait for it.
#[derive(Debug)]
pub struct EmulatedThread {
    tier: Arc<EmulatedTier>,
    misses: MissModel,
    charged: Charged,
    charging: Duration,
}

impl EmulatedThread {
    /// A thread that has so many bytes of cache for lines of the tier.
    pub fn new(tier: &Arc<EmulatedTier>, cache_bytes: u64) -> Self {
        Self {
            tier: Arc::clone(tier),
            misses: MissModel::new(tier.parameters(), cache_bytes),
            charged: Charged::default(),
            charging: Duration::ZERO,
        }
    }

    /// Waits for what the probe kept since the last time.
    pub fn settle(&mut self, probe: &EmulatedProbe) {
        let began = self.tier.now();
        probe.drain(|event| self.misses.hear(event));
        let charged = Charged {
            near_accesses: probe.near_accesses(),
            ..self.misses.charged
        };
        let took_ns = self.tier.now().since_ns(began);
        self.charging += Duration::from_nanos(took_ns);
        self.tier.settle(charged.since(self.charged));
        self.charged = charged;
    }

    /// Everything that was charged so far.
    pub fn charged(&self) -> Charged {
        self.charged
    }

    /// Time that charging took, which is none of the thread's.
    pub fn charging(&self) -> Duration {
        self.charging
    }
}
