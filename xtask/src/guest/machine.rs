//! A running machine.

use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::exchange::Exchange;
use super::launch::Place;

/// How a machine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It did its job and turned itself off.
    Off,
    /// Its memory could not be set up, for this reason.
    SetupFailed(String),
    /// It did not get as far as its job in time.
    BootTimedOut,
    /// It was still at its job when its time was up, and was killed.
    TimedOut,
    /// It ended in any other way: a crash of the guest, or an error of qemu.
    Died(String),
}

/// The most that a boot may take, on a host that is very busy.
const BOOT_LIMIT: Duration = Duration::from_secs(180);
const BETWEEN_LOOKS: Duration = Duration::from_millis(30);

/// A machine that was started. Dropping it kills it.
#[derive(Debug)]
pub struct Machine {
    child: Child,
    exchange: Exchange,
    started: Instant,
    /// Keeps the files as long as the machine.
    _place: Place,
}

impl Machine {
    pub(super) fn new(child: Child, exchange: Exchange, place: Place) -> Self {
        Self {
            child,
            exchange,
            started: Instant::now(),
            _place: place,
        }
    }

    /// What the machine and the host exchange.
    pub fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Ends the machine as a power failure would: no process of it, and no part of its kernel, runs
    /// on.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until `holds`, and tells whether that came before the machine's end and the limit.
    pub fn wait_until(
        &mut self,
        limit: Duration,
        mut holds: impl FnMut(&Exchange) -> bool,
    ) -> Result<bool> {
        let until = Instant::now() + limit;
        loop {
            if holds(&self.exchange) {
                return Ok(true);
            }
            if self.child.try_wait()?.is_some() || Instant::now() > until {
                return Ok(holds(&self.exchange));
            }
            sleep(BETWEEN_LOOKS);
        }
    }

    /// Waits for the machine's end; its job may take `limit` after the boot. `look` is called now
    /// and then, and once more after the end.
    pub fn wait(&mut self, limit: Duration, mut look: impl FnMut(&Exchange)) -> Result<End> {
        let mut ready_since = None;
        let end = loop {
            look(&self.exchange);
            if let Some(status) = self.child.try_wait()? {
                break self.ended(status);
            }
            if ready_since.is_none() && self.exchange.is_ready() {
                ready_since = Some(Instant::now());
            }
            let timed_out = match ready_since {
                None if self.started.elapsed() > BOOT_LIMIT => Some(End::BootTimedOut),
                Some(since) if since.elapsed() > limit => Some(End::TimedOut),
                _ => None,
            };
            if let Some(end) = timed_out {
                self.kill()?;
                break end;
            }
            sleep(BETWEEN_LOOKS);
        };
        look(&self.exchange);
        Ok(end)
    }

    fn ended(&self, status: ExitStatus) -> End {
        if let Some(reason) = self.exchange.setup_failure() {
            End::SetupFailed(reason.trim_end().to_owned())
        } else if status.success() && self.exchange.is_ready() {
            End::Off
        } else {
            End::Died(format!("qemu ended with {status}"))
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
