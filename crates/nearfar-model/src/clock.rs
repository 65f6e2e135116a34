//! Where the model's time comes from: the machine's clock, or a virtual one.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A moment of one clock, in nanoseconds since that clock's origin.
///
/// Stamps of different clocks are not comparable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(u64);

impl Stamp {
    /// The moment `ns` nanoseconds after the clock's origin.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The moment `ns` later; saturates at the end of the clock's range (584 years).
    pub const fn plus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// The moment `ns` earlier, at the earliest the origin.
    pub const fn minus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }

    /// Nanoseconds from `earlier` to `self`, zero if it is not earlier.
    pub const fn since_ns(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A clock that can be read and waited on.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present moment. Never goes back.
    fn now(&self) -> Stamp;

    /// Blocks the caller until `deadline` and returns the moment it came back, which is not
    /// before `deadline` by more than the clock's own calibration error. Returns immediately when
    /// `deadline` has passed.
    fn wait_until(&self, deadline: Stamp) -> Stamp;
}

/// Waits shorter than this spin, as a core stalled on memory would; the scheduler's timer cannot
/// end them in time.
const SPIN_NS_MAX: u64 = 50_000;

/// The machine's monotonic clock.
///
/// A read costs 20 to 40 ns on x86 with a TSC clock source, and it is ordered after the loads
/// before it: an access made before [`Clock::now`] is complete when the stamp is taken. Waits spin
/// below 50 us. Longer ones sleep first, for less than the wait by the overshoot of this machine's
/// timer (measured once per process, about a millisecond), and spin the rest.
#[derive(Debug)]
pub struct RealClock {
    origin: Instant,
    overshoot: Overshoot,
}

impl RealClock {
    /// A clock whose origin is now.
    pub fn new() -> Self {
        static OVERSHOOT: OnceLock<Overshoot> = OnceLock::new();
        let overshoot = *OVERSHOOT.get_or_init(Overshoot::calibrate);
        Self {
            origin: Instant::now(),
            overshoot,
        }
    }
}

impl RealClock {
    /// The clock that all emulated tiers of this process run by, so that a thread has one core for all
    /// of them.
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<RealClock>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(Arc::default))
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Stamp {
        Stamp(elapsed_ns(self.origin))
    }

    fn wait_until(&self, deadline: Stamp) -> Stamp {
        let mut now = self.now();
        let remaining_ns = deadline.since_ns(now);
        if remaining_ns > SPIN_NS_MAX {
            let sleep_ns = remaining_ns.saturating_sub(self.overshoot.sleep_ns);
            if sleep_ns > 0 {
                std::thread::sleep(Duration::from_nanos(sleep_ns));
            }
        }
        let stop = deadline.minus_ns(self.overshoot.spin_ns);
        while now < stop {
            std::hint::spin_loop();
            now = self.now();
        }
        now
    }
}

fn elapsed_ns(origin: Instant) -> u64 {
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// How late this machine's waits return.
#[derive(Debug, Clone, Copy)]
struct Overshoot {
    spin_ns: u64,
    sleep_ns: u64,
}

impl Overshoot {
    /// Medians over a few waits: robust against a preemption in the middle of one.
    fn calibrate() -> Self {
        let clock = RealClock {
            origin: Instant::now(),
            overshoot: Self {
                spin_ns: 0,
                sleep_ns: 0,
            },
        };
        let spin_ns = median((0..101).map(|_| {
            let deadline = clock.now().plus_ns(300);
            clock.wait_until(deadline).since_ns(deadline)
        }));
        let sleep_ns = median((0..7).map(|_| {
            let deadline = clock.now().plus_ns(SPIN_NS_MAX);
            std::thread::sleep(Duration::from_nanos(SPIN_NS_MAX));
            clock.now().since_ns(deadline)
        }));
        Self { spin_ns, sleep_ns }
    }
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// A clock that stands still until it is told to move: for tests and simulations.
///
/// [`Clock::wait_until`] moves it to the deadline, so one thread that waits sees exactly the
/// modelled times. To run several modelled threads, keep a time for each of them, set the clock to
/// that of the earliest with [`VirtualClock::set`], and ask a [`Core`](crate::Core) of each for
/// deadlines without waiting ([`Core::request`](crate::Core::request)).
#[derive(Debug, Default)]
pub struct VirtualClock {
    now_ns: AtomicU64,
}

impl VirtualClock {
    /// A clock that stands at its origin.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock to `moment`, if that is later than its present.
    pub fn set(&self, moment: Stamp) {
        self.now_ns.fetch_max(moment.0, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Stamp {
        Stamp(self.now_ns.load(Ordering::Relaxed))
    }

    fn wait_until(&self, deadline: Stamp) -> Stamp {
        self.set(deadline);
        self.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_wait_ends_at_its_deadline() {
        let clock = RealClock::new();
        for wait_ns in [500, 20_000, 400_000] {
            let deadline = clock.now().plus_ns(wait_ns);
            let back = clock.wait_until(deadline);
            assert!(back.plus_ns(clock.overshoot.spin_ns) >= deadline);
        }
    }

    #[test]
    fn a_wait_for_the_past_returns_immediately() {
        let clock = VirtualClock::new();
        clock.set(Stamp::from_ns(100));
        assert_eq!(clock.wait_until(Stamp::from_ns(40)), Stamp::from_ns(100));
        assert_eq!(clock.wait_until(Stamp::from_ns(140)), Stamp::from_ns(140));
    }

    #[test]
    fn stamps_saturate() {
        let stamp = Stamp::from_ns(5);
        assert_eq!(stamp.minus_ns(9), Stamp::from_ns(0));
        assert_eq!(stamp.since_ns(Stamp::from_ns(7)), 0);
        assert_eq!(
            Stamp::from_ns(u64::MAX).plus_ns(1),
            Stamp::from_ns(u64::MAX)
        );
    }
}
