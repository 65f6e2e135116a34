//! `nearfar bench scan`.

use std::io::{self, Write};

use nearfar_bench::scan::{ScanBenchOptions, ScanBenchOutcome, ScanModel, compare_scans};
use nearfar_measure::Kind;
use nearfar_measure::compare::compare;
use nearfar_measure::results::Metric;
use nearfar_topology::Profile;

use crate::args::BenchScanArgs;
use crate::exit::{Exit, Failed};
use crate::human::BytesPerSecond;
use crate::interrupt::run_shown;
use crate::output::comparison;
use crate::output::figures::{self, dimension, range};
use crate::output::grid::{Align, Grid};

/// Runs the command.
pub fn run(args: &BenchScanArgs) -> anyhow::Result<()> {
    let options = options(args)?;
    let profile = args.profile.as_deref().map(Profile::resolve).transpose()?;
    let model = profile
        .map(|profile| ScanModel::plan(&options, &profile))
        .transpose()?;
    let (outcome, compared) = match (model, args.compare_model) {
        (Some(model), true) => (measured(options)?, Some(modelled(model)?)),
        (Some(model), false) => (modelled(model)?, None),
        (None, _) => (measured(options)?, None),
    };
    let metrics = outcome.metrics();
    let Some(modelled) = compared else {
        let configuration = outcome.configuration();
        return figures::print_measured(args.figures.format, configuration, &metrics, table);
    };
    let header = comparison::header(outcome.configuration(), modelled.configuration());
    let both = [metrics, modelled.metrics()];
    let profile = modelled.model.unwrap_or_default();
    comparison::print_with_model(args.figures.format, &header, &profile, both, compare)
}

fn measured(options: ScanBenchOptions) -> anyhow::Result<ScanBenchOutcome> {
    run_shown(move |live| {
        live.say("filling columns".to_owned());
        Ok(compare_scans(&options, |done, rounds| {
            live.say(format!("round {} of {rounds}", done + 1));
        })?)
    })
}

fn modelled(model: ScanModel) -> anyhow::Result<ScanBenchOutcome> {
    run_shown(move |live| Ok(model.run(|contestant| live.say(format!("modelling {contestant}")))?))
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
            match metric.kind {
                Kind::Measured => format!(
                    "{} of {}",
                    dimension(metric, "undisturbed_rounds"),
                    dimension(metric, "rounds")
                ),
                kind => kind.name().to_owned(),
            },
        ]);
    }
    grid.write_page(out)
}
