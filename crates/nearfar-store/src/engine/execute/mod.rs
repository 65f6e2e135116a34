//! Statements, carried out.

mod alter;
mod analyze;
mod copy;
mod create;
mod drop;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, WriteOp};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement as DfStatement;
use futures::StreamExt;
use std::sync::Arc;

use super::loading::Loading;
use super::memory::QueryMemory;
use super::session::Session;
use super::stream::{CommandTag, RowStream, StatementResult};
use crate::error::StoreError;
use crate::load::Progress;
use crate::sql::{CreateClauses, Statement, StatementKind};

impl Session {
    /// Runs one statement: a query up to its first rows, anything else to its end. Dropping the
    /// future, or the stream of rows, ends the work and leaves no part of a table behind.
    ///
    /// # Errors
    /// A statement that is wrong, names what is not there, or fails.
    pub async fn run(&self, statement: &Statement) -> Result<StatementResult, StoreError> {
        match statement.kind() {
            StatementKind::Alter(alter) => self.alter_table(alter).await,
            StatementKind::CopyFrom(copy) => self.copy_from(copy).await,
            StatementKind::DataFusion { statement, create } => {
                self.run_planned(statement.as_ref().clone(), create).await
            }
        }
    }

    async fn run_planned(
        &self,
        statement: DfStatement,
        create: &CreateClauses,
    ) -> Result<StatementResult, StoreError> {
        if let DfStatement::Reset(reset) = &statement
            && let Some(result) = self.reset_setting(reset)?
        {
            return Ok(result);
        }
        let state = self.context().state();
        let plan = state.statement_to_plan(statement).await?;
        match plan {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(cmd)) => {
                self.create_table(cmd, create).await
            }
            LogicalPlan::Ddl(DdlStatement::CreateView(cmd)) => self.create_view(cmd, create).await,
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(cmd)) => {
                self.create_external_table(cmd).await
            }
            LogicalPlan::Ddl(DdlStatement::DropTable(cmd)) => self.drop_table(&cmd).await,
            LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => self.run_by_datafusion(plan).await,
            LogicalPlan::Dml(_) | LogicalPlan::Copy(_) => self.write(&state, &plan).await,
            query => self.query(&state, &query).await.map(StatementResult::Rows),
        }
    }

    /// A query, started.
    async fn query(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> Result<RowStream, StoreError> {
        let plan = state.create_physical_plan(plan).await?;
        let (context, memory) = self.query_context(state);
        self.start(plan, context, memory)
    }

    fn start(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        memory: Arc<QueryMemory>,
    ) -> Result<RowStream, StoreError> {
        let batches = execute_stream(Arc::clone(&plan), context)?;
        let batches = analyze::with_summary(self.engine(), &plan, &memory, batches);
        Ok(RowStream::start(plan, batches, memory))
    }

    /// `INSERT` and `COPY … TO`, whose plans yield the number of rows.
    async fn write(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> Result<StatementResult, StoreError> {
        let (command, table) = match plan {
            LogicalPlan::Dml(dml) if matches!(dml.op, WriteOp::Insert(_)) => {
                ("INSERT", Some(dml.table_name.table()))
            }
            LogicalPlan::Dml(_) => ("UPDATE", None),
            _ => ("COPY", None),
        };
        let physical = state.create_physical_plan(plan).await?;
        let progress = Arc::new(Progress::default());
        let _shown = table.map(|table| self.show_loading(Loading::new(table, &progress)));
        let (context, memory) = self.query_context(state);
        let config = context.session_config().clone().with_extension(progress);
        let context = TaskContext::from(state)
            .with_runtime(context.runtime_env())
            .with_session_config(config);
        let mut rows = self.start(physical, Arc::new(context), memory)?;
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            count += counted_rows(&batch?);
        }
        Ok(StatementResult::Command(CommandTag {
            command,
            rows: Some(count),
        }))
    }

    /// Settings, schemas, prepared statements, and queries that were prepared.
    async fn run_by_datafusion(&self, plan: LogicalPlan) -> Result<StatementResult, StoreError> {
        use datafusion::logical_expr::Statement as Planned;
        let command = match &plan {
            LogicalPlan::Statement(Planned::Execute(_)) => None,
            LogicalPlan::Statement(Planned::Prepare(_)) => Some("PREPARE"),
            LogicalPlan::Statement(Planned::Deallocate(_)) => Some("DEALLOCATE"),
            LogicalPlan::Statement(Planned::ResetVariable(_)) => Some("RESET"),
            LogicalPlan::Statement(_) => Some("SET"),
            LogicalPlan::Ddl(DdlStatement::CreateCatalogSchema(_)) => Some("CREATE SCHEMA"),
            LogicalPlan::Ddl(DdlStatement::DropCatalogSchema(_)) => Some("DROP SCHEMA"),
            LogicalPlan::Ddl(DdlStatement::DropView(_)) => Some("DROP VIEW"),
            LogicalPlan::Ddl(DdlStatement::CreateFunction(_)) => Some("CREATE FUNCTION"),
            LogicalPlan::Ddl(DdlStatement::DropFunction(_)) => Some("DROP FUNCTION"),
            _ => Some("OK"),
        };
        let (state, plan) = self
            .context()
            .execute_logical_plan(plan)
            .await?
            .into_parts();
        match (command, &plan) {
            (Some(command), _) => Ok(done(command)),
            (None, LogicalPlan::Dml(_) | LogicalPlan::Copy(_)) => self.write(&state, &plan).await,
            (None, _) => self.query(&state, &plan).await.map(StatementResult::Rows),
        }
    }
}

/// A command that counts no rows.
fn done(command: &'static str) -> StatementResult {
    StatementResult::Command(CommandTag {
        command,
        rows: None,
    })
}

/// The rows that a plan says it has written.
fn counted_rows(batch: &RecordBatch) -> u64 {
    let counts = batch
        .columns()
        .first()
        .and_then(|column| column.as_primitive_opt::<UInt64Type>());
    counts.map_or(0, |counts| counts.iter().flatten().sum())
}
