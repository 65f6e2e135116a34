//! Runs a script over the wire, in a server of its own.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::answer::fault;
use super::known::Known;
use super::script::{Expected, Record, Script};
use crate::asked::{Failure, Rows, ask};
use crate::support::{postgres, start};

/// How long one statement may take.
const STATEMENT_PATIENCE: Duration = Duration::from_secs(60);

/// What of a script is run, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One query in so many is run, and all statements.
    pub one_query_in: usize,
    pub file: Duration,
}

/// What came of a script.
#[derive(Debug, Default)]
pub struct Outcome {
    pub passed: usize,
    /// For other engines.
    pub foreign: usize,
    /// Not run, as one query in so many is, or as time was up.
    pub left_out: usize,
    pub is_cut_short: bool,
    /// Listed, or about what there is nothing of, such as indexes.
    pub unsupported: usize,
    /// Not as the script has it, but as PostgreSQL answers, or refuses, too.
    pub as_postgres: usize,
    pub failures: Vec<String>,
    /// Listed lines that do not fail.
    pub passing_now: Vec<usize>,
}

/// Runs a script; `file` is what it is called in the list.
pub async fn run(file: &str, text: &str, known: &Known, limits: Limits) -> Outcome {
    let mut outcome = Outcome::default();
    let script = match Script::parse(text) {
        Ok(script) => script,
        Err(error) => {
            outcome
                .failures
                .push(format!("{file}: not a script: {error}"));
            return outcome;
        }
    };
    outcome.foreign = script.foreign;
    if known.leaves_out(file) {
        outcome.unsupported = script.records.len();
        return outcome;
    }
    let server = start().await;
    let client = server.client().await;
    let limit = format!("SET statement_timeout = {}", STATEMENT_PATIENCE.as_millis());
    client.batch_execute(&limit).await.expect("set");
    let reference = Reference(postgres(STATEMENT_PATIENCE).await);
    let begun = Instant::now();
    let (mut failed, mut queries) = (BTreeSet::new(), 0);
    for (index, record) in script.records.iter().enumerate() {
        if begun.elapsed() > limits.file {
            outcome.left_out += script.records.len() - index;
            outcome.is_cut_short = true;
            return outcome;
        }
        if matches!(record.expected, Expected::Rows(_)) {
            queries += 1;
            if queries % limits.one_query_in != 0 {
                outcome.left_out += 1;
                continue;
            }
        }
        let Some(sql) = adapted(&record.sql) else {
            outcome.unsupported += 1;
            continue;
        };
        let answer = ask(&client, &sql).await;
        let theirs = reference.follow(record, &sql).await;
        let Some(failure) = failure(record, answer.clone()) else {
            outcome.passed += 1;
            continue;
        };
        let theirs = match theirs {
            None => reference.ask(&sql).await,
            some => some,
        };
        if theirs.is_some_and(|theirs| are_alike(answer, theirs)) {
            outcome.as_postgres += 1;
            continue;
        }
        failed.insert(record.line);
        if known.has(file, record.line, &failure) {
            outcome.unsupported += 1;
            continue;
        }
        let (line, sql) = (record.line, record.sql.replace('\n', " "));
        let failure = format!("{file}:{line}: {failure}\n    {sql}");
        outcome.failures.push(failure);
    }
    if limits.one_query_in == 1 {
        outcome.passing_now = known.not_among(file, &failed);
    }
    outcome
}

/// A statement, unless it is one that there is nothing of and no answer depends on.
fn adapted(sql: &str) -> Option<String> {
    let first = sql.split_whitespace().next().unwrap_or_default();
    (!first.eq_ignore_ascii_case("REINDEX")).then(|| sql.to_owned())
}

type Answer = Result<Rows, Failure>;

/// PostgreSQL with the same tables, where there is one: it decides where an answer is not the script's,
/// whose values come from SQLite.
struct Reference(Option<Client>);

impl Reference {
    /// Changes its tables as a statement does that is not a query.
    async fn follow(&self, record: &Record, sql: &str) -> Option<Answer> {
        match record.expected {
            Expected::Rows(_) => None,
            Expected::Success | Expected::Error => self.ask(sql).await,
        }
    }

    async fn ask(&self, sql: &str) -> Option<Answer> {
        match &self.0 {
            Some(client) => Some(ask(client, sql).await),
            None => None,
        }
    }
}

/// Whether two answers have the same rows in any order, or the same SQLSTATE. Quotients have some digits more
/// in PostgreSQL.
fn are_alike(ours: Answer, theirs: Answer) -> bool {
    let normal = |mut rows: Rows| {
        rows.iter_mut().flatten().flatten().for_each(shorten);
        rows.sort_unstable();
        rows
    };
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => normal(ours) == normal(theirs),
        (Err(ours), Err(theirs)) => ours.code.is_some() && ours.code == theirs.code,
        _ => false,
    }
}

/// Nine digits of a number with some behind the point.
fn shorten(value: &mut String) {
    if let (true, Ok(number)) = (value.contains('.'), value.parse::<f64>()) {
        *value = format!("{number:.9e}");
    }
}

fn failure(record: &Record, answer: Answer) -> Option<String> {
    match (&record.expected, answer) {
        (Expected::Error, Err(_)) | (Expected::Success, Ok(_)) => None,
        (Expected::Error, Ok(_)) => Some("an error was expected".to_owned()),
        (Expected::Rows(expected), Ok(rows)) => fault(rows, expected),
        (_, Err(Failure { code, message })) => Some([code.unwrap_or_default(), message].join(" ")),
    }
}
