//! `nearfar measure --dry-run`.

use std::io::{self, Write};

use nearfar_measure::Kind;
use nearfar_measure::access::{Plan, PlanTarget};
use nearfar_measure::results::Metric;
use nearfar_topology::units::Bytes;
use serde_json::json;

use crate::args::FigureFormat;
use crate::human::Elapsed;
use crate::output::figures;
use crate::output::grid::{Align, Grid};

/// Runs that a table shows.
const ROWS: usize = 50;

/// Prints the plan.
pub fn print(plan: &Plan, format: FigureFormat) -> anyhow::Result<()> {
    let header = figures::header(json!({ "settings": plan.settings }));
    figures::print(format, &header, &metrics(plan), |_, out| table(plan, out))
}

fn metrics(plan: &Plan) -> Vec<Metric> {
    let estimated =
        |name: &str, value: f64, unit: &str| Metric::new(name, value, unit, Kind::Estimated);
    let runs = plan.runs.iter().map(|run| {
        let bytes: usize = run.regions.iter().map(|region| region.bytes).sum();
        estimated("planned_seconds", run.time().as_secs_f64(), "s")
            .with("run", run.id())
            .with("memory_bytes", bytes)
    });
    let all = [
        estimated("plan_seconds", plan.time().as_secs_f64(), "s"),
        estimated("plan_memory_bytes", plan.memory_bytes() as f64, "B"),
        estimated("plan_runs", plan.runs.len() as f64, "count"),
    ];
    runs.chain(all).collect()
}

fn table(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("run", Align::Left),
        ("tasks", Align::Left),
        ("regions", Align::Left),
        ("repetitions", Align::Right),
        ("about", Align::Right),
    ]);
    for run in plan.runs.iter().take(ROWS) {
        let tasks = run.spec.tasks.iter().zip(&run.pins).map(|(task, pins)| {
            let pins: Vec<String> = pins.iter().flatten().map(ToString::to_string).collect();
            let place = match pins.is_empty() {
                true => "not pinned".to_owned(),
                false => format!("on {}", pins.join(",")),
            };
            let operations = task
                .steps
                .iter()
                .map(|step| format!("{} {} B", step.operation, step.access_bytes));
            let operations = operations.collect::<Vec<_>>().join(" + ");
            format!(
                "{}: {operations}, {} threads {place}",
                task.name, task.threads
            )
        });
        let regions = run
            .spec
            .regions
            .iter()
            .zip(&run.regions)
            .map(|(spec, region)| {
                format!(
                    "{}: {} {}",
                    spec.name,
                    Bytes(region.bytes as u64),
                    spec.placement_text
                )
            });
        grid.row([
            run.id(),
            tasks.collect::<Vec<_>>().join("\n"),
            regions.collect::<Vec<_>>().join("\n"),
            run.spec.repetitions.to_string(),
            Elapsed(run.time()).to_string(),
        ]);
    }
    grid.write_page(out)?;
    if plan.runs.len() > ROWS {
        writeln!(out, "and {} more", plan.runs.len() - ROWS)?;
    }
    let takes = match &plan.target {
        PlanTarget::Simulated(machine) => {
            format!("in virtual time on the machine of {}", machine.profile)
        }
        PlanTarget::Memory { .. } => {
            format!("at most {} of memory at a time", Bytes(plan.memory_bytes()))
        }
    };
    writeln!(
        out,
        "{} runs, about {}, {takes}; nothing was run",
        plan.runs.len(),
        Elapsed(plan.time()),
    )
}
