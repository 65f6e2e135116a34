//! Tables of the engine as sources of tables on other hosts.

use async_trait::async_trait;
use datafusion::common::TableReference;
use datafusion::execution::SendableRecordBatchStream;
use std::sync::{Arc, Weak};

use super::Engine;
use super::attached::table_name;
use super::options::SessionOptions;
use super::session::Session;
use crate::error::EngineError;
use crate::remote::RowSource;
use crate::scan::table_of;
use crate::sql::SqlError;

/// The rows of a table, as they are committed when they are read.
#[derive(Debug)]
struct TableRows {
    engine: Weak<Engine>,
    table: TableReference,
}

impl Session {
    /// The rows of a table that all sessions see, for
    /// [`RemoteTable::put_from`](crate::remote::RemoteTable::put_from). They outlive the process where the engine has a
    /// data directory or a pool.
    ///
    /// # Errors
    /// A name that no such table has.
    pub async fn rows_of(&self, table: &str) -> Result<Arc<dyn RowSource>, EngineError> {
        let name = table_name(table)?;
        let provider = self.provider(&name).await?;
        let table_found = provider.as_deref().and_then(table_of);
        let (schema, bare) = self.resolve(&name)?;
        if table_found.is_none_or(|table| table.temporary().is_some()) {
            let table = table.to_owned();
            return Err(SqlError::UnknownTable { table }.into());
        }
        Ok(Arc::new(TableRows {
            engine: Arc::downgrade(self.engine()),
            table: TableReference::partial(schema, bare),
        }))
    }
}

impl Engine {
    /// A session that reads `what` again.
    ///
    /// # Errors
    /// An engine that is closed.
    pub(super) fn reading(engine: &Weak<Self>, what: &str) -> Result<Session, EngineError> {
        let closed = || EngineError::Cancelled {
            what: format!("reading {what}, whose engine is closed,"),
        };
        let engine = engine.upgrade().ok_or_else(closed)?;
        Ok(engine.session_with(SessionOptions {
            is_read_only: true,
            ..SessionOptions::default()
        }))
    }
}

#[async_trait]
impl RowSource for TableRows {
    fn name(&self) -> String {
        format!("table {}", self.table)
    }

    async fn rows(&self) -> Result<SendableRecordBatchStream, EngineError> {
        let session = Engine::reading(&self.engine, &self.name())?;
        let query = format!("SELECT * FROM {}", self.table.to_quoted_string());
        let rows = session.sql(&query).await?.execute_stream().await?;
        Ok(rows)
    }
}
