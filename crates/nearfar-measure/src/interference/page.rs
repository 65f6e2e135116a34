//! The matrix as a page: a heat map, and a curve behind each of its cells.

use nearfar_topology::perf::is_scaled;

use super::cause_table::{CauseChange, unavailable};
use super::effect::Effect;
use super::table::{Cell, Table};
use crate::report::{
    Axis, Cell as Field, Column, HeatCell, HeatMap, LineChart, Note, Report, Table as Rows,
};
use crate::results::{Header, Kind, Metric};

/// Change in per cent that has the full colour.
const FULL_PERCENT: f64 = 100.0;

impl Table {
    /// The page of these figures.
    pub fn page(header: &Header, metrics: &[Metric]) -> Report {
        let table = Self::of(metrics);
        let mut report = Report::new("Interference: what is lost beside others");
        report.legend([table.kind]);
        report.paragraph(
            "Each cell is the largest change of what is under test (rows) beside a background \
             (columns), against running alone, over all numbers of threads: losses below zero. A cell \
             leads to its curve. Classes as in mao-2025, table III: deep below -40 %, moderate to \
             -10 %, mild to -5 %, none within 5 %, gains mirrored. A change whose bounds include zero may be \
             none.",
        );
        table.noise(&mut report);
        report.heat(table.heat_map());
        report.heading("Curves");
        table.curves(&mut report);
        report.heading("All pairs").table(table.rows());
        table.add_causes(metrics, &mut report);
        table.gaps(&mut report);
        report.heading("Machine and configuration").header(header);
        report.footer(format!("nearfar {}", header.version));
        report
    }

    fn noise(&self, report: &mut Report) {
        let noisy = self.cells.iter().filter(|cell| cell.is_noisy()).count();
        if noisy > 0 {
            report.note(
                Note::Warning,
                format!(
                    "The largest change of {noisy} pairs was disturbed by others on the machine: they \
                     are marked in the table, and run_seconds of the results has the reasons."
                ),
            );
        }
    }

    fn heat_map(&self) -> HeatMap {
        let mut columns: Vec<String> = Vec::new();
        let mut rows: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !columns.contains(&cell.beside) {
                columns.push(cell.beside.clone());
            }
            if !rows.contains(&&*cell.tested) {
                rows.push(&cell.tested);
            }
        }
        let title = "Largest change of performance";
        let mut map = HeatMap::new(title, "%", self.kind, "under test", columns.clone());
        map.signed(FULL_PERCENT);
        for row in rows {
            let cells = columns.iter().map(|column| {
                let is_it = |cell: &&Cell| cell.tested == row && cell.beside == *column;
                self.cells
                    .iter()
                    .find(is_it)
                    .map_or_else(HeatCell::default, heat_cell)
            });
            map.linked_row(row, cells);
        }
        map
    }

    /// A chart for every pair that has a curve, those of a subject together.
    fn curves(&self, report: &mut Report) {
        let mut rows: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !rows.contains(&&*cell.tested) {
                rows.push(&cell.tested);
            }
        }
        for row in rows {
            let of_row = self.cells.iter().filter(|cell| cell.tested == row);
            let charts: Vec<LineChart> = of_row
                .filter(|cell| !cell.curves.is_empty())
                .map(|cell| self.chart(cell))
                .collect();
            if !charts.is_empty() {
                report.subheading(format!("Under test: {row}"));
                report.small_multiples(charts);
            }
        }
    }

    fn chart(&self, cell: &Cell) -> LineChart {
        let title = format!("{} beside {}", cell.tested, cell.beside);
        let mut chart = LineChart::new(title, "threads of the background", "change in %")
            .x_axis(Axis::Linear)
            .anchored(anchor(cell));
        for curve in &cell.curves {
            let points = curve.points.iter();
            let points =
                points.map(|point| (point.background_threads as f64, point.change_percent));
            chart.line(
                format!("{} threads under test", curve.threads),
                self.kind,
                points,
            );
        }
        chart
    }

    fn rows(&self) -> Rows {
        let columns = [
            Column::text("Under test"),
            Column::text("Beside"),
            Column::number("Change", "%", 1).kind(self.kind),
            Column::number("from", "%", 1),
            Column::number("to", "%", 1),
            Column::text("Class"),
            Column::number("Threads", "", 0),
            Column::number("of the background", "", 0),
            Column::text("Disturbed"),
        ];
        let mut rows = Rows::new("", columns);
        for cell in &self.cells {
            let Some((curve, point)) = cell.largest() else {
                continue;
            };
            let bound = |bound: f64| match bound.is_finite() && self.kind == Kind::Measured {
                true => Field::from(bound),
                false => Field::Empty,
            };
            rows.row([
                Field::from(cell.tested.as_str()),
                Field::from(cell.beside.as_str()),
                Field::from(point.change_percent),
                bound(point.bounds_percent.0),
                bound(point.bounds_percent.1),
                Field::from(Effect::of_percent(point.change_percent).name()),
                Field::from(curve.threads as f64),
                Field::from(point.background_threads as f64),
                Field::from(if cell.is_noisy() { "yes" } else { "" }),
            ]);
        }
        rows
    }

    /// Why something is lost, if that was watched, and why that is not known.
    fn add_causes(&self, metrics: &[Metric], report: &mut Report) {
        let causes = self.causes(metrics);
        if causes.is_empty() {
            return;
        }
        let columns = [
            Column::text("Under test"),
            Column::text("Beside"),
            Column::text("What"),
            Column::text("Unit"),
            Column::number("Alone", "", 2),
            Column::number("Together", "", 2).kind(self.kind),
            Column::number("Ratio", "", 2),
            Column::number("Counted for, of the time", "%", 0),
        ];
        let mut rows = Rows::new("", columns);
        let number = |value: Option<f64>| value.map_or(Field::Empty, Field::from);
        for change in &causes {
            if let Some(together) = change.together.get() {
                rows.row([
                    Field::from(change.tested.as_str()),
                    Field::from(change.beside.as_str()),
                    Field::from(change.what.as_str()),
                    Field::from(change.unit.as_str()),
                    number(change.alone),
                    Field::from(together),
                    number(change.ratio()),
                    number(change.counted_percent),
                ]);
            }
        }
        report
            .heading("Causes, where the change is largest")
            .table(rows);
        let is_scaled = |change: &CauseChange| change.counted_percent.is_some_and(is_scaled);
        if causes.iter().any(is_scaled) {
            report.note(
                Note::Warning,
                "There are more events than counters: what was counted for a part of the time is scaled, and \
                 quotients are of events that were not counted in the same moments."
                    .to_owned(),
            );
        }
        for (reason, figures) in unavailable(&causes) {
            let text = format!("Unavailable: {}: {reason}.", figures.join(", "));
            report.note(Note::Remark, text);
        }
    }

    fn gaps(&self, report: &mut Report) {
        let mut reasons: Vec<(&str, usize)> = Vec::new();
        for reason in self.cells.iter().filter_map(|cell| cell.gap.as_deref()) {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason, 1)),
            }
        }
        for (reason, count) in reasons {
            report.note(
                Note::Remark,
                format!("Unavailable: {count} pairs: {reason}."),
            );
        }
    }
}

fn heat_cell(cell: &Cell) -> HeatCell {
    HeatCell {
        value: cell.largest().map(|(_, point)| point.change_percent),
        link: (!cell.curves.is_empty()).then(|| anchor(cell)),
    }
}

/// The name of the place of a cell's curve.
fn anchor(cell: &Cell) -> String {
    format!("{}-beside-{}", cell.tested, cell.beside).replace(' ', "-")
}
