//! `UPDATE`, `DELETE` and `TRUNCATE`.
//!
//! A statement that changes rows is run as a query for their identities, and for their new values.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    DmlStatement, Explain, Expr, LogicalPlan, LogicalPlanBuilder, TableSource, WriteOp,
};
use futures::StreamExt;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::time::timeout;

use super::{counted, done};
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::load::RowWriter;
use crate::scan::{NearfarTable, ROW_ID, provider_of};
use crate::sql::SqlError;
use nearfar_table::table::{RowId, Table};
use nearfar_table::transaction::{RowLock, Transaction, TransactionError};

impl Session {
    pub(super) async fn modify(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        dml: &DmlStatement,
    ) -> Result<StatementResult, EngineError> {
        let table = Arc::clone(target(dml)?.table());
        match &dml.op {
            WriteOp::Truncate => self.truncate(transaction, &[table]).await,
            WriteOp::Delete => {
                transaction.check_writable("DELETE")?;
                self.delete(transaction, state, (&table, dml)).await
            }
            WriteOp::Update => {
                transaction.check_writable("UPDATE")?;
                self.update(transaction, state, (&table, dml)).await
            }
            other => Err(unsupported(other.name()).into()),
        }
    }

    /// Deletes all rows of tables, once nobody else is changing some.
    pub(super) async fn truncate(
        &self,
        transaction: &Transaction,
        tables: &[Arc<Table>],
    ) -> Result<StatementResult, EngineError> {
        transaction.check_writable("TRUNCATE")?;
        for table in tables {
            while !self.waited(transaction.lock_all(table)?, table).await? {}
        }
        transaction.refresh()?;
        for table in tables {
            transaction.truncate(table)?;
        }
        transaction.end_statement(&self.gate).await?;
        Ok(done("TRUNCATE TABLE"))
    }

    async fn delete(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        (table, dml): (&Arc<Table>, &DmlStatement),
    ) -> Result<StatementResult, EngineError> {
        loop {
            let mut rows = self.query(transaction, state, &row_query(dml)?).await?;
            let mut ids = Vec::new();
            while let Some(batch) = rows.next().await {
                ids.extend_from_slice(ids_of(&batch?));
            }
            if self.locked(transaction, table, &ids).await? {
                let count = ids.len() as u64;
                transaction.delete(table, ids)?;
                transaction.end_statement(&self.gate).await?;
                return Ok(counted("DELETE", count));
            }
        }
    }

    async fn update(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        (table, dml): (&Arc<Table>, &DmlStatement),
    ) -> Result<StatementResult, EngineError> {
        loop {
            let mut rows = self.query(transaction, state, &row_query(dml)?).await?;
            let mut writer = RowWriter::new(Arc::clone(table), self.engine().storage());
            let mut ids = Vec::new();
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                ids.extend_from_slice(ids_of(&batch));
                let values: Vec<usize> = (1..batch.num_columns()).collect();
                writer.push(batch.project(&values)?)?;
            }
            if self.locked(transaction, table, &ids).await? {
                let (rows, count) = writer.finish()?;
                transaction.replace(table, ids, rows)?;
                transaction.end_statement(&self.gate).await?;
                return Ok(counted("UPDATE", count));
            }
        }
    }

    /// Locks rows that a statement has found. False where one of them was another transaction's, or was changed
    /// meanwhile: the statement is to look again, once that transaction has ended.
    pub(super) async fn locked(
        &self,
        transaction: &Transaction,
        table: &Table,
        rows: &[RowId],
    ) -> Result<bool, EngineError> {
        let is_taken = self.waited(transaction.lock(table, rows)?, table).await?;
        if !is_taken {
            transaction.refresh()?;
        }
        Ok(is_taken)
    }

    /// Whether locks are taken; waits where another transaction has them.
    async fn waited(&self, lock: RowLock, table: &Table) -> Result<bool, TransactionError> {
        match lock {
            RowLock::Taken => return Ok(true),
            RowLock::Changed => {}
            RowLock::Held(other) => match self.settings().lock_timeout() {
                None => other.wait().await,
                Some(lock_timeout) => {
                    let late = |_| TransactionError::LockTimeout {
                        table: table.name().to_owned(),
                    };
                    timeout(lock_timeout, other.wait()).await.map_err(late)?;
                }
            },
        }
        Ok(false)
    }
}

/// The identities in the first column.
fn ids_of(batch: &RecordBatch) -> &[RowId] {
    batch.column(0).as_primitive::<UInt64Type>().values()
}

/// The plan of an `EXPLAIN` of a statement that changes rows as that of the query behind it; any
/// other plan as it is.
pub(super) fn explained(plan: &LogicalPlan) -> Result<Cow<'_, LogicalPlan>, EngineError> {
    let changes = |plan: &LogicalPlan| matches!(plan, LogicalPlan::Dml(dml) if !matches!(dml.op, WriteOp::Insert(_)));
    match plan {
        LogicalPlan::Explain(explain) => match explain.plan.as_ref() {
            LogicalPlan::Dml(dml) if matches!(dml.op, WriteOp::Update | WriteOp::Delete) => {
                Ok(Cow::Owned(LogicalPlan::Explain(Explain {
                    plan: Arc::new(row_query(dml)?),
                    ..explain.clone()
                })))
            }
            LogicalPlan::Dml(dml) if changes(&explain.plan) => {
                Err(unsupported(&format!("EXPLAIN {}", dml.op.name())).into())
            }
            _ => Ok(Cow::Borrowed(plan)),
        },
        LogicalPlan::Analyze(analyze) if changes(&analyze.input) => {
            let what = "EXPLAIN ANALYZE of a statement that changes rows";
            Err(SqlError::unsupported(what, "use EXPLAIN, which does not run it").into())
        }
        _ => Ok(Cow::Borrowed(plan)),
    }
}

fn unsupported(statement: &str) -> SqlError {
    SqlError::unsupported(statement, "rows are changed with INSERT, UPDATE and DELETE")
}

/// The provider of the table that a statement changes.
fn target(dml: &DmlStatement) -> Result<NearfarTable, EngineError> {
    own_provider(&dml.target)?.ok_or_else(|| {
        let what = "a view, a table on files or a system table";
        let table = dml.table_name.to_string();
        SqlError::NotInMemory { table, what }.into()
    })
}

/// Whether a plan adds rows to a table in memory.
pub(super) fn is_into_own(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    match plan {
        LogicalPlan::Dml(dml) => Ok(own_provider(&dml.target)?.is_some()),
        _ => Ok(false),
    }
}

fn own_provider(source: &Arc<dyn TableSource>) -> Result<Option<NearfarTable>, DataFusionError> {
    let provider = source_as_provider(source)?;
    Ok(provider_of(provider.as_ref()).cloned())
}

/// The query for the identities of the rows that a statement changes, and behind them the new values
/// of all columns where there are any.
fn row_query(dml: &DmlStatement) -> Result<LogicalPlan, EngineError> {
    let table = target(dml)?;
    let (rows, values) = match (&dml.op, dml.input.as_ref()) {
        (WriteOp::Update, LogicalPlan::Projection(projection)) => {
            (projection.input.as_ref(), projection.expr.clone())
        }
        (WriteOp::Delete, rows) => (rows, Vec::new()),
        (other, _) => return Err(unsupported(other.name()).into()),
    };
    let rows = with_row_ids(rows, &table)?;
    let (qualifier, field) = rows
        .schema()
        .qualified_field_with_unqualified_name(ROW_ID)?;
    let id = Expr::Column(Column::from((qualifier, field)));
    let columns: Vec<Expr> = std::iter::once(id).chain(values).collect();
    Ok(LogicalPlanBuilder::from(rows).project(columns)?.build()?)
}

/// `plan` with the first scan of `table` giving identities too.
fn with_row_ids(plan: &LogicalPlan, table: &NearfarTable) -> Result<LogicalPlan, EngineError> {
    let mut is_done = false;
    let plan = plan.clone().transform_up(|node| {
        if is_done {
            return Ok(Transformed::no(node));
        }
        let LogicalPlan::TableScan(scan) = &node else {
            return Ok(Transformed::no(node));
        };
        let is_target = own_provider(&scan.source)?
            .is_some_and(|provider| Arc::ptr_eq(provider.table(), table.table()));
        if !is_target {
            return Ok(Transformed::no(node));
        }
        is_done = true;
        let source = provider_as_source(Arc::new(table.with_row_ids()));
        let scan = LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?;
        Ok(Transformed::yes(scan.build()?))
    })?;
    let plan = plan
        .data
        .transform_up(|node| Ok(Transformed::yes(node.recompute_schema()?)))?;
    Ok(plan.data)
}
