//! Published points against the model, without building anything of DataFusion:
//!
//! ```console
//! $ cargo run --release -p nearfar-index-bench --example reproduce -- fig11
//! $ cargo run --release -p nearfar-index-bench --example reproduce -- zhao-fig15 --report zhao.html
//! $ cargo run --release -p nearfar-index-bench --example reproduce -- --points my-points.csv
//! ```

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use nearfar_index_bench::reproduce::{BPlusTrees, Search, zhao};
use nearfar_measure::report::Report;
use nearfar_measure::reproduce::{
    Figure, FigureOutcome, Points, RegulatorFigure, Reproduction, System, reproduce_interplay,
    reproduce_regulators, reproduce_with,
};
use nearfar_topology::Profile;

/// Holds the model against published points.
#[derive(Debug, Parser)]
struct Arguments {
    /// Figures, such as `fig4`; by default all of weisgut-2025.
    figures: Vec<String>,
    /// Points of your own, instead of figures.
    #[arg(long, value_name = "FILE", conflicts_with = "figures")]
    points: Option<PathBuf>,
    /// The machine to model: a built-in profile or a TOML file.
    #[arg(long, default_value = "cxl-blades-4")]
    profile: String,
    /// Keys of each tree.
    #[arg(long, default_value_t = BPlusTrees::KEYS)]
    keys: u64,
    /// Search nodes as our B+tree does, instead of as the published one.
    #[arg(long)]
    ours: bool,
    /// Write charts, errors and tables as a page too.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Show errors of series, and no points.
    #[arg(long)]
    brief: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let search = match arguments.ours {
        true => Search::Samples,
        false => Search::Bisection,
    };
    let profile = Profile::resolve(&arguments.profile)?;
    if arguments.figures.iter().any(|name| name == INTERPLAY) {
        print_interplay()?;
    }
    for figure in [RegulatorFigure::Fig7, RegulatorFigure::Fig8] {
        if arguments.figures.iter().any(|name| name == figure.name()) {
            print_regulators(figure)?;
        }
    }
    let mut trees = BPlusTrees::new(search, arguments.keys);
    let mut page = Report::new("The model against published points");
    let is_asked =
        |figure: &zhao::Figure| arguments.figures.iter().any(|name| name == figure.name());
    let placement: Vec<zhao::Figure> = zhao::Figure::ALL.into_iter().filter(is_asked).collect();
    if !placement.is_empty() {
        // The machine of zhao-2026, whatever the others run on.
        let options = zhao::FigureOptions::new(Profile::builtin("cxl-card")?);
        for figure in zhao::run(&placement, &options, |_, _| ())? {
            print_placement(&figure);
            figure.add_to(&mut page);
        }
    }
    for (name, points, profile) in experiments(&arguments, &profile)? {
        let outcome = reproduce_with(&name, &points, &profile, Some(&mut trees), |_, _| ())?;
        print(&outcome, arguments.brief);
        outcome.add_to(&mut page);
    }
    if let Some(path) = &arguments.report {
        fs::write(path, page.to_html())?;
    }
    Ok(())
}

/// Table III of mao-2025.
const INTERPLAY: &str = "mao-table3";

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn print_interplay() -> anyhow::Result<()> {
    let table = reproduce_interplay(|_, _| ())?;
    for cell in &table.cells {
        println!(
            "{} {} {} beside {} {}: published {:+.1} % modelled {:+.1} % ({} + {} threads, \
             {:.1} GB/s alone){}",
            cell.system.name(),
            cell.device,
            cell.operation,
            cell.background,
            cell.background_operation,
            cell.published_percent,
            cell.modelled_percent,
            cell.threads,
            cell.background_threads,
            cell.alone_gb_per_s,
            if cell.is_right() { "" } else { ": wrong" }
        );
    }
    for system in System::ALL {
        let right = table.right_percent(Some(system));
        println!("system {}: {right:.1} % right", system.name());
    }
    println!("{INTERPLAY}: {:.2} % right", table.right_percent(None));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn print_regulators(figure: RegulatorFigure) -> anyhow::Result<()> {
    for point in &reproduce_regulators(figure)?.points {
        println!(
            "{} {} {}: recovered {:.1} %, published {:?}; aggressor {:.1} GB/s, near {:.0} ns",
            figure.name(),
            point.knob,
            point.setting,
            point.recovered_percent,
            point.published,
            point.aggressor_gb_per_s,
            point.near_latency_ns
        );
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn print_placement(outcome: &zhao::FigureOutcome) {
    for one in &outcome.claims {
        println!(
            "  {}: published {} to {} % modelled {:.1} % off by {:+.1} points",
            one.claim,
            one.claim.low_percent,
            one.claim.high_percent,
            one.modelled_percent,
            one.error_points()
        );
    }
    println!(
        "{}: {} of {} in range, {:.1} points off on average",
        outcome.figure.name(),
        outcome.in_range(),
        outcome.claims.len(),
        outcome.mean_error_points()
    );
}

/// Names, points and machines of what is asked for.
fn experiments(
    arguments: &Arguments,
    profile: &Profile,
) -> anyhow::Result<Vec<(String, Points, Profile)>> {
    if let Some(path) = &arguments.points {
        let name = path.display().to_string();
        let points = Points::parse(&name, &fs::read_to_string(path)?)?;
        return Ok(vec![(name, points, profile.clone())]);
    }
    let asked = |figure: &Figure| {
        arguments.figures.is_empty() || arguments.figures.iter().any(|name| name == figure.name())
    };
    let figures = Figure::ALL.into_iter().filter(asked);
    let experiment = |figure: Figure| {
        let machine = figure.machine(profile.clone());
        (figure.name().to_owned(), figure.points(), machine)
    };
    Ok(figures.map(experiment).collect())
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn print(outcome: &Reproduction, brief: bool) {
    let Some(mape) = outcome.mape_percent() else {
        println!("{}: unavailable", outcome.name);
        return;
    };
    let unit = outcome.error_unit();
    for series in &outcome.series {
        println!("{}: {:.1} {unit}", series.name, series.mape_percent());
        for point in series.points.iter().filter(|_| !brief) {
            println!(
                "  {:>5} published {:6.2} modelled {:6.2} error {:+.1} {unit}",
                point.x,
                point.published,
                point.modelled,
                point.error_percent()
            );
        }
    }
    println!("{}: {mape:.2} {unit}", outcome.name);
}
