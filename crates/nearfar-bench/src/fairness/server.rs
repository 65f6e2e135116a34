//! A server in a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use super::error::FairnessError;

/// What the server says when it can be connected to, and when it takes clients.
const LISTENING: &str = "listening on ";
const READY: &str = "ready";

/// A server, which ends when this is dropped.
#[derive(Debug)]
pub struct FairnessServer {
    process: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl FairnessServer {
    /// Starts `program` with `threads` threads for each kind of query, and waits until it is ready.
    ///
    /// # Errors
    /// A server that does not start.
    pub fn start(program: &Path, threads: usize) -> Result<Self, FairnessError> {
        let failed = |reason: String| FairnessError::Server { reason };
        let mut process = Command::new(program)
            .args(["serve", "--port", "0", "--no-http", "--threads"])
            .arg(threads.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let Some(said) = process.stderr.take() else {
            return Err(failed("nothing".to_owned()));
        };
        let mut said = BufReader::new(said).lines();
        let (mut address, mut last) = (None, String::new());
        for line in said.by_ref() {
            last = line?;
            if let Some((_, at)) = last.split_once(LISTENING) {
                address = at.parse().ok();
            }
            if last.ends_with(READY) {
                break;
            }
        }
        // What it says later must not fill the pipe.
        thread::spawn(move || said.for_each(drop));
        let mut server = match address {
            Some(address) => Self { process, address },
            None => {
                // It ends by itself or has to.
                let _ = process.kill();
                let _ = process.wait();
                return Err(failed(last));
            }
        };
        match server.process.try_wait()? {
            Some(_) => Err(failed(last)),
            None => Ok(server),
        }
    }
}

impl Drop for FairnessServer {
    fn drop(&mut self) {
        // It has nothing to keep.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
