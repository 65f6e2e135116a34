//! Inserts per second in memory and with a data directory under each setting of `log_sync`, as ratios
//! of one run.
//!
//! ```sh
//! cargo run --release -p nearfar-store --example insert-throughput [FOLDER]
//! ```
//!
//! The data directory is made below FOLDER, or where temporary files go; what a write to disk costs is
//! that of the disk there. The settings take turns, round by round, and the median counts.
#![allow(clippy::print_stdout)]

use nearfar_store::durable::{DataOptions, LogSync};
use nearfar_store::engine::{Engine, EngineOptions};
use nearfar_store::error::StoreError;
use nearfar_topology::Topology;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1500);

/// A way to insert: its name, when commits are on disk, how many sessions, and rows per statement.
struct Contestant {
    name: &'static str,
    sync: Option<LogSync>,
    sessions: usize,
    rows: usize,
}

fn contestants() -> Vec<Contestant> {
    let every = LogSync::Every(Duration::from_millis(200));
    let with = |name, sync, sessions, rows| Contestant {
        name,
        sync,
        sessions,
        rows,
    };
    vec![
        with("in memory", None, 1, 1),
        with("log_sync off", Some(LogSync::Off), 1, 1),
        with("log_sync 200ms", Some(every), 1, 1),
        with("log_sync on", Some(LogSync::On), 1, 1),
        with("in memory, 16 sessions", None, 16, 1),
        with("log_sync on, 16 sessions", Some(LogSync::On), 16, 1),
        with("in memory, 1000 rows each", None, 1, 1000),
        with("log_sync on, 1000 rows each", Some(LogSync::On), 1, 1000),
    ]
}

/// Rows per second, and transactions for each write to disk.
async fn run(contestant: &Contestant, folder: &Path) -> Result<(f64, f64), Box<dyn Error>> {
    let directory = tempfile::tempdir_in(folder)?;
    let data = contestant.sync.map(|sync| DataOptions {
        sync,
        ..DataOptions::new(directory.path())
    });
    let engine = Engine::new(EngineOptions {
        data,
        ..EngineOptions::new(Topology::this_machine()?)
    })?;
    let session = engine.session();
    session
        .execute("CREATE TABLE t (a BIGINT, b VARCHAR)")
        .await?;
    let values = vec!["(1, 'some text that is no longer than a line')"; contestant.rows];
    let insert = Arc::new(format!("INSERT INTO t VALUES {}", values.join(", ")));
    let started = Instant::now();
    let clients = (0..contestant.sessions).map(|_| {
        let (session, insert) = (engine.session(), Arc::clone(&insert));
        tokio::spawn(async move {
            let mut inserts = 0u64;
            while started.elapsed() < ROUND {
                session.execute(&insert).await?;
                inserts += 1;
            }
            Ok::<u64, StoreError>(inserts)
        })
    });
    let mut inserts = 0;
    for client in clients.collect::<Vec<_>>() {
        inserts += client.await??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let syncs = engine.database().log().map_or(0, |log| log.status().syncs);
    let rows = inserts as f64 * contestant.rows as f64;
    Ok((rows / seconds, inserts as f64 / syncs.max(1) as f64))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1);
    let folder = folder.map_or_else(std::env::temp_dir, Into::into);
    let contestants = contestants();
    let mut rates = vec![Vec::new(); contestants.len()];
    let mut shares = vec![Vec::new(); contestants.len()];
    for _ in 0..ROUNDS {
        for (index, contestant) in contestants.iter().enumerate() {
            let (rate, share) = run(contestant, &folder).await?;
            rates[index].push(rate);
            shares[index].push(share);
        }
    }
    let base = median(rates[0].clone());
    println!(
        "{:<30} {:>12} {:>10} {:>18}",
        "", "rows/s", "ratio", "commits per write"
    );
    for (index, contestant) in contestants.iter().enumerate() {
        let rate = median(rates[index].clone());
        let share = match contestant.sync {
            Some(_) => format!("{:.1}", median(shares[index].clone())),
            None => String::new(),
        };
        let ratio = rate / base;
        println!(
            "{:<30} {rate:>12.0} {ratio:>10.3} {share:>18}",
            contestant.name
        );
    }
    Ok(())
}
