//! A reproduction as results for programs.

use super::outcome::{ReproducedPoint, Reproduction};
use crate::results::{Kind, Metric};

impl Reproduction {
    /// The figures as metrics: `mape_percent` of the whole, then per series, then `published`,
    /// `modelled` and `error_percent` of every point, and the worst one at the end.
    ///
    /// Dimensions are `figure`, `profile`, `series` and the point's columns. What cannot be run
    /// is a `mape_percent` that is unavailable, with the reason.
    pub fn metrics(&self) -> Vec<Metric> {
        let error_unit = self.error_unit();
        let (mean, of_point_name, worst_name) = match error_unit {
            "%" => ("mape_percent", "error_percent", "worst_error_percent"),
            _ => ("mean_error_points", "error_points", "worst_error_points"),
        };
        let error = |name: &str, value: f64| {
            self.label(Metric::new(name, value, error_unit, Kind::Modelled))
        };
        let mut metrics = Vec::new();
        for (reason, points) in &self.unavailable {
            let metric = Metric::unavailable("mape_percent", reason, "%", Kind::Modelled);
            metrics.push(self.label(metric).with("points", *points));
        }
        if let Some(mape) = self.mape_percent() {
            metrics.push(error(mean, mape).with("points", self.points().count()));
        }
        for series in &self.series {
            let metric = error(mean, series.mape_percent());
            metrics.push(
                metric
                    .with("series", &*series.name)
                    .with("points", series.points.len()),
            );
        }
        for series in &self.series {
            for point in &series.points {
                let unit = &*self.unit;
                let values = [
                    Metric::new("published", point.published, unit, Kind::Published),
                    Metric::new("modelled", point.modelled, unit, Kind::Modelled),
                    Metric::new(
                        of_point_name,
                        point.error_percent(),
                        error_unit,
                        Kind::Modelled,
                    ),
                ];
                metrics.extend(values.into_iter().map(|metric| {
                    let metric = self.label(metric).with("series", &*series.name);
                    of_point(metric, point)
                }));
            }
        }
        if let Some(worst) = self.worst() {
            metrics.push(of_point(error(worst_name, worst.error_percent()), worst));
        }
        metrics
    }

    fn label(&self, metric: Metric) -> Metric {
        metric
            .with("figure", &*self.name)
            .with("profile", &*self.profile)
    }
}

/// Adds a point's columns, numbers as numbers. `kind` is a column of figure 9 and a key of its own.
fn of_point(metric: Metric, point: &ReproducedPoint) -> Metric {
    point.columns.iter().fold(metric, |metric, (name, value)| {
        let name = if name == "kind" { "category" } else { name };
        match (value.parse::<u64>(), value.parse::<f64>()) {
            (Ok(whole), _) => metric.with(name, whole),
            (_, Ok(real)) if real.is_finite() => metric.with(name, real),
            _ => metric.with(name, &**value),
        }
    })
}
