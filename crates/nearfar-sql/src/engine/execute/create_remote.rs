//! `CREATE TABLE … TABLESPACE host AS query`: tables in the memory of another host.

use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::DataFrame;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use std::sync::{Arc, Weak};

use super::create::reads;
use super::plan::plan;
use crate::engine::Engine;
use crate::engine::definitions::Slot;
use crate::engine::session::Session;
use crate::engine::stream::{CommandTag, StatementResult};
use crate::error::EngineError;
use crate::remote::{ColumnHost, RemoteScan, RemoteTable, RowSource, remote_table_of};
use crate::settings::Place;
use crate::sql::{CreateClauses, SqlError};
use crate::values::stored::with_room;

/// The statement that makes a table, with its parameters.
pub(super) type Making<'a> = (&'a DfStatement, &'a [ScalarValue]);

impl Session {
    /// The host in whose memory a new table is to be, if it is to be in that of another host.
    ///
    /// # Errors
    /// Clauses about rows that are added later: there are none.
    pub(super) fn memory_host(
        &self,
        clauses: &CreateClauses,
        input: &LogicalPlan,
    ) -> Result<Option<Arc<dyn ColumnHost>>, SqlError> {
        let Some(Place::Tablespace(name)) = &clauses.options.place else {
            return Ok(None);
        };
        let Some(host) = self.engine().memory_host(name) else {
            return Ok(None);
        };
        let instead = "its rows come from AS and a query, and do not change";
        let refused = |what: &str| {
            let what = format!("{what} in tablespace `{name}`, which is memory of another host,");
            Err(SqlError::unsupported(what, instead))
        };
        let CreateClauses {
            options,
            keys,
            constraints,
            defaults,
            numbered,
            ..
        } = clauses;
        if matches!(input, LogicalPlan::EmptyRelation(_)) {
            return refused("a table without AS");
        }
        let rules = keys.len() + constraints.len() + defaults.len() + numbered.len();
        match rules > 0 || options.preload.is_some() {
            true => refused("a key, a constraint or an option"),
            false => Ok(Some(host)),
        }
    }

    /// Puts the rows of `input` into the memory of `host`, and enters them as a table. No log has it: it is gone when the
    /// process ends, as the memory is. Where the host is lost, its rows come from its query again.
    pub(super) async fn create_remote_table(
        &self,
        state: &SessionState,
        (slot, host): (Slot, Arc<dyn ColumnHost>),
        input: &LogicalPlan,
        making: Making<'_>,
    ) -> Result<StatementResult, EngineError> {
        let source = self.rows_again(&slot, input, making)?;
        let input = with_room(input)?;
        let table = self.filled(state, &input, |plan, context| {
            let (host, source) = (Arc::clone(&host), source.clone());
            async move {
                let memory = MemoryConsumer::new("RemoteTable").register(context.memory_pool());
                let rows = execute_stream(plan, context)?;
                Ok(RemoteTable::put_rows(host, rows, source, &memory).await?)
            }
        });
        let table = Arc::new(table.await?);
        let rows = Some(table.rows() as u64);
        let (engine, gate) = (Arc::clone(self.engine()), Arc::clone(&self.gate));
        let scan = RemoteScan::new(table, engine.threads(), Arc::clone(engine.remote_cache()));
        let scan = match slot.is_temporary {
            true => scan,
            false => scan.shared(),
        };
        let entered =
            tokio::task::spawn_blocking(move || engine.create_unlogged(&gate, &slot, scan));
        entered.await.map_err(|error| EngineError::Internal {
            message: error.to_string(),
        })??;
        self.note_references();
        let command = "SELECT";
        Ok(StatementResult::Command(CommandTag { command, rows }))
    }

    /// Where rows of `input` are read again, if they can be. Nobody else sees the session's own tables, and those of
    /// hosts would have to be rebuilt for each other, which may have no end.
    fn rows_again(
        &self,
        slot: &Slot,
        input: &LogicalPlan,
        (statement, parameters): Making<'_>,
    ) -> Result<Option<Arc<dyn RowSource>>, EngineError> {
        if self.reads_temporary(input)? || reads_remote(input)? {
            return Ok(None);
        }
        Ok(Some(Arc::new(MadeAgain {
            engine: Arc::downgrade(self.engine()),
            table: slot.name.clone(),
            statement: statement.clone(),
            parameters: parameters.to_vec(),
        })))
    }
}

fn reads_remote(plan: &LogicalPlan) -> Result<bool, EngineError> {
    reads(plan, |read| remote_table_of(read.as_ref()).is_some())
}

/// The rows of the query in a `CREATE TABLE … AS`, as they are committed when they are read.
#[derive(Debug)]
struct MadeAgain {
    engine: Weak<Engine>,
    table: String,
    statement: DfStatement,
    parameters: Vec<ScalarValue>,
}

#[async_trait]
impl RowSource for MadeAgain {
    fn name(&self) -> String {
        format!("the query of table {}", self.table)
    }

    async fn rows(&self) -> Result<SendableRecordBatchStream, EngineError> {
        let session = Engine::reading(&self.engine, &self.name())?;
        let state = session.context().state();
        let mut made = plan(&state, &self.statement).await?;
        if !self.parameters.is_empty() {
            made = made.with_param_values(self.parameters.clone())?;
        }
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(made)) = made else {
            let message = format!("{} makes no table", self.name());
            return Err(EngineError::Internal { message });
        };
        // A view that it reads can be another one by now.
        if reads_remote(&made.input)? {
            let what = "reading tables in the memory of another host";
            return Err(SqlError::unsupported(what, "put the rows there again").into());
        }
        let query = with_room(&made.input)?.into_owned();
        Ok(DataFrame::new(state, query).execute_stream().await?)
    }
}
