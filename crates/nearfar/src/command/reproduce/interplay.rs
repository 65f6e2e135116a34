//! Figures of mao-2025: interference and its regulation.

use std::io::{self, Write};

use nearfar_measure::reproduce::{
    Causes, Curves, FigureOutcome, InterplayTable, Regulators, System, reproduce_causes,
    reproduce_curves, reproduce_interplay, reproduce_regulators,
};
use nearfar_topology::Known;

use super::shown::Shown;
use crate::args::figure::InterplayFigure;
use crate::output::grid::{Align, Grid};
use crate::progress::Live;

/// Runs one figure on the profiles of its machines.
pub fn run(figure: InterplayFigure, live: &Live) -> anyhow::Result<Box<dyn Shown>> {
    Ok(match figure {
        InterplayFigure::Table3 => Box::new(reproduce_interplay(|done, of| {
            live.say(format!("{}: {done} of {of} cells", InterplayTable::name()));
        })?),
        InterplayFigure::Table4 => Box::new(reproduce_causes()?),
        InterplayFigure::Curves(figure) => Box::new(reproduce_curves(figure, |done, of| {
            live.say(format!("{}: {done} of {of} curves", figure.name()));
        })?),
        InterplayFigure::Regulators(figure) => Box::new(reproduce_regulators(figure)?),
    })
}

impl Shown for InterplayTable {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write_table(self, out)
    }
}

impl Shown for Regulators {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write_knobs(self, out)
    }
}

impl Shown for Curves {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write_curves(self, out)
    }
}

impl Shown for Causes {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write_causes(self, out)
    }
}

fn write_table(table: &InterplayTable, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("system", Align::Left),
        ("under test", Align::Left),
        ("beside", Align::Left),
        ("published", Align::Right),
        ("class", Align::Left),
        ("modelled", Align::Right),
        ("class", Align::Left),
        ("right", Align::Left),
        ("threads", Align::Right),
    ]);
    for cell in &table.cells {
        grid.row([
            cell.system.name().to_owned(),
            format!("{} {}", cell.device, cell.operation),
            format!("{} {}", cell.background, cell.background_operation),
            format!("{:+.1} %", cell.published_percent),
            cell.published().name().to_owned(),
            format!("{:+.1} %", cell.modelled_percent),
            cell.modelled().name().to_owned(),
            if cell.is_right() { "yes" } else { "no" }.to_owned(),
            format!("{} + {}", cell.threads, cell.background_threads),
        ]);
    }
    grid.write_page(out)?;
    let right = |system| table.right_percent(system);
    writeln!(
        out,
        "\nsign and class right in {:.1} % of {} cells: system A {:.1} %, system B {:.1} %",
        right(None),
        table.cells.len(),
        right(Some(System::A)),
        right(Some(System::B)),
    )
}

fn write_knobs(knobs: &Regulators, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("knob", Align::Left),
        ("setting", Align::Right),
        ("victim", Align::Right),
        ("of alone", Align::Right),
        ("published", Align::Right),
        ("aggressor", Align::Right),
        ("latency", Align::Right),
    ]);
    for point in &knobs.points {
        let published = match point.published {
            (Some(low), Some(high)) if low < high => format!("{low:.0} to {high:.0} %"),
            (Some(low), _) => format!("{low:.0} %"),
            (None, _) => String::new(),
        };
        grid.row([
            point.knob.to_owned(),
            format!("{}", point.setting),
            format!("{:.1} GB/s", point.victim_gb_per_s),
            format!("{:.1} %", point.recovered_percent),
            published,
            format!("{:.1} GB/s", point.aggressor_gb_per_s),
            format!("{:.0} ns", point.near_latency_ns),
        ]);
    }
    grid.write_page(out)?;
    writeln!(
        out,
        "\nsystem {}; the victim alone has {:.1} GB/s; {}",
        knobs.system.name(),
        knobs.alone_gb_per_s,
        knobs.verdict()
    )
}

fn write_curves(curves: &Curves, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("under test", Align::Left),
        ("drive", Align::Right),
        ("beside", Align::Left),
        ("alone", Align::Right),
        ("published", Align::Right),
        ("modelled", Align::Right),
        ("threads", Align::Right),
        ("by threads", Align::Left),
    ]);
    for curve in &curves.curves {
        let percent = |value: f64| format!("{value:+.1} %");
        let drive = curve.drive_gb_per_s.map(|rate| format!("{rate} GB/s"));
        let largest = curve.largest().map(|point| point.threads.to_string());
        let points = curve.points.iter();
        let points =
            points.map(|point| format!("{}: {:+.0} %", point.threads, point.change_percent));
        grid.row([
            curve.tested.to_owned(),
            drive.unwrap_or_default(),
            curve.background.to_owned(),
            format!("{:.2} GB/s", curve.alone_gb_per_s),
            curve.published_percent.map(percent).unwrap_or_default(),
            percent(curve.change_percent()),
            largest.unwrap_or_default(),
            points.collect::<Vec<_>>().join(", "),
        ]);
    }
    grid.write_page(out)?;
    writeln!(
        out,
        "\nsystem {}; {}",
        curves.system.name(),
        curves.verdict()
    )?;
    for shape in &curves.shapes {
        let met = if shape.is_met { "met" } else { "not met" };
        writeln!(out, "{met}: {}", shape.text)?;
    }
    Ok(())
}

fn write_causes(causes: &Causes, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("event or function", Align::Left),
        ("in the model", Align::Left),
        ("published", Align::Right),
        ("modelled", Align::Right),
    ]);
    for ratio in &causes.ratios {
        let modelled = match &ratio.modelled {
            Known::Value(value) => format!("{value:.2}x"),
            Known::Unavailable(_) => "unavailable".to_owned(),
        };
        grid.row([
            ratio.event.to_owned(),
            ratio.meaning.to_owned(),
            format!("{:.2}x", ratio.published),
            modelled,
        ]);
    }
    grid.write_page(out)?;
    let mut grid = Grid::new([
        ("whose", Align::Left),
        ("threads", Align::Right),
        ("run", Align::Left),
        ("fill buffers", Align::Right),
        ("L2 queue", Align::Right),
        ("request table", Align::Right),
        ("link", Align::Right),
        ("device", Align::Right),
        ("entries held", Align::Right),
        ("bandwidth", Align::Right),
    ]);
    for group in &causes.groups {
        let beside = Some(("beside", group.beside));
        let alone = group.alone.map(|alone| ("alone", alone));
        for (run, found) in alone.into_iter().chain(beside) {
            let ns = |value: f64| format!("{value:.1} ns");
            grid.row([
                group.name.to_owned(),
                group.threads.to_string(),
                run.to_owned(),
                ns(found.fill_buffers_ns),
                ns(found.l2_queue_ns),
                ns(found.table_ns),
                ns(found.link_ns),
                ns(found.device_ns),
                format!("{:.1}", found.entries),
                format!("{:.2} GB/s", found.gb_per_s),
            ]);
        }
    }
    writeln!(out)?;
    grid.write_page(out)?;
    let reasons = causes
        .ratios
        .iter()
        .filter_map(|ratio| Some((ratio.event, ratio.modelled.reason()?)));
    writeln!(
        out,
        "\nsystem {}; {}",
        causes.system.name(),
        causes.verdict()
    )?;
    for (event, reason) in reasons {
        writeln!(out, "{event}: unavailable: {reason}")?;
    }
    Ok(())
}
