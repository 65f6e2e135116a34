//! A trace in virtual time.

use std::path::Path;

use nearfar_model::simulation::Machine;
use nearfar_regulate::virtual_time::{Plant, Scenario, Slowing, Tick, read_trace, replay};
use nearfar_topology::Profile;

use crate::args::{KnobName, RegulateRunArgs};
use crate::exit::{Exit, Failed};
use crate::output::file::Output;
use crate::output::grid::{Align, Grid};

/// Time that is replayed after the last line of a trace.
const REST_MS: f64 = 5_000.0;
/// Ticks in a row of the table.
const TICKS_PER_ROW: usize = 25;

/// Replays a trace.
pub fn run(args: &RegulateRunArgs, trace: &Path) -> anyhow::Result<()> {
    let slowing = match args.knob {
        KnobName::Quota => Slowing::Quota,
        KnobName::Bandwidth => Slowing::Bandwidth,
        KnobName::Frequency | KnobName::Pin => {
            let message = "a replay has quota and bandwidth: the simulator has no other knob";
            return Err(Failed::new(Exit::Usage, message).into());
        }
    };
    let text = std::fs::read_to_string(trace).map_err(|error| {
        let message = format!("cannot read trace {}: {error}", trace.display());
        Failed::new(Exit::Input, message)
    })?;
    let trace = read_trace(&text)?;
    let mut controller = super::controller(args)?;
    let profile = Profile::resolve(args.profile.as_deref().unwrap_or_default())?;
    let machine = Machine::new(&profile)?;
    let plant = Plant::simulate(&machine, Scenario::NearLoads)?;
    let last_ms = trace.last().map_or(0.0, |demand| demand.from_ms);
    let ticks = replay(
        &plant,
        controller.as_mut(),
        slowing,
        &trace,
        last_ms + REST_MS,
    );
    let mut output = Output::stdout();
    output.with(|out| table(&ticks).write_page(out))?;
    output.finish()
}

fn table(ticks: &[Tick]) -> Grid {
    let mut grid = Grid::new([
        ("until", Align::Right),
        ("victim", Align::Right),
        ("aggressor", Align::Right),
        ("granted", Align::Right),
    ]);
    for row in ticks.chunks(TICKS_PER_ROW) {
        let mean = |value: fn(&Tick) -> f64| row.iter().map(value).sum::<f64>() / row.len() as f64;
        let last = row[row.len() - 1];
        grid.row([
            format!("{:.2} s", last.at_ms * 1e-3),
            format!("{:.1} %", 100.0 * mean(|tick| tick.victim)),
            format!("{:.2} GB/s", mean(|tick| tick.aggressor_gb_per_s)),
            format!("{:.0} %", 100.0 * last.granted),
        ]);
    }
    grid
}
