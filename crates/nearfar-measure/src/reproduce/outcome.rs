//! Published against modelled, point by point.

use std::collections::BTreeMap;

use nearfar_model::simulation::{Machine, MachineError, SlotShares};
use nearfar_topology::Profile;

use super::error::ReproduceError;
use super::interference;
use super::points::{BoundRun, Experiment, Point, Points, SlotUse, Statistic};
use super::prices;
use super::scan::{ScanRun, far_devices};
use super::specification::{Simulated, run};
use super::trees::TreeModel;
use crate::access::PlanError;

/// One point with what the model says.
#[derive(Debug, Clone, PartialEq)]
pub struct ReproducedPoint {
    /// Its columns but for the value.
    pub columns: Vec<(String, String)>,
    /// Its value on the axis of its figure, as written.
    pub x: String,
    /// The published value.
    pub published: f64,
    /// The model's value.
    pub modelled: f64,
    /// Both are in per cent, as shares and changes are.
    pub is_share: bool,
}

impl ReproducedPoint {
    /// `(modelled / published - 1) * 100`; of shares and changes, which may be 0, the difference in points of a hundred.
    pub fn error_percent(&self) -> f64 {
        if self.is_share {
            self.modelled - self.published
        } else {
            (self.modelled / self.published - 1.0) * 100.0
        }
    }
}

/// Points that differ in nothing but the axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its columns as `name=value`, separated by spaces.
    pub name: String,
    /// Its points in the file's order.
    pub points: Vec<ReproducedPoint>,
}

impl Series {
    /// Mean of the absolute errors, per cent.
    pub fn mape_percent(&self) -> f64 {
        mape_percent(&self.points)
    }
}

/// A figure held against the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Reproduction {
    /// Figure or file.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Profile of the modelled machine, or name of the prices.
    pub profile: String,
    /// Unit of the values.
    pub unit: String,
    /// Column of the horizontal axis.
    pub axis: String,
    /// Series in the file's order.
    pub series: Vec<Series>,
    /// Points that the model cannot run: why, and how many.
    pub unavailable: BTreeMap<&'static str, usize>,
}

impl Reproduction {
    /// Says what it shows; otherwise that is its name.
    #[must_use]
    pub fn titled(mut self, title: &str) -> Self {
        title.clone_into(&mut self.title);
        self
    }

    /// Unit of errors: `%`, or `points` where values are shares.
    pub fn error_unit(&self) -> &'static str {
        if self.points().any(|point| point.is_share) {
            "points"
        } else {
            "%"
        }
    }

    /// Mean of the absolute errors of all points, in their unit; `None` without points.
    pub fn mape_percent(&self) -> Option<f64> {
        let points: Vec<&ReproducedPoint> = self.points().collect();
        (!points.is_empty()).then(|| mape_percent(points))
    }

    /// All points.
    pub fn points(&self) -> impl Iterator<Item = &ReproducedPoint> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// The point with the largest absolute error.
    pub fn worst(&self) -> Option<&ReproducedPoint> {
        let error = |point: &ReproducedPoint| point.error_percent().abs();
        self.points().max_by(|a, b| error(a).total_cmp(&error(b)))
    }
}

fn mape_percent<'a>(points: impl IntoIterator<Item = &'a ReproducedPoint>) -> f64 {
    let (sum, count) = points.into_iter().fold((0.0, 0), |(sum, count), point| {
        (sum + point.error_percent().abs(), count + 1)
    });
    sum / f64::from(count.max(1))
}

/// Why trees are not run by those who bring none.
const NO_TREES: &str = "trees: whoever asks has brought none";

/// Runs every point in the model of `profile`, but for those of trees; those of prices are computed with
/// the published ones, and those of interference are cells of a table whose machines they name. `progress` is told of
/// every point done, of interference of every cell, and of how many there are.
///
/// # Errors
/// [`ReproduceError::Machine`] where the profile cannot be simulated, and
/// [`ReproduceError::Point`] for the first point that asks for more threads or devices than its
/// machine has; both before anything runs.
pub fn reproduce(
    name: &str,
    points: &Points,
    profile: &Profile,
    progress: impl FnMut(usize, usize),
) -> Result<Reproduction, ReproduceError> {
    reproduce_with(name, points, profile, None, progress)
}

/// As [`reproduce`], with trees.
///
/// # Errors
/// Those of [`reproduce`], and [`ReproduceError::Tree`].
pub fn reproduce_with(
    name: &str,
    points: &Points,
    profile: &Profile,
    trees: Option<&mut dyn TreeModel>,
    progress: impl FnMut(usize, usize),
) -> Result<Reproduction, ReproduceError> {
    let mut reproduction = Reproduction {
        name: name.to_owned(),
        title: name.to_owned(),
        profile: profile.name.clone(),
        unit: points.unit.clone(),
        axis: points.axis.clone(),
        series: Vec::new(),
        unavailable: BTreeMap::new(),
    };
    let why_not = |point: &Point| match point.experiment {
        Experiment::Tree(_)
        | Experiment::BoundShare {
            run: BoundRun::Tree(_),
            ..
        } if trees.is_none() => Some(NO_TREES),
        Experiment::Access { .. }
        | Experiment::Latency { .. }
        | Experiment::Scan { .. }
        | Experiment::Tree(_)
        | Experiment::BoundShare { .. }
        | Experiment::Interference(_)
        | Experiment::Price { .. } => None,
    };
    for why in points.points.iter().filter_map(why_not) {
        *reproduction.unavailable.entry(why).or_default() += 1;
    }
    let runnable = |point: &&Point| why_not(point).is_none();
    let runnable: Vec<&Point> = points.points.iter().filter(runnable).collect();
    if runnable.is_empty() {
        return Ok(reproduction);
    }
    // A file's points are all of one kind.
    if let Experiment::Price { .. } = runnable[0].experiment {
        prices::reproduce(&mut reproduction, &runnable)?;
        return Ok(reproduction);
    }
    if let Experiment::Interference(_) = runnable[0].experiment {
        interference::reproduce(&mut reproduction, &runnable, progress)?;
        return Ok(reproduction);
    }
    let modelled = modelled(name, &runnable, profile, trees, progress)?;
    for (point, modelled) in runnable.into_iter().zip(modelled) {
        add(&mut reproduction, point, modelled);
    }
    Ok(reproduction)
}

/// What the model of `profile` says of every point, in their order. All are checked before any runs.
///
/// # Errors
/// Those of [`reproduce_with`].
pub(crate) fn modelled(
    name: &str,
    points: &[&Point],
    profile: &Profile,
    trees: Option<&mut dyn TreeModel>,
    mut progress: impl FnMut(usize, usize),
) -> Result<Vec<f64>, ReproduceError> {
    let machine = Machine::new(profile)?;
    let of_point = |point: &Point| {
        let (name, line) = (name.to_owned(), point.line);
        move |source| ReproduceError::Point { name, line, source }
    };
    for point in points {
        check(point, &machine).map_err(of_point(point))?;
    }
    let mut runner = Runner {
        machine,
        profile,
        trees,
        last: None,
        slots: Vec::new(),
    };
    let mut found = Vec::new();
    for (done, point) in points.iter().enumerate() {
        let (name, line) = (name.to_owned(), point.line);
        let modelled = runner.run(&point.experiment).map_err(|why| match why {
            Failure::Plan(PlanError::Machine(source)) => of_point(point)(source),
            Failure::Plan(source) => ReproduceError::Specification {
                name,
                line,
                source: Box::new(source),
            },
            Failure::Tree(source) => ReproduceError::Tree { name, line, source },
        })?;
        found.push(modelled);
        progress(done + 1, points.len());
    }
    Ok(found)
}

/// Adds a point with what the model says.
pub(super) fn add(reproduction: &mut Reproduction, point: &Point, modelled: f64) {
    let axis = &reproduction.axis;
    let rest = point.columns.iter().filter(|(name, _)| name != axis);
    let name = rest
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(" ");
    let x = point.columns.iter().find(|(name, _)| name == axis);
    let reproduced = ReproducedPoint {
        columns: point.columns.clone(),
        x: x.map(|(_, value)| value.clone()).unwrap_or_default(),
        published: point.published,
        modelled,
        is_share: matches!(
            point.experiment,
            Experiment::BoundShare { .. } | Experiment::Interference(_)
        ),
    };
    match reproduction
        .series
        .iter_mut()
        .find(|series| series.name == name)
    {
        Some(series) => series.points.push(reproduced),
        None => reproduction.series.push(Series {
            name,
            points: vec![reproduced],
        }),
    }
}

/// Asks for all that a point needs, without running it.
fn check(point: &Point, machine: &Machine) -> Result<(), MachineError> {
    match point.experiment {
        Experiment::Access {
            devices, threads, ..
        } => {
            machine.check_threads(threads)?;
            far_devices(machine, devices)?;
        }
        Experiment::Scan {
            placement, threads, ..
        } => {
            machine.check_threads(threads)?;
            far_devices(machine, placement.column_devices)?;
            far_devices(machine, placement.position_devices)?;
        }
        Experiment::BoundShare {
            run: BoundRun::Scan {
                placement, threads, ..
            },
            ..
        } => {
            machine.check_threads(threads)?;
            far_devices(machine, placement.column_devices)?;
        }
        Experiment::Tree(run)
        | Experiment::BoundShare {
            run: BoundRun::Tree(run),
            ..
        } => {
            machine.check_threads(run.threads)?;
            far_devices(machine, run.devices)?;
        }
        Experiment::Latency { .. } | Experiment::Interference(_) | Experiment::Price { .. } => {}
    }
    Ok(())
}

/// Why a point was not run.
enum Failure {
    Plan(PlanError),
    Tree(Box<dyn std::error::Error + Send + Sync>),
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

struct Runner<'a, 't> {
    machine: Machine,
    profile: &'a Profile,
    trees: Option<&'t mut dyn TreeModel>,
    /// The last specification and what it gave: one simulation serves all percentiles of a
    /// benchmark.
    last: Option<(String, Simulated)>,
    /// Uses of issue slots, by what ran.
    slots: Vec<(BoundRun, SlotShares)>,
}

impl Runner<'_, '_> {
    /// The figure of an experiment that the model can run; what it cannot run is no number.
    fn run(&mut self, experiment: &Experiment) -> Result<f64, Failure> {
        match *experiment {
            Experiment::Access { .. } => {
                let simulated = self.simulate(experiment)?;
                Ok(simulated.map_or(f64::NAN, |found| found.bandwidth_bytes_per_s * 1e-9))
            }
            Experiment::Latency { statistic, .. } => {
                let timer_ns = self.machine.core.timer_ns;
                let simulated = self.simulate(experiment)?;
                // The published times hold that of the timer.
                let of = |found: &Simulated| statistic_ns(statistic, &found.sorted_ns) + timer_ns;
                Ok(simulated.map_or(f64::NAN, of))
            }
            Experiment::Scan {
                selectivity_percent,
                placement,
                threads,
                cxl_columns_percent,
            } => {
                let run = ScanRun {
                    selectivity_percent,
                    placement,
                    threads,
                    cxl_columns_percent,
                };
                Ok(run.gb_per_s(&self.machine).map_err(PlanError::from)?)
            }
            Experiment::Tree(run) => match &mut self.trees {
                Some(trees) => trees.mops(&run, &self.machine).map_err(Failure::Tree),
                None => Ok(f64::NAN),
            },
            Experiment::BoundShare { run, slots } => {
                let shares = self.slot_shares(run)?;
                Ok(match slots {
                    SlotUse::Retiring => shares.retiring,
                    SlotUse::BadSpeculation => shares.bad_speculation,
                    SlotUse::FrontEnd => shares.front_end,
                    SlotUse::BackEnd => shares.back_end,
                    SlotUse::Bandwidth => shares.bandwidth,
                    SlotUse::Latency => shares.latency,
                })
            }
            Experiment::Interference(_) | Experiment::Price { .. } => Ok(f64::NAN),
        }
    }

    /// Uses of issue slots: one simulation serves all kinds of them.
    fn slot_shares(&mut self, run: BoundRun) -> Result<SlotShares, Failure> {
        if let Some((_, shares)) = self.slots.iter().find(|(known, _)| *known == run) {
            return Ok(*shares);
        }
        let shares = match (run, &mut self.trees) {
            (
                BoundRun::Scan {
                    selectivity_percent,
                    placement,
                    threads,
                },
                _,
            ) => {
                let scan = ScanRun {
                    selectivity_percent,
                    placement,
                    threads,
                    cxl_columns_percent: 100.0,
                };
                scan.slot_shares(&self.machine).map_err(PlanError::from)?
            }
            (BoundRun::Tree(run), Some(trees)) => trees
                .slot_shares(&run, &self.machine)
                .map_err(Failure::Tree)?,
            (BoundRun::Tree(_), None) => SlotShares::default(),
        };
        self.slots.push((run, shares));
        Ok(shares)
    }

    /// What a benchmark of accesses gives, where `experiment` is one.
    fn simulate(&mut self, experiment: &Experiment) -> Result<Option<&Simulated>, PlanError> {
        let Some(text) = experiment.specification() else {
            return Ok(None);
        };
        let simulated = match self.last.take() {
            Some((last, simulated)) if last == text => simulated,
            _ => run(&text, self.profile)?,
        };
        let (_, simulated) = self.last.insert((text, simulated));
        Ok(Some(simulated))
    }
}

fn statistic_ns(statistic: Statistic, sorted_ns: &[f64]) -> f64 {
    match statistic {
        Statistic::Mean => sorted_ns.iter().sum::<f64>() / sorted_ns.len() as f64,
        Statistic::Percentile(percentile) => {
            let rank = percentile / 100.0 * sorted_ns.len() as f64;
            sorted_ns[(rank as usize).min(sorted_ns.len() - 1)]
        }
    }
}
