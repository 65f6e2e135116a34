//! A PostgreSQL of the benchmark's own.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nearfar_sql::scratch::ScratchFolder;

use super::error::OltpError;
use super::programs::{find, run};

/// All tables fit, and checkpoints are as rare as they can be.
const SETTINGS: &str = "-c listen_addresses=127.0.0.1 -c shared_buffers=1GB -c max_wal_size=8GB \
                        -c checkpoint_timeout=30min";
/// Connections beside those of clients: PostgreSQL keeps some for its superuser.
const SPARE_CONNECTIONS: usize = 10;

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

/// A server with a new database, which ends when this is dropped.
#[derive(Debug)]
pub struct Postgres {
    data: PathBuf,
    user: Option<User>,
    /// Where it listens.
    pub address: SocketAddr,
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
        // Another one may take the port until the server has it, which then does not start.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let server = Self {
            data: folder.path().join("data"),
            user,
            address: port.map_err(unwritable)?,
            folder,
        };
        run(server
            .program("initdb")?
            .args(["-U", "nearfar", "-A", "trust", "-N"]))?;
        let options = format!(
            "{SETTINGS} {} -p {} -k {} -c max_connections={}",
            upkeep.settings(),
            server.address.port(),
            server.folder.path().display(),
            clients + SPARE_CONNECTIONS
        );
        let log = server.folder.path().join("log");
        let mut start = server.program("pg_ctl")?;
        start.args(["-w", "-s", "-o", &options, "-l"]);
        run(start.arg(log).arg("start"))?;
        Ok(server)
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
        // It has nothing to keep.
        let stop = self.program("pg_ctl").map(|mut stop| {
            stop.args(["-w", "-s", "-m", "immediate", "stop"]);
            run(&mut stop)
        });
        // One that has ended, or never begun, can't be stopped.
        let _ = stop;
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

    #[test]
    fn users_are_found_by_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\npostgres:x:101:104::/var:/bin/sh\nodd:x\n";
        let (user, group) = (101, 104);
        assert_eq!(named(users, "postgres"), Some(User { user, group }));
        assert_eq!(named(users, "odd"), None);
        assert_eq!(named(users, "post"), None);
    }
}
