//! Rounds of every workload with every number of clients.

use std::path::PathBuf;
use std::time::Duration;

use nearfar_sql::scratch::ScratchFolder;

use super::ceiling::Ceiling;
use super::error::OltpError;
use super::in_process::InProcess;
use super::pgbench::Filled;
use super::postgres::{Postgres, Upkeep};
use super::workload::Workload;
use crate::server_process::ServerProcess;

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct OltpOptions {
    /// The program whose server is measured.
    pub program: PathBuf,
    /// Threads of the server for each kind of query.
    pub threads: usize,
    /// Scale of `pgbench`'s tables: 100,000 accounts each.
    pub scale: u32,
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// Times that each server has its turn.
    pub rounds: u32,
    /// For how long each time, in whole seconds.
    pub turn: Duration,
    /// Whether PostgreSQL is measured beside it.
    pub beside_postgres: bool,
    /// Whether a server that does nothing but answer is measured too.
    pub with_ceiling: bool,
    /// Whether commits wait for the disk, PostgreSQL's too.
    pub durable: bool,
    /// The folder below which those for scripts, data and PostgreSQL's files are made.
    pub directory: PathBuf,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct OltpOutcome {
    /// What was asked for.
    pub options: OltpOptions,
    /// Every workload with every number of clients.
    pub rounds: Vec<OltpRounds>,
    /// Statements without a connection.
    pub in_process: InProcess,
}

/// The rounds of a workload with a number of clients.
#[derive(Debug, Clone, PartialEq)]
pub struct OltpRounds {
    /// What clients did.
    pub workload: Workload,
    /// How many of them.
    pub clients: usize,
    /// Nearfar's transactions per second, round by round.
    pub per_s: Vec<f64>,
    /// PostgreSQL's in the same rounds, if it was measured.
    pub postgres_per_s: Vec<f64>,
    /// Those of a server that does nothing but answer, likewise.
    pub ceiling_per_s: Vec<f64>,
}

impl OltpRounds {
    /// None yet.
    fn new(workload: Workload, clients: usize) -> Self {
        Self {
            workload,
            clients,
            per_s: Vec::new(),
            postgres_per_s: Vec::new(),
            ceiling_per_s: Vec::new(),
        }
    }
}

/// Measures all that goes over the wire, beside `in_process`, which was measured before. `follow` is told what
/// is next.
///
/// # Errors
/// Programs that are not installed or fail, and transactions that fail.
pub fn measure_oltp(
    options: &OltpOptions,
    in_process: InProcess,
    mut follow: impl FnMut(String),
) -> Result<OltpOutcome, OltpError> {
    let scripts = ScratchFolder::make(&options.directory, "pgbench");
    let scripts = scripts.map_err(|source| OltpError::Run {
        program: "pgbench".to_owned(),
        source,
    })?;
    let most = options.clients.iter().max().copied().unwrap_or(1);
    // Removed once the server has ended.
    let data = options.durable.then(|| scripts.path().join("data"));
    let server = ServerProcess::start(&options.program, options.threads, data.as_deref())?;
    let postgres = match options.beside_postgres {
        true => {
            let upkeep = match options.durable {
                true => Upkeep::Durable,
                false => Upkeep::InMemory,
            };
            Some(Postgres::start(&options.directory, most, upkeep)?)
        }
        false => None,
    };
    follow(format!("filling tables of scale {}", options.scale));
    let nearfar = ("Nearfar", server.address, "nearfar");
    let nearfar = Filled::fill(nearfar, options.scale, scripts.path())?;
    let rival = postgres.as_ref().map(|postgres| {
        let postgres = ("PostgreSQL", postgres.address, "postgres");
        Filled::fill(postgres, options.scale, scripts.path())
    });
    let rival = rival.transpose()?;
    let mut rounds = Vec::new();
    for workload in Workload::ALL {
        for clients in &options.clients {
            follow(format!("{}, clients: {clients}", workload.name()));
            let run = |server: &Filled<'_>| server.run(workload, *clients, options.turn);
            let mut measured = OltpRounds::new(workload, *clients);
            for _ in 0..options.rounds {
                measured.per_s.push(run(&nearfar)?);
                let postgres_per_s = rival.as_ref().map(run).transpose()?;
                measured.postgres_per_s.extend(postgres_per_s);
                if options.with_ceiling {
                    // Only while it is measured: its thread takes a processor from others.
                    let ceiling = start_ceiling()?;
                    let name = ("a server that only answers", ceiling.address, "ceiling");
                    let highest = Filled::as_it_is(name, scripts.path())?;
                    measured.ceiling_per_s.push(run(&highest)?);
                }
            }
            rounds.push(measured);
        }
    }
    Ok(OltpOutcome {
        options: options.clone(),
        rounds,
        in_process,
    })
}

fn start_ceiling() -> Result<Ceiling, OltpError> {
    Ceiling::start().map_err(|source| OltpError::Run {
        program: "a server that only answers".to_owned(),
        source,
    })
}
