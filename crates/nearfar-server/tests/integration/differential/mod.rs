//! Random tables and queries: answers must not depend on where tables lie, on how statements are
//! optimised, or on how a question is put, and must be PostgreSQL's where that is asked too.
//!
//! A seed decides the tables ([`tables`]) and what is asked of them ([`query`], [`check`]). The tables are
//! made in a server, whose placements change all the time ([`setup`]). A check that fails is made smaller
//! and shown as a script ([`case`]).

mod case;
mod check;
mod engines;
mod expression;
mod found;
mod kind;
mod node;
mod query;
mod random;
mod setup;
mod tables;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use case::Case;
use check::Check;
use query::Queries;
use random::Random;
use setup::{Setup, Verdict};
use tables::{Size, Tables};

use crate::support::{POSTGRES, not_tested};

/// How long the long run goes on.
const MINUTES: &str = "NEARFAR_DIFFERENTIAL_MINUTES";
/// What the first tables are made of; each of those that follow has the next number.
const SEED: &str = "NEARFAR_DIFFERENTIAL_SEED";
/// Checks over the same tables.
const CHECKS: usize = 60;
/// How long a failing check is made smaller.
const REDUCTION: Duration = Duration::from_secs(120);
/// Failures that the long run goes on after.
const FAILURES_MAX: usize = 20;

/// What came of all checks.
#[derive(Default)]
struct Counts {
    held: usize,
    /// Who else did not answer.
    unanswered: BTreeMap<String, usize>,
    skipped: BTreeMap<String, usize>,
    refused: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Counts {
    fn text(&self) -> String {
        let sum = |all: &BTreeMap<String, usize>| all.values().sum::<usize>();
        let mut text = format!(
            "{} held ({} times without the answer of another), {} skipped, {} refused, {} failed",
            self.held,
            sum(&self.unanswered),
            sum(&self.skipped),
            sum(&self.refused),
            self.failures.len()
        );
        let all = [
            ("unanswered", &self.unanswered),
            ("skipped", &self.skipped),
            ("refused", &self.refused),
        ];
        for (title, all) in all {
            for (message, count) in all {
                text.push_str(&format!("\n{title} {count}: {message}"));
            }
        }
        text
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A pipe whose reader has gone means that the test is over.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The beginning of a message, without what differs between statements.
fn summary(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.chars()
        .map(|letter| if letter.is_ascii_digit() { '0' } else { letter })
        .take(120)
        .collect()
}

/// Makes the tables of a seed and runs its checks.
async fn run_seed(seed: u64, size: Size, checks: usize, counts: &mut Counts) {
    let mut random = Random::new(seed);
    let tables = Tables::random(&mut random, size);
    let mut case = Case {
        tables,
        check: None,
    };
    let mut setup = match Setup::new(&case.tables, Some(seed)).await {
        Ok(setup) => setup,
        Err(failure) if failure.is_excused() => {
            *counts.skipped.entry(summary(&failure.message)).or_default() += 1;
            return;
        }
        Err(failure) => return fail(case, &failure.message, seed, counts).await,
    };
    let verdict = setup.compare_tables(&case.tables).await;
    if let Some(how) = count(verdict, counts) {
        return fail(case, &how, seed, counts).await;
    }
    let tables = case.tables.tables.clone();
    let mut queries = Queries::new(&mut random, &tables);
    for _ in 0..checks {
        let check = Check::random(&mut queries);
        let verdict = setup.check(&check, &case.tables).await;
        if let Verdict::Refused { message } = &verdict {
            say(&format!(
                "seed {seed}: refused: {message}\n{}",
                check.sql().0
            ));
        }
        if let Some(how) = count(verdict, counts) {
            case.check = Some(check);
            fail(case.clone(), &how, seed, counts).await;
        }
    }
    if let Some(problem) = setup.close().await {
        counts
            .failures
            .push(format!("-- seed {seed}: a move failed\n{problem}"));
    }
}

/// Counts a verdict; how it is a failure, if it is one.
fn count(verdict: Verdict, counts: &mut Counts) -> Option<String> {
    match verdict {
        Verdict::Holds { unanswered } => {
            counts.held += 1;
            for message in unanswered {
                *counts.unanswered.entry(summary(&message)).or_default() += 1;
            }
        }
        Verdict::Skipped { message } => *counts.skipped.entry(summary(&message)).or_default() += 1,
        Verdict::Refused { message } => *counts.refused.entry(summary(&message)).or_default() += 1,
        Verdict::Fails { how } => return Some(how),
    }
    None
}

async fn fail(case: Case, how: &str, seed: u64, counts: &mut Counts) {
    let sql = case.check.as_ref().map(|check| check.sql().0);
    say(&format!("seed {seed}: {how}\n{}", sql.unwrap_or_default()));
    let script = case.reduced(REDUCTION).await.script(seed).await;
    say(&script);
    counts.failures.push(script);
}

fn number_of(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number")),
    )
}

fn size_of(seed: u64) -> Size {
    match seed % 20 {
        7 => Size::Huge,
        3 | 13 => Size::Large,
        _ => Size::Small,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_are_answered_alike_however_they_are_put() {
    if std::env::var_os(POSTGRES).is_none() {
        not_tested(&format!("answers of PostgreSQL: {POSTGRES} names none"));
    }
    let mut counts = Counts::default();
    for seed in 1..=3 {
        run_seed(seed, size_of(seed), 25, &mut counts).await;
    }
    say(&counts.text());
    assert!(counts.failures.is_empty(), "{}", counts.failures.join("\n"));
    assert!(counts.held > 40, "{}", counts.text());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: .ci/nightly differential"]
async fn a_long_run_of_random_queries_is_answered_alike() {
    let first = number_of(SEED).unwrap_or_else(|| u64::from(std::process::id()) * 1000);
    let minutes = number_of(MINUTES).unwrap_or(60);
    let (begun, mut counts) = (Instant::now(), Counts::default());
    let mut seed = first;
    while begun.elapsed() < Duration::from_secs(minutes * 60)
        && counts.failures.len() < FAILURES_MAX
    {
        run_seed(seed, size_of(seed), CHECKS, &mut counts).await;
        let seconds = begun.elapsed().as_secs();
        say(&format!(
            "seed {seed} after {seconds} s: {} held, {} failed",
            counts.held,
            counts.failures.len()
        ));
        seed += 1;
    }
    say(&format!("seeds {first} to {seed}\n{}", counts.text()));
    assert!(counts.failures.is_empty(), "{}", counts.failures.join("\n"));
}
