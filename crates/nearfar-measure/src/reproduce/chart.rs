//! A reproduction as a page: published and modelled in one small chart for every series, errors as a
//! map, and tables behind.

use super::outcome::{Reproduction, Series};
use crate::report::{Bar, BarChart, Cell, Column, HeatMap, LineChart, Report, Table};
use crate::results::Kind;

impl Reproduction {
    /// Adds the reproduction to a page.
    pub fn add_to(&self, report: &mut Report) {
        report.heading(&*self.title);
        for (reason, points) in &self.unavailable {
            report.paragraph(format!("{points} points are unavailable: {reason}."));
        }
        let Some(mape) = self.mape_percent() else {
            return;
        };
        report.paragraph(format!(
            "Profile {}. Mean absolute error over {} points: {mape:.1} {}.",
            self.profile,
            self.points().count(),
            self.error_unit()
        ));
        self.add_charts(report);
        report.heat(self.errors());
        report.folded("Errors by series", [self.errors_by_series()]);
    }

    fn add_charts(&self, report: &mut Report) {
        if self.points().any(|point| point.x.parse::<f64>().is_err()) {
            self.add_bars(report);
            return;
        }
        let charts = self.series.iter().map(|series| {
            let name = match &*series.name {
                "" => &self.name,
                name => name,
            };
            let mut chart = LineChart::new(name, &*self.axis, &*self.unit);
            chart.line("published", Kind::Published, curve(series, |point| point.0));
            chart.line("modelled", Kind::Modelled, curve(series, |point| point.1));
            chart
        });
        report.small_multiples(charts);
    }

    /// Where the axis has words: bars beside each other.
    fn add_bars(&self, report: &mut Report) {
        for series in &self.series {
            let mut chart = BarChart::new(&*series.name, &*self.unit)
                .series("published", Kind::Published)
                .series("modelled", Kind::Modelled);
            for point in &series.points {
                let bars = [Bar::from(point.published), Bar::from(point.modelled)];
                chart.group(&*point.x, bars);
            }
            report.bars(chart);
        }
    }

    /// The absolute error of every point, by series and place on the axis.
    fn errors(&self) -> HeatMap {
        let mut columns: Vec<String> = Vec::new();
        for point in self.points() {
            if !columns.contains(&point.x) {
                columns.push(point.x.clone());
            }
        }
        if columns.iter().all(|x| x.parse::<f64>().is_ok()) {
            let number = |x: &String| x.parse::<f64>().unwrap_or_default();
            columns.sort_by(|a, b| number(a).total_cmp(&number(b)));
        }
        let title = format!("Absolute errors by {}", self.axis);
        let unit = self.error_unit();
        let mut map = HeatMap::new(title, unit, Kind::Modelled, "series", columns.clone());
        for series in &self.series {
            let cells = columns.iter().map(|x| {
                let point = series.points.iter().find(|point| point.x == *x);
                point.map(|point| point.error_percent().abs())
            });
            map.row(&*series.name, cells);
        }
        map
    }

    fn errors_by_series(&self) -> Table {
        let columns = [
            Column::text("Series"),
            Column::number("Points", "", 0),
            Column::number("Mean absolute error", self.error_unit(), 1).kind(Kind::Modelled),
            Column::text("Worst point"),
            Column::number("Published", self.unit.as_str(), 1).kind(Kind::Published),
            Column::number("Modelled", self.unit.as_str(), 1).kind(Kind::Modelled),
            Column::number("Error", self.error_unit(), 1).kind(Kind::Modelled),
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
        table
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
