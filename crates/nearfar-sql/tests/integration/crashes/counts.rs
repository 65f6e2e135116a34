//! What a run of kills has met.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::round::Layout;

/// Counts of a run.
#[derive(Debug, Default)]
pub struct Counts {
    /// Kills of processes that lived.
    pub of_layout: BTreeMap<Layout, u64>,
    /// What processes were doing when they were killed.
    pub moments: BTreeMap<&'static str, u64>,
    /// What their clients were doing.
    pub steps: BTreeMap<String, u64>,
    /// Transactions and definitions that were acknowledged.
    pub acknowledged: u64,
    /// Those that were refused to a process which had lost its pool.
    pub refused: u64,
    /// Those that failed since another client was in their way: a key that was there, a deadlock.
    pub lost: u64,
    /// Those that were not acknowledged, and are there.
    pub found: u64,
    /// Those that were not acknowledged, and are not there.
    pub not_found: u64,
    /// Where processes found the tables that they began with.
    pub origins: BTreeMap<String, u64>,
    /// Pools that were taken from another process that lived or had just been killed, by how.
    pub hand_overs: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// All kills.
    pub fn kills(&self) -> u64 {
        self.of_layout.values().sum()
    }

    /// For people.
    pub fn text(&self, time: Duration) -> String {
        let mut text = format!("{} kills in {:.0} s\n", self.kills(), time.as_secs_f64());
        let layouts = self.of_layout.iter().map(|(layout, n)| (layout.name(), *n));
        line(&mut text, "kills with", layouts);
        line(&mut text, "processes were", self.moments.iter().map(pair));
        line(
            &mut text,
            "their clients were in",
            self.steps.iter().map(pair),
        );
        line(&mut text, "restarts from", self.origins.iter().map(pair));
        line(&mut text, "hand-overs", self.hand_overs.iter().map(pair));
        let transactions = [
            ("acknowledged", self.acknowledged),
            ("in doubt and found", self.found),
            ("in doubt and not found", self.not_found),
            ("in another's way", self.lost),
            ("refused after a take-over", self.refused),
        ];
        line(&mut text, "transactions", transactions.into_iter());
        text.push_str("lost 0, twice 0, torn 0");
        text
    }
}

fn pair<'a, K: AsRef<str>>((name, count): (&'a K, &u64)) -> (&'a str, u64) {
    (name.as_ref(), *count)
}

fn line<'a>(text: &mut String, what: &str, counts: impl Iterator<Item = (&'a str, u64)>) {
    let counts: Vec<String> = counts.map(|(name, n)| format!("{name} {n}")).collect();
    let _ = writeln!(text, "  {what}: {}", counts.join(", "));
}
