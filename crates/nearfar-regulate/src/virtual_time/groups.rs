//! An aggressor and an innocent group in virtual time.

use nearfar_model::simulation::{Access, Group, Machine, MachineError, TierName, run_beside};

use super::plant::{SHARES, SPAN, Slowing, slowed};
use super::regulated::{Happened, TICK_MS, World, lost, regulate};
use super::replay::{ALONE_MS, BESIDE_MS, MEASURED_MS, reaction_ms};
use crate::control::Controller;
use crate::error::RegulateError;

/// Threads of the victim, the aggressor and the innocent group: together as many as a machine of 32 cores has.
const THREADS: [usize; 3] = [16, 8, 8];
/// Shares of the innocent group's speed that are simulated.
const INNOCENT: [f64; 4] = [0.0, 0.25, 0.5, 1.0];
/// Between two accesses of a thread that goes to far memory now and then: 0.4 GB/s of eight.
const PAUSE_NS: f64 = 1_280.0;

/// What the group does that is not the cause. The aggressor stores to far memory past the caches, and the victim loads
/// from near memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Innocent {
    /// Loads from near memory, as fast as it can.
    NearLoads,
    /// Loads from far memory now and then.
    FewFarLoads,
}

impl Innocent {
    /// All.
    pub const ALL: [Self; 2] = [Self::NearLoads, Self::FewFarLoads];

    /// Its word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NearLoads => "near-ld",
            Self::FewFarLoads => "few-far-ld",
        }
    }

    fn group(self) -> Group {
        let of = |tier| Group::new(tier, Access::Load, THREADS[2]);
        match self {
            Self::NearLoads => of(TierName::Near),
            Self::FewFarLoads => of(TierName::Far).pausing(PAUSE_NS),
        }
    }
}

/// What is known of the groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    /// Counters tell what each moves to the slow tier.
    Counters,
    /// Nothing, so that all are slowed alike.
    Nothing,
}

impl Telling {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Counters, Self::Nothing];

    /// Its word in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counters => "counters",
            Self::Nothing => "nothing",
        }
    }
}

/// Bandwidth of victim, aggressor and innocent group, in GB/s.
type State = [f64; 3];

/// What the three have, by what aggressor and innocent group are granted.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupsPlant {
    innocent: Innocent,
    /// Shares of the aggressor's speed, each with the states for those of the innocent group's.
    states: Vec<(f64, Vec<State>)>,
}

impl GroupsPlant {
    /// Simulates the steady states.
    ///
    /// # Errors
    /// [`MachineError`] for a machine with too few cores or without far memory.
    pub fn simulate(machine: &Machine, innocent: Innocent) -> Result<Self, MachineError> {
        let victim = Group::new(TierName::Near, Access::Load, THREADS[0]);
        let stores = Group::new(TierName::Far, Access::NonTemporalStore, THREADS[1]);
        let core_ns = machine.core.access_ns + machine.core.line_ns;
        let beside = innocent.group();
        let full = [
            run_beside(machine, &[victim, stores, beside], SPAN)?[1],
            run_beside(machine, &[victim, beside], SPAN)?[1],
        ];
        let part = |group: Group, full: f64, share: f64| match share {
            0.0 => None,
            1.0 => Some(group),
            share => Some(slowed(group, full * share, core_ns)),
        };
        let state = |aggressor: f64, share: f64| -> Result<State, MachineError> {
            let (stores, beside) = (
                part(stores, full[0], aggressor),
                part(beside, full[1], share),
            );
            let groups: Vec<Group> = [Some(victim), stores, beside]
                .into_iter()
                .flatten()
                .collect();
            let mut found = run_beside(machine, &groups, SPAN)?.into_iter();
            let mut of = |group: Option<Group>| group.and_then(|_| found.next()).unwrap_or(0.0);
            Ok([of(Some(victim)), of(stores), of(beside)])
        };
        let mut states = Vec::new();
        for aggressor in [0.0].into_iter().chain(SHARES) {
            let row: Result<_, _> = INNOCENT
                .map(|share| state(aggressor, share))
                .into_iter()
                .collect();
            states.push((aggressor, row?));
        }
        Ok(Self { innocent, states })
    }

    /// What they have without the aggressor.
    fn undisturbed(&self) -> State {
        self.state(0.0, 1.0)
    }

    /// What they have while both get their bandwidth.
    fn state(&self, aggressor: f64, innocent: f64) -> State {
        let shares = self.states.iter().map(|(share, _)| *share);
        let (row, into) = place(shares, aggressor);
        let (column, across) = place(INNOCENT.into_iter(), innocent);
        let at = |row: usize| {
            let states = &self.states[row].1;
            mean(states[column], states[column + 1], across)
        };
        mean(at(row), at(row + 1), into)
    }

    /// What they have in a period.
    fn period(&self, slowing: Slowing, aggressor: f64, innocent: f64) -> State {
        match slowing {
            Slowing::Bandwidth => self.state(aggressor, innocent),
            // Periods of two quotas begin at times of their own. No frequency comes here.
            Slowing::Quota | Slowing::Frequency => {
                let beside = |aggressor| {
                    let (still, runs) = (self.state(aggressor, 0.0), self.state(aggressor, 1.0));
                    mean(still, runs, innocent)
                };
                mean(beside(0.0), beside(1.0), aggressor)
            }
        }
    }

    /// What each group moves to the slow tier.
    fn slow(&self, state: State) -> [f64; 2] {
        let innocent = match self.innocent {
            Innocent::NearLoads => 0.0,
            Innocent::FewFarLoads => state[2],
        };
        [state[1], innocent]
    }
}

/// The interval of ascending shares that a share lies in, and how far.
fn place(shares: impl Iterator<Item = f64>, share: f64) -> (usize, f64) {
    let shares: Vec<f64> = shares.collect();
    let after = shares.partition_point(|one| *one < share);
    let row = after.saturating_sub(1).min(shares.len() - 2);
    (row, (share - shares[row]) / (shares[row + 1] - shares[row]))
}

fn mean(from: State, to: State, share: f64) -> State {
    [0, 1, 2].map(|index| from[index] + (to[index] - from[index]) * share)
}

/// How well a controller regulates two groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupsQuality {
    /// Bandwidth of the victim in the end, of what it has without the aggressor, in per cent.
    pub recovered_percent: f64,
    /// What the aggressor loses, of its unregulated bandwidth, in per cent.
    pub cost_percent: f64,
    /// Bandwidth of the innocent group in the end, of what it has without the aggressor, in per cent.
    pub innocent_percent: f64,
    /// The least that the innocent group was ever granted, in per cent.
    pub innocent_granted_percent: f64,
    /// As of one aggressor.
    pub reaction_ms: Option<f64>,
}

/// The groups while they are regulated.
struct Groups<'a> {
    plant: &'a GroupsPlant,
    slowing: Slowing,
    undisturbed: State,
    states: Vec<State>,
    /// The least that the innocent group was granted.
    least_granted: f64,
}

impl World for Groups<'_> {
    fn tick(&mut self, now_ms: f64, granted: &[f64]) -> Happened {
        self.least_granted = self.least_granted.min(granted[1]);
        let is_there = now_ms >= ALONE_MS;
        let aggressor = if is_there { granted[0] } else { 0.0 };
        let state = self.plant.period(self.slowing, aggressor, granted[1]);
        self.states.push(state);
        let slow = self.plant.slow(state);
        Happened {
            victim: state[0] / self.undisturbed[0],
            slow: slow.map(|gb_per_s| gb_per_s * 1e9).into(),
        }
    }
}

/// Lets a controller regulate both groups, of which the aggressor comes after a second and stays.
///
/// # Errors
/// [`RegulateError::Unavailable`] for the frequency, which is that of processors and not of a group.
pub fn rate_groups(
    plant: &GroupsPlant,
    controller: Box<dyn Controller + '_>,
    slowing: Slowing,
    telling: Telling,
) -> Result<GroupsQuality, RegulateError> {
    if slowing == Slowing::Frequency {
        return Err(RegulateError::Unavailable {
            knob: "the frequency of a group",
            reason: "it is that of processors".to_owned(),
        });
    }
    let undisturbed = plant.undisturbed();
    let mut groups = Groups {
        plant,
        slowing,
        undisturbed,
        states: Vec::new(),
        least_granted: 1.0,
    };
    let names = ["aggressor", "innocent"].map(str::to_owned);
    let is_told = telling == Telling::Counters;
    regulate(
        &mut groups,
        &names,
        controller,
        is_told,
        ALONE_MS + BESIDE_MS,
    )?;
    let states = groups.states;
    let last = average(&states[states.len() - (MEASURED_MS / TICK_MS) as usize..]);
    let beside = states[(ALONE_MS / TICK_MS) as usize..].iter();
    let victims: Vec<f64> = beside.map(|state| state[0] / undisturbed[0]).collect();
    let unregulated = plant.state(1.0, 1.0);
    Ok(GroupsQuality {
        recovered_percent: 100.0 * last[0] / undisturbed[0],
        cost_percent: 100.0 * lost(last[1], unregulated[1]),
        innocent_percent: 100.0 * last[2] / undisturbed[2],
        innocent_granted_percent: 100.0 * groups.least_granted,
        reaction_ms: reaction_ms(&victims),
    })
}

fn average(states: &[State]) -> State {
    [0, 1, 2]
        .map(|index| states.iter().map(|state| state[index]).sum::<f64>() / states.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Goal, Published, TierAware};

    /// A cliff for all but the aggressor, as the simulator has it.
    fn cliff(innocent: Innocent) -> GroupsPlant {
        let far = if innocent == Innocent::NearLoads {
            40.0
        } else {
            0.4
        };
        let row = |aggressor: f64, left: f64| {
            let state = |share: f64| [100.0 * left, 8.0 * aggressor, far * share * left];
            (aggressor, INNOCENT.map(state).into())
        };
        GroupsPlant {
            innocent,
            states: vec![row(0.0, 1.0), row(0.85, 1.0), row(0.95, 0.4), row(1.0, 0.1)],
        }
    }

    #[test]
    fn with_counters_the_innocent_keeps_all_and_without_it_pays_too() {
        for innocent in Innocent::ALL {
            let plant = cliff(innocent);
            for slowing in [Slowing::Bandwidth, Slowing::Quota] {
                let of = |controller: Box<dyn Controller>, telling| {
                    rate_groups(&plant, controller, slowing, telling).unwrap()
                };
                let goal = Goal::default();
                for telling in Telling::ALL {
                    let ours = of(Box::new(TierAware::new(goal)), telling);
                    let published = of(Box::new(Published::new(goal)), telling);
                    let is_told = telling == Telling::Counters;
                    assert_eq!(ours.innocent_granted_percent == 100.0, is_told, "{ours:?}");
                    assert_eq!(published.innocent_granted_percent == 100.0, is_told);
                    assert!(ours.recovered_percent > 94.0, "{ours:?}");
                    assert!(!is_told || ours.innocent_percent > 94.0, "{ours:?}");
                }
            }
        }
    }

    #[test]
    fn states_between_those_that_were_simulated_are_interpolated() {
        let plant = cliff(Innocent::NearLoads);
        let half = plant.state(0.9, 0.75);
        assert!((half[0] - 70.0).abs() < 1e-9 && (half[1] - 7.2).abs() < 1e-9);
        assert!((half[2] - 40.0 * 0.75 * 0.7).abs() < 1e-9, "{half:?}");
        assert_eq!(plant.state(1.0, 1.0), [10.0, 8.0, 4.0]);
        // The aggressor stands still for half of the time.
        let quota = plant.period(Slowing::Quota, 0.5, 0.5);
        assert!((quota[0] - 55.0).abs() < 1e-9 && (quota[1] - 4.0).abs() < 1e-9);
    }
}
