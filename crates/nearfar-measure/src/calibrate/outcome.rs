//! What a calibration found.

use nearfar_topology::Profile;

use super::parameters::Parameter;
use crate::results::{Kind, Metric};

/// A parameter with its value and how well points determine it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedParameter {
    /// Which.
    pub parameter: Parameter,
    /// Its value in the profile that the fit began with, in ns.
    pub before_ns: f64,
    /// Its value, in ns.
    pub value_ns: f64,
    /// Its standard error, per cent of the value.
    pub uncertainty_percent: f64,
}

/// A point with what the calibrated model says.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibratedPoint {
    /// File and line.
    pub place: (String, usize),
    /// Its columns but for the value.
    pub columns: Vec<(String, String)>,
    /// The value given.
    pub given: f64,
    /// The model's value.
    pub modelled: f64,
    /// Whether it took no part in the fit.
    pub is_held_out: bool,
}

impl CalibratedPoint {
    /// `(modelled / given - 1) * 100`.
    pub fn error_percent(&self) -> f64 {
        (self.modelled / self.given - 1.0) * 100.0
    }
}

/// A calibrated machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The profile, with sources and uncertainties.
    pub profile: Profile,
    /// What was fitted.
    pub parameters: Vec<FittedParameter>,
    /// All points, in their order.
    pub points: Vec<CalibratedPoint>,
}

impl Calibration {
    /// Mean absolute error of the points that parameters were fitted to, per cent.
    pub fn fitted_error_percent(&self) -> f64 {
        self.error_percent(false)
    }

    /// Mean absolute error of the points that took no part, per cent.
    pub fn held_out_error_percent(&self) -> f64 {
        self.error_percent(true)
    }

    fn error_percent(&self, held_out: bool) -> f64 {
        let of = self.points.iter().filter(|one| one.is_held_out == held_out);
        let errors: Vec<f64> = of.map(|point| point.error_percent().abs()).collect();
        errors.iter().sum::<f64>() / errors.len() as f64
    }

    /// `fitted_error_percent` and `held_out_error_percent`, every parameter with its uncertainty, and every
    /// point's error.
    pub fn metrics(&self) -> Vec<Metric> {
        let count = |held_out| {
            let of = self.points.iter().filter(|one| one.is_held_out == held_out);
            of.count()
        };
        let error = |name: &str, value: f64, held_out: bool| {
            Metric::new(name, value, "%", Kind::Modelled).with("points", count(held_out))
        };
        let mut metrics = vec![
            error("fitted_error_percent", self.fitted_error_percent(), false),
            error(
                "held_out_error_percent",
                self.held_out_error_percent(),
                true,
            ),
        ];
        for one in &self.parameters {
            let metric = Metric::new("parameter", one.value_ns, "ns", Kind::Modelled);
            metrics.push(
                metric
                    .with("key", one.parameter.key())
                    .with("before_ns", one.before_ns)
                    .with("uncertainty_percent", one.uncertainty_percent),
            );
        }
        for point in &self.points {
            let metric = Metric::new("error_percent", point.error_percent(), "%", Kind::Modelled)
                .with("file", &*point.place.0)
                .with("line", point.place.1)
                .with("given", point.given)
                .with("modelled", point.modelled)
                .with("held_out", point.is_held_out);
            metrics.push(metric);
        }
        metrics
    }
}
