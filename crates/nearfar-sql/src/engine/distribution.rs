//! What a cluster of machines does with the statements of sessions.

use async_trait::async_trait;
use datafusion::execution::SessionStateBuilder;

use super::session::Session;
use super::stream::CommandTag;
use crate::error::EngineError;
use crate::scan::TableRouter;
use crate::sql::Statement;

/// A cluster that the machine of an [`Engine`](super::Engine) is part of.
#[async_trait]
pub trait Distribution: TableRouter {
    /// Whether there is no other machine, so that queries are planned as without a cluster.
    fn is_alone(&self) -> bool;

    /// The state of a session whose queries run in the cluster.
    fn distributed(&self, builder: SessionStateBuilder) -> SessionStateBuilder;

    /// Its counters, in Prometheus's form.
    fn metrics(&self) -> String;

    /// Runs a statement that is not planned as a query but concerns several machines, such as a definition; none
    /// for a statement that runs as everywhere.
    ///
    /// # Errors
    /// A statement that a cluster does not know; a machine that can't be asked, or refuses.
    async fn run(
        &self,
        session: &Session,
        statement: &Statement,
    ) -> Result<Option<CommandTag>, EngineError>;
}
