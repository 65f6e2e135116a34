//! The pool that an engine's main storage is in.

use std::sync::Arc;

use super::Engine;
use crate::error::EngineError;
use nearfar_durable::checkpoint::Publisher;
use nearfar_durable::checkpoint::pooled::TablePool;

impl Engine {
    /// Publishes what is committed from now on, if there is a pool.
    pub(super) fn start_publishing(&self) {
        let Some(pool) = &self.pool else {
            return;
        };
        let (take, log) = (self.manifest_taker(), self.log().cloned());
        let take = move || {
            let manifest = take();
            // A pool must not have what the log could still lose.
            if let Some(log) = &log {
                log.sync_to(manifest.log_position)?;
            }
            Ok(manifest)
        };
        let publisher = Publisher::new(Arc::clone(pool), Box::new(take));
        let publisher = self.publisher.get_or_init(|| publisher);
        let publisher = Arc::downgrade(publisher);
        self.database.on_main_changed(move || {
            if let Some(publisher) = publisher.upgrade() {
                publisher.publish_or_warn();
            }
        });
    }

    /// The pool that main storage is in, where there is one.
    pub fn pool(&self) -> Option<&Arc<TablePool>> {
        self.pool.as_ref()
    }

    /// Publishes what is committed in the pool, with what was written since the last merge; nothing
    /// without a pool. It is done by itself after merges, large inserts and definitions, and at the
    /// end.
    ///
    /// # Errors
    /// A pool without room, or that was taken over. What was published before still is.
    pub fn publish(&self) -> Result<(), EngineError> {
        self.publisher
            .get()
            .map_or(Ok(()), |publisher| Ok(publisher.publish()?))
    }
}
