//! Statements, carried out.

mod access;
mod alter;
mod analyze;
mod call;
mod change;
mod columns;
mod compiled;
mod constraints;
mod copy;
mod copy_client;
mod create;
mod create_remote;
mod cursors;
mod default;
mod define;
mod drop;
mod index;
mod kept;
mod locked;
mod modify;
mod noted_store;
mod patterns;
mod plan;
mod rejoin;
mod sequence;
mod session;
mod table_locks;
mod tables;
mod transaction;

pub(super) use constraints::has_key;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, WriteOp};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use futures::StreamExt;
use std::sync::Arc;

use super::loading::Loading;
use super::metering::planned_bytes;
use super::planning::physical_plan;
use super::session::Session;
use super::stream::{CommandTag, Retry, RowStream, StatementResult};
use crate::error::EngineError;
use crate::load::Progress;
use crate::memory::QueryMemory;
use crate::sql::{CreateClauses, Procedure, RowLocking, SqlError, Statement, StatementKind};
use crate::stack::polled_with_stack;
pub use access::{Action, Right};
pub(super) use alter::table_reference;
use change::Change;
pub(super) use change::{MergeInto, PreparedChange, Upsert};
use compiled::Compiled;
pub use compiled::{Immediate, Ran, parameter_of};
pub use copy_client::ClientRows;
use copy_client::no_copy;
use modify::explained;
use nearfar_table::transaction::{CloseOnDrop, CommitGate, Transaction};
use noted_store::FullNote;
use patterns::check_patterns;
pub(super) use plan::{plan, shown_schema};
use rejoin::{Stage, without_hash_joins};
pub use session::PREPARED_MAX;
pub(super) use transaction::within;
use transaction::{FailOnDrop, alone};

impl Session {
    /// Runs one statement: a query up to its first rows, anything else to its end. Dropping the
    /// future, or the stream of rows, ends the work and leaves no part of a table behind; a commit
    /// that is under way by then comes to its end, which is told by [`Self::run_behind`]. Outside of
    /// a transaction that `BEGIN` began, the statement is one of its own; within one, it fails the
    /// transaction if it fails or is given up.
    ///
    /// # Errors
    /// A statement that is wrong, names what is not there, or fails.
    pub async fn run(&self, statement: &Statement) -> Result<StatementResult, EngineError> {
        self.run_with(statement, &[]).await
    }

    /// The same for a statement with parameters, `$1` and so on.
    ///
    /// # Errors
    /// As [`Self::run`]; a parameter without a value.
    pub async fn run_with(
        &self,
        statement: &Statement,
        parameters: &[ScalarValue],
    ) -> Result<StatementResult, EngineError> {
        self.run_behind(&Arc::default(), statement, parameters)
            .await
    }

    /// The same for who may give the statement up and has to know what becomes of it: closes `gate`
    /// first, and drops the future only where that says that nothing is committed.
    ///
    /// # Errors
    /// As [`Self::run_with`]; [`EngineError::Cancelled`] once the gate is closed.
    pub async fn run_behind(
        &self,
        gate: &Arc<CommitGate>,
        statement: &Statement,
        parameters: &[ScalarValue],
    ) -> Result<StatementResult, EngineError> {
        let _closing = CloseOnDrop(Arc::clone(gate));
        self.behind(gate).run_here(statement, parameters).await
    }

    async fn run_here(
        &self,
        statement: &Statement,
        parameters: &[ScalarValue],
    ) -> Result<StatementResult, EngineError> {
        if let Some(distribution) = &self.distribution
            && let Some(tag) = distribution.run(self, statement).await?
        {
            return Ok(StatementResult::Command(tag));
        }
        if let StatementKind::Transaction(command) = statement.kind() {
            return self.control_transaction(command).await;
        }
        let transaction = self.current_transaction()?;
        let failing = FailOnDrop(Some(Arc::clone(&transaction)));
        let compiled = self.run_compiled(&transaction, statement, parameters);
        let result = match compiled.await? {
            Some(result) => result,
            None => {
                let running = self.run_in(&transaction, statement, parameters);
                polled_with_stack(running).await?
            }
        };
        if statement.is_of_database() {
            transaction.note_query();
        }
        failing.forget();
        Ok(result)
    }

    async fn run_in(
        &self,
        transaction: &Arc<Transaction>,
        statement: &Statement,
        parameters: &[ScalarValue],
    ) -> Result<StatementResult, EngineError> {
        self.check_kind(transaction, statement.kind())?;
        match statement.kind() {
            StatementKind::Alter(alter) => {
                self.defining(transaction, "ALTER TABLE")?;
                self.alter_table(alter).await
            }
            StatementKind::CreateIndex(create) => {
                if create.is_concurrent {
                    alone(transaction, "CREATE INDEX CONCURRENTLY")?;
                }
                self.defining(transaction, "CREATE INDEX")?;
                self.create_index(create).await
            }
            StatementKind::AlterIndex(alter) => {
                self.defining(transaction, "ALTER INDEX")?;
                self.alter_index(alter).await
            }
            StatementKind::DropIndex(drop) => {
                self.defining(transaction, "DROP INDEX")?;
                self.drop_index(drop).await
            }
            StatementKind::Sequence(command) => {
                self.defining(transaction, "a change of a sequence")?;
                self.run_on_sequences(command).await
            }
            StatementKind::CopyFrom(copy) => self.copy_from(transaction, copy).await,
            StatementKind::CopyIn(_) | StatementKind::CopyOut(_) => Err(no_copy().into()),
            StatementKind::Call(call) => {
                alone(transaction, &format!("CALL {}", call.procedure.name()))?;
                match call.procedure {
                    Procedure::Merge => self.merge_table(&call.table).await,
                    Procedure::Load => self.load_table(&call.table).await,
                    Procedure::Check => self.check_table(transaction, &call.table).await,
                }
            }
            StatementKind::Checkpoint => {
                alone(transaction, "CHECKPOINT")?;
                self.checkpoint().await
            }
            StatementKind::Cursor(command) => {
                self.run_on_cursors(transaction, command, parameters).await
            }
            StatementKind::LockTable(lock) => self.lock_tables(transaction, lock).await,
            StatementKind::Tables(command) => self.run_on_tables(transaction, command).await,
            StatementKind::Session(command) => self.run_session_command(transaction, command).await,
            StatementKind::DataFusion {
                statement: parsed,
                create,
                locking,
            } => {
                let given = (parsed.as_ref(), parameters);
                let clauses = (create, locking.as_ref());
                self.run_planned(transaction, statement, given, clauses)
                    .await
            }
            StatementKind::Transaction(command) => self.control_transaction(command).await,
        }
    }

    async fn run_planned(
        &self,
        transaction: &Arc<Transaction>,
        whole: &Statement,
        (statement, parameters): (&DfStatement, &[ScalarValue]),
        (create, locking): (&CreateClauses, Option<&RowLocking>),
    ) -> Result<StatementResult, EngineError> {
        let text = whole.text();
        let state = within(transaction, self.context().state());
        let values = parameters.iter().map(|value| value.size() as u64);
        self.keep(&state, planned_bytes(text) + values.sum::<u64>())?;
        let is_reusable = locking.is_none() && self.distribution.is_none();
        let kept = self.run_kept(transaction, &state, (whole, parameters));
        if is_reusable && let Some(rows) = kept.await? {
            return Ok(StatementResult::Rows(rows));
        }
        let mut plan = plan(&state, statement).await?;
        let raw = plan.clone();
        if !parameters.is_empty() {
            plan = plan.with_param_values(parameters.to_vec())?;
        }
        self.check_access(transaction, &plan)?;
        self.check_distribution(whole)?;
        let given = (&raw, parameters);
        let compiled = self.run_first(transaction, &state, whole, (given, locking));
        if let Some(result) = compiled.await? {
            return Ok(result);
        }
        check_patterns(&plan)?;
        self.wait_for_tables(transaction, &plan, locking.is_some())
            .await?;
        if let Some(locking) = locking {
            return self
                .select_locked(transaction, &state, &plan, locking)
                .await;
        }
        if let LogicalPlan::Ddl(ddl) = &plan {
            self.define_planned(transaction, ddl, text)?;
        }
        match plan {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(cmd)) => {
                self.create_table(&state, cmd, create, (statement, parameters))
                    .await
            }
            LogicalPlan::Ddl(DdlStatement::CreateView(cmd)) => self.create_view(cmd, create).await,
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(cmd)) => {
                self.create_external_table(cmd).await
            }
            LogicalPlan::Ddl(DdlStatement::DropTable(cmd)) => self.drop_table(&cmd).await,
            LogicalPlan::Ddl(DdlStatement::DropView(cmd)) => self.drop_view(&cmd).await,
            LogicalPlan::Ddl(ddl) => match self.change_schema(&ddl)? {
                Some(result) => Ok(result),
                None => {
                    let plan = LogicalPlan::Ddl(ddl);
                    self.run_by_datafusion(transaction, text, plan).await
                }
            },
            LogicalPlan::Statement(_) => self.run_by_datafusion(transaction, text, plan).await,
            plan if is_reusable => {
                let given = ((whole, statement), given);
                self.run_reusable(transaction, &state, given, &plan).await
            }
            plan => self.run_plan(transaction, &state, &plan).await,
        }
    }

    /// What reads and changes rows; the plan of what reads them is kept for when it runs again. `raw` is `plan` without the
    /// values of its parameters.
    async fn run_reusable(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        (statement, (raw, parameters)): (
            (&Statement, &DfStatement),
            (&LogicalPlan, &[ScalarValue]),
        ),
        plan: &LogicalPlan,
    ) -> Result<StatementResult, EngineError> {
        if parameters.is_empty() {
            let kept = self.run_and_keep(transaction, state, statement, plan);
            return match kept.await? {
                Some(rows) => Ok(StatementResult::Rows(rows)),
                None => self.run_plan(transaction, state, plan).await,
            };
        }
        let result = self.run_plan(transaction, state, plan).await?;
        if let StatementResult::Rows(rows) = &result {
            let physical = Arc::clone(rows.plan());
            self.keep_plan(state, statement, (raw, parameters), physical);
        }
        Ok(result)
    }

    /// Runs a statement, whose plan was made before its parameters were put in, as one that is not planned again from now
    /// on. None where it has to be planned, and nothing is done.
    async fn run_first(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        whole: &Statement,
        ((raw, parameters), locking): ((&LogicalPlan, &[ScalarValue]), Option<&RowLocking>),
    ) -> Result<Option<StatementResult>, EngineError> {
        if self.distribution.is_some() {
            return Ok(None);
        }
        let Some(compiled) = Compiled::of(self, state, raw, (parameters, locking)) else {
            // Not any more, as when its index is gone. With other parameters it may be again.
            if parameters.is_empty() && whole.compiled::<Compiled>().is_some() {
                whole.forget_compiled();
            }
            return Ok(None);
        };
        let is_join = compiled.is_join();
        whole.keep_compiled(compiled);
        let result = self.run_compiled(transaction, whole, parameters).await?;
        // A join of many rows may have a generic plan.
        if result.is_none() && is_join {
            whole.forget_compiled();
        }
        Ok(result)
    }

    /// Refuses to distribute a table where there is no cluster.
    fn check_distribution(&self, statement: &Statement) -> Result<(), SqlError> {
        if statement.distribution().is_none() || self.engine().distribution().is_some() {
            return Ok(());
        }
        let clause = "DISTRIBUTED BY and REPLICATED";
        let instead = "leave it out, or start the server with --cluster";
        Err(SqlError::unsupported(clause, instead))
    }

    /// Has a planned statement define something, or refuses that within a transaction.
    fn define_planned(
        &self,
        transaction: &Transaction,
        ddl: &DdlStatement,
        text: &str,
    ) -> Result<(), EngineError> {
        let words = text.split_whitespace().take(2).map(str::to_uppercase);
        let words = words.collect::<Vec<String>>().join(" ");
        match ddl {
            DdlStatement::CreateMemoryTable(_)
            | DdlStatement::CreateView(_)
            | DdlStatement::DropTable(_)
            | DdlStatement::DropView(_)
            | DdlStatement::CreateCatalogSchema(_)
            | DdlStatement::DropCatalogSchema(_) => self.defining(transaction, &words),
            _ => Ok(alone(transaction, &words)?),
        }
    }

    /// Plans a statement, whose parameters have the types of `parameters`, without running it. Whether it
    /// is one that is not planned again from now on.
    ///
    /// # Errors
    /// A statement that is wrong, names what is not there, or is not allowed.
    pub async fn compile(
        &self,
        statement: &Statement,
        parameters: &[ScalarValue],
    ) -> Result<bool, EngineError> {
        let StatementKind::DataFusion {
            statement: parsed,
            locking,
            ..
        } = statement.kind()
        else {
            return Ok(false);
        };
        let transaction = self.current_transaction()?;
        let state = within(&transaction, self.context().state());
        self.keep(&state, planned_bytes(statement.text()))?;
        let plan = plan(&state, parsed).await?;
        self.check_access(&transaction, &plan)?;
        // Compiled statements find their rows on this machine.
        let compiled = match &self.distribution {
            Some(_) => None,
            None => Compiled::of(self, &state, &plan, (parameters, locking.as_ref())),
        };
        let is_compiled = compiled.is_some();
        compiled
            .into_iter()
            .for_each(|compiled| statement.keep_compiled(compiled));
        Ok(is_compiled)
    }

    /// Takes `bytes` of a statement's memory, to its end.
    fn keep(&self, state: &SessionState, bytes: u64) -> Result<(), EngineError> {
        let settings = self.settings_in(state);
        match settings.statement() {
            Some(statement) => {
                Ok(statement.keep(usize::try_from(bytes).unwrap_or(usize::MAX >> 4))?)
            }
            None => Ok(()),
        }
    }

    /// What reads and changes rows.
    async fn run_plan(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> Result<StatementResult, EngineError> {
        let (change, merge) = (Change::of(plan), MergeInto::of(plan));
        if self.distribution.is_some() && (change.is_some() || merge.is_some()) {
            let instead = "a cluster adds and truncates rows only";
            return Err(SqlError::unsupported("a change of rows in a cluster", instead).into());
        }
        if let Some(change) = change {
            return self.change(transaction, state, &change).await;
        }
        if let Some(merge) = merge {
            return Box::pin(self.merge_into(transaction, state, merge)).await;
        }
        match plan {
            LogicalPlan::Dml(dml) if matches!(dml.op, WriteOp::Truncate) => {
                let table = Arc::clone(modify::target(dml)?.table());
                self.truncate(transaction, &[table]).await
            }
            LogicalPlan::Dml(dml) if !matches!(dml.op, WriteOp::Insert(_)) => {
                Err(modify::unsupported(dml.op.name()).into())
            }
            LogicalPlan::Dml(_) | LogicalPlan::Copy(_) => {
                self.write(transaction, state, plan).await
            }
            query => {
                let query = explained(query)?;
                let rows = self.query(transaction, state, &query).await?;
                let rows = match &*query {
                    LogicalPlan::Analyze(run) if matches!(*run.input, LogicalPlan::Dml(_)) => {
                        let rows = rows.buffered().await?;
                        self.end_statement(transaction).await?;
                        rows
                    }
                    _ => rows,
                };
                Ok(StatementResult::Rows(rows))
            }
        }
    }

    /// A query, started.
    async fn query(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> Result<RowStream, EngineError> {
        let physical = physical_plan(state, plan).await?;
        self.start_query(transaction, state, (plan, Stage::Raw), physical)
    }

    /// Starts a query that is carried out by `physical`.
    fn start_query(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        plan: (&LogicalPlan, Stage),
        physical: Arc<dyn ExecutionPlan>,
    ) -> Result<RowStream, EngineError> {
        let (context, memory) = self.query_context(state, physical.as_ref());
        let engine = self.engine();
        let retry = without_hash_joins(engine, state, plan, &physical, (&context, &memory));
        self.start(transaction, physical, (context, memory), retry)
    }

    fn start(
        &self,
        transaction: &Arc<Transaction>,
        plan: Arc<dyn ExecutionPlan>,
        (context, memory): (Arc<TaskContext>, Arc<QueryMemory>),
        retry: Option<Retry>,
    ) -> Result<RowStream, EngineError> {
        let _lane = self.engine().lanes().map(|lanes| lanes.enter(&plan));
        let batches = execute_stream(Arc::clone(&plan), context)?;
        let batches = analyze::with_summary(self.engine(), &plan, &memory, batches);
        let transaction = Arc::clone(transaction);
        let (batches, pool) = ((batches, retry), self.engine().pool().cloned());
        Ok(RowStream::start(plan, batches, memory, transaction, pool))
    }

    /// `INSERT` and `COPY … TO`, whose plans yield the number of rows.
    async fn write(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> Result<StatementResult, EngineError> {
        let (command, table) = match plan {
            LogicalPlan::Dml(dml) => ("INSERT", Some(dml.table_name.table())),
            _ => ("COPY", None),
        };
        if table.is_some() {
            transaction.check_writable(command)?;
        }
        let physical = physical_plan(state, plan).await?;
        let progress = Arc::new(Progress::default());
        let _shown = table.map(|table| self.show_loading(Loading::new(table, &progress)));
        let (context, memory) = self.query_context(state, physical.as_ref());
        let config = context.session_config().clone().with_extension(progress);
        let config = config.with_extension(Arc::clone(&self.gate));
        let full = FullNote::default();
        let runtime = match plan {
            LogicalPlan::Copy(_) => full.watch(&context.runtime_env())?,
            _ => context.runtime_env(),
        };
        let context = TaskContext::from(state)
            .with_runtime(runtime)
            .with_session_config(config);
        let context = (Arc::new(context), memory);
        let retry = match modify::is_into_own(plan)? {
            true => {
                let given = (&context.0, &context.1);
                without_hash_joins(self.engine(), state, (plan, Stage::Raw), &physical, given)
            }
            // A file may have rows already.
            false => None,
        };
        let mut rows = self.start(transaction, physical, context, retry)?;
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            count += counted_rows(&batch.map_err(|error| full.told(error))?);
        }
        // Behind the last check of the rows: what is committed is not refused any more.
        self.end_statement(transaction).await?;
        Ok(counted(command, count))
    }

    /// Schemas, prepared statements, and queries that were prepared.
    async fn run_by_datafusion(
        &self,
        transaction: &Arc<Transaction>,
        text: &str,
        plan: LogicalPlan,
    ) -> Result<StatementResult, EngineError> {
        use datafusion::logical_expr::Statement as Planned;
        let mut prepared = None;
        let command = match &plan {
            LogicalPlan::Statement(Planned::Execute(execute)) => {
                self.check_prepared(&execute.name)?;
                None
            }
            LogicalPlan::Statement(Planned::Prepare(prepare)) => {
                self.check_new_prepared(&prepare.name)?;
                let charge = self.charge("a prepared statement", planned_bytes(text))?;
                prepared = Some((prepare.name.clone(), charge));
                Some("PREPARE")
            }
            LogicalPlan::Ddl(DdlStatement::CreateCatalogSchema(_)) => Some("CREATE SCHEMA"),
            LogicalPlan::Ddl(DdlStatement::DropCatalogSchema(_)) => Some("DROP SCHEMA"),
            LogicalPlan::Ddl(DdlStatement::CreateFunction(_)) => Some("CREATE FUNCTION"),
            LogicalPlan::Ddl(DdlStatement::DropFunction(_)) => Some("DROP FUNCTION"),
            _ => Some("OK"),
        };
        let (state, plan) = self
            .context()
            .execute_logical_plan(plan)
            .await?
            .into_parts();
        if let Some((name, charge)) = prepared {
            self.prepared.lock().insert(name, charge);
        }
        match (command, plan) {
            (Some(command), _) => Ok(done(command)),
            (None, plan) => {
                let plan = PreparedChange::show(plan)?;
                self.check_current(&plan).await?;
                self.check_access(transaction, &plan)?;
                check_patterns(&plan)?;
                let state = within(transaction, state);
                self.wait_for_tables(transaction, &plan, false).await?;
                self.run_plan(transaction, &state, &plan).await
            }
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

/// A command that counts rows.
fn counted(command: &'static str, rows: u64) -> StatementResult {
    StatementResult::Command(CommandTag {
        command,
        rows: Some(rows),
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
