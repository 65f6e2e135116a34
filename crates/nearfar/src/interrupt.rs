//! Ctrl-C: ends what is running, not the program.

use std::future::Future;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::exit::{Exit, Failed};
use crate::machine;
use crate::progress::Live;

/// Ends when the process is told to end, by Ctrl-C or by the system. For a server, which ends in an orderly way. Needs a runtime.
pub fn asked_to_end() -> anyhow::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Ctrl-C of the user, from the moment this is made.
pub struct Interrupts {
    signal: Signal,
    /// Others that ask the program to end, where they are taken over too.
    others: Vec<Signal>,
}

impl Interrupts {
    /// Takes Ctrl-C over. Needs a runtime.
    pub fn listen() -> anyhow::Result<Self> {
        let signal = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        let others = Vec::new();
        Ok(Self { signal, others })
    }

    /// Takes over Ctrl-C, and the signals of a system that shuts down or of a terminal that is gone, for
    /// what has started processes. Needs a runtime.
    pub fn listen_to_all() -> anyhow::Result<Self> {
        let mut all = Self::listen()?;
        for kind in [SignalKind::terminate(), SignalKind::hangup()] {
            let other = signal(kind).context("cannot listen for signals")?;
            all.others.push(other);
        }
        Ok(all)
    }

    /// Forgets a Ctrl-C that came while nothing ran.
    pub fn forget(&mut self) {
        while self.signal.recv().now_or_never().flatten().is_some() {}
    }

    /// Runs `work` to its end or until Ctrl-C, which drops it.
    pub async fn during<T>(&mut self, work: impl Future<Output = T>) -> anyhow::Result<T> {
        let signals = std::iter::once(&mut self.signal).chain(&mut self.others);
        let signals = signals.map(|signal| Box::pin(signal.recv()));
        let any = futures::future::select_all(signals);
        tokio::select! {
            biased;
            (Some(()), ..) = any => {
                Err(Failed::new(Exit::Interrupted, "interrupted").into())
            }
            done = work => Ok(done),
        }
    }
}

/// As the main thread has.
const STACK_BYTES: usize = 8 << 20;
/// Within which Ctrl-C reaches this process after one that it has started.
const GRACE: Duration = Duration::from_millis(200);

/// Runs `work` like [`run_until_interrupted`], beside a line of progress that it writes.
pub fn run_shown<T: Send + 'static>(
    work: impl FnOnce(Live) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let live = Live::default();
    let _spinner = live.spinner();
    run_until_interrupted(move || work(live))
}

/// Runs `work`, which does not look up, on a thread of its own to its end or until Ctrl-C. After
/// Ctrl-C it goes on unheeded, until the process ends.
pub fn run_until_interrupted<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    machine::front()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let (sender, receiver) = oneshot::channel();
        let builder = thread::Builder::new().stack_size(STACK_BYTES);
        // Nobody waits any more for what is done after an interrupt.
        let worker = builder.spawn(move || drop(sender.send(work())))?;
        match interrupts.during(receiver).await? {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                // It may be that of a process that Ctrl-C ended first.
                let late = timeout(GRACE, interrupts.during(std::future::pending::<()>()));
                late.await.map_or(Ok(()), |ended| ended)?;
                Err(error)
            }
            Err(gone) => match worker.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => Err(gone.into()),
            },
        }
    })
}
