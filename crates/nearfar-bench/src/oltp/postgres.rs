//! A PostgreSQL of the benchmark's own.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nearfar_memory::sys::Ending;
use nearfar_sql::scratch::ScratchFolder;

use super::error::OltpError;
use super::programs::{find, run};
use crate::kept_process::KeptProcess;
use crate::ports::free_addresses;

/// All tables fit, and checkpoints are as rare as they can be.
const SETTINGS: &str = "-c listen_addresses=127.0.0.1 -c shared_buffers=1GB -c max_wal_size=8GB \
                        -c checkpoint_timeout=30min";
/// Connections beside those of clients: PostgreSQL keeps some for its superuser.
const SPARE_CONNECTIONS: usize = 10;
/// What it gets to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// The line of its file `postmaster.pid` that says whether it takes clients.
const STATUS_LINE: usize = 7;

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// Nothing, as Nearfar's in memory.
    InMemory,
    /// The disk.
    Durable,
}

impl Upkeep {
    fn settings(self) -> &'static str {
        match self {
            Self::InMemory => "-c fsync=off -c synchronous_commit=off -c full_page_writes=off",
            Self::Durable => "-c fsync=on -c synchronous_commit=on",
        }
    }
}

/// A server with a new database, which ends when this is dropped, and with this process.
#[derive(Debug)]
pub struct Postgres {
    data: PathBuf,
    user: Option<User>,
    /// Where it listens.
    pub address: SocketAddr,
    server: Option<KeptProcess>,
    /// Let go of once the server has ended.
    folder: ScratchFolder,
}

/// Whoever the server is run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct User {
    user: u32,
    group: u32,
}

impl Postgres {
    /// Starts one with its files below `parent`, for so many clients.
    pub fn start(parent: &Path, clients: usize, upkeep: Upkeep) -> Result<Self, OltpError> {
        let unwritable = |source| OltpError::Run {
            program: "initdb".to_owned(),
            source,
        };
        let folder = ScratchFolder::make(parent, "postgres").map_err(unwritable)?;
        let user = user()?;
        if let Some(User { user, group }) = user {
            chown(folder.path(), Some(user), Some(group)).map_err(unwritable)?;
        }
        let address = free_addresses(1).map_err(unwritable)?[0];
        let mut server = Self {
            data: folder.path().join("data"),
            user,
            address,
            server: None,
            folder,
        };
        run(server
            .program("initdb")?
            .args(["-U", "nearfar", "-A", "trust", "-N"]))?;
        server.run(clients, upkeep)?;
        Ok(server)
    }

    /// Has it run, in a process of this one's, until it takes clients.
    fn run(&mut self, clients: usize, upkeep: Upkeep) -> Result<(), OltpError> {
        let program = "postgres";
        let not_run = |source| OltpError::Run {
            program: program.to_owned(),
            source,
        };
        let log = self.folder.path().join("log");
        let said = File::create(&log).map_err(not_run)?;
        let connections = format!("max_connections={}", clients + SPARE_CONNECTIONS);
        let mut command = self.program(program)?;
        command
            .args(SETTINGS.split_whitespace())
            .args(upkeep.settings().split_whitespace())
            .args(["-p", &self.address.port().to_string(), "-c", &connections])
            .arg("-k")
            .arg(self.folder.path())
            .stdin(Stdio::null())
            .stdout(said.try_clone().map_err(not_run)?)
            .stderr(said);
        // Its processes end with it, and what they share is removed, if it is not killed.
        let server = KeptProcess::start(command, Ending::Interrupt).map_err(not_run)?;
        let server = self.server.insert(server);
        let status = self.data.join("postmaster.pid");
        let began = Instant::now();
        loop {
            let text = fs::read_to_string(&status).unwrap_or_default();
            if text.lines().nth(STATUS_LINE).map(str::trim) == Some("ready") {
                return Ok(());
            }
            let has_ended = server.child.try_wait().map_err(not_run)?.is_some();
            if has_ended || began.elapsed() > PATIENCE {
                let said = fs::read_to_string(&log).unwrap_or_default();
                return Err(OltpError::Failed {
                    program: program.to_owned(),
                    reason: said.lines().last().unwrap_or("it said nothing").to_owned(),
                });
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// A program of PostgreSQL's for the server's files.
    fn program(&self, name: &'static str) -> Result<Command, OltpError> {
        let mut command = Command::new(find(name)?);
        command.arg("-D").arg(&self.data).current_dir("/");
        if let Some(User { user, group }) = self.user {
            command.uid(user).gid(group);
        }
        Ok(command)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let Some(mut server) = self.server.take() else {
            return;
        };
        // It has nothing to keep.
        let stop = self.program("pg_ctl").map(|mut stop| {
            stop.args(["-w", "-s", "-m", "immediate", "stop"]);
            run(&mut stop)
        });
        // One that has ended can't be stopped, and one that could not be is asked to end once more by the kernel.
        if stop.is_ok_and(|stopped| stopped.is_ok()) {
            let _ = server.child.wait();
        }
    }
}

/// Who is to run the server: PostgreSQL does not let root.
fn user() -> Result<Option<User>, OltpError> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    named(&users, "postgres").map(Some).ok_or(OltpError::NoUser)
}

/// The user `name` in the lines of `/etc/passwd` (passwd(5)).
fn named(users: &str, name: &str) -> Option<User> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        let mut fields = fields.skip(1).map(str::parse);
        is_it.then(|| {
            Some(User {
                user: fields.next()?.ok()?,
                group: fields.next()?.ok()?,
            })
        })?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpStream;

    #[test]
    fn the_server_ends_with_what_has_started_it() {
        let started = Postgres::start(&std::env::temp_dir(), 1, Upkeep::InMemory);
        let mut postgres = match started {
            Err(error @ (OltpError::NotInstalled { .. } | OltpError::NoUser)) => {
                let _ = writeln!(std::io::stderr(), "skipped: {error}");
                return;
            }
            started => started.expect("a server"),
        };
        TcpStream::connect(postgres.address).expect("it takes clients");
        // As if this process was ended by a signal: nothing tells the server to stop but the kernel.
        let server = postgres.server.take().expect("a process");
        let mut child = server.end();
        let status = child.wait().expect("an end");
        assert!(status.success(), "it has ended in order: {status}");
        assert!(TcpStream::connect(postgres.address).is_err());
    }

    #[test]
    fn users_are_found_by_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\npostgres:x:101:104::/var:/bin/sh\nodd:x\n";
        let (user, group) = (101, 104);
        assert_eq!(named(users, "postgres"), Some(User { user, group }));
        assert_eq!(named(users, "odd"), None);
        assert_eq!(named(users, "post"), None);
    }
}
