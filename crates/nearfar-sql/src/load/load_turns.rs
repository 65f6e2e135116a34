//! How fast rows may be put where their table is.

use datafusion::execution::TaskContext;
use nearfar_memory::TierBytes;
use std::sync::Arc;

use crate::settings::Settings;
use nearfar_table::table::Segment;
use nearfar_table::traffic::{Task, TrafficAccount};

/// Counts the segments that a statement writes, and has it wait for its turns.
#[derive(Debug)]
pub(super) struct LoadTurns {
    /// None for who has no session.
    account: Option<Arc<TrafficAccount>>,
    counted: TierBytes,
}

impl LoadTurns {
    /// That of the statement which runs in this context.
    pub(super) fn of(context: &TaskContext) -> Self {
        let extensions = &context.session_config().options().extensions;
        Self {
            account: extensions
                .get::<Settings>()
                .map(|settings| Arc::clone(settings.traffic())),
            counted: TierBytes::ZERO,
        }
    }

    /// Counts what was written since this was last called, and waits for its turn.
    pub(super) async fn wrote(&mut self, written: TierBytes) {
        self.counted += written;
        let Some(account) = &self.account else {
            return;
        };
        account.wrote(Task::Load, &written);
        if let Some(turn) = account.turn(Task::Load, &written) {
            turn.wait().await;
        }
    }

    /// The same for those of all `segments` that were not counted yet.
    pub(super) async fn wrote_all(&mut self, segments: &[Arc<Segment>]) {
        let mut all = TierBytes::ZERO;
        for segment in segments {
            all += segment.tier_bytes();
        }
        self.wrote(all.saturating_sub(&self.counted)).await;
    }
}
