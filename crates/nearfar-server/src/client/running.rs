//! A statement's task, and what becomes of it when the statement is given up.

use std::sync::Arc;
use std::time::Duration;

use nearfar_sql::engine::Interrupt;
use nearfar_sql::error::EngineError;
use nearfar_table::transaction::CommitGate;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{sleep, timeout};

use super::failure::{Failure, state};
use super::interrupt::Ended;
use crate::halt::Halt;

/// What a commit that has begun gets to end when the server stops: less than connections get for their
/// last words.
const COMMIT_GRACE: Duration = Duration::from_secs(4);

/// What a statement that was given up gets to end before its client is told. One that is being planned
/// may take longer to notice.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// A task that is given up when nobody waits for it any more, unless its commit has begun.
pub struct Running<T> {
    pub task: JoinHandle<T>,
    /// What its commit has to pass.
    pub gate: Arc<CommitGate>,
    /// What tells it that it is given up.
    pub interrupt: Arc<Interrupt>,
}

/// What becomes of a task.
pub type Joined<T> = Result<Result<T, EngineError>, JoinError>;

impl<T> Running<Result<T, EngineError>> {
    /// What became of the statement of `text`, whose task was waited for as `waited` says: given up, if
    /// that did not come to its end and nothing was committed. A commit that has begun is waited for,
    /// since its client must not be told that it failed.
    pub async fn settle(
        &mut self,
        waited: Result<Joined<T>, Ended>,
        halt: &Halt,
        text: &str,
    ) -> Result<T, Ended> {
        let failure = match waited {
            Ok(done) => return told(done, text),
            Err(Ended::Gone) => return Err(Ended::Gone),
            Err(Ended::Failed(failure)) => failure,
        };
        if self.gate.close() {
            self.give_up();
            let done = match timeout(LAST_WAIT, &mut self.task).await {
                Ok(done) => done,
                // It ends at its next step, and nothing of it is kept.
                Err(_) => return Err(failure.into()),
            };
            return match done {
                Err(error) if error.is_cancelled() => Err(failure.into()),
                Ok(Err(EngineError::Cancelled { .. })) => Err(failure.into()),
                // It was done already, and that is the truth.
                done => told(done, text),
            };
        }
        tokio::select! {
            biased;
            done = &mut self.task => told(done, text),
            () = out_of_time(halt) => Err(in_doubt().into()),
        }
    }
}

impl<T> Running<T> {
    fn give_up(&self) {
        self.interrupt.give_up();
        // One that no thread has begun yet.
        self.task.abort();
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if self.gate.close() {
            self.give_up();
        }
    }
}

fn told<T>(done: Joined<T>, text: &str) -> Result<T, Ended> {
    match done {
        Ok(result) => Ok(result.map_err(|error| Failure::of(&error, text))?),
        Err(_) => {
            let message = "internal error: a statement ended without a result";
            Err(Failure::new(state::INTERNAL_ERROR, message).into())
        }
    }
}

/// Ends when the server stops and a commit has had its time.
pub async fn out_of_time(halt: &Halt) {
    halt.wait().await;
    sleep(COMMIT_GRACE).await;
}

/// The server ends before a commit that it has begun.
pub fn in_doubt() -> Failure {
    let message = "the server stops while this change is being written: whether it is kept is known \
                   when the server is there again. Look before you do it again";
    Failure::fatal(state::TRANSACTION_RESOLUTION_UNKNOWN, message)
}
