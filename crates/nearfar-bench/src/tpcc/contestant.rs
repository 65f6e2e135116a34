//! A database that takes turns, with the server that it is in.

use std::sync::Arc;

use nearfar_durable::log::{DataOptions, LogSync};
use nearfar_sql::engine::Engine;
use nearfar_sql::error::EngineError;
use nearfar_sql::scratch::ScratchFolder;

use super::connection::Database;
use super::consistency::broken_conditions;
use super::error::{Failure, TpccError};
use super::in_process::EngineDatabase;
use super::load::load;
use super::options::{System, TpccOptions, Way};
use super::rows::{Rows, Sizes};
use super::terminal::{Turn, TurnOutcome, take_turn};
use super::value::Row;
use super::wire::WireDatabase;
use crate::oltp::postgres::{Postgres, Upkeep};
use crate::server_process::ServerProcess;

/// One that takes part.
pub struct Contestant {
    /// Whose database it is.
    pub system: System,
    /// How it is reached.
    pub way: Way,
    reached: Reached,
    /// Removed once the server has ended.
    data: Option<ScratchFolder>,
}

enum Reached {
    Nearfar(ServerProcess),
    Postgres(Postgres),
    InProcess(EngineDatabase),
}

impl Contestant {
    /// Nearfar's server.
    pub fn server(options: &TpccOptions) -> Result<Self, TpccError> {
        let data = data_folder(options)?;
        let server = start(options, data.as_ref())?;
        Ok(Self {
            system: System::Nearfar,
            way: Way::Wire,
            reached: Reached::Nearfar(server),
            data,
        })
    }

    /// An engine in this process.
    pub fn engine(
        options: &TpccOptions,
        engine: &mut impl FnMut(Option<DataOptions>) -> Result<Arc<Engine>, EngineError>,
    ) -> Result<Self, TpccError> {
        let folder = data_folder(options)?;
        let data = folder.as_ref().map(|folder| DataOptions {
            sync: LogSync::On,
            checkpoint_at_end: false,
            ..DataOptions::new(folder.path().join("data"))
        });
        let engine = engine(data).map_err(|error| TpccError::Engine(Box::new(error)))?;
        Ok(Self {
            system: System::Nearfar,
            way: Way::InProcess,
            reached: Reached::InProcess(EngineDatabase(engine)),
            data: folder,
        })
    }

    /// PostgreSQL's server.
    pub fn postgres(options: &TpccOptions) -> Result<Self, TpccError> {
        let upkeep = match options.durable {
            true => Upkeep::Durable,
            false => Upkeep::InMemory,
        };
        let postgres = Postgres::start(&options.directory, options.terminals, upkeep)?;
        Ok(Self {
            system: System::Postgres,
            way: Way::Wire,
            reached: Reached::Postgres(postgres),
            data: None,
        })
    }

    /// What it is called in what is told of it.
    pub fn name(&self) -> String {
        match self.way {
            Way::Wire => self.system.to_string(),
            Way::InProcess => format!("{} in process", self.system),
        }
    }

    /// Makes and fills its tables.
    pub async fn load(&self, rows: Rows, mut follow: impl FnMut(String)) -> Result<(), TpccError> {
        let follow = |table| follow(format!("{}: filling {table}", self.name()));
        let loaded = match &self.reached {
            Reached::InProcess(database) => load(database, rows, &["VACUUM"], follow).await,
            Reached::Nearfar(_) => load(&self.over_wire(), rows, &["VACUUM"], follow).await,
            Reached::Postgres(_) => {
                let settle = ["VACUUM ANALYZE", "CHECKPOINT"];
                load(&self.over_wire(), rows, &settle, follow).await
            }
        };
        loaded.map_err(|failure| self.failed("filling the tables", failure))
    }

    /// The conditions that do not hold.
    pub async fn broken_conditions(&self, sizes: Sizes) -> Result<Vec<usize>, TpccError> {
        let broken = match &self.reached {
            Reached::InProcess(database) => broken_conditions(database, sizes).await,
            _ => broken_conditions(&self.over_wire(), sizes).await,
        };
        broken.map_err(|failure| self.failed("a consistency condition", failure))
    }

    /// Has terminals run.
    pub async fn take_turn(&self, turn: Turn) -> Result<TurnOutcome, TpccError> {
        let outcome = match &self.reached {
            Reached::InProcess(database) => take_turn(database, turn).await,
            _ => take_turn(&self.over_wire(), turn).await,
        };
        outcome.map_err(|failure| self.failed("connecting terminals", failure))
    }

    /// The rows of a query.
    pub async fn query(&self, sql: &str) -> Result<Vec<Row>, Failure> {
        match &self.reached {
            Reached::InProcess(database) => database.query(sql).await,
            _ => self.over_wire().query(sql).await,
        }
    }

    /// The database in this process, if it is there.
    pub fn engine_database(&self) -> Option<&EngineDatabase> {
        match &self.reached {
            Reached::InProcess(database) => Some(database),
            _ => None,
        }
    }

    /// The database of a server.
    pub fn over_wire(&self) -> WireDatabase {
        match &self.reached {
            Reached::Postgres(postgres) => WireDatabase {
                address: postgres.address,
                name: "postgres",
            },
            Reached::Nearfar(server) => WireDatabase {
                address: server.address,
                name: "nearfar",
            },
            Reached::InProcess(_) => unreachable!("an engine in this process has no address"),
        }
    }

    /// Kills Nearfar's server without a warning.
    pub fn kill(&mut self) {
        if let Reached::Nearfar(server) = &mut self.reached {
            server.kill();
        }
    }

    /// Starts Nearfar's server again over what the one before has left.
    pub fn start_again(&mut self, options: &TpccOptions) -> Result<(), TpccError> {
        let server = start(options, self.data.as_ref())?;
        self.reached = Reached::Nearfar(server);
        Ok(())
    }

    /// An error of this one.
    pub fn failed(&self, what: impl Into<String>, source: Failure) -> TpccError {
        TpccError::Failed {
            what: what.into(),
            system: self.name(),
            source,
        }
    }
}

/// Where data is to be kept, if it is.
fn data_folder(options: &TpccOptions) -> Result<Option<ScratchFolder>, TpccError> {
    let folder = options
        .durable
        .then(|| ScratchFolder::make(&options.directory, "tpcc"));
    folder.transpose().map_err(TpccError::Folder)
}

fn start(options: &TpccOptions, data: Option<&ScratchFolder>) -> Result<ServerProcess, TpccError> {
    let data = data.map(|folder| folder.path().join("data"));
    let server = ServerProcess::start(&options.program, options.threads, data.as_deref())?;
    Ok(server)
}
