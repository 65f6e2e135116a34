//! One of our trees on this machine with modelled far memory, under placement policies, without
//! building anything of DataFusion:
//!
//! ```console
//! $ cargo run --release -p nearfar-index-bench --example emulated -- \
//!     --tree masstree --workload hotspot-read-only --policy all-near,interleave,sidle
//! ```

use std::num::NonZeroUsize;
use std::time::Duration;

use clap::Parser;
use nearfar_index_bench::bench::{BenchOptions, Mode, PlacedRun, execute, plan};
use nearfar_index_bench::map::Contestant;
use nearfar_index_bench::placed::Policy;
use nearfar_topology::Profile;

/// Runs trees with emulated far memory.
#[derive(Debug, Parser)]
struct Arguments {
    /// Trees.
    #[arg(long, value_delimiter = ',', default_value = "art")]
    tree: Vec<Contestant>,
    /// Workloads.
    #[arg(long, value_delimiter = ',', default_value = "hotspot-read-only")]
    workload: Vec<String>,
    /// Policies.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "all-near,interleave,sidle,all-far"
    )]
    policy: Vec<Policy>,
    /// Percent of the tree's bytes that may be near.
    #[arg(long, default_value_t = 20)]
    near_share: u8,
    /// Loaded keys.
    #[arg(long, default_value_t = 5_000_000)]
    keys: u64,
    /// Zipf's exponents; 0 asks for all keys alike.
    #[arg(long, value_delimiter = ',')]
    zipf: Vec<f64>,
    /// Threads.
    #[arg(long, default_value = "1")]
    threads: NonZeroUsize,
    /// Keys that are looked up together.
    #[arg(long, default_value = "1")]
    batch: NonZeroUsize,
    /// Bytes of each value.
    #[arg(long, default_value_t = 8)]
    value_bytes: usize,
    /// The machine whose far memory is modelled.
    #[arg(long, default_value = "cxl-card")]
    profile: String,
    /// Milliseconds before figures are taken.
    #[arg(long, default_value_t = 5000)]
    warm_up_ms: u64,
    /// Milliseconds over which they are taken.
    #[arg(long, default_value_t = 3000)]
    measured_ms: u64,
    /// Milliseconds between two moves of the hot region, by its own width.
    #[arg(long)]
    shift_ms: Option<u64>,
    /// Show the series.
    #[arg(long)]
    series: bool,
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let plan = plan(arguments.options()?)?;
    let outcome = execute(&plan, None, &mut |_| ())?;
    println!(
        "tree workload policy Mops/s ns/op(p50,p99) near_bytes near_accesses far_lines/op \
         charged_ns/op far_busy moved_MB background waited lost"
    );
    for run in &outcome.placed {
        let (planned, policy) = (&run.planned, run.policy);
        let (tree, workload) = (planned.contestant, planned.workload.name);
        println!("{tree} {workload} {policy} {}", row(run));
        for moment in run.outcome.series.iter().filter(|_| arguments.series) {
            println!(
                "  {:.0} ms {:.3} Mops/s {:.3} {:.3}",
                moment.at.as_secs_f64() * 1e3,
                moment.operations_per_s / 1e6,
                moment.near_bytes_share,
                moment.near_accesses_share.unwrap_or(f64::NAN)
            );
        }
    }
    Ok(())
}

impl Arguments {
    fn options(&self) -> anyhow::Result<BenchOptions> {
        Ok(BenchOptions {
            contestants: self.tree.clone(),
            workloads: self.workload.clone(),
            zipf: self.zipf.clone(),
            keys: self.keys,
            threads: vec![self.threads],
            batch: self.batch,
            value_bytes: self.value_bytes,
            policies: self.policy.clone(),
            near_percent: self.near_share,
            profile: Some(Profile::resolve(&self.profile)?),
            warm_up: Duration::from_millis(self.warm_up_ms),
            measured: Duration::from_millis(self.measured_ms),
            shift: self.shift_ms.map(Duration::from_millis),
            ..BenchOptions::new(Mode::Emulated)
        })
    }
}

/// The figures of a run.
fn row(run: &PlacedRun) -> String {
    let outcome = &run.outcome;
    let latencies_ns = outcome.latencies.all();
    let at = |percent: usize| {
        let index = latencies_ns.len() * percent / 100;
        latencies_ns.get(index).copied().unwrap_or(f64::NAN)
    };
    let emulated = outcome.emulated.unwrap_or_default();
    let per_operation = |sum: u64| sum as f64 / emulated.operations.max(1) as f64;
    let last = outcome.series.last();
    format!(
        "{:.3} {:.0} {:.0} {:.3} {:.3} {:.2} {:.0} {:.2} {:.2} {:.4} {:.3} {}",
        outcome.operations_per_s / 1e6,
        at(50),
        at(99),
        last.map_or(0.0, |moment| moment.near_bytes_share),
        last.and_then(|moment| moment.near_accesses_share)
            .unwrap_or(f64::NAN),
        per_operation(emulated.charged.lines_read),
        per_operation(emulated.charged.latency_ns),
        outcome.traffic[1].map_or(0.0, |traffic| traffic.busy_share),
        outcome.moved_bytes as f64 / 1e6,
        outcome.background_share,
        outcome.waited_share.unwrap_or(f64::NAN),
        outcome.lost,
    )
}
