//! Figures 7 and 8: what quota, frequency and bandwidth allocation give back to a victim.

use nearfar_model::simulation::{Access, Group, Machine, MachineError, TierName};

use super::super::papers::mean_absolute;
use super::system::{System, with_latency};

/// Threads of the victim, which loads from local memory. The paper gives those of the aggressor only.
const VICTIM_THREADS: usize = 16;
/// Threads of non-temporal stores to CXL memory (mao-2025, section V-A).
const AGGRESSOR_THREADS: usize = 16;
/// Frequency of the victim's cores and of the unregulated aggressor's (mao-2025, section III-A).
const FREQUENCY_GHZ: f64 = 2.0;
/// Lowest frequency of the processor (vendor's data sheet: 0.8 GHz).
const FREQUENCIES_GHZ: [f64; 4] = [0.8, 1.2, 1.6, 2.0];
/// Quotas in per cent of one processor: 1,600 is none.
const QUOTAS_PERCENT: [f64; 6] = [50.0, 100.0, 200.0, 400.0, 800.0, 1_600.0];
/// Shares of its bandwidth that allocation leaves to the aggressor.
const BANDWIDTH_PERCENT: [f64; 5] = [25.0, 50.0, 75.0, 90.0, 100.0];
const LINE_BYTES: f64 = 64.0;

/// A figure on regulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegulatorFigure {
    /// mao-2025, figure 7: CPU quotas, bandwidth and latency.
    Fig7,
    /// mao-2025, figure 8 and section V-C: quotas, frequency, bandwidth allocation.
    Fig8,
}

impl RegulatorFigure {
    /// Its word in commands and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fig7 => "mao-fig7",
            Self::Fig8 => "mao-fig8",
        }
    }
}

/// One setting of one knob.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegulatedPoint {
    /// `quota`, `frequency` or `bandwidth`.
    pub knob: &'static str,
    /// Per cent of one processor, GHz, or per cent of the unregulated bandwidth.
    pub setting: f64,
    /// Bandwidth of the victim, as a share of what it has alone.
    pub recovered_percent: f64,
    /// Bandwidth of the victim.
    pub victim_gb_per_s: f64,
    /// Bandwidth of the aggressor.
    pub aggressor_gb_per_s: f64,
    /// Latency of a dependent read of local memory beside both.
    pub near_latency_ns: f64,
    /// Published share of the victim's bandwidth: lowest and highest, where there is a number.
    pub published: (Option<f64>, Option<f64>),
}

impl RegulatedPoint {
    /// How far the victim's share is from what is published, in points of a hundred; 0 within a range, and none where no
    /// number is published.
    pub fn error_points(&self) -> Option<f64> {
        let low = self.published.0?;
        let high = self.published.1.unwrap_or(low);
        Some(self.recovered_percent - self.recovered_percent.clamp(low, high))
    }
}

/// A figure in the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Regulators {
    /// Which.
    pub figure: RegulatorFigure,
    /// The machine: the paper does not say which of its two it was.
    pub system: System,
    /// Bandwidth of the victim alone.
    pub alone_gb_per_s: f64,
    /// Knob by knob, from its strongest setting on.
    pub points: Vec<RegulatedPoint>,
}

impl Regulators {
    /// Mean of the absolute errors of the settings of which a number is published, in points of a hundred.
    pub fn mean_error_points(&self) -> Option<f64> {
        mean_absolute(self.points.iter().filter_map(RegulatedPoint::error_points))
    }
}

/// Runs a figure in virtual time.
///
/// # Errors
/// None for the built-in profiles.
pub fn reproduce_regulators(figure: RegulatorFigure) -> Result<Regulators, MachineError> {
    let system = System::A;
    let plant = Plant::new(system.machine()?)?;
    let mut points = plant.quotas();
    if figure == RegulatorFigure::Fig8 {
        points.extend(plant.frequencies()?);
        points.extend(plant.bandwidths()?);
    }
    Ok(Regulators {
        figure,
        system,
        alone_gb_per_s: plant.alone.victim,
        points,
    })
}

/// What victim and aggressor have.
#[derive(Debug, Clone, Copy)]
struct State {
    victim: f64,
    aggressor: f64,
    latency_ns: f64,
}

struct Plant {
    machine: Machine,
    alone: State,
    /// Beside an aggressor that is not regulated.
    beside: State,
}

impl Plant {
    fn new(machine: Machine) -> Result<Self, MachineError> {
        let (victim, latency_ns) = with_latency(&machine, &[loads()])?;
        let alone = State {
            victim,
            aggressor: 0.0,
            latency_ns,
        };
        let mut plant = Self {
            machine,
            alone,
            beside: alone,
        };
        plant.beside = plant.beside(0.0)?;
        Ok(plant)
    }

    /// Both, with an aggressor whose threads pause before every line.
    fn beside(&self, pause_ns: f64) -> Result<State, MachineError> {
        let stores = Group::new(TierName::Far, Access::NonTemporalStore, AGGRESSOR_THREADS);
        let stores = stores.pausing(pause_ns);
        let (victim, latency_ns) = with_latency(&self.machine, &[loads(), stores])?;
        let (aggressor, _) = with_latency(&self.machine, &[stores, loads()])?;
        Ok(State {
            victim,
            aggressor,
            latency_ns,
        })
    }

    /// The group runs until its quota is used up and stands still for the rest of each period, which is
    /// thousands of times longer than queues take to fill or drain.
    fn quotas(&self) -> Vec<RegulatedPoint> {
        let of = |percent: f64| {
            let runs = percent / (100.0 * AGGRESSOR_THREADS as f64);
            let mean = |beside: f64, alone: f64| runs * beside + (1.0 - runs) * alone;
            let state = State {
                victim: mean(self.beside.victim, self.alone.victim),
                aggressor: runs * self.beside.aggressor,
                latency_ns: mean(self.beside.latency_ns, self.alone.latency_ns),
            };
            // mao-2025, section V-A.
            let published = (percent == 100.0).then_some(92.0);
            self.point("quota", percent, state, (published, published))
        };
        QUOTAS_PERCENT.map(of).into()
    }

    /// A slower core takes longer for every access; memory, mesh and the victim's cores do not.
    fn frequencies(&self) -> Result<Vec<RegulatedPoint>, MachineError> {
        let core_ns = self.machine.core.access_ns + self.machine.core.line_ns;
        let of = |ghz: f64| {
            let state = self.beside(core_ns * (FREQUENCY_GHZ / ghz - 1.0))?;
            // mao-2025, section V-B, at very low frequency.
            let published = match ghz == FREQUENCIES_GHZ[0] {
                true => (Some(30.0), Some(52.0)),
                false => (None, None),
            };
            Ok(self.point("frequency", ghz, state, published))
        };
        FREQUENCIES_GHZ.into_iter().map(of).collect()
    }

    fn bandwidths(&self) -> Result<Vec<RegulatedPoint>, MachineError> {
        let full = self.beside.aggressor;
        let core_ns = self.machine.core.access_ns + self.machine.core.line_ns;
        let of = |percent: f64| {
            let gb_per_s = full * percent / 100.0;
            let between_ns = LINE_BYTES * AGGRESSOR_THREADS as f64 / gb_per_s;
            let pause_ns = if percent < 100.0 {
                between_ns - core_ns
            } else {
                0.0
            };
            let state = self.beside(pause_ns)?;
            // mao-2025, section V-C: 99, 95 and 98 % of three victims; the first is this one.
            let published = (percent == 50.0).then_some(99.0);
            Ok(self.point("bandwidth", percent, state, (published, published)))
        };
        BANDWIDTH_PERCENT.into_iter().map(of).collect()
    }

    fn point(
        &self,
        knob: &'static str,
        setting: f64,
        state: State,
        published: (Option<f64>, Option<f64>),
    ) -> RegulatedPoint {
        RegulatedPoint {
            knob,
            setting,
            recovered_percent: 100.0 * state.victim / self.alone.victim,
            victim_gb_per_s: state.victim,
            aggressor_gb_per_s: state.aggressor,
            near_latency_ns: state.latency_ns,
            published,
        }
    }
}

fn loads() -> Group {
    Group::new(TierName::Near, Access::Load, VICTIM_THREADS)
}
