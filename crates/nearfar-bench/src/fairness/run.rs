//! Rounds with one kind of hostile statement each.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::error::FairnessError;
use super::statements::{Hostile, Question, TABLES};
use crate::server_process::ServerProcess;

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct FairnessOptions {
    /// The program whose server is measured.
    pub program: PathBuf,
    /// Threads of the server for each kind of query.
    pub threads: usize,
    /// Sessions that run the hostile statement.
    pub sessions: usize,
    /// The limit of time of hostile statements.
    pub limit: Duration,
    /// For how long each of them is run again and again.
    pub turn: Duration,
    /// Which of them.
    pub statements: Vec<Hostile>,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct FairnessOutcome {
    /// What was asked for.
    pub options: FairnessOptions,
    /// One round for each statement.
    pub rounds: Vec<FairnessRound>,
}

/// One kind of hostile statement.
#[derive(Debug, Clone, PartialEq)]
pub struct FairnessRound {
    /// Which one.
    pub statement: Hostile,
    /// How long the peer waited for its answers, each kind of question in ascending order.
    pub waits: Vec<(Question, Vec<Duration>)>,
    /// How long hostile statements took.
    pub times: Vec<Duration>,
}

/// Measures a server with one kind of statement after the other. `follow` is told what is next.
///
/// # Errors
/// A server that does not start or breaks, and questions that fail.
pub fn measure_fairness(
    options: &FairnessOptions,
    mut follow: impl FnMut(Hostile),
) -> Result<FairnessOutcome, FairnessError> {
    let server = ServerProcess::start(&options.program, options.threads, None)?;
    let mut client = Client::connect(server.address)?;
    for table in TABLES {
        client.must(table)?;
    }
    let rounds = options.statements.iter().map(|statement| {
        follow(*statement);
        round(options, *statement, server.address)
    });
    Ok(FairnessOutcome {
        rounds: rounds.collect::<Result<_, _>>()?,
        options: options.clone(),
    })
}

fn round(
    options: &FairnessOptions,
    statement: Hostile,
    address: SocketAddr,
) -> Result<FairnessRound, FairnessError> {
    let is_over = AtomicBool::new(false);
    let sql = statement.sql();
    thread::scope(|scope| {
        let hostile = sql.as_deref().map(|sql| {
            let run = || again_and_again(address, sql, options.limit, &is_over);
            let sessions = (0..options.sessions).map(|_| scope.spawn(run));
            sessions.collect::<Vec<_>>()
        });
        let waits = ask(address, options.turn);
        // Whatever became of the peer, the others end.
        is_over.store(true, Ordering::Relaxed);
        let mut times = Vec::new();
        for session in hostile.into_iter().flatten() {
            times.extend(session.join().map_err(|_| FairnessError::Panicked)??);
        }
        Ok(FairnessRound {
            statement,
            waits: waits?,
            times,
        })
    })
}

/// Runs a hostile statement until the round is over. How long each took.
fn again_and_again(
    address: SocketAddr,
    sql: &str,
    limit: Duration,
    is_over: &AtomicBool,
) -> Result<Vec<Duration>, FairnessError> {
    let mut client = Client::connect(address)?;
    client.must(&format!("SET statement_timeout = {}", limit.as_millis()))?;
    let mut times = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        // Whether it comes to its end or not.
        client.run(sql)?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

/// Asks all questions in turn for as long as the round takes.
fn ask(
    address: SocketAddr,
    turn: Duration,
) -> Result<Vec<(Question, Vec<Duration>)>, FairnessError> {
    let mut client = Client::connect(address)?;
    let mut waits = Question::ALL
        .map(|question| (question, Vec::new()))
        .to_vec();
    let begun = Instant::now();
    while begun.elapsed() < turn {
        for (question, waits) in &mut waits {
            let asked = Instant::now();
            client.must(question.sql())?;
            waits.push(asked.elapsed());
        }
    }
    waits.iter_mut().for_each(|(_, waits)| waits.sort());
    Ok(waits)
}
