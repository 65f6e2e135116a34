//! The regulator of machines, with observers and knobs in virtual time.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nearfar_model::simulation::pattern::mix;

use crate::attribution::Attribution;
use crate::control::Controller;
use crate::error::RegulateError;
use crate::knob::{Change, Knob};
use crate::machine::MachineFiles;
use crate::observe::{
    BYTES_PER_S, GroupObserver, GroupsSeen, LEAST_BYTES_PER_S, Observer, Sureness,
};
use crate::regulator::{Candidate, Regulator};

pub(super) const TICK_MS: f64 = 10.0;
/// What observers' shares, and counters of groups, vary by.
const NOISE: f64 = 0.005;
const COUNTER_NOISE: f64 = 0.05;
/// More than rounding adds up to.
const LOST_LEAST: f64 = 1e-9;

/// What happens in a tick.
pub(super) struct Happened {
    /// Share of its undisturbed speed that the victim has.
    pub(super) victim: f64,
    /// What each group moves to the slow tier, in bytes per second.
    pub(super) slow: Vec<f64>,
}

/// What a regulator is set before.
pub(super) trait World {
    /// Lets a tick pass from `now_ms` on, in which each group keeps what it is granted of its speed.
    fn tick(&mut self, now_ms: f64, granted: &[f64]) -> Happened;
}

/// What happened since somebody looked: the victim and the groups are looked at by themselves.
#[derive(Default)]
struct Since {
    victims: Vec<f64>,
    slow: Vec<Vec<f64>>,
}

type Sensors = Rc<RefCell<Since>>;

struct Victim(Sensors);

impl Observer for Victim {
    fn tells(&self) -> &'static str {
        "the simulated victim"
    }

    fn sureness(&self) -> Sureness {
        Sureness::Counted
    }

    fn victim(&mut self, _now_ms: f64) -> Result<f64, RegulateError> {
        let victims = std::mem::take(&mut self.0.borrow_mut().victims);
        Ok(victims.iter().sum::<f64>() / victims.len() as f64)
    }
}

struct Counters {
    sensors: Sensors,
    groups: usize,
}

impl GroupObserver for Counters {
    fn tells(&self) -> String {
        "what each simulated group moves".to_owned()
    }

    fn sureness(&self) -> Sureness {
        Sureness::Counted
    }

    fn unit(&self) -> &'static str {
        BYTES_PER_S
    }

    fn least(&self) -> f64 {
        LEAST_BYTES_PER_S
    }

    fn look(&mut self, now_ms: f64) -> Result<GroupsSeen, RegulateError> {
        let ticks = std::mem::take(&mut self.sensors.borrow_mut().slow);
        let off = 1.0 + COUNTER_NOISE * noise(now_ms as u64);
        let mean = |group: usize| {
            let moved: f64 = ticks.iter().map(|tick| tick[group]).sum();
            off * moved / ticks.len() as f64
        };
        let mut seen = GroupsSeen::nothing(self.groups, self.sureness());
        seen.slow = (0..self.groups).map(mean).collect();
        Ok(seen)
    }
}

/// What is granted is taken from the decision: there is nothing to write.
struct Granted;

impl Knob for Granted {
    fn name(&self) -> &'static str {
        "virtual"
    }

    fn file(&self, machine: &MachineFiles) -> PathBuf {
        machine.path("")
    }

    fn changes(&self, _: &MachineFiles, _: f64) -> Result<Vec<Change>, RegulateError> {
        Ok(Vec::new())
    }
}

/// Lets a regulator with this controller decide until a time. `is_told`: counters tell what each group moves.
pub(super) fn regulate(
    world: &mut dyn World,
    groups: &[String],
    controller: Box<dyn Controller + '_>,
    is_told: bool,
    until_ms: f64,
) -> Result<(), RegulateError> {
    let sensors = Sensors::default();
    let candidates = groups
        .iter()
        .map(|group| Candidate::new(group, Box::new(Granted)));
    let mut regulator = Regulator::new(
        MachineFiles::below(Path::new("/")),
        Box::new(Victim(Rc::clone(&sensors))),
        controller,
        candidates.collect(),
        None,
    );
    if is_told {
        let counters = Counters {
            sensors: Rc::clone(&sensors),
            groups: groups.len(),
        };
        regulator = regulator.attributed_by(Attribution::new(Box::new(counters), None, "far"));
    }
    let mut granted = vec![1.0; groups.len()];
    let (mut now_ms, mut decide_at_ms) = (0.0, regulator.period_ms());
    while now_ms < until_ms {
        let happened = world.tick(now_ms, &granted);
        {
            let mut since = sensors.borrow_mut();
            let seen = happened.victim + NOISE * noise(now_ms as u64);
            since.victims.push(seen);
            since.slow.push(happened.slow);
        }
        now_ms += TICK_MS;
        if now_ms >= decide_at_ms {
            let decision = regulator.step(now_ms)?;
            granted = decision.groups.iter().map(|group| group.granted).collect();
            decide_at_ms = now_ms + regulator.period_ms();
        }
    }
    Ok(())
}

/// Share of what there was that is lost. What sums of ticks cannot tell from nothing is nothing.
pub(super) fn lost(kept: f64, free: f64) -> f64 {
    let lost = 1.0 - kept / free;
    if lost.abs() > LOST_LEAST { lost } else { 0.0 }
}

/// From -1 to 1, the same for the same seed.
fn noise(seed: u64) -> f64 {
    2.0 * ((mix(seed) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5)
}
