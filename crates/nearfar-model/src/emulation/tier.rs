//! One emulated tier, shared by all threads that use it.

use std::sync::Arc;
use std::time::Duration;

use nearfar_topology::{Profile, TierProfile};

use super::core::{Core, Direction, Pattern};
use super::heap::{self, HeapAccess};
use super::link::{Engines, Link, Links};
use super::misses::Charged;
use super::parameters::{BandwidthShare, EmulationParameters, ParameterError};
use crate::clock::{Clock, RealClock, Stamp};

/// Engines keep up with cores that read at least this part of what these read.
const KEEPING_UP: f64 = 0.75;

/// A far tier that is emulated by delaying the threads that use it.
///
/// The tier has one link per direction of the profile's bandwidth times the [`BandwidthShare`]; all
/// cores share them. A thread says what it reads and writes, of which tier; how that overlaps with
/// what it did before, on this tier or another, is for its modelled [`Core`] to say. A task that goes
/// on in another thread charges that thread's core.
///
/// ```
/// use nearfar_model::{BandwidthShare, EmulatedTier, Pattern};
/// use nearfar_topology::Profile;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let profile = Profile::builtin("cxl-blades-1")?;
/// let tier = EmulatedTier::new(&profile, BandwidthShare::Threads(2))?;
/// let mut pattern = Pattern::First;
/// for _chunk in 0..3 {
///     tier.read(pattern.advance(), 64 << 10); // returns when the tier would have delivered 64 KiB
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct EmulatedTier {
    parameters: EmulationParameters,
    latency_ns: u64,
    share: f64,
    links: Arc<Links>,
    clock: Arc<dyn Clock>,
}

impl EmulatedTier {
    /// The far tier of `profile`, in wall-clock time.
    ///
    /// # Errors
    /// [`ParameterError`] for a number that is unavailable or cannot be emulated, or a share for no
    /// threads.
    pub fn new(profile: &Profile, share: BandwidthShare) -> Result<Arc<Self>, ParameterError> {
        Self::with_parameters(EmulationParameters::try_from(profile)?, share)
    }

    /// A tier that `profile` models, in wall-clock time.
    ///
    /// # Errors
    /// As [`EmulatedTier::new`].
    pub fn of_tier(
        profile: &Profile,
        tier: &TierProfile,
        share: BandwidthShare,
    ) -> Result<Arc<Self>, ParameterError> {
        Self::with_parameters(EmulationParameters::of_tier(profile, tier)?, share)
    }

    /// A tier of these parameters, in wall-clock time.
    ///
    /// # Errors
    /// [`ParameterError`] for a number that cannot be emulated, or a share for no threads.
    pub fn with_parameters(
        parameters: EmulationParameters,
        share: BandwidthShare,
    ) -> Result<Arc<Self>, ParameterError> {
        Self::with_clock(parameters, share, RealClock::shared())
    }

    /// A tier in the time of `clock`, which all tiers of one machine have in common.
    ///
    /// # Errors
    /// As [`EmulatedTier::with_parameters`].
    pub fn with_clock(
        parameters: EmulationParameters,
        share: BandwidthShare,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, ParameterError> {
        parameters.validate()?;
        let share = share.fraction(parameters.cores)?;
        let links = Links {
            read: Link::new(parameters.read_bandwidth_bytes_per_s * share),
            write: Link::new(parameters.write_bandwidth_bytes_per_s * share),
            engines: parameters
                .copy_engine_bandwidth_bytes_per_s
                .map(|bandwidth| Engines::new(bandwidth * share)),
        };
        Ok(Arc::new(Self {
            latency_ns: parameters.latency_ns.round() as u64,
            parameters,
            share,
            links: Arc::new(links),
            clock,
        }))
    }

    /// The parameters the tier was made with.
    pub fn parameters(&self) -> &EmulationParameters {
        &self.parameters
    }

    /// The present moment of the tier's clock, for [`EmulatedTier::dependent_read`].
    pub fn now(&self) -> Stamp {
        self.clock.now()
    }

    /// Idle latency of a dependent read.
    pub fn read_latency_ns(&self) -> f64 {
        self.parameters.latency_ns
    }

    /// Read bandwidth that all cores share.
    pub fn read_bandwidth_bytes_per_s(&self) -> f64 {
        self.links.read.bandwidth_bytes_per_s()
    }

    /// Write bandwidth that all cores share.
    pub fn write_bandwidth_bytes_per_s(&self) -> f64 {
        self.links.write.bandwidth_bytes_per_s()
    }

    /// What one core gets at most, however idle the link is.
    pub fn core_bandwidth_bytes_per_s(&self) -> f64 {
        self.parameters.core_bandwidth_bytes_per_s()
    }

    /// The modelled machine's last-level cache times the bandwidth share, for
    /// [`HeapAccess::cache_bytes`]: the threads in use get as much of the cache as of the link.
    /// `None` where the profile does not know its cache.
    pub fn cache_share_bytes(&self) -> Option<u64> {
        self.parameters
            .cache_bytes
            .map(|bytes| (bytes as f64 * self.share) as u64)
    }

    /// Delays the calling thread until the next `bytes` that it reads would have arrived.
    pub fn read(&self, pattern: Pattern, bytes: u64) {
        self.transfer(Direction::Read, pattern, bytes);
    }

    /// Delays the calling thread until the tier would have taken `bytes` that it has written.
    pub fn write(&self, pattern: Pattern, bytes: u64) {
        self.transfer(Direction::Write, pattern, bytes);
    }

    /// Delays the calling thread until `bytes` are transferred.
    pub fn transfer(&self, direction: Direction, pattern: Pattern, bytes: u64) {
        self.with_core(|core| core.transfer(self, direction, pattern, bytes));
    }

    /// Has the links transfer bytes that nobody waits for.
    pub fn transfer_behind(&self, read_bytes: u64, written_bytes: u64) {
        self.with_core(|core| {
            core.request(self, Direction::Read, Pattern::Next, read_bytes);
            core.request(self, Direction::Write, Pattern::Next, written_bytes);
        });
    }

    /// Whether the machine has engines that copy while cores work, and they read nearly as much as the cores would.
    pub fn engines_keep_up(&self) -> bool {
        let all_cores = self.core_bandwidth_bytes_per_s() * f64::from(self.parameters.cores);
        let by_cores = self
            .read_bandwidth_bytes_per_s()
            .min(all_cores * self.share);
        let engines = self.links.engines.as_ref();
        engines.is_some_and(|engines| engines.bandwidth_bytes_per_s() >= KEEPING_UP * by_cores)
    }

    /// When the machine's engines that copy while cores work will have read the next `bytes`. None where it has none.
    ///
    /// They pass the engines one after the other, which all who ask share, and the link behind what engines and cores have
    /// asked of it before; the slower of both counts, and a latency. Each tier of a machine with several has the
    /// engines for itself.
    ///
    /// ```
    /// use nearfar_model::{BandwidthShare, EmulatedTier};
    /// use nearfar_topology::Profile;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let profile = Profile::builtin("cxl-blades-1")?;
    /// let tier = EmulatedTier::new(&profile, BandwidthShare::Threads(2))?;
    /// let arrives = tier.read_by_engines(1 << 20).ok_or("the machine has no engine")?;
    /// while tier.now() < arrives {
    ///     // ... the core works ...
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_by_engines(&self, bytes: u64) -> Option<Stamp> {
        let engines = self.links.engines.as_ref()?;
        let passed = engines.pass(&self.links.read, self.now(), bytes);
        Some(passed.plus_ns(self.latency_ns))
    }

    /// Delays the calling thread for what single accesses that it has made were charged: their latency,
    /// or until their lines have passed the link, whichever is longer.
    pub fn settle(&self, charged: Charged) {
        self.with_core(|core| core.settle(self, charged));
    }

    /// Delays the calling thread for `duration`, in which its core does nothing else.
    pub fn delay(&self, duration: Duration) {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if duration_ns > 0 {
            self.with_core(|core| core.delay(duration_ns));
        }
    }

    /// Delays the caller until a dependent read that began at `started` would have returned, and
    /// says when that was: the moment at which the next read of the chain begins. A read that is waited
    /// for takes one line of those that a core keeps in flight, which is not charged to its core.
    ///
    /// The real access is made between taking the stamp and this call; its own time counts. Passing
    /// the returned stamp on keeps the errors of single waits from adding up:
    ///
    /// ```
    /// # use nearfar_model::EmulatedTier;
    /// fn chase(tier: &EmulatedTier, next: &[usize], hops: usize) -> usize {
    ///     let mut at = 0;
    ///     let mut started = tier.now();
    ///     for _ in 0..hops {
    ///         at = next[at];
    ///         started = tier.dependent_read(started);
    ///     }
    ///     at
    /// }
    /// ```
    pub fn dependent_read(&self, started: Stamp) -> Stamp {
        let deadline = started.plus_ns(self.latency_ns);
        let now = self.clock.now();
        if now > deadline {
            return now;
        }
        self.clock.wait_until(deadline);
        deadline
    }

    /// Estimates how much longer random accesses to a hash table would take if it lay on this
    /// tier instead of the near one. Delays nobody: see [`EmulatedTier::delay`].
    ///
    /// With `m = accesses x max(0, 1 - cache_bytes / table_bytes)` misses:
    ///
    /// ```text
    /// far   = max(m x far latency / o, 64 B x m / read share, 64 B x missed writes / write share)
    /// near  = m x near latency / o
    /// extra = max(0, far - near)         o = outstanding_random x OVERLAP_SHARE
    /// ```
    ///
    /// The result is *a modelled estimate*: it assumes accesses spread evenly over the table and
    /// does not queue behind the transfers of the tier.
    pub fn heap_delay(&self, access: &HeapAccess) -> Duration {
        heap::estimate(
            access,
            &self.parameters,
            self.links.read.ns_per_byte(),
            self.links.write.ns_per_byte(),
        )
    }

    pub(super) fn latency_ns(&self) -> u64 {
        self.latency_ns
    }

    pub(super) fn links(&self) -> &Arc<Links> {
        &self.links
    }

    /// Does something on the core of the calling thread.
    fn with_core<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        Core::with_current(&self.clock, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::VirtualClock;
    use crate::emulation::parameters::tests::example;

    fn tier() -> (Arc<EmulatedTier>, Arc<VirtualClock>) {
        let clock = Arc::new(VirtualClock::new());
        let share = BandwidthShare::WholeDevice;
        let tier = EmulatedTier::with_clock(example(), share, Arc::clone(&clock) as _);
        (tier.unwrap(), clock)
    }

    /// A tier of 40 GB/s, whose machine has engines of so many bytes in a nanosecond.
    fn tier_with_engines(bytes_per_ns: f64) -> (Arc<EmulatedTier>, Arc<VirtualClock>) {
        let clock = Arc::new(VirtualClock::new());
        let parameters = EmulationParameters {
            copy_engine_bandwidth_bytes_per_s: Some(bytes_per_ns * 1e9),
            ..example()
        };
        let share = BandwidthShare::WholeDevice;
        let tier = EmulatedTier::with_clock(parameters, share, Arc::clone(&clock) as _);
        (tier.unwrap(), clock)
    }

    #[test]
    fn engines_read_one_thing_after_the_other_while_cores_work() {
        let (tier, clock) = tier_with_engines(10.0);
        let ends = [10_000, 10_000, 5_000].map(|bytes| tier.read_by_engines(bytes).unwrap());
        assert_eq!(ends.map(Stamp::as_ns), [1500, 2500, 3000]);
        assert_eq!(clock.now().as_ns(), 0);
        clock.wait_until(Stamp::from_ns(10_000));
        let later = tier.read_by_engines(10_000).unwrap();
        assert_eq!(later.as_ns(), 10_000 + 1000 + 500);
        let (fast, _) = tier_with_engines(1000.0);
        let end = fast.read_by_engines(40_000).unwrap();
        assert_eq!(end.as_ns(), 1000 + 500, "the link is the limit");
    }

    #[test]
    fn engines_have_what_cores_leave_of_the_link() {
        // Cores that compute take little of it.
        let (tier, clock) = tier_with_engines(30.0);
        for _ in 0..10 {
            tier.read(Pattern::First, 64);
        }
        let began = clock.now();
        let ends = [30_000; 100].map(|bytes| tier.read_by_engines(bytes).unwrap());
        let took_ns = ends[99].since_ns(began);
        assert!((100_000..102_000).contains(&took_ns), "{took_ns}");
        // What streams takes its share, with which the engines wait.
        let (tier, _) = tier_with_engines(30.0);
        tier.transfer_behind(4_000_000, 0);
        let end = tier.read_by_engines(30_000).unwrap();
        assert!(end.as_ns() > 4_000_000 / 40);
    }

    #[test]
    fn machines_without_engines_say_so() {
        let (tier, _) = tier();
        assert!(!tier.engines_keep_up() && tier.read_by_engines(1).is_none());
    }

    #[test]
    fn slow_engines_do_not_keep_up_with_cores() {
        let keeps_up = [29.0, 31.0].map(|rate| tier_with_engines(rate).0.engines_keep_up());
        assert_eq!(keeps_up, [false, true]);
    }

    #[test]
    fn dependent_reads_take_one_latency_each() {
        let (tier, _) = tier();
        let mut started = tier.now();
        for _ in 0..10 {
            started = tier.dependent_read(started);
        }
        assert_eq!(started.as_ns(), 5_000);
        assert_eq!(tier.now(), started);
    }

    #[test]
    fn a_read_slower_than_the_tier_is_not_delayed() {
        let (tier, clock) = tier();
        let started = tier.now();
        clock.set(Stamp::from_ns(800));
        assert_eq!(tier.dependent_read(started).as_ns(), 800);
        assert_eq!(tier.now().as_ns(), 800);
    }

    #[test]
    fn the_share_covers_links_and_cache() {
        let tier = EmulatedTier::with_parameters(example(), BandwidthShare::Threads(2)).unwrap();
        assert_eq!(tier.read_bandwidth_bytes_per_s().round(), 4e9);
        assert_eq!(tier.write_bandwidth_bytes_per_s().round(), 2e9);
        assert_eq!(tier.cache_share_bytes(), Some(10 << 20));
    }

    #[test]
    fn a_delay_advances_by_its_length() {
        let (tier, _) = tier();
        tier.delay(Duration::from_micros(3));
        assert_eq!(tier.now().as_ns(), 3_000);
        tier.delay(Duration::ZERO);
        assert_eq!(tier.now().as_ns(), 3_000);
    }

    fn settled_ns(parameters: EmulationParameters, charged: Charged, times: u32) -> u64 {
        let clock = Arc::new(VirtualClock::new());
        let share = BandwidthShare::WholeDevice;
        let tier = EmulatedTier::with_clock(parameters, share, clock).unwrap();
        for _ in 0..times {
            tier.settle(charged);
        }
        tier.now().as_ns()
    }

    #[test]
    fn a_thread_waits_for_its_latency() {
        let charged = Charged {
            latency_ns: 3_000,
            lines_read: 15,
            far_accesses: 15,
            ..Charged::default()
        };
        assert_eq!(settled_ns(example(), charged, 10), 30_000);
        assert_eq!(settled_ns(example(), Charged::default(), 10), 0);
    }

    #[test]
    fn a_thread_waits_for_the_link_where_that_takes_longer() {
        let slow = EmulationParameters {
            read_bandwidth_bytes_per_s: 1e9,
            ..example()
        };
        let charged = Charged {
            latency_ns: 100,
            lines_read: 100,
            far_accesses: 100,
            ..Charged::default()
        };
        // 6,400 bytes at a byte per nanosecond, and one latency for the first.
        let settled = settled_ns(slow, charged, 10);
        assert!((64_000..=64_500).contains(&settled), "{settled}");
    }
}
