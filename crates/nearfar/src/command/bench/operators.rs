//! `nearfar bench operators`.

use std::io::{self, Write};
use std::num::NonZeroUsize;

use nearfar_bench::bench::{Rival, Who};
use nearfar_bench::operators::{
    DuckDbOptions, OperatorsBenchOptions, OperatorsBenchOutcome, bench_operators,
};
use nearfar_measure::operators::OperatorGrid;
use nearfar_measure::report::Report;
use nearfar_measure::results::{Header, Metric};
use nearfar_topology::Profile;

use super::figures_table::FiguresTable;
use super::folder::OwnFolder;
use crate::args::{BenchOperatorsArgs, OperatorGridArgs};
use crate::exit::{Exit, Failed};
use crate::human::ByteSize;
use crate::interrupt::run_shown;
use crate::message;
use crate::output::figures::{self, dimension};
use crate::output::file::save_page;
use crate::output::grid::Align;

/// Runs the command.
pub fn run(args: &BenchOperatorsArgs) -> anyhow::Result<()> {
    let mut options = options(args)?;
    let folder = args.rival.map(|_| OwnFolder::below(None)).transpose()?;
    options.duckdb = folder.as_ref().map(|folder| DuckDbOptions {
        python: args.python.clone(),
        directory: folder.path().to_owned(),
    });
    let outcome = run_shown(move |live| Ok(bench_operators(&options, |step| live.say(step))?))?;
    drop(folder);
    print(args, &outcome)?;
    let gaps = outcome.unavailable();
    let absent = gaps.iter().find(|(what, _)| *what == Rival::DuckDb.name());
    match absent {
        None => Ok(()),
        Some((_, reason)) => {
            let message = format!("{} did not take part: {reason}", Who::Rival(Rival::DuckDb));
            Err(Failed::new(Exit::Unavailable, message).into())
        }
    }
}

fn print(args: &BenchOperatorsArgs, outcome: &OperatorsBenchOutcome) -> anyhow::Result<()> {
    let header = header(outcome);
    let metrics = outcome.metrics();
    figures::print(args.figures.format, &header, &metrics, |metrics, out| {
        table(metrics, out)?;
        let mut gaps = outcome.unavailable().into_iter();
        gaps.try_for_each(|(what, reason)| writeln!(out, "{what}: unavailable ({reason})"))
    })?;
    if let Some(path) = &args.report {
        let mut report = Report::new("Operators over near and far memory");
        report.subtitle(match outcome.options.is_virtual {
            true => "in virtual time",
            false => "on this machine",
        });
        outcome.add_to(&mut report);
        report.heading("Machine and configuration").header(&header);
        save_page(&report, path)?;
        message::print(&format!("The report is in {}.", path.display()));
    }
    Ok(())
}

fn header(outcome: &OperatorsBenchOutcome) -> Header {
    let header = figures::header(outcome.configuration());
    let gaps = outcome.unavailable().into_iter();
    gaps.fold(header, |header, (what, reason)| {
        header.unavailable(what, reason)
    })
}

fn options(args: &BenchOperatorsArgs) -> anyhow::Result<OperatorsBenchOptions> {
    let mut options = OperatorsBenchOptions::new(Profile::resolve(&args.profile)?);
    if let Some(size) = args.column {
        options.column_bytes = usize::try_from(size.0)?;
    }
    if !args.build.is_empty() {
        options.build_bytes = sizes(&args.build)?;
    }
    if let Some(rows) = args.probe_rows {
        options.probe_rows = usize::try_from(rows.get())?;
    }
    if let Some(size) = args.grid.large {
        options.large_bytes = usize::try_from(size.0)?;
    }
    options.table_bytes = sizes(&args.grid.table)?;
    options.rdma_threads = args.rdma_threads.map(NonZeroUsize::get);
    options.rounds = args.rounds.unwrap_or(options.rounds);
    options.is_virtual = args.is_virtual;
    options.grid = grid(&args.grid)?;
    Ok(options)
}

fn grid(args: &OperatorGridArgs) -> anyhow::Result<OperatorGrid> {
    let counts = |counts: &[NonZeroUsize]| counts.iter().map(|count| count.get()).collect();
    Ok(OperatorGrid {
        threads: counts(&args.threads),
        far_threads: args.far_threads.clone(),
        far_shares: args
            .far_share
            .iter()
            .map(|percent| percent / 100.0)
            .collect(),
        integer_bytes: args.integer_bytes,
        // Tables have bytes of their own.
        join_shares: Vec::new(),
        joins: counts(&args.joins),
        pipelines: counts(&args.pipelines),
        pipeline_works: args.pipeline_work.clone(),
        accesses: args.access.clone(),
        copiers: args.copiers.clone(),
        copiers_in_share: args.copiers_in_share,
        chunk_bytes: sizes(&args.chunk)?,
        ring_depths: counts(&args.ring_depth),
        copy_methods: args.copy_method.clone(),
        group: args.group.map(NonZeroUsize::get),
    })
}

fn sizes(sizes: &[ByteSize]) -> anyhow::Result<Vec<usize>> {
    let sizes = sizes.iter().map(|size| usize::try_from(size.0));
    Ok(sizes.collect::<Result<_, _>>()?)
}

fn table(metrics: &[Metric], out: &mut dyn Write) -> io::Result<()> {
    let table = FiguresTable {
        dimensions: &[
            ("kind", Align::Left, |metric| metric.kind.name().to_owned()),
            ("groups", Align::Right, |metric| dimension(metric, "groups")),
            ("build side, B", Align::Right, |metric| {
                dimension(metric, "build_bytes")
            }),
            ("strategy", Align::Left, |metric| {
                dimension(metric, "strategy")
            }),
            ("tier", Align::Left, |metric| dimension(metric, "tier")),
            ("threads", Align::Right, |metric| {
                dimension(metric, "threads")
            }),
            ("far threads", Align::Right, |metric| {
                dimension(metric, "far_threads")
            }),
            ("joins", Align::Right, |metric| dimension(metric, "joins")),
            ("pipelines", Align::Right, |metric| {
                dimension(metric, "pipelines")
            }),
            ("work", Align::Left, |metric| dimension(metric, "work")),
            ("placement", Align::Left, |metric| {
                dimension(metric, "placement")
            }),
            ("access", Align::Left, |metric| dimension(metric, "access")),
            ("copiers", Align::Right, |metric| {
                dimension(metric, "copiers")
            }),
            ("chunk, B", Align::Right, |metric| {
                dimension(metric, "chunk_bytes")
            }),
            ("ring", Align::Right, |metric| {
                dimension(metric, "ring_depth")
            }),
            ("copies by", Align::Left, |metric| {
                dimension(metric, "copy_method")
            }),
        ],
        range_title: "over the rounds",
        text: |unit, value| match unit {
            "1/s" => format!("{:.1} M/s", value * 1e-6),
            "B/s" => format!("{:.1} GB/s", value * 1e-9),
            "B" => format!("{:.3} GB", value * 1e-9),
            _ => format!("{value:.2}"),
        },
    };
    table.write(metrics, out)
}
