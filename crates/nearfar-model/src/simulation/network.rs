//! From the cores' queues to memory and back: the shared request table and the devices.

use nearfar_topology::SimulatedTier;

use super::machine::Machine;
use super::requests::Target;
use super::scheduler::TableCounts;
use super::time::{NEVER, Ps, ns, ps};
use super::waits::{NetworkWaits, Stay};

/// Index of a device among all devices of all tiers.
pub type DeviceIndex = u8;

/// One channel of a device: a single server, first come, first served.
#[derive(Debug)]
struct Channel {
    times: TierTimes,
    free_at: Ps,
    last_release: Ps,
    refresh_at: Ps,
    /// Lines read and written.
    lines: [u64; 2],
    /// Those of the latter that had no entry of the table.
    write_backs: u64,
    /// When its requests give back their entries, in order: a ring.
    releases: Box<[Ps]>,
    head: usize,
    tail: usize,
}

/// The channels of a device.
#[derive(Debug)]
struct Device {
    first_channel: u32,
    channels: u32,
}

/// Fractions are whole numbers of parts: floating-point numbers would lengthen the chain from one
/// request of a channel to the next.
const SHARE_LOG2: u32 = 32;
const SLOWDOWN_LOG2: u32 = 40;

fn parts(fraction: f64, log2: u32) -> u64 {
    (fraction * (1_u64 << log2) as f64).round() as u64
}

/// `(a * b) >> log2` of whole numbers that may be large.
#[inline]
fn scaled(a: u64, b: u64, log2: u32) -> u64 {
    ((u128::from(a) * u128::from(b)) >> log2) as u64
}

/// A request's way to the device and back, and its time there.
#[derive(Debug, Clone)]
struct Way {
    out: Ps,
    back: Ps,
    /// For how much longer than its service it holds its entry of the table.
    holds: Ps,
    service: Ps,
    /// From its turn until it is acknowledged.
    acknowledged: Ps,
    /// Parts of a picosecond that each picosecond of backlog adds to the service.
    slowdown: u64,
}

impl Way {
    /// Of reads, which give their entries back with the data.
    fn of_reads(tier: &SimulatedTier) -> Self {
        let way = Self::new(tier.read_latency_ns, tier.read_service_ns, tier);
        Self {
            holds: way.back,
            ..way
        }
    }

    /// Of writes, whose data have left the table once the device takes them.
    fn of_writes(tier: &SimulatedTier) -> Self {
        Self::new(tier.write_latency_ns, tier.write_service_ns, tier)
    }

    fn new(latency_ns: f64, service_ns: f64, tier: &SimulatedTier) -> Self {
        let service = ps(service_ns * f64::from(tier.channels));
        let idle = ps(latency_ns - tier.latency_spread_ns / 2.0).saturating_sub(service);
        let slowdown = tier.backlog_slowdown_per_us * 1e-6 * service as f64;
        Self {
            out: idle / 2,
            back: idle - idle / 2,
            holds: 0,
            service,
            acknowledged: service + (idle - idle / 2),
            slowdown: parts(slowdown, SLOWDOWN_LOG2),
        }
    }
}

/// What a device is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Read,
    /// A line to be modified.
    Ownership,
    Write,
    /// A write that is answered when the table has it.
    Post,
    /// A write that waits in the last level and not in the table.
    WriteBack,
}

impl Asked {
    #[inline]
    fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::Post | Self::WriteBack)
    }
}

/// Picoseconds of one tier.
#[derive(Debug, Clone)]
struct TierTimes {
    /// Of reads and of writes.
    ways: [Way; 2],
    /// From when the data are there until they may be modified.
    ownership: Ps,
    spread: Ps,
    /// Shortest service as a share of the mean, and what each of 65,536 steps adds.
    shortest: u64,
    step: u64,
    refresh_interval: Ps,
    refresh: Ps,
}

impl TierTimes {
    fn new(tier: &SimulatedTier) -> Self {
        Self {
            ways: [Way::of_reads(tier), Way::of_writes(tier)],
            ownership: ps(tier.ownership_ns),
            spread: ps(tier.latency_spread_ns),
            shortest: parts(1.0 - tier.service_variation, SHARE_LOG2),
            step: parts(tier.service_variation / 32768.0, SHARE_LOG2),
            refresh_interval: ps(tier.refresh_interval_ns).max(1),
            refresh: ps(tier.refresh_ns),
        }
    }
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

/// Request table and devices.
#[derive(Debug)]
pub(crate) struct Network {
    entries: u32,
    /// No request is answered earlier.
    shortest_answer: Ps,
    /// Entries in use, but for those that were given back since the table was full.
    in_use: u32,
    admitted_at: Ps,
    devices: Vec<Device>,
    channels: Vec<Channel>,
    /// Channels that have entries, and when each gives back its next one.
    next_releases: Vec<(Ps, usize)>,
    occupancy_ps: u64,
    pub visits: Option<Vec<TableVisit>>,
    pub waits: Option<NetworkWaits>,
}

impl Network {
    /// The network of `machine`, for requests to those devices for which `used` holds.
    pub(crate) fn new(machine: &Machine, used: impl Fn(DeviceIndex) -> bool) -> Self {
        let entries = machine.core.request_table_entries;
        let mut channels = Vec::new();
        let mut devices = Vec::new();
        for tier in machine.tiers.iter().map(|(_, tier)| tier) {
            for device in 0..tier.devices {
                let count = if used(devices.len() as DeviceIndex) {
                    tier.channels
                } else {
                    0
                };
                devices.push(Device {
                    first_channel: channels.len() as u32,
                    channels: count,
                });
                channels.extend((0..count).map(|channel| {
                    let place = device * tier.channels + channel;
                    let of = tier.devices * tier.channels;
                    let phase = ps(tier.refresh_interval_ns) * u64::from(place) / u64::from(of);
                    Channel::new(TierTimes::new(tier), phase, entries as usize)
                }));
            }
        }
        let ways = channels
            .iter()
            .flat_map(|channel: &Channel| &channel.times.ways);
        Self {
            shortest_answer: ways.map(|way| way.out + way.back).min().unwrap_or(0),
            entries,
            in_use: 0,
            admitted_at: 0,
            next_releases: Vec::with_capacity(channels.len()),
            channels,
            devices,
            occupancy_ps: 0,
            visits: None,
            waits: None,
        }
    }

    /// No request is answered earlier.
    pub(crate) fn shortest_answer(&self) -> Ps {
        self.shortest_answer
    }

    /// Sends a request that is ready at `now` and returns when its answer is back at the core.
    ///
    /// Calls come in the order of `now`, which makes the table and every server first come, first
    /// served.
    #[inline]
    pub(crate) fn request(&mut self, now: Ps, target: Target, asked: Asked) -> Ps {
        // A write-back waits in the last level and has no entry.
        let in_table = asked != Asked::WriteBack;
        let admitted = if in_table { self.admit(now) } else { now };
        let line = target.line();
        let device = &self.devices[usize::from(target.device())];
        let mut index = device.first_channel as usize;
        if device.channels > 1 {
            // Consecutive 256 bytes share a channel, as address interleaving of controllers does.
            index += scaled(mix(line >> 2), u64::from(device.channels), 64) as usize;
        }
        let channel = &mut self.channels[index];
        let hash = mix(line);
        let (done, release) = channel.serve(admitted, asked, hash);
        if let Some(waits) = &mut self.waits
            && in_table
        {
            let out = channel.times.ways[usize::from(asked.is_write())].out;
            waits.count(Stay {
                ready: now,
                admitted,
                arrived: admitted + out,
                served: channel.free_at,
                released: release,
                answered: if asked == Asked::Post { admitted } else { done },
            });
        }
        if !in_table {
            return done.max(now + self.shortest_answer);
        }
        let spread = ((hash & 0xffff) * channel.times.spread) >> 16;
        if channel.push(release) {
            self.next_releases.push((release, index));
        }
        self.in_use += 1;
        self.occupancy_ps += release - admitted;
        if let Some(visits) = &mut self.visits {
            visits.push(TableVisit {
                device: target.device(),
                ready_ns: ns(now),
                admitted_ns: ns(admitted),
                released_ns: ns(release),
            });
        }
        if asked == Asked::Post {
            // The core hears as early of it as of the nearest memory.
            return admitted + self.shortest_answer;
        }
        // The way from the table's slice to the core does not hold the entry.
        done + spread
    }

    /// Lines read from each device, and lines written.
    pub(crate) fn lines(&self) -> (Vec<u64>, Vec<u64>) {
        let devices = self.devices.iter().map(|device| {
            let first = device.first_channel as usize;
            let channels = &self.channels[first..first + device.channels as usize];
            (
                channels.iter().map(|channel| channel.lines[0]).sum::<u64>(),
                channels.iter().map(|channel| channel.lines[1]).sum::<u64>(),
            )
        });
        devices.unzip()
    }

    /// What the table has seen.
    pub(crate) fn table_counts(&self) -> TableCounts {
        let channels = self.channels.iter();
        TableCounts {
            admitted: channels.clone().map(Channel::admitted).sum(),
            occupancy_ns: ns(self.occupancy_ps),
            span_ns: ns(channels
                .map(|channel| channel.last_release)
                .max()
                .unwrap_or(0)),
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
    #[inline(never)]
    fn admit_to_full(&mut self, at: Ps) -> Ps {
        let mut first = (NEVER, 0);
        let mut place = 0;
        while let Some((next, _)) = self.next_releases.get(place) {
            let mut next = *next;
            if next <= at {
                next = self.take_back(place, at);
                if next == NEVER {
                    self.next_releases.swap_remove(place);
                    continue;
                }
            }
            if next < first.0 {
                first = (next, place);
            }
            place += 1;
        }
        if self.in_use < self.entries {
            return at;
        }
        let (at, place) = first;
        if self.take_back(place, at) == NEVER {
            self.next_releases.swap_remove(place);
        }
        at
    }

    /// Takes back what a channel gives until `at`, and returns when it gives the next entry.
    #[inline]
    fn take_back(&mut self, place: usize, at: Ps) -> Ps {
        let (next, channel) = &mut self.next_releases[place];
        let (count, release) = self.channels[*channel].pop_until(at);
        self.in_use -= count;
        *next = release;
        release
    }
}

impl Channel {
    fn new(times: TierTimes, refresh_at: Ps, entries: usize) -> Self {
        Self {
            times,
            free_at: 0,
            last_release: 0,
            refresh_at,
            lines: [0; 2],
            write_backs: 0,
            releases: vec![0; entries.next_power_of_two()].into(),
            head: 0,
            tail: 0,
        }
    }

    /// Requests that had an entry of the table.
    fn admitted(&self) -> u64 {
        self.lines[0] + self.lines[1] - self.write_backs
    }

    /// Serves a request that got its entry at `admitted`: when it is answered but for the last part
    /// of its way, and when it gives back the entry.
    #[inline]
    fn serve(&mut self, admitted: Ps, asked: Asked, hash: u64) -> (Ps, Ps) {
        let (queued, release) = if asked.is_write() {
            self.serve_as::<1>(admitted, hash)
        } else {
            self.serve_as::<0>(admitted, hash)
        };
        let done = match asked {
            Asked::Read => release,
            Asked::Ownership => release + self.times.ownership,
            // A write is acknowledged when it is buffered: only its place in the queue waits for
            // refresh.
            Asked::Write | Asked::Post => queued + self.times.ways[1].acknowledged,
            // Its line has room in the last level once the device has taken it.
            Asked::WriteBack => {
                self.write_backs += 1;
                release
            }
        };
        (done, self.last_release)
    }

    /// Serves a read (0) or a write (1): when its turn is, and its release.
    #[inline]
    fn serve_as<const KIND: usize>(&mut self, admitted: Ps, hash: u64) -> (Ps, Ps) {
        let way = &self.times.ways[KIND];
        let arrival = admitted + way.out;
        let queued = arrival.max(self.free_at);
        let slowed = way.service + scaled(queued - arrival, way.slowdown, SLOWDOWN_LOG2);
        let share = self.times.shortest + self.times.step * (hash >> 40 & 0xffff);
        let service = scaled(slowed, share, SHARE_LOG2);
        let holds = way.holds;
        let mut start = queued;
        if queued >= self.refresh_at {
            start = self.refresh(queued);
        }
        self.free_at = start + service;
        self.lines[KIND] += 1;
        let release = self.free_at + holds;
        self.last_release = self.last_release.max(release);
        (queued, release)
    }

    /// When a request whose turn is at `at` begins, after the refreshes that are due.
    #[cold]
    fn refresh(&mut self, at: Ps) -> Ps {
        let mut start = at;
        while start >= self.refresh_at {
            start = start.max(self.refresh_at + self.times.refresh);
            // Controllers pull refreshes in and postpone them: JEDEC allows eight intervals.
            let jitter = scaled(mix(self.refresh_at) >> 32, self.times.refresh_interval, 32);
            self.refresh_at += self.times.refresh_interval / 2 + jitter;
        }
        start
    }

    /// Adds the release of an entry; true if there is no other.
    #[inline]
    fn push(&mut self, release: Ps) -> bool {
        let ring = self.releases.len() - 1;
        self.releases[self.tail & ring] = release;
        self.tail += 1;
        self.tail == self.head + 1
    }

    /// Takes the entries that are given back up to `at`: how many, and when the next one is.
    #[inline]
    fn pop_until(&mut self, at: Ps) -> (u32, Ps) {
        let ring = self.releases.len() - 1;
        let mut count = 0;
        while self.head != self.tail {
            let release = self.releases[self.head & ring];
            if release > at {
                return (count, release);
            }
            self.head += 1;
            count += 1;
        }
        (count, NEVER)
    }
}

/// Spreads the bits of `x` over the word.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 29)
}
