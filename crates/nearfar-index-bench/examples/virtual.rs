//! One of our trees in virtual time under placement policies, without building anything of
//! DataFusion:
//!
//! ```console
//! $ cargo run --release -p nearfar-index-bench --example virtual -- \
//!     --tree art --workload hotspot-read-only --policy interleave,sidle --keys 200000
//! $ cargo run --release -p nearfar-index-bench --example virtual -- \
//!     --scale none --tree masstree --workload hotspot-read-only --policy interleave,sidle,oracle
//! ```

use std::rc::Rc;
use std::time::Duration;

use clap::Parser;
use nearfar_index_bench::bench::{BenchOptions, Mode};
use nearfar_index_bench::map::Contestant;
use nearfar_index_bench::modelled::{ModelledMachine, Sampling, run};
use nearfar_index_bench::placed::{PlacedOptions, PlacedOutcome, Policy, ScaleRule, Tuning};
use nearfar_index_bench::workload::{Integers, Workload};
use nearfar_model::simulation::Machine;
use nearfar_topology::Profile;

/// Runs trees in virtual time.
#[derive(Debug, Parser)]
struct Arguments {
    /// Trees.
    #[arg(long, value_delimiter = ',', default_value = "art")]
    tree: Vec<Contestant>,
    /// Workloads; `uniform` is lookups of all keys alike.
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
    /// Loaded keys [default: 200000, without a scale 180000000].
    #[arg(long)]
    keys: Option<u64>,
    /// Zipf's exponent; 0 asks for all keys alike.
    #[arg(long)]
    zipf: Option<f64>,
    /// Virtual cores.
    #[arg(long, default_value_t = 28)]
    threads: usize,
    /// Keys that are looked up together.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Bytes of each value.
    #[arg(long, default_value_t = 8)]
    value_bytes: usize,
    /// The machine.
    #[arg(long, default_value = "cxl-card")]
    profile: String,
    /// What is kept in proportion to the machine's caches: keys, bytes or, with the tree and the machine as large as
    /// they are, none.
    #[arg(long, default_value = "bytes")]
    scale: ScaleRule,
    /// Without a scale, percent of error at which no more windows are simulated.
    #[arg(long, default_value_t = 1.0)]
    error: f64,
    /// Without a scale, the most operations that are followed per slice, in thousands.
    #[arg(long)]
    followed_thousands: Option<u64>,
    /// Virtual milliseconds before figures are taken [default: 20, without a scale 20000].
    #[arg(long)]
    warm_up_ms: Option<f64>,
    /// Virtual milliseconds over which they are taken [default: 10, without a scale 2000].
    #[arg(long)]
    measured_ms: Option<f64>,
    /// Virtual milliseconds between two looks of placement, and two moments of the series [default: 0.1, without a
    /// scale 100].
    #[arg(long)]
    slice_ms: Option<f64>,
    /// Virtual milliseconds between two moves of the hot region, by its own width.
    #[arg(long)]
    shift_ms: Option<f64>,
    /// Begins the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Show the series.
    #[arg(long)]
    series: bool,
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let modelled = ModelledMachine {
        machine: Machine::new(&Profile::resolve(&arguments.profile)?)?,
        scale: arguments.scale,
        sampling: arguments.sampling(),
    };
    let keys = Rc::new(Integers::new(
        arguments.keys.unwrap_or(arguments.usual().keys),
    ));
    println!(
        "tree workload policy Mops/s ±95% ns/op(p50,p90,p99) near_bytes near_accesses near_GB/s far_GB/s \
         near_busy far_busy moved_MB background counters lost tree_MB hot_MB hot/llc windows followed host_s"
    );
    for contestant in arguments.tree.iter().copied() {
        for name in &arguments.workload {
            for policy in arguments.policy.iter().copied() {
                let options = arguments.options(contestant, name, policy)?;
                let outcome = run(&options, &modelled, &keys, |_| ())?;
                println!("{contestant} {name} {policy} {}", row(&outcome));
                for moment in outcome.series.iter().filter(|_| arguments.series) {
                    println!(
                        "  {:.2} ms {:.2} Mops/s {:.3} {:.3}",
                        moment.at.as_secs_f64() * 1e3,
                        moment.operations_per_s / 1e6,
                        moment.near_bytes_share,
                        moment.near_accesses_share.unwrap_or(f64::NAN)
                    );
                }
            }
        }
    }
    Ok(())
}

impl Arguments {
    /// What is usual with the scale.
    fn usual(&self) -> BenchOptions {
        match self.scale {
            ScaleRule::None => BenchOptions::unscaled(),
            ScaleRule::Keys | ScaleRule::Bytes => BenchOptions::new(Mode::Virtual),
        }
    }

    fn sampling(&self) -> Option<Sampling> {
        let usual = self.usual().sampled()?;
        let thousands = self.followed_thousands;
        Some(Sampling {
            error_share_max: self.error / 100.0,
            followed_per_slice_max: thousands
                .map_or(usual.followed_per_slice_max, |thousands| thousands * 1000),
            ..usual
        })
    }

    fn options(
        &self,
        contestant: Contestant,
        workload: &str,
        policy: Policy,
    ) -> anyhow::Result<PlacedOptions> {
        let milliseconds = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        let usual = self.usual();
        // All keys alike: the distribution of YCSB C with an exponent of zero.
        let (name, zipf) = match workload {
            "uniform" => ("ycsb-c", Some(0.0)),
            name => (name, self.zipf),
        };
        let workload = Workload::named(name)?;
        Ok(PlacedOptions {
            contestant,
            policy,
            workload: match zipf {
                Some(exponent) => workload.with_zipf(exponent),
                None => workload,
            },
            near_percent: self.near_share,
            threads: self.threads,
            batch: self.batch,
            warm_up: self.warm_up_ms.map_or(usual.warm_up, milliseconds),
            measured: self.measured_ms.map_or(usual.measured, milliseconds),
            slice: self.slice_ms.map_or(usual.slice, milliseconds),
            shift: self.shift_ms.map(|ms| (milliseconds(ms), 0.05)),
            value_bytes: self.value_bytes,
            tuning: Tuning::default(),
            seed: self.seed,
        })
    }
}

/// The figures of a run.
fn row(outcome: &PlacedOutcome) -> String {
    let latencies_ns = outcome.latencies.all();
    let at = |percent: usize| {
        let index = latencies_ns.len() * percent / 100;
        latencies_ns.get(index).copied().unwrap_or(f64::NAN)
    };
    let traffic = outcome.traffic.map(Option::unwrap_or_default);
    let [near, far] = traffic.map(|traffic| {
        let lines = traffic.lines_read + traffic.lines_written;
        lines as f64 * 64e-9 / outcome.counted.as_secs_f64()
    });
    let last = outcome.series.last();
    let hot_set = outcome.hot_set;
    let sampled = outcome.sampled;
    format!(
        "{:.2} {:.2}% {:.0} {:.0} {:.0} {:.3} {:.3} {near:.1} {far:.1} {:.2} {:.2} {:.2} {:.4} {:.4} {} {:.0} {:.1} \
         {:.2} {} {:.3} {:.1}",
        outcome.operations_per_s / 1e6,
        sampled.map_or(0.0, |sampled| sampled.error_share * 100.0),
        at(50),
        at(90),
        at(99),
        last.map_or(0.0, |moment| moment.near_bytes_share),
        last.and_then(|moment| moment.near_accesses_share)
            .unwrap_or(f64::NAN),
        traffic[0].busy_share,
        traffic[1].busy_share,
        outcome.moved_bytes as f64 / 1e6,
        outcome.background_share,
        outcome.counter_bytes_share,
        outcome.lost,
        outcome.tree_bytes as f64 / 1e6,
        hot_set.map_or(f64::NAN, |hot_set| hot_set.bytes as f64 / 1e6),
        hot_set.map_or(f64::NAN, |hot_set| hot_set.over_last_level()),
        sampled.map_or(0, |sampled| sampled.windows),
        sampled.map_or(1.0, |sampled| sampled.followed_share),
        outcome.took.as_secs_f64(),
    )
}
