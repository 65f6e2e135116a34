//! What ends a statement before its own end.

use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::time::sleep;

use super::failure::{Failure, state};
use crate::cancel::CancelKey;
use crate::halt::Halt;
use crate::wire::Reader;

/// Why the client of a statement is not answered.
#[derive(Debug)]
pub enum Ended {
    /// It gets an error.
    Failed(Failure),
    /// It is not there any more.
    Gone,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<std::io::Error> for Ended {
    fn from(_: std::io::Error) -> Self {
        Self::Gone
    }
}

/// Ends when a statement has to end early, with what its client is told.
pub async fn interruption(cancel: &CancelKey, halt: &Halt, timeout: Option<Duration>) -> Failure {
    let canceled = |message: &str| Failure::new(state::QUERY_CANCELED, message);
    let late = async {
        match timeout {
            Some(timeout) => sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => canceled("canceling statement due to user request"),
        () = halt.wait() => stopping(halt),
        () = late => canceled("canceling statement due to statement timeout"),
    }
}

/// Runs `work` until its end, or until something ends it early, which drops it.
pub async fn until_interrupted<T, R: AsyncRead + Unpin>(
    reader: &mut Reader<R>,
    cancel: &CancelKey,
    halt: &Halt,
    timeout: Option<Duration>,
    work: impl Future<Output = Result<T, Ended>>,
) -> Result<T, Ended> {
    tokio::select! {
        biased;
        failure = interruption(cancel, halt, timeout) => Err(failure.into()),
        () = reader.gone() => Err(Ended::Gone),
        done = work => done,
    }
}

/// The server ends.
pub fn stopping(halt: &Halt) -> Failure {
    let message = format!("terminating connection because {}", halt.reason());
    Failure::fatal(state::ADMIN_SHUTDOWN, message)
}
