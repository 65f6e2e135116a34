//! A reproduction as a page: both curves of every series in one chart.

use super::outcome::{Reproduction, Series};
use crate::report::{Axis, Cell, Column, LineChart, Report, Table};
use crate::results::Kind;

/// Series in one chart; more would hide each other.
const SERIES_PER_CHART: usize = 4;

impl Reproduction {
    /// Adds the reproduction to a page.
    pub fn add_to(&self, report: &mut Report, title: &str) {
        report.heading(title);
        for (reason, points) in &self.unavailable {
            report.paragraph(format!("{points} points are unavailable: {reason}."));
        }
        let Some(mape) = self.mape_percent() else {
            return;
        };
        report.paragraph(format!(
            "Profile {}. Mean absolute error over {} points: {mape:.1} %.",
            self.profile,
            self.points().count()
        ));
        self.add_errors(report);
        for (index, series) in self.series.chunks(SERIES_PER_CHART).enumerate() {
            let title = format!("{}, part {}", self.name, index + 1);
            let mut chart = LineChart::new(title, &*self.axis, &*self.unit).x_axis(Axis::Linear);
            for one in series {
                chart.line(&*one.name, Kind::Published, curve(one, |point| point.0));
                chart.line(&*one.name, Kind::Modelled, curve(one, |point| point.1));
            }
            report.lines(chart);
        }
    }

    fn add_errors(&self, report: &mut Report) {
        let columns = [
            Column::text("Series"),
            Column::number("Points", "", 0),
            Column::number("Mean absolute error", "%", 1).kind(Kind::Modelled),
            Column::text("Worst point"),
            Column::number("Published", self.unit.as_str(), 1).kind(Kind::Published),
            Column::number("Modelled", self.unit.as_str(), 1).kind(Kind::Modelled),
            Column::number("Error", "%", 1).kind(Kind::Modelled),
        ];
        let mut table = Table::new("Errors by series", columns);
        for series in &self.series {
            let worst = series
                .points
                .iter()
                .max_by(|a, b| a.error_percent().abs().total_cmp(&b.error_percent().abs()));
            let Some(worst) = worst else { continue };
            table.row([
                Cell::from(&*series.name),
                Cell::from(series.points.len() as f64),
                Cell::from(series.mape_percent()),
                Cell::from(&*format!("{}={}", self.axis, worst.x)),
                Cell::from(worst.published),
                Cell::from(worst.modelled),
                Cell::from(worst.error_percent()),
            ]);
        }
        report.table(table);
    }
}

/// A series' points with a number on the axis, as (published, modelled).
fn curve(series: &Series, value: impl Fn((f64, f64)) -> f64) -> Vec<(f64, f64)> {
    let points = series.points.iter().filter_map(|point| {
        let x: f64 = point.x.parse().ok()?;
        Some((x, value((point.published, point.modelled))))
    });
    points.collect()
}
