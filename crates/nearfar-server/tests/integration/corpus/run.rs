//! Runs a script over the wire, in a server of its own.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, SimpleQueryMessage};

use super::answer::fault;
use super::known::Known;
use super::script::{Expected, Record, Script};
use crate::support::start;

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
        let Some(failure) = failure(&client, record, &sql).await else {
            outcome.passed += 1;
            continue;
        };
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

/// A statement without what there is nothing of and no answer depends on: keys and indexes.
fn adapted(sql: &str) -> Option<String> {
    let words: Vec<_> = sql
        .split_whitespace()
        .take(3)
        .map(str::to_uppercase)
        .collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["CREATE" | "DROP", "INDEX", ..] | ["CREATE", "UNIQUE", "INDEX"] | ["REINDEX", ..] => None,
        ["CREATE", "TABLE", ..] => Some(sql.replace(" PRIMARY KEY", "").replace(" UNIQUE", "")),
        _ => Some(sql.to_owned()),
    }
}

async fn failure(client: &Client, record: &Record, sql: &str) -> Option<String> {
    let result = client.simple_query(sql).await;
    match (&record.expected, result) {
        (Expected::Error, Err(_)) | (Expected::Success, Ok(_)) => None,
        (Expected::Error, Ok(_)) => Some("an error was expected".to_owned()),
        (Expected::Rows(expected), Ok(messages)) => {
            let rows = messages.into_iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(
                    (0..row.len())
                        .map(|index| row.get(index).map(str::to_owned))
                        .collect(),
                ),
                _ => None,
            });
            fault(rows.collect(), expected)
        }
        (_, Err(error)) => Some(match error.as_db_error() {
            Some(error) => format!("{} {}", error.code().code(), error.message()),
            None => error.to_string(),
        }),
    }
}
