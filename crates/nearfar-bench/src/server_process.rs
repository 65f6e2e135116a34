//! `nearfar serve` in a process of its own.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use nearfar_memory::sys::Ending;

use crate::kept_process::KeptProcess;

/// What the server says when it can be connected to, and when it takes clients.
const LISTENING: &str = "listening on ";
const HEALTH: &str = "health and metrics on http://";
const READY: &str = "ready";

/// A server that does not start.
#[derive(Debug, thiserror::Error)]
#[error("the server does not start: {reason}")]
pub struct ServerError {
    /// What it said last.
    pub reason: String,
}

/// What a server is told by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// End, after the statements that run.
    Terminate,
    /// Do nothing from now on, as one whose network is cut.
    Stop,
    /// Go on.
    Continue,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Terminate => "TERM",
            Self::Stop => "STOP",
            Self::Continue => "CONT",
        }
    }
}

/// A server, which ends when this is dropped, and with this process.
#[derive(Debug)]
pub struct ServerProcess {
    process: KeptProcess,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it tells its health, if it does.
    pub http: Option<SocketAddr>,
}

impl ServerProcess {
    /// Starts `program` with `threads` threads for each kind of query, and waits until it is ready. With a data
    /// directory, commits are acknowledged when they are on disk.
    ///
    /// # Errors
    /// A server that does not start.
    pub fn start(program: &Path, threads: usize, data: Option<&Path>) -> Result<Self, ServerError> {
        let mut args = Self::arguments(threads);
        if let Some(data) = data {
            args.extend(["--log-sync", "on", "--data"].map(OsString::from));
            args.push(data.into());
        }
        Self::start_with(program, &args)
    }

    /// The arguments of a server on a free port with `threads` threads for each kind of query, which tells no health.
    pub fn arguments(threads: usize) -> Vec<OsString> {
        let threads = threads.to_string();
        let args = ["serve", "--port", "0", "--no-http", "--threads", &threads];
        args.map(OsString::from).to_vec()
    }

    /// Starts `program` with `args`, which are those of a server, and waits until it is ready.
    ///
    /// # Errors
    /// A server that does not start.
    pub fn start_with(program: &Path, args: &[OsString]) -> Result<Self, ServerError> {
        let failed = |reason: String| ServerError { reason };
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process =
            KeptProcess::start(command, Ending::Kill).map_err(|error| failed(error.to_string()))?;
        let Some(said) = process.child.stderr.take() else {
            return Err(failed("nothing".to_owned()));
        };
        let mut said = BufReader::new(said).lines();
        let (mut address, mut http, mut last) = (None, None, String::new());
        for line in said.by_ref() {
            last = line.map_err(|error| failed(error.to_string()))?;
            if let Some((_, at)) = last.split_once(LISTENING) {
                address = at.parse().ok();
            }
            if let Some((_, at)) = last.split_once(HEALTH) {
                http = at.parse().ok();
            }
            if last.ends_with(READY) {
                break;
            }
        }
        // What it says later must not fill the pipe.
        thread::spawn(move || said.for_each(drop));
        let mut server = match address {
            Some(address) => Self {
                process,
                address,
                http,
            },
            None => {
                // It ends by itself or has to.
                let _ = process.child.kill();
                let _ = process.child.wait();
                return Err(failed(last));
            }
        };
        match server.process.child.try_wait() {
            Ok(None) => Ok(server),
            _ => Err(failed(last)),
        }
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// A server that has ended; a machine without a shell.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        // The shell's own `kill`, because not every system has the program.
        let command = format!("kill -{} {}", signal.name(), self.process.child.id());
        let status = Command::new("sh").args(["-c", &command]).status()?;
        match status.success() {
            true => Ok(()),
            false => Err(io::Error::other("the server has ended")),
        }
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// A process that can't be waited for.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.child.wait()
    }

    /// Ends it without a warning, as `kill -9` does.
    pub fn kill(&mut self) {
        // One that has ended by itself can't be killed.
        let _ = self.process.child.kill();
        let _ = self.process.child.wait();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
