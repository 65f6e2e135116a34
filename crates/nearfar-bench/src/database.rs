//! The two databases that run in this process.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::prelude::{SessionConfig, SessionContext};
use nearfar_sql::engine::{Session, StatementResult};
use nearfar_sql::error::EngineError;

/// A database that queries can be put to.
#[derive(Clone)]
pub(crate) enum Database {
    /// Nearfar, as its users have it.
    Nearfar(Session),
    /// DataFusion over its own tables in memory.
    Own(SessionContext),
}

impl Database {
    /// Schema and rows of a query's answer.
    pub(crate) async fn rows(
        &self,
        sql: &str,
    ) -> Result<(SchemaRef, Vec<RecordBatch>), EngineError> {
        match self {
            Self::Nearfar(session) => match session.execute(sql).await?.pop() {
                Some(StatementResult::Rows(rows)) => {
                    Ok((SchemaRef::clone(rows.schema()), rows.collect().await?))
                }
                _ => Ok((
                    SchemaRef::new(arrow::datatypes::Schema::empty()),
                    Vec::new(),
                )),
            },
            Self::Own(context) => {
                let frame = context.sql(sql).await?;
                let schema = SchemaRef::new(frame.schema().as_arrow().clone());
                Ok((schema, frame.collect().await?))
            }
        }
    }
}

/// DataFusion as it comes, but for the number of threads.
pub(crate) fn own_context(threads: usize) -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(threads))
}
