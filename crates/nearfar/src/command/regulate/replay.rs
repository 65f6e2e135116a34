//! A trace in virtual time.

use std::io::Write;
use std::path::Path;

use nearfar_measure::Kind;
use nearfar_measure::results::Metric;
use nearfar_model::simulation::Machine;
use nearfar_regulate::virtual_time::{
    Replayed, ReplayedQuality, Slowing, Tick, read_trace, replay,
};
use nearfar_topology::Profile;
use serde_json::json;

use crate::args::{DecisionFormat, FigureFormat, KnobName, RegulateRunArgs};
use crate::command::bench::regulate::{plant, reaction};
use crate::exit::{Exit, Failed};
use crate::interrupt::run_shown;
use crate::output::figures;
use crate::output::file::Output;
use crate::output::grid::{Align, Grid};

/// Ticks in a row of the table.
const TICKS_PER_ROW: usize = 25;

/// Replays a trace.
pub fn run(args: &RegulateRunArgs, path: &Path) -> anyhow::Result<()> {
    let slowing = slowing(args.knob)?;
    let text = std::fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read trace {}: {error}", path.display());
        Failed::new(Exit::Input, message)
    })?;
    let trace = read_trace(&text)?;
    if slowing == Slowing::Frequency && trace.groups.len() > 1 {
        let message = "the frequency is that of processors: replay a trace of one group";
        return Err(Failed::new(Exit::Usage, message).into());
    }
    let controller = super::controller(args)?;
    let name = controller.name();
    let scenario = args.scenario;
    let profile = Profile::resolve(args.profile.as_deref().unwrap_or_default())?;
    let machine = Machine::new(&profile)?;
    let plant = run_shown(move |live| plant(&machine, scenario, &|text| live.say(text)))?;
    let replayed = replay(&plant, controller, slowing, &trace)?;
    match args.format {
        DecisionFormat::Text => {
            let mut output = Output::stdout();
            output.with(|out| {
                table(&replayed).write_page(out)?;
                writeln!(out)?;
                summary(&replayed.quality()).write_page(out)
            })?;
            output.finish()
        }
        DecisionFormat::Json => {
            let configuration = json!({ "profile": profile, "trace": path.display().to_string() });
            let metrics = metrics_of(&replayed.quality()).into_iter().map(|metric| {
                metric
                    .with("controller", name)
                    .with("knob", slowing.name())
                    .with("scenario", scenario.name())
            });
            let metrics: Vec<Metric> = metrics.collect();
            let nothing = |_: &[Metric], _: &mut dyn Write| Ok(());
            figures::print_measured(FigureFormat::Json, configuration, &metrics, nothing)
        }
    }
}

fn slowing(knob: KnobName) -> anyhow::Result<Slowing> {
    match knob {
        KnobName::Quota => Ok(Slowing::Quota),
        KnobName::Bandwidth => Ok(Slowing::Bandwidth),
        KnobName::Frequency => Ok(Slowing::Frequency),
        KnobName::Pin => {
            let message =
                "a replay has no pin: in the simulator, nobody shares a core with the victim";
            Err(Failed::new(Exit::Usage, message).into())
        }
    }
}

fn table(replayed: &Replayed) -> Grid {
    let mut columns = vec![
        ("until".to_owned(), Align::Right),
        ("victim".to_owned(), Align::Right),
    ];
    for name in &replayed.groups {
        columns.push((name.clone(), Align::Right));
        columns.push(("granted".to_owned(), Align::Right));
    }
    let mut grid = Grid::new(columns.iter().map(|(name, align)| (name.as_str(), *align)));
    for row in replayed.ticks.chunks(TICKS_PER_ROW) {
        let mean =
            |value: &dyn Fn(&Tick) -> f64| row.iter().map(value).sum::<f64>() / row.len() as f64;
        let last = &row[row.len() - 1];
        let mut cells = vec![
            format!("{:.2} s", last.at_ms * 1e-3),
            format!("{:.1} %", 100.0 * mean(&|tick| tick.victim)),
        ];
        for (group, granted) in last.granted.iter().enumerate() {
            cells.push(format!("{:.2} GB/s", mean(&|tick| tick.gb_per_s[group])));
            cells.push(format!("{:.0} %", 100.0 * granted));
        }
        grid.row(cells);
    }
    grid
}

/// What it came to, for people.
fn summary(quality: &ReplayedQuality) -> Grid {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("group", Align::Left),
        ("value", Align::Right),
    ]);
    for metric in metrics_of(quality) {
        let value = metric.value.get();
        grid.row([
            metric.metric.clone(),
            figures::dimension(&metric, "group"),
            value.map_or_else(
                || "unavailable".to_owned(),
                |value| format!("{value:.2} {}", metric.unit),
            ),
        ]);
    }
    grid
}

fn metrics_of(quality: &ReplayedQuality) -> Vec<Metric> {
    let percent = |name: &str, value: f64| Metric::new(name, value, "%", Kind::Modelled);
    let ratio = quality.cost_ratio_to_published;
    let mut metrics = vec![
        percent("recovered_percent", quality.recovered_percent),
        percent("unregulated_percent", quality.unregulated_percent),
        percent("aggressor_cost_percent", quality.cost_percent),
        Metric::new(
            "aggressor_cost_ratio_to_published",
            ratio,
            "ratio",
            Kind::Modelled,
        ),
        reaction(quality.reaction_ms),
    ];
    for group in &quality.groups {
        let name = group.name.as_str();
        metrics.push(percent("group_cost_percent", group.cost_percent).with("group", name));
        metrics.push(percent("group_granted_percent", group.granted_percent).with("group", name));
    }
    metrics
}
