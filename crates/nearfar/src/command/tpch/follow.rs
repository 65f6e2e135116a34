//! Progress of a run, on stderr.

use std::sync::Arc;
use std::time::Instant;

use nearfar_bench::tpch::{Event, Observer};
use nearfar_topology::units::Bytes;
use tracing::info;

use crate::human::{Count, Elapsed};
use crate::progress::{self, Live, Spinner};

/// Shows what a run is doing: a line on a terminal, and each step with `--verbose`.
#[derive(Default)]
pub struct Follower {
    live: Live,
}

impl Follower {
    /// The line, until it is dropped.
    pub fn spinner(&self) -> Spinner {
        self.live.spinner()
    }
}

impl Observer for Follower {
    fn on(&self, event: &Event<'_>) {
        match event {
            Event::Loading {
                table,
                expected_rows,
                progress,
            } => {
                let (table, expected, progress) = (*table, *expected_rows, Arc::clone(progress));
                let started = Instant::now();
                self.live.follow(move || {
                    let (rows, bytes) = (progress.rows(), progress.bytes());
                    let share = rows as f64 / expected.max(1) as f64 * 100.0;
                    let text = progress::loading(table, rows, bytes, started.elapsed());
                    format!("{text} ({:.0} %)", share.min(100.0))
                });
            }
            Event::Loaded {
                table,
                rows,
                stored_bytes,
                elapsed,
                ..
            } => {
                let (rows, bytes, elapsed) =
                    (Count(*rows), Bytes(*stored_bytes), Elapsed(*elapsed));
                info!("loaded {table}: {rows} rows in {bytes}, {elapsed}");
            }
            Event::Checking { query } => self.live.say(format!("checking the answer of q{query}")),
            Event::Counting { query } => self.live.say(format!("counting accesses of q{query}")),
            Event::Placing {
                placement,
                position,
                of,
            } => {
                info!("placement {placement} ({} of {of})", position + 1);
                self.live.say(format!(
                    "moving columns: {placement} ({} of {of})",
                    position + 1
                ));
            }
            Event::Ran {
                placement,
                run,
                query,
                elapsed,
            } => {
                info!("{placement}: run {run}, q{query}: {}", Elapsed(*elapsed));
                self.live.say(format!(
                    "{placement}: run {run}, q{query} took {}",
                    Elapsed(*elapsed)
                ));
            }
            _ => {}
        }
    }
}
