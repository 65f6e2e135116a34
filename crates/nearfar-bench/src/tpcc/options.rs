//! What is run.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::error::TpccError;
use super::random::Constants;
use super::rows::{Rows, Sizes};
use super::wire::us_of;

/// How terminals reach the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Over PostgreSQL's protocol, with prepared statements.
    Wire,
    /// As functions in Rust over sessions of the engine, in this process.
    InProcess,
}

impl Way {
    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::InProcess => "in-process",
        }
    }
}

/// Whose database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// Nearfar's.
    Nearfar,
    /// PostgreSQL's.
    Postgres,
}

impl System {
    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nearfar => "nearfar",
            Self::Postgres => "postgres",
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nearfar => "Nearfar",
            Self::Postgres => "PostgreSQL",
        })
    }
}

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct TpccOptions {
    /// The program whose server is measured.
    pub program: PathBuf,
    /// Threads of the server for each kind of query.
    pub threads: usize,
    /// Warehouses.
    pub warehouses: u32,
    /// One of so many items and customers is there; 1 for the specification's sizes.
    pub shrink: u32,
    /// Concurrent terminals.
    pub terminals: usize,
    /// Times that each database has its turn.
    pub rounds: u32,
    /// For how long each time.
    pub turn: Duration,
    /// For how long each database runs before, which does not count.
    pub warmup: Duration,
    /// Whether input takes time to be keyed in, and output to be thought about.
    pub thinks: bool,
    /// How Nearfar is reached, each with a database of its own.
    pub ways: Vec<Way>,
    /// Whether PostgreSQL is measured beside it, over the wire.
    pub beside_postgres: bool,
    /// Whether commits are waited for until they are on disk, in all databases.
    pub durable: bool,
    /// Times that Nearfar's server is killed while terminals run, and started again. Takes `durable` and
    /// [`Way::Wire`].
    pub kills: u32,
    /// The seed of rows and inputs.
    pub seed: u64,
    /// The folder below which those for data are made.
    pub directory: PathBuf,
}

impl TpccOptions {
    /// The sizes of the tables.
    pub fn sizes(&self) -> Sizes {
        Sizes::new(self.warehouses, self.shrink)
    }

    /// The rows that tables have at first, as of now.
    pub(crate) fn rows(&self) -> Rows {
        Rows {
            sizes: self.sizes(),
            constants: Constants::new(self.seed),
            seed: self.seed,
            time_us: us_of(SystemTime::now()),
        }
    }

    /// Refuses what can't be carried out.
    pub(super) fn check(&self) -> Result<(), TpccError> {
        let over_wire = self.ways.contains(&Way::Wire);
        let refused = [
            (self.warehouses == 0, "warehouses", "give at least one"),
            (self.terminals == 0, "terminals", "give at least one"),
            (self.ways.is_empty(), "way", "give at least one"),
            (
                self.kills > 0 && !(self.durable && over_wire),
                "kills",
                "only what is durable and reached over the wire is there after a kill",
            ),
        ];
        match refused.into_iter().find(|(is_refused, ..)| *is_refused) {
            Some((_, option, reason)) => Err(TpccError::Options { option, reason }),
            None => Ok(()),
        }
    }
}
