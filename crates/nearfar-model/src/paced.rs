//! One modelled tier, shared by all threads that use it.

use std::sync::Arc;
use std::time::Duration;

use nearfar_topology::Profile;

use crate::clock::{Clock, RealClock, Stamp};
use crate::heap::{self, HeapAccess};
use crate::link::Link;
use crate::parameters::{BandwidthShare, PacedParameters, ParameterError};
use crate::stream::Stream;

/// A far tier that is modelled by holding back the threads that use it.
///
/// The tier has one link per direction of the profile's
/// bandwidth times the [`BandwidthShare`]; all its streams share them. See the crate's
/// documentation for what is modelled.
///
/// ```
/// use nearfar_model::{BandwidthShare, PacedTier};
/// use nearfar_topology::Profile;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let profile = Profile::builtin("cxl-blades-1")?;
/// let tier = PacedTier::new(&profile, BandwidthShare::Threads(2))?;
/// let mut stream = tier.open_stream();
/// stream.read(64 << 10); // returns when the modelled tier would have delivered 64 KiB
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PacedTier<C: Clock = RealClock> {
    parameters: PacedParameters,
    latency_ns: u64,
    share: f64,
    read_link: Link,
    write_link: Link,
    clock: C,
}

impl PacedTier<RealClock> {
    /// The far tier of `profile`, in wall-clock time.
    ///
    /// # Errors
    /// [`ParameterError`] for a number that is unavailable or cannot be paced, or a share for no
    /// threads.
    pub fn new(profile: &Profile, share: BandwidthShare) -> Result<Arc<Self>, ParameterError> {
        Self::with_parameters(PacedParameters::try_from(profile)?, share)
    }

    /// A tier of these parameters, in wall-clock time.
    ///
    /// # Errors
    /// [`ParameterError`] for a number that cannot be paced, or a share for no threads.
    pub fn with_parameters(
        parameters: PacedParameters,
        share: BandwidthShare,
    ) -> Result<Arc<Self>, ParameterError> {
        Self::with_clock(parameters, share, RealClock::new())
    }
}

impl<C: Clock> PacedTier<C> {
    /// A tier in the time of `clock`.
    ///
    /// # Errors
    /// As [`PacedTier::with_parameters`].
    pub fn with_clock(
        parameters: PacedParameters,
        share: BandwidthShare,
        clock: C,
    ) -> Result<Arc<Self>, ParameterError> {
        parameters.validate()?;
        let share = share.fraction(parameters.cores)?;
        let read_link = Link::new(parameters.read_bandwidth_bytes_per_s * share);
        let write_link = Link::new(parameters.write_bandwidth_bytes_per_s * share);
        let latency_ns = parameters.latency_ns.round() as u64;
        Ok(Arc::new(Self {
            parameters,
            latency_ns,
            share,
            read_link,
            write_link,
            clock,
        }))
    }

    /// The parameters the tier was made with.
    pub fn parameters(&self) -> &PacedParameters {
        &self.parameters
    }

    /// The clock the tier runs by.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The present moment of the tier's clock, for [`PacedTier::dependent_read`].
    pub fn now(&self) -> Stamp {
        self.clock.now()
    }

    /// Idle latency of a dependent read.
    pub fn read_latency_ns(&self) -> f64 {
        self.parameters.latency_ns
    }

    /// Read bandwidth that all streams share.
    pub fn read_bandwidth_bytes_per_s(&self) -> f64 {
        self.read_link.bandwidth_bytes_per_s()
    }

    /// Write bandwidth that all streams share.
    pub fn write_bandwidth_bytes_per_s(&self) -> f64 {
        self.write_link.bandwidth_bytes_per_s()
    }

    /// What one stream gets at most, however idle the link is.
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

    /// A sequential stream for the calling thread.
    ///
    /// A thread uses one stream for all it reads and writes on this tier, because the stream also
    /// stands for the core: two streams would give it two cores' bandwidth.
    pub fn open_stream(self: &Arc<Self>) -> Stream<C> {
        Stream::new(Arc::clone(self))
    }

    /// Holds the caller until a dependent read that began at `started` would have returned, and
    /// says when that was: the moment at which the next read of the chain begins.
    ///
    /// The real access is made between taking the stamp and this call; its own time counts. Passing
    /// the returned stamp on keeps the errors of single waits from adding up:
    ///
    /// ```
    /// # use nearfar_model::{BandwidthShare, Clock, PacedTier, VirtualClock};
    /// fn chase<C: Clock>(tier: &PacedTier<C>, next: &[usize], hops: usize) -> usize {
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
    /// tier instead of the near one. Executes nothing: see [`PacedTier::hold`].
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
    /// does not queue behind the streams of the tier.
    pub fn charge_heap(&self, access: &HeapAccess) -> Duration {
        heap::estimate(
            access,
            &self.parameters,
            self.read_link.ns_per_byte(),
            self.write_link.ns_per_byte(),
        )
    }

    /// Holds the calling thread for `duration`.
    pub fn hold(&self, duration: Duration) {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if duration_ns > 0 {
            let deadline = self.clock.now().plus_ns(duration_ns);
            self.clock.wait_until(deadline);
        }
    }

    pub(crate) fn latency_ns(&self) -> u64 {
        self.latency_ns
    }

    pub(crate) fn read_link(&self) -> &Link {
        &self.read_link
    }

    pub(crate) fn write_link(&self) -> &Link {
        &self.write_link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::VirtualClock;
    use crate::parameters::tests::example;

    fn tier() -> Arc<PacedTier<VirtualClock>> {
        PacedTier::with_clock(example(), BandwidthShare::WholeDevice, VirtualClock::new()).unwrap()
    }

    #[test]
    fn dependent_reads_take_one_latency_each() {
        let tier = tier();
        let mut started = tier.now();
        for _ in 0..10 {
            started = tier.dependent_read(started);
        }
        assert_eq!(started.as_ns(), 5_000);
        assert_eq!(tier.now(), started);
    }

    #[test]
    fn a_read_slower_than_the_tier_is_not_held() {
        let tier = tier();
        let started = tier.now();
        tier.clock().set(Stamp::from_ns(800));
        assert_eq!(tier.dependent_read(started).as_ns(), 800);
        assert_eq!(tier.now().as_ns(), 800);
    }

    #[test]
    fn the_share_covers_links_and_cache() {
        let share = BandwidthShare::Threads(2);
        let tier = PacedTier::with_clock(example(), share, VirtualClock::new()).unwrap();
        assert_eq!(tier.read_bandwidth_bytes_per_s().round(), 4e9);
        assert_eq!(tier.write_bandwidth_bytes_per_s().round(), 2e9);
        assert_eq!(tier.cache_share_bytes(), Some(10 << 20));
    }

    #[test]
    fn holding_advances_by_the_charge() {
        let tier = tier();
        tier.hold(Duration::from_micros(3));
        assert_eq!(tier.now().as_ns(), 3_000);
        tier.hold(Duration::ZERO);
        assert_eq!(tier.now().as_ns(), 3_000);
    }
}
