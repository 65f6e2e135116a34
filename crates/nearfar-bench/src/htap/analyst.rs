//! Analysts, who ask one question after another.

use std::panic::resume_unwind;
use std::time::{Duration, Instant};

use super::freshness::Seen;
use super::queries::{NEXT_ORDERS, ORDERS, QUERIES};
use crate::tpcc::{Connection, Database, Failure};

/// One state of all tables for all that a transaction reads.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A question that was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// Which of [`QUERIES`].
    pub query: usize,
    /// When it was asked.
    pub began: Instant,
    /// How long the query alone took.
    pub took: Duration,
    /// What it has read.
    pub seen: Seen,
}

/// What analysts have done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Analysis {
    /// All answers.
    pub answered: Vec<Answered>,
    /// How many asked concurrently.
    pub analysts: usize,
}

impl Analysis {
    /// Answers per minute in which questions were answered: what is asked beside them, of orders, does not count.
    pub fn queries_per_minute(&self) -> f64 {
        let took = self.answered.iter().map(|answered| answered.took);
        let minutes = took.sum::<Duration>().as_secs_f64() / 60.0 / self.analysts as f64;
        match minutes > 0.0 {
            true => self.answered.len() as f64 / minutes,
            false => 0.0,
        }
    }

    /// Queries that have read more than one state.
    pub fn torn(&self) -> usize {
        let torn = |answered: &&Answered| !answered.seen.is_one_state();
        self.answered.iter().filter(torn).count()
    }
}

/// Has so many analysts ask for so long. `round` decides who begins with which question.
pub async fn analyse<D: Database>(
    database: &D,
    analysts: usize,
    (round, length): (usize, Duration),
) -> Result<Analysis, Failure> {
    let mut connections = Vec::new();
    for _ in 0..analysts {
        connections.push(database.connect().await?);
    }
    let started = Instant::now();
    let analysts: Vec<_> = connections
        .into_iter()
        .enumerate()
        .map(|(number, mut connection)| {
            tokio::spawn(async move {
                let mut answered = Vec::new();
                let mut next = round + number * QUERIES.len() / analysts;
                while started.elapsed() < length {
                    answered.push(ask(&mut connection, next % QUERIES.len()).await?);
                    next += 1;
                }
                Ok::<_, Failure>(answered)
            })
        })
        .collect();
    let mut analysis = Analysis {
        answered: Vec::new(),
        analysts: analysts.len(),
    };
    for analyst in analysts {
        let ended = analyst.await;
        let answered = ended.unwrap_or_else(|error| resume_unwind(error.into_panic()))?;
        analysis.answered.extend(answered);
    }
    Ok(analysis)
}

async fn ask<C: Connection>(connection: &mut C, query: usize) -> Result<Answered, Failure> {
    let began = Instant::now();
    connection.query(BEGIN).await?;
    let asked = Instant::now();
    connection.query(QUERIES[query].sql).await?;
    let took = asked.elapsed();
    let districts = connection.query(NEXT_ORDERS).await?;
    let orders = connection.query(ORDERS).await?;
    connection.commit().await?;
    Ok(Answered {
        query,
        began,
        took,
        seen: Seen::of(&districts, &orders)?,
    })
}
