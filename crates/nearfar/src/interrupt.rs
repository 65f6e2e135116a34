//! Ctrl-C: ends what is running, not the program.

use std::future::Future;

use anyhow::Context;
use futures::FutureExt;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Exit, Failed};

/// Ctrl-C of the user, from the moment this is made.
pub struct Interrupts {
    signal: Signal,
}

impl Interrupts {
    /// Takes Ctrl-C over. Needs a runtime.
    pub fn listen() -> anyhow::Result<Self> {
        let signal = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        Ok(Self { signal })
    }

    /// Forgets a Ctrl-C that came while nothing ran.
    pub fn forget(&mut self) {
        while self.signal.recv().now_or_never().flatten().is_some() {}
    }

    /// Runs `work` to its end or until Ctrl-C, which drops it.
    pub async fn during<T>(&mut self, work: impl Future<Output = T>) -> anyhow::Result<T> {
        tokio::select! {
            biased;
            Some(()) = self.signal.recv() => {
                Err(Failed::new(Exit::Interrupted, "interrupted").into())
            }
            done = work => Ok(done),
        }
    }
}
