//! What a victim has beside an aggressor, in steady states.

use nearfar_model::simulation::{Access, Group, Machine, MachineError, Span, TierName, run_beside};

/// Threads of victim and aggressor (mao-2025, section V-A, for the latter).
const THREADS: usize = 16;
/// Shares of the aggressor's speed that are simulated.
pub(super) const SHARES: [f64; 14] = [
    0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0,
];
/// Shares of the frequency of its cores that are: a processor of 2 GHz goes down to 0.8 (mao-2025, section III-A; the
/// vendor's data sheet).
const FREQUENCIES: [f64; 4] = [0.4, 0.6, 0.8, 1.0];
pub(super) const SPAN: Span = Span {
    warm_ns: 60_000.0,
    measured_ns: 50_000.0,
};
/// Random writes of a drive, in GB/s: 400,000 of 4 KiB in a second. The paper does not tell what its drives take.
const WRITTEN_GB_PER_S: f64 = 1.6;
const LINE_BYTES: f64 = 64.0;

/// Who is disturbed, always by non-temporal stores to far memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Loads from near memory, the paper's first.
    NearLoads,
    /// Cached stores to near memory.
    NearStores,
    /// Non-temporal stores to near memory.
    NearNonTemporalStores,
    /// A thread that copies to the page cache, and DMA that reads there: random writes of small files, for the paper's
    /// `varmail`.
    SmallFiles,
}

impl Scenario {
    /// All.
    pub const ALL: [Self; 4] = [
        Self::NearLoads,
        Self::NearStores,
        Self::NearNonTemporalStores,
        Self::SmallFiles,
    ];

    /// Its word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NearLoads => "near-ld",
            Self::NearStores => "near-st",
            Self::NearNonTemporalStores => "near-ntst",
            Self::SmallFiles => "varmail",
        }
    }

    /// The scenario of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// What the victim does: the slowest of these is its speed.
    fn victim(self) -> Vec<Group> {
        let near = |access| vec![Group::new(TierName::Near, access, THREADS)];
        match self {
            Self::NearLoads => near(Access::Load),
            Self::NearStores => near(Access::Store),
            Self::NearNonTemporalStores => near(Access::NonTemporalStore),
            Self::SmallFiles => {
                let copy = Group::copy(TierName::Near, TierName::Near, Access::Store, 1);
                let dma = Group::new(TierName::Near, Access::Load, 1);
                let pause_ns = LINE_BYTES / WRITTEN_GB_PER_S;
                [copy, dma].map(|group| group.pausing(pause_ns)).into()
            }
        }
    }
}

/// How what is granted slows the aggressor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slowing {
    /// All its threads stand still for the rest of each period: `cpu.max`.
    Quota,
    /// Its cores run slower: `scaling_max_freq`.
    Frequency,
    /// It asks a [`TokenBucket`](crate::bucket::TokenBucket), or the processor delays its requests.
    Bandwidth,
}

impl Slowing {
    /// Its word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Frequency => "frequency",
            Self::Bandwidth => "bandwidth",
        }
    }
}

/// What a victim has beside an aggressor.
#[derive(Debug, Clone, PartialEq)]
pub struct Plant {
    /// Bandwidth of the aggressor beside the victim when it is not slowed.
    pub(super) full_gb_per_s: f64,
    /// Share of that, and share of the victim's speed that is left.
    pub(super) steady: Vec<(f64, f64)>,
    /// Share of the frequency, and share of the aggressor's bandwidth that is left.
    pub(super) frequencies: Vec<(f64, f64)>,
}

impl Plant {
    /// Bandwidth of the aggressor when it is not slowed, by share of that the share of the victim's speed that is left, and
    /// by share of the frequency the share of the bandwidth.
    pub(super) fn new(
        full_gb_per_s: f64,
        mut steady: Vec<(f64, f64)>,
        mut frequencies: Vec<(f64, f64)>,
    ) -> Self {
        steady.push((0.0, 1.0));
        steady.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        frequencies.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        Self {
            full_gb_per_s,
            steady,
            frequencies,
        }
    }

    /// Simulates the steady states of a scenario.
    ///
    /// # Errors
    /// [`MachineError`] for a machine with too few cores or without far memory.
    pub fn simulate(machine: &Machine, scenario: Scenario) -> Result<Self, MachineError> {
        let victim = scenario.victim();
        let stores = Group::new(TierName::Far, Access::NonTemporalStore, THREADS);
        let slowest = |found: &[f64]| {
            let found = found[..victim.len()].iter();
            found.copied().fold(f64::INFINITY, f64::min)
        };
        let alone = slowest(&run_beside(machine, &victim, SPAN)?);
        let beside = |stores: Group| -> Result<(f64, f64), MachineError> {
            let groups = [&victim[..], &[stores]].concat();
            let found = run_beside(machine, &groups, SPAN)?;
            Ok((found[victim.len()], (slowest(&found) / alone).min(1.0)))
        };
        let core_ns = machine.core.access_ns + machine.core.line_ns;
        let (full, left) = beside(stores)?;
        let mut steady = Vec::new();
        for share in SHARES {
            let left = match share < 1.0 {
                true => beside(slowed(stores, full * share, core_ns))?.1,
                false => left,
            };
            steady.push((share, left));
        }
        let mut frequencies = Vec::new();
        for share in FREQUENCIES {
            let slower = stores.pausing(core_ns * (1.0 / share - 1.0));
            frequencies.push((share, (beside(slower)?.0 / full).min(1.0)));
        }
        Ok(Self::new(full, steady, frequencies))
    }

    /// Bandwidth of the aggressor when it is not slowed.
    pub fn full_gb_per_s(&self) -> f64 {
        self.full_gb_per_s
    }

    /// Share that the victim has beside an aggressor at this share of its speed.
    pub fn victim(&self, aggressor: f64) -> f64 {
        interpolated(&self.steady, aggressor).unwrap_or(1.0)
    }

    /// Share of its bandwidth that an aggressor has at this share of its cores' frequency, and at the lowest that there
    /// is below it.
    pub(super) fn at_frequency(&self, share: f64) -> f64 {
        interpolated(&self.frequencies, share).unwrap_or(1.0)
    }
}

/// What stands at a place between ascending ones; at the ends what stands there.
fn interpolated(points: &[(f64, f64)], at: f64) -> Option<f64> {
    let after = points.partition_point(|(place, _)| *place < at);
    let (Some(before), Some(next)) = (points.get(after.saturating_sub(1)), points.get(after))
    else {
        return points.last().map(|(_, value)| *value);
    };
    let width = next.0 - before.0;
    if width <= 0.0 {
        return Some(next.1);
    }
    Some(before.1 + (next.1 - before.1) * (at - before.0) / width)
}

/// A group that asks for so much, whose cores need `core_ns` for each line.
pub(super) fn slowed(group: Group, gb_per_s: f64, core_ns: f64) -> Group {
    let between_ns = LINE_BYTES * group.threads as f64 / gb_per_s;
    group.pausing((between_ns - core_ns).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_two_places_is_interpolated() {
        let plant = Plant::new(
            10.0,
            vec![(1.0, 0.2), (0.5, 1.0)],
            vec![(0.4, 0.9), (1.0, 1.0)],
        );
        assert_eq!(plant.victim(0.0), 1.0);
        assert!((plant.victim(0.75) - 0.6).abs() < 1e-9);
        assert_eq!(plant.victim(2.0), 0.2);
        assert!((plant.at_frequency(0.7) - 0.95).abs() < 1e-9);
        // A processor goes no slower than its slowest.
        assert_eq!(plant.at_frequency(0.02), 0.9);
    }

    #[test]
    fn scenarios_have_names_of_their_own() {
        for scenario in Scenario::ALL {
            assert_eq!(Scenario::of_name(scenario.name()), Some(scenario));
        }
        assert_eq!(Scenario::of_name("far-ld"), None);
    }
}
