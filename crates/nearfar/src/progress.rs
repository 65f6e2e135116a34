//! Progress on stderr, where that is a terminal.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use nearfar_durable::log::RecoveryProgress;
use nearfar_topology::units::Bytes;

use crate::human::{BytesPerSecond, Count};

/// What takes less is over before anybody could read it.
const QUIET: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_millis(100);

/// A line that says what is going on, and goes on saying it until it is dropped.
pub struct Spinner {
    bar: Option<ProgressBar>,
}

impl Spinner {
    /// Shows `text`, asked for again and again; nothing while it is empty, or without a terminal.
    pub fn new(text: impl Fn() -> String + Send + Sync + 'static) -> Self {
        let bar = is_shown().then(|| spin(text));
        Self { bar }
    }
}

fn spin(text: impl Fn() -> String + Send + Sync + 'static) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let started = Instant::now();
    let text = Arc::new(text);
    let line = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
        if started.elapsed() >= QUIET {
            // A line that cannot be shown is no loss.
            let _ = out.write_str(&text());
        }
    };
    if let Ok(style) = ProgressStyle::with_template("{line}") {
        bar.set_style(style.with_key("line", line));
    }
    bar.enable_steady_tick(TICK);
    bar
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

type Text = Box<dyn Fn() -> String + Send>;

/// What a spinner shows, to be changed while it does.
#[derive(Clone, Default)]
pub struct Live {
    text: Arc<Mutex<Option<Text>>>,
}

impl Live {
    /// Shows this text.
    pub fn say(&self, text: String) {
        self.follow(move || text.clone());
    }

    /// Shows what `text` gives at every moment.
    pub fn follow(&self, text: impl Fn() -> String + Send + 'static) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(text));
    }

    /// The line that shows it, until it is dropped.
    pub fn spinner(&self) -> Spinner {
        let shown = self.clone();
        Spinner::new(move || shown.text())
    }

    /// What is to be shown now.
    fn text(&self) -> String {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        text.as_ref().map(|text| text()).unwrap_or_default()
    }
}

/// Whether anybody sees progress.
pub fn is_shown() -> bool {
    io::stderr().is_terminal()
}

/// How far the loading of a table has come.
pub fn loading(table: &str, rows: u64, bytes: u64, elapsed: Duration) -> String {
    if rows == 0 {
        return format!("loading {table}");
    }
    format!("loading {table}: {}", amount(rows, bytes, elapsed))
}

/// How far the log behind the last checkpoint has been carried out.
pub fn recovering(progress: &RecoveryProgress) -> String {
    format!(
        "reading the log: {} of {}, {} transactions",
        Bytes(progress.bytes),
        Bytes(progress.total_bytes),
        Count(progress.transactions)
    )
}

/// What was loaded, and how fast.
pub fn amount(rows: u64, bytes: u64, elapsed: Duration) -> String {
    let rate = BytesPerSecond(bytes as f64 / elapsed.as_secs_f64().max(1e-6));
    format!("{} rows, {}, {rate}", Count(rows), Bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_told_with_what_is_left() {
        let progress = RecoveryProgress {
            bytes: 1 << 20,
            total_bytes: 2 << 20,
            transactions: 1_024,
            cut_bytes: 0,
        };
        assert_eq!(
            recovering(&progress),
            "reading the log: 1.00 MiB of 2.00 MiB, 1,024 transactions"
        );
    }

    #[test]
    fn a_load_is_told_with_its_rate() {
        let second = Duration::from_secs(1);
        assert_eq!(loading("t", 0, 0, second), "loading t");
        assert_eq!(
            loading("t", 1_500, 2 << 20, second),
            "loading t: 1,500 rows, 2.00 MiB, 2.10 MB/s"
        );
    }
}
