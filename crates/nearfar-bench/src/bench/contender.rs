//! Contenders as a comparison sees them.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::error::BenchError;
use super::protocol::{Loaded, QueryMemory, Reply, Request};
use super::serve::Role;

/// A rival whose engine is not part of this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rival {
    /// DuckDB's Python package, data in its own tables in memory.
    DuckDb,
    /// Hyper by its Python package, data in its own tables in a file that the page cache holds.
    Hyper,
}

impl Rival {
    /// All rivals.
    pub const ALL: [Self; 2] = [Self::DuckDb, Self::Hyper];

    /// Its word on a command line and in the names of metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DuckDb => "duckdb",
            Self::Hyper => "hyper",
        }
    }

    /// How it is installed.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::DuckDb => "python3 -m pip install 'duckdb>=2'",
            Self::Hyper => "python3 -m pip install tableauhyperapi",
        }
    }
}

/// Whom a comparison lets run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// A contender of this program.
    Own(Role),
    /// Another engine.
    Rival(Rival),
}

impl Who {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own(role) => role.name(),
            Self::Rival(rival) => rival.name(),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own(Role::Nearfar) => "Nearfar",
            Self::Own(Role::MemTable) => "DataFusion's MemTable",
            Self::Rival(Rival::DuckDb) => "DuckDB",
            Self::Rival(Rival::Hyper) => "Hyper",
        })
    }
}

/// Brings contenders to life.
pub trait Launch {
    /// Starts `who` afresh.
    ///
    /// # Errors
    /// [`BenchError::Absent`] with the reason where it can't take part; else what went wrong.
    fn launch(&self, who: Who) -> Result<Contender, BenchError>;
}

/// Starts contenders as processes.
#[derive(Debug, Clone)]
pub struct Processes {
    /// The program that calls [`serve`](super::serve::serve) with the role that is its last
    /// argument.
    pub program: PathBuf,
    /// Its arguments before the role.
    pub arguments: Vec<String>,
    /// The Python interpreter for rivals that are Python packages.
    pub python: PathBuf,
}

const DUCKDB_SCRIPT: &str = include_str!("../../rivals/duckdb.py");
const HYPER_SCRIPT: &str = include_str!("../../rivals/hyper.py");

impl Launch for Processes {
    fn launch(&self, who: Who) -> Result<Contender, BenchError> {
        let mut command = match who {
            Who::Own(role) => {
                let mut command = Command::new(&self.program);
                command.args(&self.arguments).arg(role.name());
                command
            }
            Who::Rival(rival) => {
                let script = match rival {
                    Rival::DuckDb => DUCKDB_SCRIPT,
                    Rival::Hyper => HYPER_SCRIPT,
                };
                let mut command = Command::new(&self.python);
                command.args(["-c", script]);
                command
            }
        };
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|source| self.not_started(who, source))?;
        let streams = child.stdout.take().zip(child.stdin.take());
        let guard = Running(child);
        let (output, input) = streams.ok_or_else(|| {
            let source = io::Error::from(io::ErrorKind::BrokenPipe);
            BenchError::Start {
                contender: who.to_string(),
                source,
            }
        })?;
        let contender = Contender::over(who, BufReader::new(output), input)?;
        Ok(Contender {
            _process: Some(guard),
            ..contender
        })
    }
}

impl Processes {
    fn not_started(&self, who: Who, source: io::Error) -> BenchError {
        let contender = who.to_string();
        match who {
            Who::Rival(_) if source.kind() == io::ErrorKind::NotFound => {
                let reason = format!("there is no Python interpreter `{}`", self.python.display());
                BenchError::Absent { contender, reason }
            }
            _ => BenchError::Start { contender, source },
        }
    }
}

/// How long a process may take to end once nothing is asked of it any more: rivals remove their files then.
const ENDS_IN: Duration = Duration::from_secs(5);

/// A process that ends with its contender.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let begun = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && begun.elapsed() < ENDS_IN {
            thread::sleep(Duration::from_millis(10));
        }
        // A process that has already ended can't be killed, which is as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A contender that waits for requests. It ends when dropped.
pub struct Contender {
    who: Who,
    version: String,
    replies: Box<dyn BufRead + Send>,
    requests: Box<dyn Write + Send>,
    /// Ends it. Dropped last: a process ends by itself when its requests do.
    _process: Option<Running>,
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender")
            .field("who", &self.who)
            .finish_non_exhaustive()
    }
}

impl Contender {
    /// A contender at the other end of two streams; waits for it to be ready.
    ///
    /// # Errors
    /// [`BenchError::Absent`] where it says that it can't take part.
    pub fn over(
        who: Who,
        replies: impl BufRead + Send + 'static,
        requests: impl Write + Send + 'static,
    ) -> Result<Self, BenchError> {
        let mut contender = Self {
            who,
            version: String::new(),
            replies: Box::new(replies),
            requests: Box::new(requests),
            _process: None,
        };
        match contender.reply()? {
            Reply::Ready { version } => contender.version = version,
            Reply::Absent { reason } => {
                return Err(BenchError::Absent {
                    contender: who.to_string(),
                    reason,
                });
            }
            other => return Err(contender.unexpected("its start", &other)),
        }
        Ok(contender)
    }

    /// Which contender it is.
    pub fn who(&self) -> Who {
        self.who
    }

    /// Engine and version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Loads tables from Parquet files.
    ///
    /// # Errors
    /// What it reports, or that it can't be spoken to.
    pub fn load(
        &mut self,
        directory: &Path,
        tables: &[&str],
        threads: usize,
    ) -> Result<Loaded, BenchError> {
        let tables = tables.iter().map(|table| (*table).to_owned()).collect();
        let request = Request::Load {
            directory: directory.to_owned(),
            tables,
            threads,
        };
        match self.ask(&request)? {
            Reply::Loaded(loaded) => Ok(loaded),
            other => Err(self.unexpected("load", &other)),
        }
    }

    /// Runs a query; returns the seconds it took by the contender's own clock.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn query(&mut self, sql: &str) -> Result<f64, BenchError> {
        match self.ask(&Request::Query {
            sql: sql.to_owned(),
        })? {
            Reply::Ran { seconds } => Ok(seconds),
            other => Err(self.unexpected("query", &other)),
        }
    }

    /// Runs a query once the contender has given back what memory it holds free, as far as it can; returns what it took.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn measure(&mut self, sql: &str) -> Result<QueryMemory, BenchError> {
        match self.ask(&Request::Measure {
            sql: sql.to_owned(),
        })? {
            Reply::Measured(memory) => Ok(memory),
            other => Err(self.unexpected("measure", &other)),
        }
    }

    /// Writes the rows of a query to a Parquet file.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn save(&mut self, sql: &str, path: &Path) -> Result<(), BenchError> {
        match self.ask(&Request::Save {
            sql: sql.to_owned(),
            path: path.to_owned(),
        })? {
            Reply::Saved => Ok(()),
            other => Err(self.unexpected("save", &other)),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, BenchError> {
        let mut line = serde_json::to_vec(request).map_err(|error| self.silent(error))?;
        line.push(b'\n');
        let written = self
            .requests
            .write_all(&line)
            .and_then(|()| self.requests.flush());
        written.map_err(|error| self.silent(error))?;
        match self.reply()? {
            Reply::Failed { reason } => Err(BenchError::Failed {
                contender: self.who.to_string(),
                reason,
            }),
            reply => Ok(reply),
        }
    }

    fn reply(&mut self) -> Result<Reply, BenchError> {
        let mut line = String::new();
        match self.replies.read_line(&mut line) {
            Ok(0) => Err(self.silent("it has ended; what it said last is above")),
            Ok(_) => serde_json::from_str(&line).map_err(|_| BenchError::Reply {
                contender: self.who.to_string(),
                request: "any request",
                reply: line.trim_end().to_owned(),
            }),
            Err(error) => Err(self.silent(error)),
        }
    }

    fn silent(&self, reason: impl fmt::Display) -> BenchError {
        BenchError::Silent {
            contender: self.who.to_string(),
            reason: reason.to_string(),
        }
    }

    fn unexpected(&self, request: &'static str, reply: &Reply) -> BenchError {
        BenchError::Reply {
            contender: self.who.to_string(),
            request,
            reply: format!("{reply:?}"),
        }
    }
}
