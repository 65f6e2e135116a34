//! The table and the regulators as a page.

use std::collections::BTreeMap;

use nearfar_topology::Known;

use super::causes::Causes;
use super::curves::{BackgroundCurve, Curves};
use super::matrix::{InterplayCell, InterplayTable};
use super::regulators::Regulators;
use super::system::System;
use crate::report::{Axis, Cell, Column, HeatMap, LineChart, Report, Table};
use crate::results::Kind;

/// Lines in one chart; more would hide each other.
const LINES_PER_CHART: usize = 3;

impl InterplayTable {
    /// Adds the table to a page: losses as heat maps, then the curve behind every cell.
    pub fn add_to(&self, report: &mut Report) {
        report.heading("Largest change of bandwidth beside others (mao-2025, table III)");
        let right = self.right_percent(None);
        report.paragraph(format!(
            "Sign and class are those published in {right:.0} % of {} cells.",
            self.cells.len()
        ));
        for system in System::ALL {
            self.add_system(report, system);
        }
    }

    fn add_system(&self, report: &mut Report, system: System) {
        let right = self.right_percent(Some(system));
        report.subheading(format!("System {}: {right:.0} % right", system.name()));
        let cells: Vec<&InterplayCell> = self
            .cells
            .iter()
            .filter(|cell| cell.system == system)
            .collect();
        for (kind, value) in [
            (
                Kind::Published,
                InterplayCell::published_loss as fn(&_) -> f64,
            ),
            (Kind::Modelled, InterplayCell::modelled_loss),
        ] {
            report.heat(heat(&cells, kind, value));
        }
        report.table(table(&cells));
        for some in cells.chunks(LINES_PER_CHART) {
            if some.iter().all(|cell| cell.curve.len() < 2) {
                continue;
            }
            let title = format!(
                "{} {} beside {}",
                some[0].device, some[0].operation, some[0].background
            );
            let mut chart = LineChart::new(title, "threads of the background", "change in %")
                .x_axis(Axis::Linear);
            for cell in some {
                let points = cell
                    .curve
                    .iter()
                    .map(|(threads, change)| (*threads as f64, *change));
                chart.line(
                    &*cell.background_operation,
                    Kind::Modelled,
                    points.collect::<Vec<_>>(),
                );
            }
            report.lines(chart);
        }
    }
}

impl InterplayCell {
    /// What is lost, in per cent; gains are none.
    fn published_loss(&self) -> f64 {
        (-self.published_percent).max(0.0)
    }

    fn modelled_loss(&self) -> f64 {
        (-self.modelled_percent).max(0.0)
    }
}

fn heat(cells: &[&InterplayCell], kind: Kind, value: fn(&InterplayCell) -> f64) -> HeatMap {
    let column =
        |cell: &InterplayCell| format!("{} {}", cell.background, cell.background_operation);
    let mut columns: Vec<String> = Vec::new();
    let mut rows: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
    for cell in cells {
        if !columns.contains(&column(cell)) {
            columns.push(column(cell));
        }
        let row = rows.entry(format!("{} {}", cell.device, cell.operation));
        row.or_default().push((column(cell), value(cell)));
    }
    let title = format!("Bandwidth lost, {}", kind.name());
    let mut map = HeatMap::new(title, "%", kind, "under test", columns.clone());
    for (name, found) in rows {
        let of = |column: &String| {
            let cell = found.iter().find(|(name, _)| name == column);
            cell.map(|(_, value)| *value)
        };
        map.row(name, columns.iter().map(of));
    }
    map
}

fn table(cells: &[&InterplayCell]) -> Table {
    let columns = [
        Column::text("Under test"),
        Column::text("Beside"),
        Column::number("Published", "%", 1).kind(Kind::Published),
        Column::text("Class"),
        Column::number("Modelled", "%", 1).kind(Kind::Modelled),
        Column::text("Class"),
        Column::number("Threads", "", 0),
        Column::number("of the background", "", 0),
    ];
    let mut table = Table::new("Cells", columns);
    for cell in cells {
        table.row([
            Cell::from(&*format!("{} {}", cell.device, cell.operation)),
            Cell::from(&*format!(
                "{} {}",
                cell.background, cell.background_operation
            )),
            Cell::from(cell.published_percent),
            Cell::from(cell.published().name()),
            Cell::from(cell.modelled_percent),
            Cell::from(cell.modelled().name()),
            Cell::from(cell.threads as f64),
            Cell::from(cell.background_threads as f64),
        ]);
    }
    table
}

impl Regulators {
    /// Adds the figure to a page.
    pub fn add_to(&self, report: &mut Report) {
        report.heading(format!(
            "What regulation gives back ({})",
            self.figure.name()
        ));
        let columns = [
            Column::text("Knob"),
            Column::number("Setting", "", 1),
            Column::number("Victim's bandwidth", "%", 1).kind(Kind::Modelled),
            Column::number("Aggressor", "GB/s", 1).kind(Kind::Modelled),
            Column::number("Latency of near memory", "ns", 0).kind(Kind::Modelled),
            Column::number("Published, from", "%", 0).kind(Kind::Published),
            Column::number("to", "%", 0).kind(Kind::Published),
        ];
        let mut table = Table::new("Settings", columns);
        for point in &self.points {
            let published = |value: Option<f64>| value.map_or(Cell::from(""), Cell::from);
            table.row([
                Cell::from(point.knob),
                Cell::from(point.setting),
                Cell::from(point.recovered_percent),
                Cell::from(point.aggressor_gb_per_s),
                Cell::from(point.near_latency_ns),
                published(point.published.0),
                published(point.published.1),
            ]);
        }
        report.table(table);
    }
}

impl Curves {
    /// Adds the figure to a page: a chart for everything under test, then what the paper says of it.
    pub fn add_to(&self, report: &mut Report) {
        report.heading(format!("Beside CXL memory ({})", self.figure.name()));
        let name = |curve: &BackgroundCurve| match curve.drive_gb_per_s {
            Some(rate) => format!("{}, a drive of {rate} GB/s", curve.tested),
            None => curve.tested.to_owned(),
        };
        for some in self.curves.chunks(LINES_PER_CHART) {
            let title = format!("System {}", self.system.name());
            let mut chart = LineChart::new(title, "threads of the background", "change in %")
                .x_axis(Axis::Linear);
            for curve in some {
                let points = curve.points.iter();
                let points = points.map(|point| (point.threads as f64, point.change_percent));
                let line = format!("{} beside {}", name(curve), curve.background);
                chart.line(line, Kind::Modelled, points.collect::<Vec<_>>());
            }
            report.lines(chart);
        }
        let columns = [
            Column::text("Under test"),
            Column::text("Beside"),
            Column::number("Alone", "GB/s", 2).kind(Kind::Modelled),
            Column::number("Published", "%", 1).kind(Kind::Published),
            Column::number("Modelled", "%", 1).kind(Kind::Modelled),
        ];
        let mut table = Table::new("Largest changes", columns);
        for curve in &self.curves {
            table.row([
                Cell::from(&*name(curve)),
                Cell::from(curve.background),
                Cell::from(curve.alone_gb_per_s),
                curve.published_percent.map_or(Cell::from(""), Cell::from),
                Cell::from(curve.change_percent()),
            ]);
        }
        report.table(table);
        for shape in &self.shapes {
            let met = if shape.is_met { "Met" } else { "Not met" };
            report.paragraph(format!("{met}: {}.", shape.text));
        }
    }
}

impl Causes {
    /// Adds the table to a page: ratios, then who waits where.
    pub fn add_to(&self, report: &mut Report) {
        report
            .heading("What counters say of writes to storage beside CXL ntst (mao-2025, table IV)");
        let columns = [
            Column::text("Event or function"),
            Column::text("In the model"),
            Column::number("Published", "×", 2).kind(Kind::Published),
            Column::number("Modelled", "×", 2).kind(Kind::Modelled),
        ];
        let mut table = Table::new("With over without", columns);
        for ratio in &self.ratios {
            let modelled = match &ratio.modelled {
                Known::Value(value) => Cell::from(*value),
                Known::Unavailable(reason) => Cell::from(&*format!("unavailable: {reason}")),
            };
            let published = Cell::from(ratio.published);
            table.row([
                ratio.event.into(),
                ratio.meaning.into(),
                published,
                modelled,
            ]);
        }
        report.table(table);
        let number = |title| Column::number(title, "ns", 1);
        let columns = [
            Column::text("Whose"),
            Column::text("Run"),
            number("Fill buffers"),
            number("L2 queue"),
            number("Request table"),
            number("Link"),
            number("Device"),
            Column::number("Entries held", "", 1),
            Column::number("Bandwidth", "GB/s", 2).kind(Kind::Modelled),
        ];
        let mut table = Table::new("Where a request is, in the mean", columns);
        for group in &self.groups {
            for (run, found) in [("alone", group.alone), ("beside", Some(group.beside))] {
                let Some(found) = found else {
                    continue;
                };
                table.row([
                    group.name.into(),
                    run.into(),
                    found.fill_buffers_ns.into(),
                    found.l2_queue_ns.into(),
                    found.table_ns.into(),
                    found.link_ns.into(),
                    found.device_ns.into(),
                    found.entries.into(),
                    found.gb_per_s.into(),
                ]);
            }
        }
        report.table(table);
    }
}
