//! Instructions of operations on our trees, counted by callgrind: what the table in
//! `src/modelled/costs.rs` is made of.
//!
//! ```console
//! $ cargo run --release -p nearfar-index-bench --example operation-costs
//! ```
//!
//! Each operation is counted in a small and in a large tree (scans: few and many keys). What the two
//! differ by, over the accesses that they differ by, is put down to accesses, the rest to the operation.
//! With `--tracking`, lookups are counted with leaves counting their uses and without.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use nearfar_index::placement::{PlacedTree, Tracking};
use nearfar_index_bench::map::{
    Contestant, PlacedMap, PlacedVisitor, PlatformMemory, Session, TestKey, WORD_BYTES,
};
use nearfar_index_bench::workload::{Integers, KeySpace, Pick};
use nearfar_model::{AccessLog, Native};

/// Counts instructions of operations.
#[derive(Debug, Parser)]
struct Arguments {
    /// Trees.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "art,masstree,btree-256,btree-512,btree-1024,btree,btree-4096"
    )]
    tree: Vec<Contestant>,
    /// Compare lookups with and without tracking, and the time that they take.
    #[arg(long)]
    tracking: bool,
    /// Do one operation so often and nothing else: what is counted.
    #[arg(long, hide = true)]
    child: Option<Work>,
    #[arg(long, hide = true, default_value_t = 0)]
    keys: u64,
    #[arg(long, hide = true)]
    tracked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Work {
    Get,
    Batch,
    Update,
    Insert,
    ShortScan,
    LongScan,
    /// A look at a leaf, as the migration trigger's.
    Look,
}

const OPERATIONS: u64 = 4096;
const BATCH: usize = 64;
const SMALL: u64 = 2_000;
const LARGE: u64 = 200_000;

struct Child<'a> {
    work: Work,
    keys: &'a Integers,
    is_tracked: bool,
}

impl Child<'_> {
    fn key(&self, id: u64) -> u64 {
        self.keys.token(Pick::Id(id), &mut Vec::new())
    }

    fn keys_of(&self, from: u64) -> Vec<u64> {
        let count = self.keys.count();
        let chosen = (0..OPERATIONS).map(|at| match self.work {
            Work::Insert => count + from + at,
            _ => (at * 7919 + 13) % count,
        });
        chosen.map(|id| self.key(id)).collect()
    }

    fn perform(&self, session: &mut impl Session<u64>, keys: &[u64]) {
        match self.work {
            Work::Get => keys.iter().for_each(|key| {
                black_box(session.get(key));
            }),
            Work::Batch => {
                let mut values = Vec::with_capacity(BATCH);
                for keys in keys.chunks(BATCH) {
                    let keys: [&u64; BATCH] = std::array::from_fn(|at| &keys[at]);
                    session.get_batch(&keys, &mut values);
                }
            }
            Work::Update => keys.iter().for_each(|key| {
                black_box(session.update(key, 1).is_ok());
            }),
            Work::Insert => keys.iter().for_each(|key| {
                black_box(session.insert(key, 1).is_ok());
            }),
            Work::ShortScan => keys.iter().for_each(|key| {
                black_box(session.scan(key, 10));
            }),
            Work::LongScan => keys.iter().for_each(|key| {
                black_box(session.scan(key, 90));
            }),
            Work::Look => {}
        }
    }
}

/// What callgrind counts: the name is known to [`count`].
#[inline(never)]
fn operations_under_count(operations: &mut dyn FnMut()) {
    operations();
}

impl PlacedVisitor<u64> for Child<'_> {
    type Output = (f64, f64);

    fn visit<M: PlacedMap<u64>>(self, map: M) -> (f64, f64) {
        let tracking = match self.is_tracked {
            true => Tracking::Leaf,
            false => Tracking::Off,
        };
        map.tree().frontend().set_tracking(tracking);
        let mut session = map.session(&Native);
        for id in 0..self.keys.count() {
            session.insert(&self.key(id), id).expect("there is memory");
        }
        let log = AccessLog::new();
        let keys = self.keys_of(0);
        self.perform(&mut map.session(&log), &keys);
        let accesses = log.take().len();
        if self.work == Work::Look {
            let mut leaves = 0_u64;
            let mut uses = 0_u64;
            operations_under_count(&mut || {
                let _ = map.tree().visit_leaves(&mut |leaf| {
                    leaves += 1;
                    uses += u64::from(leaf.counter.uses());
                    ControlFlow::Continue(())
                });
            });
            black_box(uses);
            return (1.0, leaves as f64);
        }
        let keys = self.keys_of(OPERATIONS);
        operations_under_count(&mut || self.perform(&mut session, &keys));
        let mut fastest_ns = f64::INFINITY;
        if self.work == Work::Get {
            for _ in 0..200 {
                let began = Instant::now();
                self.perform(&mut session, &keys);
                fastest_ns = fastest_ns.min(began.elapsed().as_nanos() as f64);
            }
        }
        let per_operation = OPERATIONS as f64;
        (accesses as f64 / per_operation, fastest_ns / per_operation)
    }
}

/// Instructions and accesses of an operation.
fn count(tree: Contestant, work: Work, keys: u64, is_tracked: bool) -> anyhow::Result<(f64, f64)> {
    let program = std::env::current_exe()?;
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*operations_under_count*")
        .arg(program)
        .args([
            "--tree",
            tree.name(),
            "--keys",
            &keys.to_string(),
            "--child",
        ])
        .arg(work.to_possible_value().context("a name")?.get_name())
        .args(is_tracked.then_some("--tracked"));
    let output = command
        .output()
        .context("callgrind, a tool of valgrind, is needed")?;
    let told = String::from_utf8_lossy(&output.stderr);
    let collected = told
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let (_, collected) = collected.with_context(|| format!("callgrind said {told}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut printed = printed.split_whitespace();
    let accesses: f64 = printed.next().context("accesses")?.parse()?;
    let last: f64 = printed.next().context("leaves")?.parse()?;
    let times = if work == Work::Look {
        last
    } else {
        OPERATIONS as f64
    };
    Ok((collected.trim().parse::<f64>()? / times, accesses))
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(work) = arguments.child {
        let keys = Integers::new(arguments.keys);
        let child = Child {
            work,
            keys: &keys,
            is_tracked: arguments.tracked,
        };
        let (accesses, ns) =
            u64::open_placed(arguments.tree[0], WORD_BYTES, &PlatformMemory, child)?;
        println!("{accesses} {ns}");
        return Ok(());
    }
    if arguments.tracking {
        println!("tree instructions_of_a_lookup tracked more_percent");
        for tree in arguments.tree {
            let (plain, _) = count(tree, Work::Get, LARGE, false)?;
            let (tracked, _) = count(tree, Work::Get, LARGE, true)?;
            let more = (tracked / plain - 1.0) * 100.0;
            println!("{tree} {plain:.1} {tracked:.1} {more:.1}");
        }
        return Ok(());
    }
    println!("tree operation per_operation per_access (small: instructions, accesses; large)");
    for tree in arguments.tree {
        let (instructions, _) = count(tree, Work::Look, LARGE, true)?;
        println!("{tree} Look {instructions:.0}");
        for work in [
            Work::Get,
            Work::Batch,
            Work::Update,
            Work::Insert,
            Work::ShortScan,
        ] {
            let (large_work, large_keys) = match work {
                Work::ShortScan => (Work::LongScan, SMALL),
                _ => (work, LARGE),
            };
            let small = count(tree, work, SMALL, true)?;
            let large = count(tree, large_work, large_keys, true)?;
            let access = (large.0 - small.0) / (large.1 - small.1);
            // Trees as high as each other tell accesses and operations not apart.
            let access = if (large.1 - small.1).abs() < 0.5 {
                15.0
            } else {
                access
            };
            let operation = small.0 - access * small.1;
            println!(
                "{tree} {work:?} {operation:.0} {access:.1} ({:.0}, {:.1}; {:.0}, {:.1})",
                small.0, small.1, large.0, large.1
            );
        }
    }
    Ok(())
}
