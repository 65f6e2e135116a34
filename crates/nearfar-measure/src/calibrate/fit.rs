//! The fit.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bobyqa::{Bobyqa, Config, Status};
use nearfar_model::simulation::pattern::mix;
use nearfar_topology::{Known, Profile, SimulationProfile};

use super::error::CalibrateError;
use super::outcome::{CalibratedPoint, Calibration, FittedParameter};
use super::parameters::Parameter;
use crate::reproduce::{Experiment, Point, Points, ReproduceError, modelled};

/// First step of the search, and the step that sensitivities are taken over.
const STEP: f64 = 0.1;
/// Least effect of that step on a point, for the point to say anything.
const EFFECT_MIN: f64 = 0.005;
/// Error that even perfect points have: the simulator's own steps and the digits of published values.
const POINT_ERROR_MIN: f64 = 0.01;
/// Largest standard error of a parameter that counts as determined.
const UNCERTAINTY_MAX: f64 = 0.5;
/// The search ends when its steps are as small: parameters are not better known than that.
const STEP_END: f64 = 0.002;
/// Parameters are looked for within a factor of 8 of where the search begins, `ln 8`.
const RANGE: f64 = 2.08;
/// What a parameter of zero begins with, as its logarithm is none.
const LEAST_NS: f64 = 1.0;

/// How a machine is calibrated.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is fitted.
    pub parameters: Vec<Parameter>,
    /// Share of the points that take no part, from 0 to 1.
    pub held_out: f64,
    /// Which points those are.
    pub seed: u64,
    /// Most simulations of all fitted points.
    pub rounds_max: usize,
    /// Name of the new profile.
    pub name: String,
}

/// Fits parameters of `profile` to the points of these files, by name. `progress` is told of every round
/// and its mean squared error.
///
/// # Errors
/// [`CalibrateError`], above all where points do not determine a parameter.
pub fn calibrate(
    files: &[(String, Points)],
    profile: &Profile,
    options: &Options,
    progress: impl FnMut(u64, f64),
) -> Result<Calibration, CalibrateError> {
    calibrate_until(files, profile, options, &AtomicBool::new(false), progress)
}

/// As [`calibrate`], until `stop` is set, which is looked at before each simulation of all fitted points.
///
/// # Errors
/// [`CalibrateError`], and [`CalibrateError::Stopped`].
pub fn calibrate_until(
    files: &[(String, Points)],
    profile: &Profile,
    options: &Options,
    stop: &AtomicBool,
    progress: impl FnMut(u64, f64),
) -> Result<Calibration, CalibrateError> {
    let Known::Value(simulation) = &profile.simulation else {
        return Err(CalibrateError::NoSimulation {
            profile: profile.name.clone(),
            reason: profile.simulation.reason().unwrap_or_default().to_owned(),
        });
    };
    check_parameters(&options.parameters)?;
    let all = all_points(files)?;
    let is_held_out = held_out(all.len(), options);
    let fitted: Vec<&Placed<'_>> = all
        .iter()
        .zip(&is_held_out)
        .filter_map(|(point, held)| (!held).then_some(point))
        .collect();
    let (count, parameters) = (fitted.len(), options.parameters.len());
    if count <= parameters || count == all.len() {
        return Err(CalibrateError::TooFewPoints {
            fitted: count,
            held_out: all.len() - count,
            parameters,
        });
    }
    let problem = Fit {
        profile,
        simulation,
        parameters: &options.parameters,
        points: fitted,
        stop,
        state: RefCell::new(Progress {
            rounds: 0,
            failure: None,
            tell: progress,
        }),
    };
    let start = problem.start();
    problem.sensitivities(&start)?;
    let best = problem.minimise(&start, options.rounds_max)?;
    let errors = problem.standard_errors(&best)?;
    let calibrated = problem.profile_at(&best);
    let found = values(&all.iter().collect::<Vec<_>>(), &calibrated)?;
    let parameters = (0..parameters).map(|index| FittedParameter {
        parameter: options.parameters[index],
        before_ns: options.parameters[index].get(simulation),
        value_ns: best[index].exp(),
        uncertainty_percent: errors[index] * 100.0,
    });
    let points = all.iter().zip(is_held_out).zip(found);
    let point = |((placed, is_held_out), modelled): ((&Placed<'_>, bool), f64)| CalibratedPoint {
        place: (placed.file.to_owned(), placed.point.line),
        columns: placed.point.columns.clone(),
        given: placed.point.published,
        modelled,
        is_held_out,
    };
    let parameters: Vec<FittedParameter> = parameters.collect();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    Ok(Calibration {
        profile: named(calibrated, &parameters, options, &names.join(", ")),
        parameters,
        points: points.map(point).collect(),
    })
}

fn check_parameters(parameters: &[Parameter]) -> Result<(), CalibrateError> {
    let is_repeated = |(index, one): (usize, &Parameter)| parameters[..index].contains(one);
    match parameters.is_empty() || parameters.iter().enumerate().any(is_repeated) {
        true => Err(CalibrateError::Parameters),
        false => Ok(()),
    }
}

/// A point and the file that it stands in.
struct Placed<'a> {
    file: &'a str,
    point: &'a Point,
}

fn all_points(files: &[(String, Points)]) -> Result<Vec<Placed<'_>>, CalibrateError> {
    let mut all = Vec::new();
    for (file, points) in files {
        for point in &points.points {
            let is_access = matches!(
                point.experiment,
                Experiment::Access { .. } | Experiment::Latency { .. }
            );
            if !is_access {
                return Err(CalibrateError::NotAnAccess {
                    name: file.clone(),
                    line: point.line,
                });
            }
            all.push(Placed { file, point });
        }
    }
    Ok(all)
}

/// Which of so many points are held out: the share of them that a hash of the seed puts first.
fn held_out(count: usize, options: &Options) -> Vec<bool> {
    let out = (count as f64 * options.held_out).round() as usize;
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|index| mix(mix(options.seed + 1) ^ *index as u64));
    let mut is_held_out = vec![false; count];
    for index in &order[..out.min(count)] {
        is_held_out[*index] = true;
    }
    is_held_out
}

/// What the model says of these points.
fn values(points: &[&Placed<'_>], profile: &Profile) -> Result<Vec<f64>, ReproduceError> {
    let mut found = Vec::new();
    // Points of one file stand together, so that one simulation serves all percentiles.
    for of_file in points.chunk_by(|a, b| a.file == b.file) {
        let file = of_file[0].file;
        let points: Vec<&Point> = of_file.iter().map(|placed| placed.point).collect();
        found.extend(modelled(file, &points, profile, None, |_, _| {})?);
    }
    Ok(found)
}

struct Progress<P> {
    rounds: u64,
    failure: Option<CalibrateError>,
    tell: P,
}

/// Parameters as logarithms of nanoseconds, and the points that they shall meet.
struct Fit<'a, P> {
    profile: &'a Profile,
    simulation: &'a SimulationProfile,
    parameters: &'a [Parameter],
    points: Vec<&'a Placed<'a>>,
    stop: &'a AtomicBool,
    state: RefCell<Progress<P>>,
}

impl<P: FnMut(u64, f64)> Fit<'_, P> {
    fn start(&self) -> Vec<f64> {
        let value = |parameter: &Parameter| match parameter.get(self.simulation) {
            value if value > 0.0 => value,
            _ => LEAST_NS,
        };
        self.parameters.iter().map(|one| value(one).ln()).collect()
    }

    fn profile_at(&self, logarithms: &[f64]) -> Profile {
        let mut simulation = self.simulation.clone();
        for (parameter, logarithm) in self.parameters.iter().zip(logarithms) {
            parameter.set(&mut simulation, logarithm.exp());
        }
        Profile {
            simulation: Known::Value(simulation),
            ..self.profile.clone()
        }
    }

    /// Logarithms of modelled over given.
    fn residuals(&self, logarithms: &[f64]) -> Result<Vec<f64>, CalibrateError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(CalibrateError::Stopped);
        }
        let found = values(&self.points, &self.profile_at(logarithms))?;
        let points = self.points.iter().zip(found);
        Ok(points
            .map(|(placed, modelled)| (modelled / placed.point.published).ln())
            .collect())
    }

    /// How much every point changes with every parameter, both relatively: a row per point.
    fn sensitivities(&self, at: &[f64]) -> Result<Vec<Vec<f64>>, CalibrateError> {
        let here = self.residuals(at)?;
        let mut rows = vec![Vec::new(); here.len()];
        for (index, parameter) in self.parameters.iter().enumerate() {
            let mut beside = at.to_vec();
            beside[index] += STEP;
            let there = self.residuals(&beside)?;
            let changes = here.iter().zip(&there).map(|(here, there)| there - here);
            let changes: Vec<f64> = changes.collect();
            let most = changes
                .iter()
                .fold(0.0_f64, |most, change| most.max(change.abs()));
            if most < EFFECT_MIN {
                return Err(CalibrateError::NoEffect {
                    key: parameter.key(),
                    change_percent: (STEP.exp_m1() * 100.0).round(),
                    effect_percent: most.exp_m1() * 100.0,
                    hint: parameter.hint(),
                });
            }
            for (row, change) in rows.iter_mut().zip(changes) {
                row.push(change / STEP);
            }
        }
        Ok(rows)
    }

    fn minimise(&self, start: &[f64], rounds_max: usize) -> Result<Vec<f64>, CalibrateError> {
        let count = start.len();
        let failed = |status: Status| CalibrateError::Optimiser {
            reason: status.to_string(),
        };
        let mut config = Config::new(count);
        config.rho_begin = STEP;
        config.rho_end = STEP_END;
        config.max_fun = rounds_max.max(config.npt + 1);
        let mut solver = Bobyqa::new(count, config).map_err(failed)?;
        let beside = |by: f64| start.iter().map(|one| one + by).collect::<Vec<f64>>();
        let (lower, upper) = (beside(-RANGE), beside(RANGE));
        let mut best = start.to_vec();
        let outcome = solver.minimize(|at| self.cost(at), &mut best, &lower, &upper);
        if let Some(failure) = self.state.borrow_mut().failure.take() {
            return Err(failure);
        }
        match outcome.status {
            Status::InvalidArgs | Status::AllocationFailed => Err(failed(outcome.status)),
            _ => Ok(best),
        }
    }

    /// The mean square of the logarithms. What cannot be run is infinitely bad.
    fn cost(&self, logarithms: &[f64]) -> f64 {
        let residuals = self.residuals(logarithms);
        let mut state = self.state.borrow_mut();
        state.rounds += 1;
        let rounds = state.rounds;
        match residuals {
            Ok(residuals) => {
                let squares: f64 = residuals.iter().map(|one| one * one).sum();
                let mean = squares / residuals.len() as f64;
                (state.tell)(rounds, mean);
                mean
            }
            Err(error) => {
                state.failure.get_or_insert(error);
                f64::INFINITY
            }
        }
    }

    /// Standard errors of the logarithms: those of least squares, from the sensitivities around the best.
    fn standard_errors(&self, best: &[f64]) -> Result<Vec<f64>, CalibrateError> {
        let rows = self.sensitivities(best)?;
        let residuals = self.residuals(best)?;
        let squares: f64 = residuals.iter().map(|one| one * one).sum();
        let freedom = (residuals.len() - best.len()) as f64;
        let variance = (squares / freedom).max(POINT_ERROR_MIN * POINT_ERROR_MIN);
        let count = best.len();
        let normal: Vec<Vec<f64>> = (0..count)
            .map(|i| {
                (0..count)
                    .map(|j| rows.iter().map(|row| row[i] * row[j]).sum())
                    .collect()
            })
            .collect();
        let diagonal = inverse_diagonal(&normal);
        self.parameters
            .iter()
            .enumerate()
            .map(|(index, parameter)| {
                let error = diagonal
                    .as_ref()
                    .map(|diagonal| (variance * diagonal[index]).sqrt());
                error
                    .filter(|error| *error <= UNCERTAINTY_MAX)
                    .ok_or_else(|| CalibrateError::NotDetermined {
                        key: parameter.key(),
                        uncertainty: error.map_or_else(
                            || "without bound".to_owned(),
                            |error| format!("{:.0} %", error * 100.0),
                        ),
                        hint: parameter.hint(),
                    })
            })
            .collect()
    }
}

/// The diagonal of a positive definite matrix's inverse, from its Cholesky factors; `None` for another.
fn inverse_diagonal(matrix: &[Vec<f64>]) -> Option<Vec<f64>> {
    let count = matrix.len();
    let mut factor = vec![vec![0.0; count]; count];
    for i in 0..count {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| factor[i][k] * factor[j][k]).sum();
            let rest: f64 = matrix[i][j] - sum;
            match i == j {
                true if rest <= 1e-9 * matrix[i][i] => return None,
                true => factor[i][i] = rest.sqrt(),
                false => factor[i][j] = rest / factor[j][j],
            }
        }
    }
    let column = |of: usize| {
        // Solves factor · y = the unit vector; the inverse's diagonal is the square of y.
        let mut y = vec![0.0; count];
        for i in of..count {
            let sum: f64 = (of..i).map(|k| factor[i][k] * y[k]).sum();
            y[i] = (f64::from(u8::from(i == of)) - sum) / factor[i][i];
        }
        y.iter().map(|one| one * one).sum::<f64>()
    };
    Some((0..count).map(column).collect())
}

/// The profile with its new name, and with sources that say what was fitted.
fn named(
    mut profile: Profile,
    parameters: &[FittedParameter],
    options: &Options,
    files: &str,
) -> Profile {
    let base = std::mem::replace(&mut profile.name, options.name.clone());
    profile.description = format!("{}, calibrated on {files}", profile.description);
    for source in profile.sources.values_mut() {
        *source = format!("as in profile {base}: {source}");
    }
    for one in parameters {
        publish(&mut profile, one, &base);
        let source = format!(
            "calibrated on {files}: standard error {:.1} %",
            one.uncertainty_percent
        );
        let key = format!("simulation.{}", one.parameter.key());
        profile.sources.insert(key, source);
    }
    let sources = profile.sources.iter();
    let of_simulation: BTreeMap<String, String> = sources
        .filter(|(key, _)| key.starts_with("simulation."))
        .map(|(key, source)| (key.clone(), source.clone()))
        .collect();
    if let Known::Value(simulation) = &mut profile.simulation {
        simulation.sources = of_simulation;
    }
    profile
}

/// Changes the figures that emulated tiers follow as much as the parameter has changed.
fn publish(profile: &mut Profile, one: &FittedParameter, base: &str) {
    let (added_ns, rate) = (one.value_ns - one.before_ns, one.before_ns / one.value_ns);
    let scaled = |known: &mut Known<f64>| {
        if let Known::Value(value) = known {
            *value *= rate;
        }
    };
    let key = match one.parameter {
        Parameter::NearReadLatency => {
            profile.near.idle_latency_ns += added_ns;
            "near.idle_latency_ns"
        }
        Parameter::FarReadLatency => {
            profile.far.idle_latency_ns += added_ns;
            "far.idle_latency_ns"
        }
        Parameter::NearReadService => {
            scaled(&mut profile.near.read_bandwidth_bytes_per_s);
            "near.read_bandwidth_bytes_per_s"
        }
        Parameter::FarReadService => {
            scaled(&mut profile.far.read_bandwidth_bytes_per_s);
            "far.read_bandwidth_bytes_per_s"
        }
        _ => return,
    };
    if let Some(source) = profile.sources.get_mut(key) {
        *source = format!(
            "of profile {base}, changed as {} by the calibration",
            one.parameter
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverses_of_small_matrices() {
        let diagonal = inverse_diagonal(&[vec![4.0, 2.0], vec![2.0, 3.0]]).unwrap();
        assert!((diagonal[0] - 0.375).abs() < 1e-12 && (diagonal[1] - 0.5).abs() < 1e-12);
        assert_eq!(inverse_diagonal(&[vec![1.0, 2.0], vec![2.0, 4.0]]), None);
    }

    #[test]
    fn the_same_points_are_held_out_each_time() {
        let options = |seed| Options {
            parameters: Vec::new(),
            held_out: 0.25,
            seed,
            rounds_max: 1,
            name: "x".to_owned(),
        };
        let first = held_out(40, &options(0));
        assert_eq!(first.iter().filter(|held| **held).count(), 10);
        assert_eq!(first, held_out(40, &options(0)));
        assert_ne!(first, held_out(40, &options(1)));
    }
}
