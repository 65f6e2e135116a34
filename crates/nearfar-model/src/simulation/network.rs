//! From the cores' queues to memory and back: the shared request table and the devices.

use nearfar_topology::SimulatedTier;

use super::machine::Machine;
use super::scheduler::TableCounts;
use super::time::{Ps, ns, ps};

/// Index of a device among all devices of all tiers.
pub type DeviceIndex = u8;

/// Completions of one channel in their order, a ring.
#[derive(Debug)]
struct Completions {
    times: Box<[Ps]>,
    head: u32,
    len: u32,
}

impl Completions {
    fn new(capacity: usize) -> Self {
        let capacity = capacity.next_power_of_two();
        Self {
            times: vec![0; capacity].into(),
            head: 0,
            len: 0,
        }
    }

    fn front(&self) -> Ps {
        if self.len == 0 {
            Ps::MAX
        } else {
            self.times[self.head as usize]
        }
    }

    fn pop(&mut self) {
        self.head = (self.head + 1) & (self.times.len() as u32 - 1);
        self.len -= 1;
    }

    fn push(&mut self, time: Ps) {
        let at = (self.head + self.len) & (self.times.len() as u32 - 1);
        self.times[at as usize] = time;
        self.len += 1;
    }
}

/// One channel of a device: a single server, first come, first served.
#[derive(Debug)]
struct Channel {
    free_at: Ps,
    last_release: Ps,
    refresh_at: Ps,
    completions: Completions,
    tier: u8,
}

/// Picoseconds of one tier.
#[derive(Debug, Clone)]
struct TierTimes {
    read_out: Ps,
    read_back: Ps,
    write_out: Ps,
    write_back: Ps,
    spread: Ps,
    read_service: Ps,
    write_service: Ps,
    slowdown_per_us: f64,
    refresh_interval: Ps,
    refresh: Ps,
    channels: u64,
    variation: f64,
}

impl TierTimes {
    fn new(tier: &SimulatedTier) -> Self {
        let channels = f64::from(tier.channels);
        let read_service = ps(tier.read_service_ns * channels);
        let write_service = ps(tier.write_service_ns * channels);
        let read =
            ps(tier.read_latency_ns - tier.latency_spread_ns / 2.0).saturating_sub(read_service);
        let write =
            ps(tier.write_latency_ns - tier.latency_spread_ns / 2.0).saturating_sub(write_service);
        Self {
            read_out: read / 2,
            read_back: read - read / 2,
            write_out: write / 2,
            write_back: write - write / 2,
            spread: ps(tier.latency_spread_ns),
            read_service,
            write_service,
            slowdown_per_us: tier.backlog_slowdown_per_us,
            refresh_interval: ps(tier.refresh_interval_ns).max(1),
            refresh: ps(tier.refresh_ns),
            channels: u64::from(tier.channels),
            variation: tier.service_variation,
        }
    }
}

/// What a request does at the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transfer {
    Read,
    Write,
}

/// Counters of the network.
#[derive(Debug, Clone, Default)]
pub(crate) struct NetworkCounts {
    pub admitted: u64,
    pub released: u64,
    pub reads: Vec<u64>,
    pub writes: Vec<u64>,
    pub occupancy_ps: u128,
    pub in_flight_max: u32,
    pub last_release: Ps,
}

/// Request table and devices.
#[derive(Debug)]
pub(crate) struct Network {
    entries: u32,
    in_flight: u32,
    admitted_at: Ps,
    tiers: Vec<TierTimes>,
    channels: Vec<Channel>,
    first_channel: Vec<u32>,
    device_tier: Vec<u8>,
    pub counts: NetworkCounts,
}

impl Network {
    pub(crate) fn new(machine: &Machine) -> Self {
        let mut channels = Vec::new();
        let mut first_channel = Vec::new();
        let mut device_tier = Vec::new();
        for (index, tier) in machine.tiers.iter().map(|(_, tier)| tier).enumerate() {
            for device in 0..tier.devices {
                first_channel.push(channels.len() as u32);
                device_tier.push(index as u8);
                for channel in 0..tier.channels {
                    let place = device * tier.channels + channel;
                    let of = tier.devices * tier.channels;
                    let phase = ps(tier.refresh_interval_ns) * u64::from(place) / u64::from(of);
                    channels.push(Channel {
                        free_at: 0,
                        last_release: 0,
                        refresh_at: phase,
                        completions: Completions::new(
                            machine.core.request_table_entries as usize + 1,
                        ),
                        tier: index as u8,
                    });
                }
            }
        }
        let devices = device_tier.len();
        Self {
            entries: machine.core.request_table_entries,
            in_flight: 0,
            admitted_at: 0,
            tiers: machine
                .tiers
                .iter()
                .map(|(_, tier)| TierTimes::new(tier))
                .collect(),
            channels,
            first_channel,
            device_tier,
            counts: NetworkCounts {
                reads: vec![0; devices],
                writes: vec![0; devices],
                ..NetworkCounts::default()
            },
        }
    }

    /// Sends a request that is ready at `now` and returns when its answer is back at the core.
    ///
    /// Calls come in the order of `now`, which makes the table and every server first come, first
    /// served.
    #[inline]
    pub(crate) fn request(
        &mut self,
        now: Ps,
        line: u64,
        device: DeviceIndex,
        kind: Transfer,
    ) -> Ps {
        let admitted = self.admit(now);
        let device = usize::from(device);
        let times = &self.tiers[usize::from(self.device_tier[device])];
        let hash = mix(line);
        // Consecutive 256 bytes share a channel, as address interleaving of controllers does.
        let channel = self.first_channel[device]
            + ((u128::from(mix(line >> 2)) * u128::from(times.channels)) >> 64) as u32;
        let channel = &mut self.channels[channel as usize];
        debug_assert_eq!(channel.tier, self.device_tier[device]);
        let (out, back, service) = match kind {
            Transfer::Read => (times.read_out, times.read_back, times.read_service),
            Transfer::Write => (times.write_out, times.write_back, times.write_service),
        };
        let arrival = admitted + out;
        let backlog = channel.free_at.saturating_sub(arrival);
        let slowed = service as f64 * (1.0 + backlog as f64 * 1e-6 * times.slowdown_per_us);
        let slowed =
            slowed * (1.0 + times.variation * ((hash >> 40 & 0xffff) as f64 / 32768.0 - 1.0));
        let queued = arrival.max(channel.free_at);
        let mut start = queued;
        while start >= channel.refresh_at {
            start = start.max(channel.refresh_at + times.refresh);
            // Controllers pull refreshes in and postpone them: JEDEC allows eight intervals.
            let jitter =
                u128::from(mix(channel.refresh_at) >> 32) * u128::from(times.refresh_interval);
            channel.refresh_at += times.refresh_interval / 2 + (jitter >> 32) as Ps;
        }
        channel.free_at = start + slowed as Ps;
        // A write is acknowledged when it is buffered; only its place in the queue waits for refresh.
        let done = match kind {
            Transfer::Read => channel.free_at + back,
            Transfer::Write => queued + service + back,
        };
        // A write's data have left the table once the device takes them.
        let release = match kind {
            Transfer::Read => done,
            Transfer::Write => channel.free_at,
        };
        let release = release.max(channel.last_release);
        channel.last_release = release;
        channel.completions.push(release);
        self.in_flight += 1;
        self.counts.admitted += 1;
        self.counts.in_flight_max = self.counts.in_flight_max.max(self.in_flight);
        self.counts.last_release = self.counts.last_release.max(release);
        self.counts.occupancy_ps += u128::from(release - admitted);
        match kind {
            Transfer::Read => self.counts.reads[device] += 1,
            Transfer::Write => self.counts.writes[device] += 1,
        }
        // The way from the table's slice to the core does not hold the entry.
        done + (((hash & 0xffff) * times.spread) >> 16)
    }

    /// What the table has seen.
    pub(crate) fn table_counts(&self) -> TableCounts {
        TableCounts {
            admitted: self.counts.admitted,
            released: self.counts.released,
            in_flight: u64::from(self.in_flight),
            in_flight_max: u64::from(self.counts.in_flight_max),
            occupancy_ns: self.counts.occupancy_ps as f64 / 1_000.0,
            span_ns: ns(self.counts.last_release),
        }
    }

    /// When a request that is ready at `now` gets its entry of the table.
    #[inline]
    fn admit(&mut self, now: Ps) -> Ps {
        let mut at = now.max(self.admitted_at);
        if self.in_flight == self.entries {
            let mut first = Ps::MAX;
            for channel in &mut self.channels {
                while channel.completions.front() <= at {
                    channel.completions.pop();
                    self.in_flight -= 1;
                    self.counts.released += 1;
                }
                first = first.min(channel.completions.front());
            }
            if self.in_flight == self.entries {
                at = first;
                let channel = self
                    .channels
                    .iter_mut()
                    .find(|channel| channel.completions.front() == first);
                channel
                    .into_iter()
                    .for_each(|channel| channel.completions.pop());
                self.in_flight -= 1;
                self.counts.released += 1;
            }
        }
        self.admitted_at = at;
        at
    }
}

/// Spreads the bits of `x` over the word.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 29)
}
