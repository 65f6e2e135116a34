//! `nearfar bench merge`.

use std::io::{self, Write};

use nearfar_bench::merge::{MergeBenchOptions, MergeBenchOutcome, measure_merges};
use nearfar_measure::results::{Header, ResultsWriter};

use super::dimension;
use crate::args::{BenchMergeArgs, FigureFormat};
use crate::interrupt::run_until_interrupted;
use crate::machine::{self, Kept};
use crate::output::file::Output;
use crate::output::grid::{Align, Grid};
use crate::progress::{Live, Spinner};

/// Runs the command.
pub fn run(args: &BenchMergeArgs) -> anyhow::Result<()> {
    let options = MergeBenchOptions {
        rows: args.rows,
        written_rows: args.written_rows,
        rounds: args.rounds.get(),
        queries: args.queries.get(),
    };
    let engine = machine::engine(&args.machine, None, Kept::default())?;
    let live = Live::default();
    let shown = live.clone();
    let spinner = Spinner::new(move || shown.text());
    live.say("filling the table".to_owned());
    let outcome = run_until_interrupted(move || {
        let runtime = machine::many_threads(engine.threads())?;
        let measured = measure_merges(&engine, &options, |done, rounds| {
            live.say(format!("round {} of {rounds}", done + 1));
        });
        Ok(runtime.block_on(measured)?)
    });
    drop(spinner);
    print(args.format, &outcome?)
}

fn print(format: FigureFormat, outcome: &MergeBenchOutcome) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    match format {
        FigureFormat::Table => output.with(|out| table(outcome, out))?,
        FigureFormat::Json => {
            let version = env!("CARGO_PKG_VERSION");
            let header = Header::new(version, crate::command_line(), outcome.configuration());
            output.with(|out| {
                let mut results = ResultsWriter::new(out, &header)?;
                let metrics = outcome.metrics();
                metrics.iter().try_for_each(|metric| results.metric(metric))
            })?;
        }
    }
    output.finish()
}

fn table(outcome: &MergeBenchOutcome, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("phase", Align::Left),
        ("value", Align::Right),
        ("over the rounds", Align::Right),
    ]);
    for metric in outcome.metrics() {
        let text = |value: f64| match metric.unit.as_str() {
            "s" => format!("{:.2} ms", value * 1e3),
            "B/s" => format!("{:.1} MB/s", value / 1e6),
            "rows/s" => format!("{:.0} rows/s", value),
            _ => format!("{value:.2}"),
        };
        let range = metric
            .spread
            .map(|spread| format!("{} to {}", text(spread.min), text(spread.max)));
        grid.row([
            metric.metric.clone(),
            dimension(&metric, "phase"),
            metric.value.get().map(text).unwrap_or_default(),
            range.unwrap_or_default(),
        ]);
    }
    grid.write_page(out)
}
