//! Side by side in one process, with huge pages for everybody, and without building anything of
//! DataFusion:
//!
//! ```console
//! $ cargo run --release -p nearfar-index-bench --example rivals -- \
//!     --workload ycsb-c --keys 10000000 --threads 1,2 --runs 5
//! ```

use std::num::NonZeroUsize;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use nearfar_index_bench::map::{Contestant, NearMemory};
use nearfar_index_bench::native::{Compared, Event, NativeOptions, compare};
use nearfar_index_bench::workload::{Bytes, Integers, KeySpace, Urls, Workload};
use nearfar_measure::Summary;
use nearfar_memory::{Budgets, GlobalHeaps, MemorySystem, NearHeap, NearfarAllocator};
use nearfar_topology::Topology;

/// Near memory from mimalloc over huge pages, once installed: rivals allocate from it as our trees
/// do from their heaps.
#[global_allocator]
static ALLOCATOR: NearfarAllocator = NearfarAllocator;

/// Compares ordered maps.
#[derive(Debug, Parser)]
struct Arguments {
    /// Maps that take part; all of them by default.
    #[arg(long, value_delimiter = ',')]
    tree: Vec<Contestant>,
    /// Workloads, one after the other on the same maps.
    #[arg(long, value_delimiter = ',', default_value = "ycsb-c")]
    workload: Vec<String>,
    /// Loaded keys.
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// Keys as integers, urls, or random bytes of this many bytes.
    #[arg(long, default_value = "integers")]
    form: String,
    /// Zipf's exponent; 0 asks for all keys alike.
    #[arg(long)]
    zipf: Option<f64>,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<NonZeroUsize>,
    /// Runs of each.
    #[arg(long, default_value = "5")]
    runs: NonZeroUsize,
    /// Operations of each thread in a run.
    #[arg(long, default_value = "2000000")]
    operations: NonZeroUsize,
    /// Bytes of each value.
    #[arg(long, default_value_t = 8)]
    value_bytes: usize,
    /// Keys that are looked up together.
    #[arg(long, default_value = "1")]
    batch: NonZeroUsize,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let system = MemorySystem::new(&Topology::this_machine()?, &Budgets::new())?;
    let heaps = GlobalHeaps {
        near: NearHeap::Mimalloc { huge_pages: true },
        huge_pages: true,
    };
    NearfarAllocator::install(&system, heaps)?;
    let keys = arguments.keys;
    match arguments.form.as_str() {
        "integers" => run(&arguments, &Integers::new(keys), &system),
        "urls" => run(&arguments, &Urls::new(keys), &system),
        length => {
            let length = length
                .parse()
                .ok()
                .filter(|length| (8..=Bytes::LENGTH_MAX).contains(length))
                .context("--form: give integers, urls, or a number of bytes from 8 to 4096")?;
            run(&arguments, &Bytes::new(keys, length), &system)
        }
    }
}

fn run<S: KeySpace>(
    arguments: &Arguments,
    keys: &S,
    system: &Arc<MemorySystem>,
) -> anyhow::Result<()> {
    let workloads = arguments.workload.iter().map(|name| {
        let workload = Workload::named(name)?;
        Ok(match arguments.zipf {
            Some(exponent) => workload.with_zipf(exponent),
            None => workload,
        })
    });
    let workloads: Vec<Workload> = workloads.collect::<anyhow::Result<_>>()?;
    let options = NativeOptions {
        contestants: if arguments.tree.is_empty() {
            Contestant::built().collect()
        } else {
            arguments.tree.clone()
        },
        threads: arguments.threads.clone(),
        runs: arguments.runs,
        operations: arguments.operations,
        batch: arguments.batch,
        value_bytes: arguments.value_bytes,
        seed: 1,
    };
    let source = NearMemory {
        system: Arc::clone(system),
        reserve_bytes: Some(8 << 30),
    };
    let compared = compare(
        &options,
        &workloads,
        keys,
        (&source, Some(system)),
        |event| follow(&event, keys.count()),
    )?;
    table(&compared);
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a program of its own")]
fn follow(event: &Event, keys: u64) {
    match event {
        Event::Loaded {
            contestant,
            loading,
        } => {
            let rate = loading.keys_per_s / 1e6;
            let bytes = loading.bytes.map(|bytes| bytes as f64 / keys as f64);
            eprintln!("{contestant}: loaded at {rate:.2} M/s, {bytes:.1?} bytes per key");
        }
        Event::Ran {
            contestant,
            workload,
            threads,
            run,
            operations_per_s,
            progress: (done, all),
        } => {
            let rate = operations_per_s / 1e6;
            eprintln!("{done}/{all} {workload} {threads}t run {run}: {contestant} {rate:.2} M/s");
        }
        _ => {}
    }
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn table(compared: &[Compared]) {
    println!("workload threads map Mops/s(median,min,max) waited p50_ns p90_ns p99_ns lost");
    for one in compared {
        let rates = one.rounds.iter().map(|round| round.operations_per_s / 1e6);
        let Some(rate) = Summary::of(rates) else {
            continue;
        };
        let waited = one.rounds.iter().filter_map(|round| round.waited_share);
        let all = one.rounds.iter().flat_map(|round| round.latencies.all());
        let mut latencies: Vec<f64> = all.collect();
        latencies.sort_unstable_by(f64::total_cmp);
        let at = |percent: usize| {
            let index = latencies.len() * percent / 100;
            latencies.get(index).copied().unwrap_or(f64::NAN)
        };
        let lost: u64 = one.rounds.iter().map(|round| round.lost).sum();
        println!(
            "{} {} {} {:.2} {:.2}-{:.2} {:.3} {:.0} {:.0} {:.0} {lost}",
            one.workload.name,
            one.threads,
            one.contestant,
            rate.median,
            rate.min,
            rate.max,
            waited.fold(0.0, f64::max),
            at(50),
            at(90),
            at(99),
        );
    }
}
