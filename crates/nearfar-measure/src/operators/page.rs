//! Figures as results and as a page.

use super::figures::GeyerOutcome;
use crate::report::{Cell, Column, HeatMap, LineChart, Report, Table};
use crate::results::{Kind, Metric};

impl GeyerOutcome {
    /// Shapes that the model has.
    pub fn shapes_met(&self) -> usize {
        self.shapes.iter().filter(|shape| shape.is_met).count()
    }

    /// `shapes_met` and `shapes`, then `shape` (1: met) of each, then the points of curves and maps.
    pub fn metrics(&self) -> Vec<Metric> {
        let count =
            |name: &str, count: usize| Metric::new(name, count as f64, "count", Kind::Modelled);
        let mut metrics = vec![
            count("shapes_met", self.shapes_met()),
            count("shapes", self.shapes.len()),
        ];
        metrics.extend(self.shapes.iter().map(|shape| {
            count("shape", usize::from(shape.is_met))
                .with("figure", shape.figure.name())
                .with("shape", shape.name)
                .with("found", &*shape.found)
        }));
        for (figure, curve) in &self.curves {
            metrics.extend(curve.points.iter().map(|(x, y)| {
                Metric::new("modelled", *y, curve.unit, Kind::Modelled)
                    .with("figure", figure.name())
                    .with("chart", &*curve.chart)
                    .with("series", &*curve.name)
                    .with(curve.axis, *x)
            }));
        }
        for map in &self.maps {
            for (local, row) in map.local.iter().zip(&map.values) {
                metrics.extend(map.remote.iter().zip(row).map(|(remote, value)| {
                    Metric::new("modelled", *value, "% of the largest", Kind::Modelled)
                        .with("figure", "geyer-fig3")
                        .with("series", &*map.name)
                        .with("local threads", *local)
                        .with("remote threads", *remote)
                }));
            }
        }
        metrics
    }

    /// Adds shapes, curves and heat maps to a page.
    pub fn add_to(&self, report: &mut Report) {
        report.heading("Shapes that the paper describes");
        let columns = [
            Column::text("Figure"),
            Column::text("Shape"),
            Column::text("Met"),
            Column::text("In the model"),
        ];
        let mut table = Table::new("Shapes", columns);
        for shape in &self.shapes {
            let met = if shape.is_met { "yes" } else { "no" };
            let cells = [shape.figure.name(), shape.name, met, &shape.found];
            table.row(cells.map(Cell::from));
        }
        report.table(table);
        for figure in &self.figures {
            report.heading(figure.title());
            let curves = || {
                self.curves
                    .iter()
                    .filter(|(of, _)| of == figure)
                    .map(|(_, curve)| curve)
            };
            let mut charts: Vec<&str> = curves().map(|curve| &*curve.chart).collect();
            charts.sort_unstable();
            charts.dedup();
            for title in charts {
                let mut of_chart = curves().filter(|curve| curve.chart == title).peekable();
                let Some(first) = of_chart.peek() else {
                    continue;
                };
                let mut chart = LineChart::new(title, first.axis, first.unit);
                for curve in of_chart {
                    chart.line(&*curve.name, Kind::Modelled, curve.points.iter().copied());
                }
                report.lines(chart);
            }
            if *figure == super::figures::GeyerFigure::Fig3 {
                self.add_maps(report);
            }
        }
    }

    fn add_maps(&self, report: &mut Report) {
        for map in &self.maps {
            let columns = map.remote.iter().map(ToString::to_string);
            let mut heat = HeatMap::new(
                &*map.name,
                "% of the largest, by remote threads",
                Kind::Modelled,
                "local threads",
                columns,
            );
            for (local, row) in map.local.iter().zip(&map.values) {
                heat.row(
                    local.to_string(),
                    row.iter().map(|value| Some(value.round())),
                );
            }
            report.heat(heat);
        }
    }
}
