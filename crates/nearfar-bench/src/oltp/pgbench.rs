//! `pgbench`, the client of both servers.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::error::OltpError;
use super::programs::{find, run};
use super::workload::Workload;

/// A server that `pgbench` has filled, or that answers as if it had.
pub struct Filled<'a> {
    /// Its name in errors.
    pub engine: &'static str,
    address: SocketAddr,
    database: &'static str,
    scripts: &'a Path,
    program: PathBuf,
}

impl<'a> Filled<'a> {
    /// Has `pgbench` make its tables, `scale` times 100,000 accounts. Scripts are written to `scripts`.
    pub fn fill(
        (engine, address, database): (&'static str, SocketAddr, &'static str),
        scale: u32,
        scripts: &'a Path,
    ) -> Result<Self, OltpError> {
        let filled = Self::as_it_is((engine, address, database), scripts)?;
        let scale = scale.to_string();
        run(filled.command().args(["-i", "-q", "-s", &scale, database]))?;
        Ok(filled)
    }

    /// One that has no tables, and needs none.
    pub fn as_it_is(
        (engine, address, database): (&'static str, SocketAddr, &'static str),
        scripts: &'a Path,
    ) -> Result<Self, OltpError> {
        Ok(Self {
            engine,
            address,
            database,
            scripts,
            program: find("pgbench")?,
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let (host, port) = (self.address.ip(), self.address.port());
        command.args(["-h", &host.to_string(), "-p", &port.to_string()]);
        command.args(["-U", "nearfar"]);
        command
    }

    /// Transactions per second of so many clients for as long as `turn`, none of which failed.
    pub fn run(
        &self,
        workload: Workload,
        clients: usize,
        turn: Duration,
    ) -> Result<f64, OltpError> {
        let mut command = self.command();
        command.args(["-n", "-M", "prepared"]);
        command.args(["-c", &clients.to_string()]);
        command.args(["-T", &turn.as_secs().max(1).to_string()]);
        match workload.script() {
            Some(script) => {
                let file = self.scripts.join(workload.name());
                fs::write(&file, script).map_err(|source| OltpError::Run {
                    program: "pgbench".to_owned(),
                    source,
                })?;
                command.arg("-f").arg(file);
            }
            None => {
                command.args(["-b", "tpcb-like"]);
            }
        }
        let output = run(command.arg(self.database))?;
        let report = Report::of(&output).ok_or(OltpError::Output { output })?;
        match report.failed {
            0 => Ok(report.per_s),
            count => Err(OltpError::FailedTransactions {
                count,
                workload: workload.name(),
                engine: self.engine,
            }),
        }
    }
}

/// What `pgbench` says at its end.
#[derive(Debug, PartialEq)]
struct Report {
    per_s: f64,
    failed: u64,
}

impl Report {
    fn of(output: &str) -> Option<Self> {
        let number = |prefix: &str| {
            let found = output.lines().find_map(|line| line.strip_prefix(prefix));
            found?.split_whitespace().next()
        };
        Some(Self {
            per_s: number("tps = ")?.parse().ok()?,
            // Before version 15 there is no such line, and no client goes on after a failure.
            failed: number("number of failed transactions: ")
                .map_or(Some(0), |n| n.parse().ok())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        let output = "transaction type: select\nnumber of failed transactions: 3 (0.012%)\n\
                      latency average = 0.1 ms\ntps = 8859.250000 (without initial connection time)\n";
        let (per_s, failed) = (8859.25, 3);
        assert_eq!(Report::of(output), Some(Report { per_s, failed }));
        let failed = 0;
        assert_eq!(Report::of("tps = 8859.25"), Some(Report { per_s, failed }));
        assert_eq!(Report::of("pgbench: error"), None);
    }
}
