//! `nearfar tpch` and `nearfar tpcds`: their queries under placements.

mod follow;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nearfar_bench::tpch::{self, Outcome, Suite, TpchOptions, parse_placement};
use nearfar_measure::results::Header;
use nearfar_sql::engine::Engine;
use nearfar_table::placement::Strategy;

use crate::args::PlacedRunArgs;
use crate::interrupt::run_until_interrupted;
use crate::machine::{self, Kept};
use crate::message;
use crate::output::figures;
use crate::output::file::{Output, save_page};

/// Runs the command.
pub fn run(suite: Suite, args: &PlacedRunArgs) -> anyhow::Result<()> {
    let options = options(suite, args)?;
    let profile = machine::far_profile(args.profile.as_deref())?;
    let default = PathBuf::from(format!("nearfar-{}.html", suite.name()));
    let report = (!args.no_report).then(|| args.report.as_ref().unwrap_or(&default));
    if let Some(path) = report {
        // Whether it can be written is found out before the time for it is spent.
        drop(Output::create(path)?);
    }
    let engine = machine::engine(&args.machine, profile, Kept::default())?;
    let outcome = run_options(Arc::clone(&engine), options)?;
    let header = header(&engine, &outcome);
    let metrics = outcome.metrics();
    let printed = figures::print(args.figures.format, &header, &metrics, |_, out| {
        table::write(&outcome, out)
    });
    // Neither of the two is lost with the other.
    let saved = report.map_or(Ok(()), |path| save(path, &header, &outcome));
    printed.and(saved)
}

fn run_options(engine: Arc<Engine>, options: TpchOptions) -> anyhow::Result<Outcome> {
    let follower = follow::Follower::default();
    let _spinner = follower.spinner();
    run_until_interrupted(move || {
        let runtime = machine::many_threads(engine.threads())?;
        Ok(runtime.block_on(tpch::run(&engine, &options, &follower))?)
    })
}

fn save(path: &Path, header: &Header, outcome: &Outcome) -> anyhow::Result<()> {
    save_page(&tpch::report(outcome, header), path)?;
    message::print(&format!("The report is in {}.", path.display()));
    Ok(())
}

fn options(suite: Suite, args: &PlacedRunArgs) -> anyhow::Result<TpchOptions> {
    let placements = if args.placements.is_empty() {
        tpch::default_placements(args.near_budget)
    } else {
        let texts = args.placements.iter();
        texts
            .map(|text| parse_placement(text, args.near_budget))
            .collect::<Result<Vec<Strategy>, _>>()?
    };
    let defaults = TpchOptions::of(suite);
    Ok(TpchOptions {
        suite,
        scale_factor: args.scale.scale_factor,
        placements,
        queries: args
            .queries
            .as_ref()
            .map_or(defaults.queries, |list| list.0.clone()),
        runs: args.runs.get(),
        check: !args.no_check,
    })
}

fn header(engine: &Engine, outcome: &Outcome) -> Header {
    let header = figures::header(outcome.configuration());
    let gaps = engine.topology().unavailable.iter();
    gaps.fold(header, |header, gap| {
        header.unavailable(&gap.what, &gap.reason)
    })
}
