//! `nearfar tpch` and `nearfar tpcds`: their queries under placements.

mod follow;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nearfar_bench::tpch::{self, Outcome, Suite, TpchOptions, parse_placement};
use nearfar_measure::results::{Header, Metric};
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_table::placement::Strategy;
use nearfar_topology::{FAR, NEAR, Unavailable};

use crate::args::PlacedRunArgs;
use crate::interrupt::run_until_interrupted;
use crate::machine::{self, Kept};
use crate::message;
use crate::output::file::{Output, save_page};
use crate::output::{comparison, figures};

/// Runs the command.
pub fn run(suite: Suite, args: &PlacedRunArgs) -> anyhow::Result<()> {
    let options = options(suite, args)?;
    if args.compare_model {
        return compare_model(args, &options);
    }
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

/// Runs on this machine's own tiers and then with a modelled far tier, and sets both side by side. Placements are held
/// against both machines before anything is generated.
fn compare_model(args: &PlacedRunArgs, options: &TpchOptions) -> anyhow::Result<()> {
    let profile = machine::profile_to_compare(args.profile.as_deref())?;
    let name = profile.name.clone();
    let of = |profile| machine::engine_options(&args.machine, profile, Kept::default());
    let own = EngineOptions {
        whole_device: false,
        ..of(None)?
    };
    let mut modelled = of(Some(profile))?;
    // Nothing of what is modelled may be measured on the far memory that is there.
    modelled.topology.tiers.retain(|tier| tier.name == NEAR);
    let engines = [
        machine::one_of_several(own)?,
        machine::one_of_several(modelled)?,
    ];
    for engine in &engines {
        options.check_placements(engine.system())?;
    }
    let unavailable = engines[0].topology().unavailable.clone();
    let [own, modelled] = engines;
    let own = run_options(own, options.clone())?;
    let modelled = run_options(modelled, options.clone())?;
    let header = comparison::header(own.configuration(), modelled.configuration());
    let header = with_gaps(header, &unavailable);
    let both = [&own, &modelled].map(with_far_tier_named);
    let by = comparison::by(&["placement", "query", "tier", "table"]);
    comparison::print_with_model(args.figures.format, &header, &name, both, by)
}

/// The metrics of a run, in which the far tier is `far`, whatever the machine calls it.
fn with_far_tier_named(outcome: &Outcome) -> Vec<Metric> {
    let mut metrics = outcome.metrics();
    let Some(far) = &outcome.far else {
        return metrics;
    };
    for metric in &mut metrics {
        if let Some(tier) = metric.dimensions.get_mut("tier")
            && *tier == far.name
        {
            *tier = FAR.into();
        }
    }
    metrics
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
    with_gaps(header, &engine.topology().unavailable)
}

/// A header that tells of what the machine does not say.
fn with_gaps(header: Header, gaps: &[Unavailable]) -> Header {
    gaps.iter().fold(header, |header, gap| {
        header.unavailable(&gap.what, &gap.reason)
    })
}
