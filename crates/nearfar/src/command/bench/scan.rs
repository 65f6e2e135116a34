//! `nearfar bench scan`.

use std::io::{self, Write};

use nearfar_bench::scan::{ScanBenchOptions, compare_scans};
use nearfar_measure::results::Metric;

use crate::args::BenchScanArgs;
use crate::exit::{Exit, Failed};
use crate::human::BytesPerSecond;
use crate::interrupt::run_shown;
use crate::output::figures::{self, dimension, range};
use crate::output::grid::{Align, Grid};

/// Runs the command.
pub fn run(args: &BenchScanArgs) -> anyhow::Result<()> {
    let options = options(args)?;
    let outcome = run_shown(move |live| {
        live.say("filling columns".to_owned());
        Ok(compare_scans(&options, |done, rounds| {
            live.say(format!("round {} of {rounds}", done + 1));
        })?)
    })?;
    let (configuration, metrics) = (outcome.configuration(), outcome.metrics());
    figures::print_measured(args.figures.format, configuration, &metrics, table)
}

fn options(args: &BenchScanArgs) -> anyhow::Result<ScanBenchOptions> {
    let mut options = ScanBenchOptions::default();
    if let Some(threads) = args.threads {
        options.threads = threads.try_into()?;
    }
    options.rounds = args.rounds.unwrap_or(options.rounds);
    options.isa = args.isa.unwrap_or(options.isa);
    options.columns = args.placement.clone();
    options.positions = args.positions.clone();
    if let Some(size) = args.column {
        options.column_bytes = usize::try_from(size.0)?;
    }
    if !args.selectivity.is_empty() {
        let per_mille = args
            .selectivity
            .iter()
            .map(|percent| matches_per_mille(*percent));
        options.matches_per_mille = per_mille.collect::<Result<_, _>>()?;
    }
    Ok(options)
}

fn matches_per_mille(percent: f64) -> Result<u32, Failed> {
    let per_mille = (percent * 10.0).round();
    if (0.0..=1000.0).contains(&per_mille) {
        Ok(per_mille as u32)
    } else {
        let message = format!("a selectivity of {percent} %: give 0 to 100");
        Err(Failed::new(Exit::Usage, message))
    }
}

fn table(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("contestant", Align::Left),
        ("selectivity", Align::Right),
        ("median", Align::Right),
        ("over the rounds", Align::Right),
        ("undisturbed", Align::Right),
    ]);
    for metric in metrics {
        let text = |value: f64| match metric.unit.as_str() {
            "B/s" => BytesPerSecond(value).to_string(),
            _ => format!("{value:.2}"),
        };
        grid.row([
            metric.metric.clone(),
            dimension(metric, "contestant"),
            dimension(metric, "selectivity_percent"),
            metric.value.get().map(text).unwrap_or_default(),
            range(metric, text),
            format!(
                "{} of {}",
                dimension(metric, "undisturbed_rounds"),
                dimension(metric, "rounds")
            ),
        ]);
    }
    grid.write_page(out)
}
