//! `nearfar measure`: access benchmarks on this machine's memory.

mod inference;
mod interference;
mod interference_table;
mod keep;
mod pagerank;
mod parquet;
mod plan;
mod repeated;
mod run;
mod table;

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use nearfar_measure::access::{Preset, report};
use nearfar_measure::compare;
use nearfar_measure::results::{Header, Metric, read};
use nearfar_sql::foreign::{caught_now, check};
use nearfar_sql::load::FileFormat;
use serde_json::json;

use crate::args::{FigureFormat, MeasureAction, MeasureArgs};
use crate::exit::{Exit, Failed};
use crate::output::file::{Output, save_page};
use crate::output::{comparison, figures};

/// Runs the command.
pub fn run(args: &MeasureArgs) -> anyhow::Result<()> {
    match &args.action {
        None => run::run(&args.run),
        Some(MeasureAction::Interference(args)) => interference::run(args),
        Some(MeasureAction::Pagerank(args)) => pagerank::run(args),
        Some(MeasureAction::Inference(args)) => inference::run(args),
        Some(MeasureAction::Report { results, output }) => write_report(results, output.as_deref()),
        Some(MeasureAction::Compare {
            first,
            second,
            html,
            figures,
        }) => write_comparison([first, second], html.as_deref(), figures.format),
        Some(MeasureAction::Presets { name }) => presets(name.as_deref()),
    }
}

/// Reads results, as JSON lines or Parquet.
pub fn open(path: &Path) -> anyhow::Result<(Header, Vec<Metric>)> {
    let is_parquet = path.extension().is_some_and(|ending| ending == "parquet");
    let cannot_read = |why: String| {
        let message = format!("cannot read {}: {why}", path.display());
        Failed::new(Exit::Input, message)
    };
    let file = File::open(path).map_err(|error| cannot_read(error.to_string()))?;
    if is_parquet {
        check(path, FileFormat::Parquet)?;
        let read =
            caught_now(|| parquet::read(file)).map_err(|error| cannot_read(error.to_string()))?;
        return read.map_err(|error| cannot_read(format!("{error:#}")).into());
    }
    read(BufReader::new(file)).map_err(|error| cannot_read(error.to_string()).into())
}

fn write_report(results: &[PathBuf], output: Option<&Path>) -> anyhow::Result<()> {
    let mut read = Vec::new();
    for path in results {
        let (header, metrics) = open(path)?;
        read.push((path.display().to_string(), header, metrics));
    }
    let is_matrix = |header: &Header| header.configuration.get("matrix").is_some();
    let matrix = read.iter().find(|(_, header, _)| is_matrix(header));
    let page = match (read.as_slice(), matrix) {
        ([(_, header, metrics)], Some(_)) => interference::page(header, metrics),
        ([(_, header, metrics)], None) => report::page(header, metrics),
        (_, Some((name, _, _))) => {
            let message = format!(
                "{name} holds a matrix of interference, which is a page of its own: name it alone"
            );
            return Err(Failed::new(Exit::Usage, message).into());
        }
        (_, None) => report::page_of_all(read),
    };
    let path = output.map_or_else(|| results[0].with_extension("html"), Path::to_owned);
    save_page(&page, &path)?;
    let mut out = Output::stdout();
    out.with(|out| writeln!(out, "{}", path.display()))?;
    out.finish()
}

fn write_comparison(
    paths: [&PathBuf; 2],
    html: Option<&Path>,
    format: FigureFormat,
) -> anyhow::Result<()> {
    let (first_header, first) = open(paths[0])?;
    let (second_header, second) = open(paths[1])?;
    let comparison = compare::compare(&first, &second);
    let names = paths.map(|path| path.display().to_string());
    if let Some(path) = html {
        let names = [names[0].as_str(), names[1].as_str()];
        let page = compare::page(names, [&first_header, &second_header], &comparison);
        save_page(&page, path)?;
    }
    let header = figures::header(json!({ "first": names[0], "second": names[1] }));
    let ratios = comparison::ratios(&comparison);
    figures::print(format, &header, &ratios, |_, out| {
        comparison::print(&names, &comparison, out)
    })
}

fn presets(name: Option<&str>) -> anyhow::Result<()> {
    let mut out = Output::stdout();
    match name {
        Some(name) => {
            let preset = preset(name)?;
            out.with(|out| out.write_all(preset.text.as_bytes()))?;
        }
        None => out.with(|out| {
            Preset::ALL
                .iter()
                .try_for_each(|preset| writeln!(out, "{:10} {}", preset.name, preset.about))
        })?,
    }
    out.finish()
}

fn preset(name: &str) -> Result<Preset, Failed> {
    Preset::named(name).ok_or_else(|| {
        let names = Preset::ALL.map(|preset| preset.name).join(", ");
        Failed::new(
            Exit::Name,
            format!("there is no preset {name:?}; there are: {names}"),
        )
    })
}
