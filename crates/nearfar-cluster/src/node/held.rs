//! Steps that this node is ready to take: their coordinator has said what they are, and not yet that they are taken.
//!
//! The first node of the list decides: a step is taken once that node has taken it. The others take it when their
//! coordinator says so, or, where it is gone, when the first node says that it has. Until the first node can be asked,
//! they keep what is held.

use nearfar_sql::error::EngineError;
use std::time::{Duration, Instant};

use super::Node;
use super::write::LEASE;
use crate::error::failed;
use crate::messages::{Change, Outcome, Reply, Request, Step};

/// The coordinator of a step says after less than that whether it is taken, or is gone.
const STEP_PATIENCE: Duration = Duration::from_secs(3);

/// A step that this node is ready to take.
#[derive(Debug, Clone)]
pub struct Held {
    step: Step,
    change: Change,
    coordinator: usize,
    since: Instant,
}

impl Node {
    /// Makes this node ready for a step, and forgets one that it was ready for before: the first node, which is asked
    /// before the others, does not take that one any more.
    ///
    /// # Errors
    /// Another state than that in which the step begins; rows that are not here, or not all.
    pub(crate) async fn hold(
        &self,
        step: Step,
        change: Change,
        coordinator: usize,
    ) -> Result<Reply, EngineError> {
        let state = self.state.lock().await;
        self.check_state(*state, change.from)?;
        if let Step::Load(load) = step {
            self.keep_load(load)?;
        }
        *self.held.lock() = Some(Held {
            step,
            change,
            coordinator,
            since: Instant::now(),
        });
        Ok(Reply::Done)
    }

    /// Takes a step that this node is ready for. One that it has taken already is taken once.
    ///
    /// # Errors
    /// A step that is not held here; another state than that in which it begins; what the step itself fails by.
    pub(crate) async fn take(&self, change: Change) -> Result<Reply, EngineError> {
        let mut state = self.state.lock().await;
        if *state == change.to {
            return Ok(Reply::Done);
        }
        self.check_state(*state, change.from)?;
        let held = self.held.lock().take_if(|held| held.change == change);
        let held = held.ok_or_else(|| {
            failed(format!(
                "node `{}` was started again, or is ready for another change: repeat the statement",
                self.name_of(self.me)
            ))
        })?;
        match held.step {
            Step::Load(load) => self.commit(load, change).await?,
            Step::Define(definition) => self.define(&definition, change).await?,
        }
        *state = change.to;
        *self.reached.lock() = change.to;
        Ok(Reply::Done)
    }

    /// What this node, the first one, knows of a step.
    pub(crate) async fn outcome(&self, change: Change) -> Outcome {
        let state = self.state.lock().await;
        let is_held = self
            .held
            .lock()
            .as_ref()
            .is_some_and(|held| held.change == change);
        match () {
            () if *state == change.to => Outcome::Taken,
            () if is_held || state.version < change.from.version => Outcome::Undecided,
            () => Outcome::NotTaken,
        }
    }

    /// Whether the rows of a load are part of a step that this node is ready for.
    pub(super) fn is_held(&self, load: u64) -> bool {
        let held = self.held.lock();
        held.as_ref()
            .is_some_and(|held| matches!(held.step, Step::Load(other) if other == load))
    }

    /// Takes or forgets the step that this node is ready for, where its coordinator does not say any more whether it
    /// is taken.
    pub(crate) async fn settle(&self) {
        let held = self.held.lock().clone();
        let Some(held) = held else {
            return;
        };
        let is_late = held.since.elapsed() > STEP_PATIENCE;
        let is_gone = self.is_gone(held.coordinator);
        if self.me == 0 {
            // The first node takes no step whose coordinator is gone, or has no right to it any more.
            if is_late && is_gone || held.since.elapsed() > LEASE {
                self.forget(&held);
            }
        } else if (is_late || is_gone)
            && let Err(error) = self.settle_as_first(&held).await
        {
            tracing::warn!(%error, change = ?held.change, "a change is not decided yet");
        }
    }

    /// Others do as the first node has done.
    async fn settle_as_first(&self, held: &Held) -> Result<(), EngineError> {
        let change = held.change;
        let first = self.link(0);
        match first.ask_briefly(&Request::Outcome { change }).await? {
            Reply::Outcome(Outcome::Taken) => {
                tracing::info!(?change, "a change is taken as the first node has");
                self.take(change).await.map(drop)
            }
            Reply::Outcome(Outcome::NotTaken) => {
                self.forget(held);
                Ok(())
            }
            Reply::Outcome(Outcome::Undecided) => Ok(()),
            other => Err(first.unexpected(&other).into()),
        }
    }

    fn forget(&self, held: &Held) {
        let mut now = self.held.lock();
        let forgotten = now.take_if(|now| now.change == held.change);
        drop(now);
        if let Some(Held {
            step: Step::Load(load),
            ..
        }) = forgotten
        {
            self.abort(load);
        }
    }
}
