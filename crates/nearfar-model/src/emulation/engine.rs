//! Engines of the modelled machine that copy while its cores work.

use std::sync::Arc;

use super::core::CoreId;
use super::link::{Link, Meter, Transfer};
use super::tier::EmulatedTier;
use crate::clock::Stamp;

/// A work queue of the modelled machine's engines, which reads from one tier what it is told to, one after the other.
///
/// A transfer begins when it is asked for or when the one before ends, whichever is later. It passes the engines, which all
/// queues of the tier share, and the tier's link, which they share with the cores; the slower of both tells how long that
/// takes. What is asked for behind nothing takes the tier's latency first. Each tier of a machine with several has the engines
/// for itself.
///
/// ```
/// use nearfar_model::{BandwidthShare, EmulatedTier};
/// use nearfar_topology::Profile;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let profile = Profile::builtin("cxl-blades-1")?;
/// let tier = EmulatedTier::new(&profile, BandwidthShare::Threads(2))?;
/// let mut queue = tier.engine_queue().ok_or("the machine has no engine")?;
/// let arrives = queue.read(1 << 20);
/// while tier.now() < arrives {
///     // ... the core works ...
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct EngineQueue {
    tier: Arc<EmulatedTier>,
    id: CoreId,
    busy_until: Stamp,
    engine: Meter,
    link: Meter,
}

impl EngineQueue {
    /// A queue of the engines whose common link is `engines`.
    pub(super) fn new(tier: Arc<EmulatedTier>, engines: &Link) -> Self {
        Self {
            id: CoreId::new(),
            busy_until: Stamp::default(),
            engine: Meter::new(engines.ns_per_byte()),
            link: Meter::new(tier.links().read.ns_per_byte()),
            tier,
        }
    }

    /// When the next `bytes` will have been read.
    pub fn read(&mut self, bytes: u64) -> Stamp {
        let now = self.tier.now();
        let links = Arc::clone(self.tier.links());
        let Some(engines) = links.engines.as_ref().filter(|_| bytes > 0) else {
            return now;
        };
        let start = match self.busy_until > now {
            true => self.busy_until,
            false => now.plus_ns(self.tier.latency_ns()),
        };
        let passed = engines.pass(Transfer {
            core: self.id,
            start,
            core_end: start,
            link_ns: self.engine.take_ns(bytes),
        });
        self.busy_until = links.read.pass(Transfer {
            core: self.id,
            start,
            core_end: passed,
            link_ns: self.link.take_ns(bytes),
        });
        self.busy_until
    }
}

impl Drop for EngineQueue {
    fn drop(&mut self) {
        let links = self.tier.links();
        links.read.leave(self.id);
        if let Some(engines) = &links.engines {
            engines.leave(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, VirtualClock};
    use crate::emulation::parameters::tests::example;
    use crate::emulation::{BandwidthShare, EmulationParameters};

    /// A tier of 40 GB/s with engines of so many bytes in a nanosecond.
    fn tier(engine_bytes_per_ns: f64) -> (Arc<EmulatedTier>, Arc<VirtualClock>) {
        let clock = Arc::new(VirtualClock::new());
        let parameters = EmulationParameters {
            copy_engine_bandwidth_bytes_per_s: Some(engine_bytes_per_ns * 1e9),
            ..example()
        };
        let share = BandwidthShare::WholeDevice;
        let tier = EmulatedTier::with_clock(parameters, share, Arc::clone(&clock) as _);
        (tier.unwrap(), clock)
    }

    #[test]
    fn transfers_pass_one_after_the_other_while_cores_work() {
        let (tier, clock) = tier(10.0);
        let mut queue = tier.engine_queue().unwrap();
        assert_eq!(queue.read(10_000).as_ns(), 500 + 1000);
        let second = queue.read(10_000);
        assert_eq!((second.as_ns(), clock.now().as_ns()), (2500, 0));
        clock.wait_until(second);
        assert_eq!(queue.read(0).as_ns(), 2500);
        assert_eq!(queue.read(10_000).as_ns(), 2500 + 500 + 1000);
    }

    #[test]
    fn the_link_is_the_limit_of_fast_engines() {
        let (tier, _) = tier(1000.0);
        let mut queue = tier.engine_queue().unwrap();
        assert_eq!(queue.read(40_000).as_ns(), 500 + 1000);
    }

    #[test]
    fn queues_share_the_engines() {
        let (tier, _) = tier(10.0);
        let (mut one, mut other) = (tier.engine_queue().unwrap(), tier.engine_queue().unwrap());
        assert_eq!(one.read(10_000).as_ns(), 1500);
        assert_eq!(other.read(10_000).as_ns(), 2500);
    }

    #[test]
    fn machines_without_engines_have_no_queue() {
        let clock = Arc::new(VirtualClock::new());
        let tier = EmulatedTier::with_clock(example(), BandwidthShare::WholeDevice, clock);
        assert!(tier.unwrap().engine_queue().is_none());
    }
}
