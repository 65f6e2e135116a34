//! The B+tree experiments of weisgut-2025, figure 11, without building anything of DataFusion:
//!
//! ```console
//! $ cargo run --release -p nearfar-index-bench --example reproduce-trees
//! ```

use clap::Parser;
use nearfar_index_bench::reproduce::{BPlusTrees, Search};
use nearfar_measure::reproduce::{Figure, reproduce_with};
use nearfar_topology::Profile;

/// Holds the model of trees against published points.
#[derive(Debug, Parser)]
struct Arguments {
    /// Keys of each tree.
    #[arg(long, default_value_t = BPlusTrees::KEYS)]
    keys: u64,
    /// Search nodes as our B+tree does, instead of as the published one.
    #[arg(long)]
    ours: bool,
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let search = match arguments.ours {
        true => Search::Samples,
        false => Search::Bisection,
    };
    let profile = Profile::builtin("cxl-blades-4")?;
    let mut trees = BPlusTrees::new(search, arguments.keys);
    let points = Figure::Fig11.points();
    let outcome = reproduce_with("fig11", &points, &profile, Some(&mut trees), |_, _| ())?;
    for series in &outcome.series {
        println!("{}: {:.1} %", series.name, series.mape_percent());
        for point in &series.points {
            println!(
                "  {:>5} published {:6.1} modelled {:6.1} error {:+.1} %",
                point.x,
                point.published,
                point.modelled,
                point.error_percent()
            );
        }
    }
    println!("all: {:.1} %", outcome.mape_percent().unwrap_or(f64::NAN));
    Ok(())
}
