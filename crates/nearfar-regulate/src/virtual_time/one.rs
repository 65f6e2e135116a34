//! One aggressor in virtual time.

use nearfar_model::simulation::pattern::mix;
use nearfar_model::simulation::{Access, Group, Machine, MachineError, Span, TierName, run_beside};

use crate::bucket::TokenBucket;
use crate::control::Controller;
use crate::error::RegulateError;

pub(super) const TICK_MS: f64 = 10.0;
/// Bytes that the aggressor asks its bucket for at a time.
const CHUNK_BYTES: u64 = 1 << 20;
/// Threads of victim and aggressor (mao-2025, section V-A, for the latter).
const THREADS: usize = 16;
/// Shares of the aggressor's speed that are simulated.
pub(super) const GRANTED: [f64; 14] = [
    0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0,
];
pub(super) const SPAN: Span = Span {
    warm_ns: 60_000.0,
    measured_ns: 50_000.0,
};
/// What observers' shares vary by.
pub(super) const NOISE: f64 = 0.005;
/// The victim alone, the aggressor beside it, and the last part of that, which is measured.
pub(super) const ALONE_MS: f64 = 1_000.0;
pub(super) const BESIDE_MS: f64 = 20_000.0;
pub(super) const MEASURED_MS: f64 = 10_000.0;
/// Share of its speed with which a victim counts as recovered, and for how long it has it.
pub(super) const RECOVERED: f64 = 0.9;
pub(super) const RECOVERED_MS: f64 = 200.0;
/// What the paper's quota of 100 % takes from 16 threads: its cost for 92 % of the victim's bandwidth.
const PUBLISHED_COST: f64 = 15.0 / 16.0;

/// Who is disturbed, always by non-temporal stores to far memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Loads from near memory, the paper's first.
    NearLoads,
    /// Cached stores to near memory.
    NearStores,
    /// Non-temporal stores to near memory.
    NearNonTemporalStores,
}

impl Scenario {
    /// All.
    pub const ALL: [Self; 3] = [
        Self::NearLoads,
        Self::NearStores,
        Self::NearNonTemporalStores,
    ];

    /// Its word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NearLoads => "near-ld",
            Self::NearStores => "near-st",
            Self::NearNonTemporalStores => "near-ntst",
        }
    }

    fn victim(self) -> Group {
        let access = match self {
            Self::NearLoads => Access::Load,
            Self::NearStores => Access::Store,
            Self::NearNonTemporalStores => Access::NonTemporalStore,
        };
        Group::new(TierName::Near, access, THREADS)
    }
}

/// How what is granted slows the aggressor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slowing {
    /// All its threads stand still for the rest of each period: `cpu.max`.
    Quota,
    /// It asks a [`TokenBucket`], or the processor delays its requests.
    Bandwidth,
}

/// What a victim has beside an aggressor.
#[derive(Debug, Clone, PartialEq)]
pub struct Plant {
    /// Bandwidth of the aggressor beside the victim when it is not slowed.
    full_gb_per_s: f64,
    /// Share of that, and share of the victim's bandwidth that is left.
    steady: Vec<(f64, f64)>,
}

impl Plant {
    /// Simulates the steady states of a scenario.
    ///
    /// # Errors
    /// [`MachineError`] for a machine with too few cores or without far memory.
    pub fn simulate(machine: &Machine, scenario: Scenario) -> Result<Self, MachineError> {
        let victim = scenario.victim();
        let stores = Group::new(TierName::Far, Access::NonTemporalStore, THREADS);
        let alone = run_beside(machine, &[victim], SPAN)?[0];
        let beside = run_beside(machine, &[victim, stores], SPAN)?;
        let full_gb_per_s = beside[1];
        let core_ns = machine.core.access_ns + machine.core.line_ns;
        let mut steady = vec![(0.0, 1.0)];
        for granted in GRANTED {
            let slowed = slowed(stores, full_gb_per_s * granted, core_ns);
            let found = match granted < 1.0 {
                true => run_beside(machine, &[victim, slowed], SPAN)?,
                false => beside.clone(),
            };
            steady.push((granted, (found[0] / alone).min(1.0)));
        }
        Ok(Self {
            full_gb_per_s,
            steady,
        })
    }

    /// Share that the victim has beside an aggressor at this share of its speed.
    pub fn victim(&self, aggressor: f64) -> f64 {
        let after = self
            .steady
            .partition_point(|(granted, _)| *granted < aggressor);
        let (Some(before), Some(next)) = (
            self.steady.get(after.saturating_sub(1)),
            self.steady.get(after),
        ) else {
            return self.steady.last().map_or(1.0, |(_, victim)| *victim);
        };
        let width = next.0 - before.0;
        if width <= 0.0 {
            return next.1;
        }
        before.1 + (next.1 - before.1) * (aggressor - before.0) / width
    }
}

/// A group that asks for so much, whose cores need `core_ns` for each line.
pub(super) fn slowed(group: Group, gb_per_s: f64, core_ns: f64) -> Group {
    let between_ns = 64.0 * group.threads as f64 / gb_per_s;
    group.pausing((between_ns - core_ns).max(0.0))
}

/// One tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tick {
    /// When it ends.
    pub at_ms: f64,
    /// Share of its undisturbed bandwidth that the victim had.
    pub victim: f64,
    /// Bandwidth of the aggressor.
    pub aggressor_gb_per_s: f64,
    /// What it was granted.
    pub granted: f64,
}

/// What an aggressor asks for from a time on, as a share of its speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// From when.
    pub from_ms: f64,
    /// 0 is none, 1 is all.
    pub share: f64,
}

/// Reads a trace: lines of `ms,share` in the order of time; `#` begins a comment.
///
/// # Errors
/// [`RegulateError::Trace`] with the line.
pub fn read_trace(text: &str) -> Result<Vec<Demand>, RegulateError> {
    let mut trace: Vec<Demand> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |problem: &str| RegulateError::Trace {
            line: index + 1,
            problem: problem.to_owned(),
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line == "ms,share" {
            continue;
        }
        let parts = line
            .split_once(',')
            .ok_or_else(|| wrong("write ms,share"))?;
        let number = |text: &str| {
            text.trim()
                .parse::<f64>()
                .ok()
                .filter(|one| one.is_finite())
        };
        let (Some(from_ms), Some(share)) = (number(parts.0), number(parts.1)) else {
            return Err(wrong("both are numbers"));
        };
        if !(0.0..=1.0).contains(&share) {
            return Err(wrong("a share is from 0 to 1"));
        }
        if from_ms < 0.0 || trace.last().is_some_and(|last| last.from_ms >= from_ms) {
            return Err(wrong("times rise, from 0 on"));
        }
        trace.push(Demand { from_ms, share });
    }
    if trace.is_empty() {
        return Err(RegulateError::Trace {
            line: 1,
            problem: "there is nothing in it".to_owned(),
        });
    }
    Ok(trace)
}

/// Lets a controller regulate what a trace asks for, until a time.
pub fn replay(
    plant: &Plant,
    controller: &mut dyn Controller,
    slowing: Slowing,
    trace: &[Demand],
    until_ms: f64,
) -> Vec<Tick> {
    let mut ticks = Vec::new();
    let mut granted = 1.0;
    let mut seen = (0.0, 0_u32);
    let mut decide_at_ms = controller.period_ms();
    let mut bucket = TokenBucket::new(plant.full_gb_per_s * 1e9, CHUNK_BYTES as f64);
    let mut next_s = 0.0;
    let mut was_there = false;
    let mut now_ms = 0.0;
    while now_ms < until_ms {
        let demand = trace.iter().rev().find(|demand| demand.from_ms <= now_ms);
        let share = demand.map_or(0.0, |demand| demand.share);
        let end_ms = now_ms + TICK_MS;
        let bytes = match slowing {
            _ if share == 0.0 => 0.0,
            Slowing::Quota => share.min(1.0) * granted * plant.full_gb_per_s * TICK_MS * 1e6,
            Slowing::Bandwidth => {
                let bytes_per_s = granted * plant.full_gb_per_s * 1e9;
                bucket.set_rate(now_ms * 1e-3, bytes_per_s, CHUNK_BYTES as f64);
                let speed = share * plant.full_gb_per_s * 1e9;
                take(
                    &mut bucket,
                    &mut next_s,
                    (now_ms * 1e-3, end_ms * 1e-3),
                    speed,
                )
            }
        };
        let aggressor_gb_per_s = bytes / (TICK_MS * 1e6);
        let victim = match slowing {
            Slowing::Quota => granted * plant.victim(share) + (1.0 - granted),
            Slowing::Bandwidth => plant.victim(aggressor_gb_per_s / plant.full_gb_per_s),
        };
        seen = (seen.0 + victim + NOISE * noise(now_ms as u64), seen.1 + 1);
        now_ms = end_ms;
        if share == 0.0 && was_there {
            controller.release();
        }
        was_there = share > 0.0;
        if now_ms >= decide_at_ms {
            granted = controller.decide(now_ms, seen.0 / f64::from(seen.1));
            seen = (0.0, 0);
            decide_at_ms = now_ms + controller.period_ms();
        }
        ticks.push(Tick {
            at_ms: now_ms,
            victim,
            aggressor_gb_per_s,
            granted,
        });
    }
    ticks
}

/// From -1 to 1, the same for the same seed.
pub(super) fn noise(seed: u64) -> f64 {
    2.0 * ((mix(seed) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5)
}

/// Bytes that the aggressor moves in a tick, chunk by chunk, each at its speed and in its turn.
fn take(bucket: &mut TokenBucket, next_s: &mut f64, tick_s: (f64, f64), speed: f64) -> f64 {
    *next_s = next_s.max(tick_s.0);
    let mut bytes = 0.0;
    while *next_s < tick_s.1 {
        let waited_s = bucket.take(*next_s, CHUNK_BYTES);
        let moved_s = CHUNK_BYTES as f64 / speed;
        let took_s = waited_s.max(moved_s);
        // What reaches into the next tick counts there too.
        let within = ((tick_s.1 - *next_s) / took_s).min(1.0);
        bytes += CHUNK_BYTES as f64 * within;
        *next_s += took_s;
    }
    bytes
}

/// How well a controller regulates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Bandwidth of the victim in the end, as a share of what it has alone, in per cent.
    pub recovered_percent: f64,
    /// What the aggressor loses, in per cent of its unregulated bandwidth.
    pub cost_percent: f64,
    /// That against the cost of the published quota.
    pub cost_ratio_to_published: f64,
    /// From the aggressor's start until the victim has nine tenths of its bandwidth and keeps them for a
    /// fifth of a second; none where it never does.
    pub reaction_ms: Option<f64>,
    /// How often less was granted than before, while it was measured.
    pub cuts: usize,
}

/// Lets a controller regulate an aggressor that comes after a second and stays.
pub fn rate(plant: &Plant, controller: &mut dyn Controller, slowing: Slowing) -> Quality {
    let trace = [Demand {
        from_ms: ALONE_MS,
        share: 1.0,
    }];
    let until_ms = ALONE_MS + BESIDE_MS;
    let ticks = replay(plant, controller, slowing, &trace, until_ms);
    let measured: Vec<&Tick> = ticks
        .iter()
        .filter(|tick| tick.at_ms > until_ms - MEASURED_MS)
        .collect();
    let mean = |value: fn(&Tick) -> f64| {
        measured.iter().map(|tick| value(tick)).sum::<f64>() / measured.len() as f64
    };
    let cost = 1.0 - mean(|tick| tick.aggressor_gb_per_s) / plant.full_gb_per_s;
    let beside: Vec<&Tick> = ticks.iter().filter(|tick| tick.at_ms > ALONE_MS).collect();
    let victims: Vec<f64> = beside.iter().map(|tick| tick.victim).collect();
    let cuts = measured
        .windows(2)
        .filter(|two| two[1].granted < two[0].granted);
    Quality {
        recovered_percent: 100.0 * mean(|tick| tick.victim),
        cost_percent: 100.0 * cost,
        cost_ratio_to_published: cost / PUBLISHED_COST,
        reaction_ms: reaction_ms(&victims),
        cuts: cuts.count(),
    }
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
    use super::*;
    use crate::control::{Goal, Published, TierAware};

    fn cliff() -> Plant {
        Plant {
            full_gb_per_s: 10.0,
            steady: vec![(0.0, 1.0), (0.85, 0.99), (0.95, 0.4), (1.0, 0.1)],
        }
    }

    #[test]
    fn ours_gives_back_more_for_less_and_sooner_than_the_published_loop() {
        let goal = Goal::default();
        let ours = rate(&cliff(), &mut TierAware::new(goal), Slowing::Bandwidth);
        let theirs = rate(&cliff(), &mut Published::new(goal), Slowing::Quota);
        assert!(ours.recovered_percent >= 95.0, "{ours:?}");
        assert!(ours.cost_ratio_to_published <= 0.5, "{ours:?}");
        assert!(ours.reaction_ms.is_some_and(|ms| ms < 500.0), "{ours:?}");
        assert!(ours.cuts <= 1, "{ours:?}");
        assert!(theirs.cost_percent > ours.cost_percent, "{theirs:?}");
        assert!(theirs.reaction_ms > ours.reaction_ms, "{theirs:?}");
    }

    #[test]
    fn an_aggressor_that_comes_back_is_granted_all_first() {
        let trace = read_trace("ms,share\n0,1\n2000,0\n# back\n3000,0.5\n").unwrap();
        let mut controller = TierAware::new(Goal::default());
        let ticks = replay(
            &cliff(),
            &mut controller,
            Slowing::Bandwidth,
            &trace,
            4_000.0,
        );
        let at = |ms: f64| ticks.iter().find(|tick| tick.at_ms >= ms).copied().unwrap();
        assert!(at(1_000.0).granted < 1.0);
        assert_eq!(at(2_500.0).aggressor_gb_per_s, 0.0);
        assert!(
            (at(3_500.0).aggressor_gb_per_s - 5.0).abs() < 0.2,
            "{:?}",
            at(3_500.0)
        );
    }

    #[test]
    fn damaged_traces_are_refused_with_their_line() {
        let cases = [
            ("", "line 1: there is nothing"),
            ("0;1", "line 1: write ms,share"),
            ("0,1\nx,1", "line 2: both are numbers"),
            ("0,1.5", "line 1: a share is from 0 to 1"),
            ("5,1\n5,0", "line 2: times rise"),
            ("0,NaN", "line 1: both are numbers"),
        ];
        for (text, expected) in cases {
            let message = read_trace(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
