//! The interference matrix as text.

use std::io::{self, Write};
use std::time::Duration;

use nearfar_measure::Kind;
use nearfar_measure::interference::{
    CauseChange, Effect, Figure, Ground, Matrix, Table, unavailable,
};
use nearfar_topology::perf::is_scaled;
use nearfar_topology::units::Bytes;

use crate::human::{BytesPerSecond, Elapsed};
use crate::output::grid::{Align, Grid};

/// The largest change of every pair, and why others are not there.
pub fn matrix(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("under test", Align::Left),
        ("beside", Align::Left),
        ("threads", Align::Right),
        ("alone", Align::Right),
        ("together", Align::Right),
        ("change", Align::Right),
        ("bounds", Align::Right),
        ("class", Align::Left),
        ("kind", Align::Left),
        ("disturbed", Align::Left),
    ]);
    for cell in &table.cells {
        let Some((curve, point)) = cell.largest() else {
            continue;
        };
        let (low, high) = point.bounds_percent;
        let has_bounds = table.kind == Kind::Measured && low.is_finite() && high.is_finite();
        grid.row([
            cell.tested.clone(),
            cell.beside.clone(),
            format!("{} + {}", curve.threads, point.background_threads),
            figure(&curve.alone),
            figure(&point.beside),
            format!("{:+.1} %", point.change_percent),
            match has_bounds {
                true => format!("{low:+.1} to {high:+.1} %"),
                false => String::new(),
            },
            Effect::of_percent(point.change_percent).name().to_owned(),
            table.kind.name().to_owned(),
            if cell.is_noisy() { "yes" } else { "" }.to_owned(),
        ]);
    }
    grid.write_page(out)?;
    let gaps = table.cells.iter().filter_map(|cell| cell.gap.as_deref());
    write_gaps(gaps, out)
}

/// Why something is lost, if that was watched, and why that is not known.
pub fn causes(causes: &[CauseChange], out: &mut dyn Write) -> io::Result<()> {
    if causes.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new([
        ("under test", Align::Left),
        ("beside", Align::Left),
        ("what", Align::Left),
        ("alone", Align::Right),
        ("together", Align::Right),
        ("ratio", Align::Right),
        ("sureness", Align::Left),
    ]);
    for change in causes {
        let Some(together) = change.together.get() else {
            continue;
        };
        let number = |value: f64| format!("{value:.1} {}", change.unit);
        grid.row([
            change.tested.clone(),
            change.beside.clone(),
            change.what.clone(),
            change.alone.map(number).unwrap_or_default(),
            number(together),
            change
                .ratio()
                .map_or_else(String::new, |ratio| format!("{ratio:.2}x")),
            match change.counted_percent.filter(|percent| is_scaled(*percent)) {
                Some(percent) => format!("scaled from {percent:.0} % of the time"),
                None => String::new(),
            },
        ]);
    }
    writeln!(out)?;
    grid.write_page(out)?;
    let mut reasons = unavailable(causes).into_iter();
    reasons.try_for_each(|(reason, figures)| {
        writeln!(out, "unavailable: {}: {reason}", figures.join(", "))
    })
}

/// What would run.
pub fn plan(
    matrix: &Matrix,
    ground: &Ground,
    time: Duration,
    memory_bytes: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut grid = Grid::new([
        ("under test", Align::Left),
        ("threads", Align::Right),
        ("beside", Align::Left),
        ("its threads", Align::Right),
    ]);
    let mut rows: Vec<([String; 3], Vec<String>)> = Vec::new();
    for point in &matrix.points {
        let (beside, others) = match &point.background {
            Some((traffic, threads)) => (traffic.to_string(), threads.to_string()),
            None => ("nothing".to_owned(), String::new()),
        };
        let key = [point.subject.to_string(), point.threads.to_string(), beside];
        match rows.iter_mut().find(|(known, _)| *known == key) {
            Some((_, numbers)) => numbers.push(others),
            None => rows.push((key, vec![others])),
        }
    }
    for ([tested, threads, beside], others) in rows {
        grid.row([tested, threads, beside, others.join(", ")]);
    }
    grid.write_page(out)?;
    write_gaps(matrix.missing.iter().map(|cell| cell.reason.as_str()), out)?;
    for gap in &ground.gaps {
        writeln!(out, "unavailable: {}: {}", gap.what, gap.reason)?;
    }
    let takes = match ground.is_virtual {
        true => "in virtual time".to_owned(),
        false => format!("at most {} of memory at a time", Bytes(memory_bytes)),
    };
    writeln!(
        out,
        "{} points, about {}, {takes}; nothing was run",
        matrix.points.len(),
        Elapsed(time)
    )
}

/// Each reason once, with the number of pairs that it holds for.
fn write_gaps<'a>(gaps: impl Iterator<Item = &'a str>, out: &mut dyn Write) -> io::Result<()> {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for reason in gaps {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    reasons
        .into_iter()
        .try_for_each(|(reason, pairs)| writeln!(out, "unavailable: {pairs} pairs: {reason}"))
}

fn figure(figure: &Figure) -> String {
    match figure.unit.as_str() {
        "B/s" => BytesPerSecond(figure.median).to_string(),
        unit => format!("{:.3} {unit}", figure.median).trim().to_owned(),
    }
}
