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
}

/// Where a device's channels and times are.
#[derive(Debug)]
struct Device {
    first_channel: u32,
    tier: u8,
}

/// A request's way to the device and back, and its time there.
#[derive(Debug, Clone)]
struct Way {
    out: Ps,
    back: Ps,
    service: Ps,
}

impl Way {
    fn new(latency_ns: f64, service_ns: f64, tier: &SimulatedTier) -> Self {
        let service = ps(service_ns * f64::from(tier.channels));
        let idle = ps(latency_ns - tier.latency_spread_ns / 2.0).saturating_sub(service);
        Self {
            out: idle / 2,
            back: idle - idle / 2,
            service,
        }
    }
}

/// Fractions are whole numbers of this many parts: floating-point numbers would lengthen the chain
/// from one request of a channel to the next.
const PARTS_LOG2: u32 = 32;
/// Parts of the slowdown per picosecond of backlog.
const BACKLOG_PARTS_LOG2: u32 = 40;

/// Picoseconds of one tier.
#[derive(Debug, Clone)]
struct TierTimes {
    read: Way,
    write: Way,
    spread: Ps,
    slowdown: u64,
    /// Shortest service as a share of the mean, and what each of 65,536 steps adds.
    shortest: u64,
    step: u64,
    refresh_interval: Ps,
    refresh: Ps,
    channels: u64,
}

impl TierTimes {
    fn new(tier: &SimulatedTier) -> Self {
        let parts = |share: f64, log2: u32| (share * (1_u64 << log2) as f64).round() as u64;
        Self {
            read: Way::new(tier.read_latency_ns, tier.read_service_ns, tier),
            write: Way::new(tier.write_latency_ns, tier.write_service_ns, tier),
            spread: ps(tier.latency_spread_ns),
            slowdown: parts(tier.backlog_slowdown_per_us * 1e-6, BACKLOG_PARTS_LOG2),
            shortest: parts(1.0 - tier.service_variation, PARTS_LOG2),
            step: parts(tier.service_variation / 32768.0, PARTS_LOG2),
            refresh_interval: ps(tier.refresh_interval_ns).max(1),
            refresh: ps(tier.refresh_ns),
            channels: u64::from(tier.channels),
        }
    }

    /// The time of one request at its channel.
    #[inline]
    fn service(&self, mean: Ps, backlog: Ps, hash: u64) -> Ps {
        let slowed =
            mean + ((mean * ((backlog * self.slowdown) >> 20)) >> (BACKLOG_PARTS_LOG2 - 20));
        (slowed * (self.shortest + self.step * (hash >> 40 & 0xffff))) >> PARTS_LOG2
    }
}

/// What a request does at the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transfer {
    Read,
    Write,
}

/// A request's stay in the request table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableVisit {
    /// Where the request went.
    pub device: DeviceIndex,
    /// When it was ready at its core.
    pub ready_ns: f64,
    /// When it got its entry.
    pub admitted_ns: f64,
    /// When it gave the entry back.
    pub released_ns: f64,
}

/// Counters of the network.
#[derive(Debug, Clone, Default)]
pub(crate) struct NetworkCounts {
    pub admitted: u64,
    pub reads: Vec<u64>,
    pub writes: Vec<u64>,
    pub occupancy_ps: u64,
    pub last_release: Ps,
}

/// Request table and devices.
#[derive(Debug)]
pub(crate) struct Network {
    entries: u32,
    /// Entries in use, but for those that were given back since the table was full.
    in_use: u32,
    admitted_at: Ps,
    tiers: Vec<TierTimes>,
    channels: Vec<Channel>,
    devices: Vec<Device>,
    pub counts: NetworkCounts,
    pub visits: Option<Vec<TableVisit>>,
}

impl Network {
    /// The network of `machine`, for requests to those devices for which `used` holds.
    pub(crate) fn new(machine: &Machine, used: impl Fn(DeviceIndex) -> bool) -> Self {
        let mut channels = Vec::new();
        let mut devices = Vec::new();
        for (index, tier) in machine.tiers.iter().map(|(_, tier)| tier).enumerate() {
            for device in 0..tier.devices {
                let used = used(devices.len() as DeviceIndex);
                devices.push(Device {
                    first_channel: channels.len() as u32,
                    tier: index as u8,
                });
                for channel in (0..tier.channels).filter(|_| used) {
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
                    });
                }
            }
        }
        Self {
            entries: machine.core.request_table_entries,
            in_use: 0,
            admitted_at: 0,
            tiers: machine
                .tiers
                .iter()
                .map(|(_, tier)| TierTimes::new(tier))
                .collect(),
            channels,
            counts: NetworkCounts {
                reads: vec![0; devices.len()],
                writes: vec![0; devices.len()],
                ..NetworkCounts::default()
            },
            devices,
            visits: None,
        }
    }

    /// No request to those devices for which `used` holds is answered earlier.
    pub(crate) fn shortest_answer(&self, used: impl Fn(DeviceIndex) -> bool) -> Ps {
        let devices = self.devices.iter().enumerate();
        devices
            .filter(|(index, _)| used(*index as DeviceIndex))
            .flat_map(|(_, device)| {
                let times = &self.tiers[usize::from(device.tier)];
                [&times.read, &times.write].map(|way| way.out + way.back)
            })
            .min()
            .unwrap_or(0)
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
        transfer: Transfer,
    ) -> Ps {
        let admitted = self.admit(now);
        let Device {
            first_channel,
            tier,
        } = self.devices[usize::from(device)];
        let times = &self.tiers[usize::from(tier)];
        let hash = mix(line);
        let mut channel = first_channel as usize;
        if times.channels > 1 {
            // Consecutive 256 bytes share a channel, as address interleaving of controllers does.
            channel += ((u128::from(mix(line >> 2)) * u128::from(times.channels)) >> 64) as usize;
        }
        let channel = &mut self.channels[channel];
        let way = match transfer {
            Transfer::Read => &times.read,
            Transfer::Write => &times.write,
        };
        let arrival = admitted + way.out;
        let backlog = channel.free_at.saturating_sub(arrival);
        let queued = arrival.max(channel.free_at);
        let start = if queued >= channel.refresh_at {
            channel.refresh(queued, times)
        } else {
            queued
        };
        channel.free_at = start + times.service(way.service, backlog, hash);
        let (done, release) = match transfer {
            Transfer::Read => (channel.free_at + way.back, channel.free_at + way.back),
            // A write is acknowledged when it is buffered, only its place in the queue waits for
            // refresh; its data have left the table once the device takes them.
            Transfer::Write => (queued + way.service + way.back, channel.free_at),
        };
        let release = release.max(channel.last_release);
        channel.last_release = release;
        channel.completions.push(release);
        self.in_use += 1;
        match transfer {
            Transfer::Read => self.counts.reads[usize::from(device)] += 1,
            Transfer::Write => self.counts.writes[usize::from(device)] += 1,
        }
        self.counts.admitted += 1;
        self.counts.last_release = self.counts.last_release.max(release);
        self.counts.occupancy_ps += release - admitted;
        if let Some(visits) = &mut self.visits {
            visits.push(TableVisit {
                device,
                ready_ns: ns(now),
                admitted_ns: ns(admitted),
                released_ns: ns(release),
            });
        }
        // The way from the table's slice to the core does not hold the entry.
        done + (((hash & 0xffff) * times.spread) >> 16)
    }

    /// What the table has seen.
    pub(crate) fn table_counts(&self) -> TableCounts {
        TableCounts {
            admitted: self.counts.admitted,
            occupancy_ns: self.counts.occupancy_ps as f64 / 1_000.0,
            span_ns: ns(self.counts.last_release),
        }
    }

    /// When a request that is ready at `now` gets its entry of the table.
    #[inline]
    fn admit(&mut self, now: Ps) -> Ps {
        let mut at = now.max(self.admitted_at);
        if self.in_use == self.entries {
            at = self.admit_to_full(at);
        }
        self.admitted_at = at;
        at
    }

    /// Entries that were given back are counted only when the table seems full.
    fn admit_to_full(&mut self, at: Ps) -> Ps {
        let (mut first, mut first_channel) = (Ps::MAX, 0);
        for (index, channel) in self.channels.iter_mut().enumerate() {
            while channel.completions.front() <= at {
                channel.completions.pop();
                self.in_use -= 1;
            }
            if channel.completions.front() < first {
                first = channel.completions.front();
                first_channel = index;
            }
        }
        if self.in_use < self.entries {
            return at;
        }
        self.channels[first_channel].completions.pop();
        self.in_use -= 1;
        first
    }
}

impl Channel {
    /// When a request whose turn is at `at` begins, after the refreshes that are due.
    #[cold]
    fn refresh(&mut self, at: Ps, times: &TierTimes) -> Ps {
        let mut start = at;
        while start >= self.refresh_at {
            start = start.max(self.refresh_at + times.refresh);
            // Controllers pull refreshes in and postpone them: JEDEC allows eight intervals.
            let jitter =
                u128::from(mix(self.refresh_at) >> 32) * u128::from(times.refresh_interval);
            self.refresh_at += times.refresh_interval / 2 + (jitter >> 32) as Ps;
        }
        start
    }
}

/// Spreads the bits of `x` over the word.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 29)
}
