//! Aggressors that do what a trace says, regulated in virtual time.

use super::plant::{Plant, Slowing};
use super::regulated::{Happened, TICK_MS, World, lost, regulate};
use super::trace::Trace;
use crate::bucket::TokenBucket;
use crate::control::Controller;
use crate::error::RegulateError;

/// Bytes that an aggressor asks its bucket for at a time.
const CHUNK_BYTES: u64 = 1 << 20;
/// The victim alone, the aggressor beside it, and the last part of that, which is measured.
pub(super) const ALONE_MS: f64 = 1_000.0;
pub(super) const BESIDE_MS: f64 = 20_000.0;
pub(super) const MEASURED_MS: f64 = 10_000.0;
/// Time that is replayed after the last line of a trace begins.
const REST_MS: f64 = 5_000.0;
/// Share of its speed with which a victim counts as recovered, and for how long it has it.
const RECOVERED: f64 = 0.9;
const RECOVERED_MS: f64 = 200.0;
/// What the paper's quota of 100 % takes from 16 threads: its cost for 92 % of the victim's bandwidth.
const PUBLISHED_COST: f64 = 15.0 / 16.0;

/// One tick.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// When it ends.
    pub at_ms: f64,
    /// Share of its undisturbed speed that the victim had.
    pub victim: f64,
    /// What each group moved.
    pub gb_per_s: Vec<f64>,
    /// What each was granted of its speed.
    pub granted: Vec<f64>,
}

impl Tick {
    /// What all groups moved.
    pub fn aggressors_gb_per_s(&self) -> f64 {
        self.gb_per_s.iter().sum()
    }

    fn least_granted(&self) -> f64 {
        self.granted.iter().copied().fold(1.0, f64::min)
    }
}

/// Groups that do what a trace says.
struct Traffic<'a> {
    plant: &'a Plant,
    slowing: Slowing,
    trace: &'a Trace,
    /// The speed of each group when nothing limits it, as a share of the plant's.
    speeds: Vec<f64>,
    /// What each asks, and the chunk that it moves.
    buckets: Vec<(TokenBucket, Chunk)>,
    ticks: Vec<Tick>,
}

impl<'a> Traffic<'a> {
    fn new(plant: &'a Plant, slowing: Slowing, trace: &'a Trace) -> Self {
        let speeds = trace.most();
        let bucket = |speed: &f64| {
            let bytes_per_s = speed * plant.full_gb_per_s * 1e9;
            let bucket = TokenBucket::new(bytes_per_s, CHUNK_BYTES as f64);
            (bucket, Chunk::default())
        };
        Self {
            plant,
            slowing,
            trace,
            buckets: speeds.iter().map(bucket).collect(),
            speeds,
            ticks: Vec::new(),
        }
    }

    /// What the victim has, and shares of the groups that all run, of which the far tier takes no more than there is.
    fn beside(&self, shares: &[f64]) -> (f64, Vec<f64>) {
        let all: f64 = shares.iter().sum();
        let taken = shares.iter().map(|share| share / all.max(1.0));
        (self.plant.victim(all.min(1.0)), taken.collect())
    }

    /// Each group stands still for a part of its period, and those of several begin at times of their own.
    fn stopped(&self, shares: &[f64], granted: &[f64]) -> (f64, Vec<f64>) {
        let mut mean = (0.0, vec![0.0; shares.len()]);
        for mask in 0..1_usize << shares.len() {
            let runs = |group: usize| mask >> group & 1 == 1;
            let mut weight = 1.0;
            let mut running = shares.to_vec();
            for (group, share) in running.iter_mut().enumerate() {
                weight *= if runs(group) {
                    granted[group]
                } else {
                    1.0 - granted[group]
                };
                *share *= f64::from(u8::from(runs(group)));
            }
            if weight > 0.0 {
                let (victim, taken) = self.beside(&running);
                mean.0 += weight * victim;
                for (mean, taken) in mean.1.iter_mut().zip(taken) {
                    *mean += weight * taken;
                }
            }
        }
        mean
    }

    /// Shares that buckets let through in a tick.
    fn metered(&mut self, now_ms: f64, shares: &[f64], granted: &[f64]) -> Vec<f64> {
        let full = self.plant.full_gb_per_s * 1e9;
        let tick_s = (now_ms * 1e-3, (now_ms + TICK_MS) * 1e-3);
        let mut moved = Vec::new();
        for (group, (bucket, chunk)) in self.buckets.iter_mut().enumerate() {
            let bytes = if shares[group] > 0.0 {
                let limit = granted[group] * self.speeds[group] * full;
                bucket.set_rate(tick_s.0, limit, CHUNK_BYTES as f64);
                take(bucket, chunk, tick_s, shares[group] * full)
            } else {
                0.0
            };
            moved.push(bytes / (full * TICK_MS * 1e-3));
        }
        moved
    }
}

impl World for Traffic<'_> {
    fn tick(&mut self, now_ms: f64, granted: &[f64]) -> Happened {
        let asked = self.trace.at(now_ms);
        let (victim, shares) = match self.slowing {
            Slowing::Quota => self.stopped(&asked, granted),
            Slowing::Bandwidth => {
                let shares = self.metered(now_ms, &asked, granted);
                self.beside(&shares)
            }
            Slowing::Frequency => {
                let slower = asked.iter().zip(granted).zip(&self.speeds);
                let slower = slower.map(|((asked, granted), speed)| {
                    asked.min(speed * self.plant.at_frequency(*granted))
                });
                self.beside(&slower.collect::<Vec<_>>())
            }
        };
        let gb_per_s = shares.iter().map(|share| share * self.plant.full_gb_per_s);
        let gb_per_s: Vec<f64> = gb_per_s.collect();
        let slow = gb_per_s.iter().map(|rate| rate * 1e9).collect();
        self.ticks.push(Tick {
            at_ms: now_ms + TICK_MS,
            victim,
            gb_per_s,
            granted: granted.to_vec(),
        });
        Happened { victim, slow }
    }
}

/// When an aggressor begins and ends to move a chunk, evenly between.
#[derive(Debug, Clone, Copy, Default)]
struct Chunk {
    begin_s: f64,
    end_s: f64,
}

impl Chunk {
    /// What of it is moved in a tick.
    fn bytes_within(self, tick_s: (f64, f64)) -> f64 {
        let within_s = self.end_s.min(tick_s.1) - self.begin_s.max(tick_s.0);
        match within_s > 0.0 {
            true => CHUNK_BYTES as f64 * within_s / (self.end_s - self.begin_s),
            false => 0.0,
        }
    }
}

/// Bytes that an aggressor moves in a tick, chunk by chunk, each at its speed and in its turn. The last one may reach
/// into later ticks, and counts there for the rest.
fn take(bucket: &mut TokenBucket, chunk: &mut Chunk, tick_s: (f64, f64), speed: f64) -> f64 {
    let mut bytes = chunk.bytes_within(tick_s);
    while chunk.end_s < tick_s.1 {
        let begin_s = chunk.end_s.max(tick_s.0);
        let waited_s = bucket.take(begin_s, CHUNK_BYTES);
        let moved_s = CHUNK_BYTES as f64 / speed;
        *chunk = Chunk {
            begin_s,
            end_s: begin_s + waited_s.max(moved_s),
        };
        bytes += chunk.bytes_within(tick_s);
    }
    bytes
}

/// A trace that was replayed.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// Its groups.
    pub groups: Vec<String>,
    /// Regulated.
    pub ticks: Vec<Tick>,
    /// With nobody who regulates.
    pub unregulated: Vec<Tick>,
}

/// Lets a regulator decide over what a trace asks for, until five seconds after its last line: as on a machine, several
/// groups are told apart by counters, and a single one is the cause.
///
/// # Errors
/// None of which the regulator has in virtual time.
pub fn replay(
    plant: &Plant,
    controller: Box<dyn Controller + '_>,
    slowing: Slowing,
    trace: &Trace,
) -> Result<Replayed, RegulateError> {
    let until_ms = trace.last_ms() + REST_MS;
    let mut free = Traffic::new(plant, slowing, trace);
    let all = vec![1.0; trace.groups.len()];
    for tick in 0..(until_ms / TICK_MS).ceil() as usize {
        free.tick(tick as f64 * TICK_MS, &all);
    }
    Ok(Replayed {
        groups: trace.groups.clone(),
        ticks: regulated(plant, controller, slowing, trace, until_ms)?,
        unregulated: free.ticks,
    })
}

fn regulated(
    plant: &Plant,
    controller: Box<dyn Controller + '_>,
    slowing: Slowing,
    trace: &Trace,
    until_ms: f64,
) -> Result<Vec<Tick>, RegulateError> {
    let mut traffic = Traffic::new(plant, slowing, trace);
    let is_told = trace.groups.len() > 1;
    regulate(&mut traffic, &trace.groups, controller, is_told, until_ms)?;
    Ok(traffic.ticks)
}

/// What a regulator comes to over a trace: means over the time in which somebody asks for something.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayedQuality {
    /// Speed of the victim, as a share of what it has alone, in per cent.
    pub recovered_percent: f64,
    /// The same with nobody who regulates.
    pub unregulated_percent: f64,
    /// What all groups lose, in per cent of what they move unregulated.
    pub cost_percent: f64,
    /// That against the cost of the published quota.
    pub cost_ratio_to_published: f64,
    /// From the first time that somebody asks for something, as [`Quality::reaction_ms`].
    pub reaction_ms: Option<f64>,
    /// Each group.
    pub groups: Vec<GroupReplayed>,
}

/// What a group of a trace comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupReplayed {
    /// Its name.
    pub name: String,
    /// What it loses, in per cent of what it moves unregulated.
    pub cost_percent: f64,
    /// The least that it was ever granted, in per cent.
    pub granted_percent: f64,
}

impl Replayed {
    /// How well it went.
    pub fn quality(&self) -> ReplayedQuality {
        let pairs = self.ticks.iter().zip(&self.unregulated);
        let pairs: Vec<(&Tick, &Tick)> = pairs
            .filter(|(_, free)| free.aggressors_gb_per_s() > 0.0)
            .collect();
        let percent = |of: fn(&(&Tick, &Tick)) -> f64| {
            100.0 * pairs.iter().map(of).sum::<f64>() / pairs.len() as f64
        };
        let lost_of = |of: &dyn Fn(&Tick) -> f64| {
            let sum = |ticks: &[Tick]| ticks.iter().map(of).sum::<f64>();
            lost(sum(&self.ticks), sum(&self.unregulated))
        };
        let group = |(index, name): (usize, &String)| GroupReplayed {
            name: name.clone(),
            cost_percent: 100.0 * lost_of(&|tick| tick.gb_per_s[index]),
            granted_percent: 100.0
                * self
                    .ticks
                    .iter()
                    .fold(1.0, |least, tick| tick.granted[index].min(least)),
        };
        let cost = lost_of(&Tick::aggressors_gb_per_s);
        let is_asked = |tick: &Tick| tick.aggressors_gb_per_s() > 0.0;
        let first = self.unregulated.iter().position(is_asked).unwrap_or(0);
        let victims: Vec<f64> = self.ticks[first..].iter().map(|tick| tick.victim).collect();
        ReplayedQuality {
            recovered_percent: percent(|(tick, _)| tick.victim),
            unregulated_percent: percent(|(_, free)| free.victim),
            cost_percent: 100.0 * cost,
            cost_ratio_to_published: cost / PUBLISHED_COST,
            reaction_ms: reaction_ms(&victims),
            groups: self.groups.iter().enumerate().map(group).collect(),
        }
    }
}

/// How well a controller regulates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Speed of the victim in the end, as a share of what it has alone, in per cent.
    pub recovered_percent: f64,
    /// What the aggressor loses, in per cent of its unregulated bandwidth.
    pub cost_percent: f64,
    /// That against the cost of the published quota.
    pub cost_ratio_to_published: f64,
    /// From the aggressor's start until the victim has nine tenths of its speed and keeps them for a
    /// fifth of a second; none where it never does.
    pub reaction_ms: Option<f64>,
    /// How often less was granted than before, while it was measured.
    pub cuts: usize,
}

/// A controller beside an aggressor that comes after a second and stays.
#[derive(Debug, Clone, PartialEq)]
pub struct Rated {
    /// How well it went.
    pub quality: Quality,
    /// What happened, of one group.
    pub ticks: Vec<Tick>,
}

/// Lets a controller regulate an aggressor that comes after a second and stays.
///
/// # Errors
/// None of which the regulator has in virtual time.
pub fn rate(
    plant: &Plant,
    controller: Box<dyn Controller + '_>,
    slowing: Slowing,
) -> Result<Rated, RegulateError> {
    let until_ms = ALONE_MS + BESIDE_MS;
    let trace = Trace::all_from(ALONE_MS);
    let ticks = regulated(plant, controller, slowing, &trace, until_ms)?;
    let is_measured = |tick: &&Tick| tick.at_ms > until_ms - MEASURED_MS;
    let measured: Vec<&Tick> = ticks.iter().filter(is_measured).collect();
    let mean = |value: fn(&Tick) -> f64| {
        measured.iter().map(|tick| value(tick)).sum::<f64>() / measured.len() as f64
    };
    let cost = lost(mean(Tick::aggressors_gb_per_s), plant.full_gb_per_s);
    let beside = ticks.iter().filter(|tick| tick.at_ms > ALONE_MS);
    let victims: Vec<f64> = beside.map(|tick| tick.victim).collect();
    let cuts = measured
        .windows(2)
        .filter(|two| two[1].least_granted() < two[0].least_granted());
    let quality = Quality {
        recovered_percent: 100.0 * mean(|tick| tick.victim),
        cost_percent: 100.0 * cost,
        cost_ratio_to_published: cost / PUBLISHED_COST,
        reaction_ms: reaction_ms(&victims),
        cuts: cuts.count(),
    };
    Ok(Rated { quality, ticks })
}

/// When the victim begins to have nine tenths for a fifth of a second, by what it had in each tick.
pub(super) fn reaction_ms(victims: &[f64]) -> Option<f64> {
    let run = (RECOVERED_MS / TICK_MS) as usize;
    let mut runs = victims.windows(run);
    let first = runs.position(|ticks| ticks.iter().all(|victim| *victim >= RECOVERED));
    first.map(|ticks| ticks as f64 * TICK_MS)
}

#[cfg(test)]
mod tests {
    use super::super::trace::read_trace;
    use super::*;
    use crate::control::{Goal, Published, TierAware};

    /// The victim falls where the aggressor has nearly all, which it has at a fifth of its frequency too.
    fn cliff() -> Plant {
        Plant::new(
            10.0,
            vec![(0.85, 0.99), (0.95, 0.4), (1.0, 0.1)],
            vec![(0.4, 0.9), (0.6, 0.97), (1.0, 1.0)],
        )
    }

    fn ours() -> Box<dyn Controller> {
        Box::new(TierAware::new(Goal::default()))
    }

    #[test]
    fn ours_gives_back_more_for_less_and_sooner_than_the_published_loop() {
        let rated = rate(&cliff(), ours(), Slowing::Bandwidth).unwrap();
        let ours = rated.quality;
        let published = || Box::new(Published::new(Goal::default()));
        let theirs = rate(&cliff(), published(), Slowing::Quota).unwrap().quality;
        assert_eq!(
            rated.ticks.len(),
            ((ALONE_MS + BESIDE_MS) / TICK_MS) as usize
        );
        assert!(ours.recovered_percent >= 95.0, "{ours:?}");
        assert!(ours.cost_ratio_to_published <= 0.5, "{ours:?}");
        assert!(ours.reaction_ms.is_some_and(|ms| ms < 500.0), "{ours:?}");
        assert!(ours.cuts <= 1, "{ours:?}");
        assert!(theirs.cost_percent > ours.cost_percent, "{theirs:?}");
        assert!(theirs.reaction_ms > ours.reaction_ms, "{theirs:?}");
        // A knob that takes little gives little back, whoever turns it.
        let slow = rate(&cliff(), published(), Slowing::Frequency)
            .unwrap()
            .quality;
        assert!((slow.recovered_percent - 69.5).abs() < 2.0, "{slow:?}");
        assert!((slow.cost_percent - 10.0).abs() < 1.0, "{slow:?}");
        assert_eq!(slow.reaction_ms, None);
    }

    #[test]
    fn who_loses_nothing_loses_exactly_nothing() {
        // The victim has its goal beside all that the aggressor moves.
        let harmless = Plant::new(10.0, vec![(1.0, 0.99)], vec![(1.0, 1.0)]);
        for slowing in [Slowing::Bandwidth, Slowing::Quota, Slowing::Frequency] {
            let quality = rate(&harmless, ours(), slowing).unwrap().quality;
            assert_eq!(quality.cost_percent, 0.0, "{slowing:?}");
            let trace = read_trace("ms,a,b\n0,0.3,0.1\n700,0.1,0.7\n").unwrap();
            let quality = replay(&harmless, ours(), slowing, &trace)
                .unwrap()
                .quality();
            assert_eq!(quality.cost_percent, 0.0, "{slowing:?}");
            assert!(quality.groups.iter().all(|group| group.cost_percent == 0.0));
        }
    }

    #[test]
    fn what_reaches_past_a_tick_is_moved_in_later_ones() {
        // Chunks of 0.7 ticks, and of 21.
        for chunks_per_s in [100.0 / 0.7, 100.0 / 21.0] {
            let bytes_per_s = CHUNK_BYTES as f64 * chunks_per_s;
            let mut bucket = TokenBucket::new(bytes_per_s, 0.0);
            let mut chunk = Chunk::default();
            let ticks = (0..1_000).map(|tick| {
                let tick_s = (f64::from(tick) * 0.01, f64::from(tick + 1) * 0.01);
                take(&mut bucket, &mut chunk, tick_s, 2.0 * bytes_per_s)
            });
            let ticks: Vec<f64> = ticks.collect();
            let all: f64 = ticks.iter().sum();
            assert!((all / (10.0 * bytes_per_s) - 1.0).abs() < 1e-6, "{all}");
            let most = ticks.iter().copied().fold(0.0, f64::max);
            assert!((most / (0.01 * bytes_per_s) - 1.0).abs() < 1e-6, "{most}");
        }
    }

    #[test]
    fn who_is_granted_all_moves_what_it_asks_for() {
        let trace = read_trace("0,1\n").unwrap();
        let plant = cliff();
        let mut free = Traffic::new(&plant, Slowing::Bandwidth, &trace);
        for tick in 0..10 {
            free.tick(f64::from(tick) * TICK_MS, &[1.0]);
        }
        for tick in free.ticks {
            let moved = tick.aggressors_gb_per_s();
            assert!((moved - 10.0).abs() < 1e-6, "{moved}");
        }
    }

    #[test]
    fn who_comes_back_for_less_has_what_it_asks_for() {
        let trace = read_trace("ms,share\n0,1\n2000,0\n# back\n3000,0.5\n").unwrap();
        let replayed = replay(&cliff(), ours(), Slowing::Bandwidth, &trace).unwrap();
        let at = |ms: f64| {
            let mut ticks = replayed.ticks.iter();
            ticks.find(|tick| tick.at_ms >= ms).unwrap()
        };
        assert!(at(1_000.0).granted[0] < 1.0);
        assert_eq!(at(2_500.0).aggressors_gb_per_s(), 0.0);
        let back = at(3_500.0).aggressors_gb_per_s();
        assert!((back - 5.0).abs() < 0.2, "{back}");
        assert_eq!(replayed.ticks.len(), replayed.unregulated.len());
    }

    #[test]
    fn of_several_groups_the_one_that_disturbs_pays_with_every_knob() {
        let trace = read_trace("ms,batch,tidy\n0,0,0.05\n1000,1,0.05\n").unwrap();
        for slowing in [Slowing::Bandwidth, Slowing::Quota] {
            let replayed = replay(&cliff(), ours(), slowing, &trace).unwrap();
            let quality = replayed.quality();
            let [batch, tidy] = &quality.groups[..] else {
                panic!("two groups");
            };
            assert!(batch.granted_percent < 100.0, "{quality:?}");
            assert_eq!(tidy.granted_percent, 100.0, "{quality:?}");
            assert!(tidy.cost_percent < 1.0, "{quality:?}");
            assert!(quality.recovered_percent > 90.0, "{quality:?}");
            assert!(quality.unregulated_percent < 35.0, "{quality:?}");
            assert!(quality.reaction_ms.is_some(), "{quality:?}");
        }
    }
}
