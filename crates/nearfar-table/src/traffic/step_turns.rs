//! Work on a thread of its own that moves bytes step by step.

use nearfar_memory::TierBytes;
use std::sync::Arc;

use super::TierTraffic;
use super::account::TrafficAccount;
use super::counters::Task;
use super::turn::Turn;

/// Counts what a move or merge moves, and has it wait for its turns.
pub(crate) struct StepTurns<'a> {
    account: Arc<TrafficAccount>,
    task: Task,
    /// None for who must not wait.
    go_on: Option<&'a dyn Fn() -> bool>,
    turn: Option<Turn>,
}

impl<'a> StepTurns<'a> {
    /// That of `task`, which the engine does by itself, waits for its turns, and ends when `go_on` says so.
    pub(crate) fn new(
        traffic: &Arc<TierTraffic>,
        task: Task,
        go_on: Option<&'a dyn Fn() -> bool>,
    ) -> Self {
        Self {
            account: TrafficAccount::of_engine(traffic),
            task,
            go_on,
            turn: None,
        }
    }

    /// Waits for the turn of what was moved so far, and says whether to go on.
    pub(crate) fn next(&mut self) -> bool {
        let turn = self.turn.take();
        let Some(go_on) = self.go_on else {
            return true;
        };
        if let Some(turn) = turn {
            turn.wait_on_thread(go_on);
        }
        go_on()
    }

    /// Counts what was moved.
    pub(crate) fn moved(&mut self, read: TierBytes, written: TierBytes) {
        self.account.read(self.task, &read);
        self.account.wrote(self.task, &written);
        let mut both = read;
        both += written;
        // The turn of what was moved last comes last.
        let turn = self.account.turn(self.task, &both);
        self.turn = turn.or(self.turn.take());
    }
}
