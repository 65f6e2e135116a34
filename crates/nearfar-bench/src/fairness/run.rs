//! Rounds with one kind of hostile statement each.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::error::FairnessError;
use super::statements::{FAR_TABLE, Hostile, Question, TABLES};
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
    /// The profile whose far tier is modelled; none for the machine's own.
    pub profile: Option<String>,
    /// What may be moved from far memory where that is limited.
    pub far_bytes_per_s: u64,
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
    /// How long hostile statements took. None where there is no far memory that they could read.
    pub times: Option<Vec<Duration>>,
}

/// Measures a server with one kind of statement after the other. `follow` is told what is next.
///
/// # Errors
/// A server that does not start or breaks, and questions that fail.
pub fn measure_fairness(
    options: &FairnessOptions,
    mut follow: impl FnMut(Hostile),
) -> Result<FairnessOutcome, FairnessError> {
    let mut args = ServerProcess::arguments(options.threads);
    if let Some(profile) = &options.profile {
        args.extend(["--profile", profile].map(OsString::from));
    }
    let server = ServerProcess::start_with(&options.program, &args)?;
    let mut client = Client::connect(server.address)?;
    for table in TABLES {
        client.must(table)?;
    }
    // Without a far tier there is no such tablespace.
    let has_far = client.run(FAR_TABLE)?.is_none();
    let mut rounds = Vec::new();
    for statement in &options.statements {
        if statement.is_far() && !has_far {
            rounds.push(FairnessRound {
                statement: *statement,
                waits: Vec::new(),
                times: None,
            });
            continue;
        }
        follow(*statement);
        if matches!(statement, Hostile::LimitedFarScan) {
            let bytes = options.far_bytes_per_s;
            client.must(&format!("SET far_bandwidth = '{bytes}B/s'"))?;
        }
        rounds.push(round(options, *statement, server.address)?);
    }
    Ok(FairnessOutcome {
        rounds,
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
            times: Some(times),
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
