//! `UPDATE`, `DELETE` and `TRUNCATE`.
//!
//! A statement that changes rows is run as a query for their identities, and for their new values.

use arrow::array::{AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Schema, UInt64Type};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    DmlStatement, Explain, Expr, LogicalPlan, LogicalPlanBuilder, TableSource, TableType, WriteOp,
};
use futures::StreamExt;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::time::timeout;

use super::change::{Asked, Changed};
use super::done;
use crate::engine::definitions::view_sql;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::load::RowWriter;
use crate::remote::remote_table_of;
use crate::scan::{NearfarTable, ROW_ID, provider_of};
use crate::sql::SqlError;
use nearfar_table::table::{RowId, Table, TableId, batch_bytes};
use nearfar_table::transaction::{LockMode, RowLock, TableLockMode, Transaction, TransactionError};

impl Session {
    /// The rows that an `UPDATE` or a `DELETE` changes, which are the transaction's from then on.
    pub(super) async fn modify(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        (dml, asked): (&DmlStatement, Asked<'_>),
    ) -> Result<Changed, EngineError> {
        let table = Arc::clone(target(dml)?.table());
        let (command, is_update) = match &dml.op {
            WriteOp::Update => ("UPDATE", true),
            _ => ("DELETE", false),
        };
        transaction.check_writable(command)?;
        let query = row_query(dml, asked)?;
        let new_columns = if is_update {
            table.schema().fields().len()
        } else {
            0
        };
        loop {
            let mut found = self.query(transaction, state, &query).await?;
            let mut ids = FoundIds::of(dml);
            let writer = RowWriter::new(Arc::clone(&table), self.engine().storage());
            let mut writer = writer.keeping(asked.is_some());
            let mut others = Vec::new();
            while let Some(batch) = found.next().await {
                let batch = ids.take(batch?)?;
                let other: Vec<usize> = (1 + new_columns..batch.num_columns()).collect();
                if is_update {
                    let values: Vec<usize> = (1..=new_columns).collect();
                    writer.push(batch.project(&values)?)?;
                }
                if asked.is_some() {
                    self.keep(state, batch_bytes(&batch))?;
                    others.push(batch.project(&other)?);
                }
            }
            let FoundIds { ids, .. } = ids;
            if self
                .locked(transaction, &table, (&ids, LockMode::Exclusive))
                .await?
            {
                let count = ids.len() as u64;
                let kept = beside(writer.take_kept(), others)?;
                let (rows, _) = writer.finish()?;
                return Ok(Changed {
                    command,
                    table,
                    ids,
                    rows,
                    count,
                    kept,
                });
            }
        }
    }

    /// Deletes all rows of tables, once nobody else is changing some.
    pub(super) async fn truncate(
        &self,
        transaction: &Arc<Transaction>,
        tables: &[Arc<Table>],
    ) -> Result<StatementResult, EngineError> {
        transaction.check_writable("TRUNCATE")?;
        self.check_truncated(tables)?;
        for table in tables {
            let mode = TableLockMode::AccessExclusive;
            self.wait_for_table(transaction, table, mode).await?;
            while !self.waited(transaction.lock_all(table)?, table).await? {}
        }
        transaction.refresh()?;
        for table in tables {
            transaction.truncate(table)?;
        }
        self.end_statement(transaction).await?;
        Ok(done("TRUNCATE TABLE"))
    }

    /// Refuses to empty tables that others refer to.
    fn check_truncated(&self, tables: &[Arc<Table>]) -> Result<(), SqlError> {
        let ids: Vec<TableId> = tables.iter().map(|table| table.id()).collect();
        let Some((parent, constraint, other)) = self.references().other_child(&ids) else {
            return Ok(());
        };
        let table = tables.iter().find(|table| table.id() == parent);
        Err(SqlError::TruncateReferred {
            table: table.map_or_else(String::new, |table| table.name().to_owned()),
            constraint,
            other,
        })
    }

    /// Locks rows that a statement has found. False where one of them was another transaction's, or was changed
    /// meanwhile: the statement is to look again, once that transaction has ended.
    pub(super) async fn locked(
        &self,
        transaction: &Transaction,
        table: &Table,
        (rows, mode): (&[RowId], LockMode),
    ) -> Result<bool, EngineError> {
        let lock = transaction.lock(table, rows, mode)?;
        let is_taken = self.waited(lock, table).await?;
        if !is_taken {
            transaction.refresh()?;
        }
        Ok(is_taken)
    }

    /// Whether locks are taken; waits where another transaction has them.
    pub(super) async fn waited(
        &self,
        lock: RowLock,
        table: &Table,
    ) -> Result<bool, TransactionError> {
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

/// The rows that a statement has found. A row that it finds several times, beside several rows of another
/// table, is changed once.
struct FoundIds {
    ids: Vec<RowId>,
    /// None where no row is found twice.
    seen: Option<HashSet<RowId>>,
}

impl FoundIds {
    fn of(dml: &DmlStatement) -> Self {
        let is_join = |node: &LogicalPlan| Ok(matches!(node, LogicalPlan::Join(_)));
        let is_joined = dml.input.exists(is_join).unwrap_or(true);
        Self {
            ids: Vec::new(),
            seen: is_joined.then(HashSet::new),
        }
    }

    /// Takes rows in; those that were not there before.
    fn take(&mut self, batch: RecordBatch) -> Result<RecordBatch, EngineError> {
        let batch = match &mut self.seen {
            Some(seen) => {
                let is_new = ids_of(&batch).iter().map(|id| Some(seen.insert(*id)));
                let is_new = is_new.collect::<BooleanArray>();
                filter_record_batch(&batch, &is_new)?
            }
            None => batch,
        };
        self.ids.extend_from_slice(ids_of(&batch));
        Ok(batch)
    }
}

/// Columns of the same rows beside each other; either can be none at all.
fn beside(
    rows: Vec<RecordBatch>,
    others: Vec<RecordBatch>,
) -> Result<Vec<RecordBatch>, EngineError> {
    if rows.is_empty() {
        return Ok(others);
    }
    let both = rows.into_iter().zip(others).map(|(rows, others)| {
        let columns = [rows.columns(), others.columns()].concat();
        let (one, other) = (rows.schema(), others.schema());
        let fields = one.fields().iter().chain(other.fields()).cloned();
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let count = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(schema, columns, &count)?)
    });
    both.collect()
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
                    plan: Arc::new(row_query(dml, None)?),
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

pub(super) fn unsupported(statement: &str) -> SqlError {
    SqlError::unsupported(statement, "rows are changed with INSERT, UPDATE and DELETE")
}

/// The provider of the table that a statement changes.
pub(super) fn target(dml: &DmlStatement) -> Result<NearfarTable, EngineError> {
    if let Some(own) = own_provider(&dml.target)? {
        return Ok(own);
    }
    let provider = source_as_provider(&dml.target)?;
    Err(not_in_memory(&dml.table_name, provider.as_ref()).into())
}

/// What is told of a table or view that is not in memory.
pub(super) fn not_in_memory(name: &TableReference, provider: &dyn TableProvider) -> SqlError {
    let what = match provider.table_type() {
        _ if remote_table_of(provider).is_some() => {
            "a table in the memory of another host, whose rows do not change"
        }
        _ if view_sql(provider).is_some() => "a view",
        TableType::View => "a system table",
        _ => "a table on files",
    };
    let table = name.to_string();
    SqlError::NotInMemory { table, what }
}

/// Whether a plan adds rows to a table in memory.
pub(super) fn is_into_own(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    match plan {
        LogicalPlan::Dml(dml) => Ok(own_provider(&dml.target)?.is_some()),
        _ => Ok(false),
    }
}

/// Whether a plan adds rows to files.
pub(super) fn is_into_files(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    let LogicalPlan::Dml(dml) = plan else {
        return Ok(false);
    };
    let provider = source_as_provider(&dml.target)?;
    let is_table = provider_of(provider.as_ref()).is_some();
    Ok(!is_table && remote_table_of(provider.as_ref()).is_none())
}

fn own_provider(source: &Arc<dyn TableSource>) -> Result<Option<NearfarTable>, DataFusionError> {
    let provider = source_as_provider(source)?;
    Ok(provider_of(provider.as_ref()).cloned())
}

/// The query for the identities of the rows that a statement changes, behind them the new values of all columns where
/// there are any, and then those that are `asked` for beside these.
fn row_query(dml: &DmlStatement, asked: Asked<'_>) -> Result<LogicalPlan, EngineError> {
    let table = target(dml)?;
    let (rows, values) = match (&dml.op, dml.input.as_ref()) {
        (WriteOp::Update, LogicalPlan::Projection(projection)) => {
            (projection.input.as_ref(), projection.expr.clone())
        }
        (WriteOp::Delete, rows) => (rows, Vec::new()),
        (other, _) => return Err(unsupported(other.name()).into()),
    };
    let rows = with_row_ids(rows, &table)?;
    let id = row_id(&rows)?;
    let asked = asked.into_iter().flat_map(|columns| columns.iter());
    let asked = asked.skip(values.len()).enumerate();
    // Several of them can have one name.
    let asked = asked.map(|(at, column)| {
        let column = Expr::Column(Column::from(column));
        column.alias(format!("asked {at}"))
    });
    let columns: Vec<Expr> = std::iter::once(id).chain(values).chain(asked).collect();
    Ok(LogicalPlanBuilder::from(rows).project(columns)?.build()?)
}

/// The query for identities of rows of `table` that `query` reads.
pub(super) fn with_identities(
    query: &LogicalPlan,
    table: &Arc<Table>,
) -> Result<LogicalPlan, EngineError> {
    let mut provider = None;
    query.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let own = own_provider(&scan.source)?;
            provider = provider
                .take()
                .or(own.filter(|own| Arc::ptr_eq(own.table(), table)));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let provider = provider.ok_or_else(|| EngineError::Internal {
        message: format!("a query that does not read table `{}`", table.name()),
    })?;
    let rows = match query {
        LogicalPlan::Projection(projection) => projection.input.as_ref(),
        other => other,
    };
    let rows = with_row_ids(rows, &provider)?;
    let id = row_id(&rows)?;
    Ok(LogicalPlanBuilder::from(rows).project([id])?.build()?)
}

/// The identities of the rows of a plan that has them.
pub(super) fn row_id(rows: &LogicalPlan) -> Result<Expr, EngineError> {
    let schema = rows.schema();
    let (qualifier, field) = schema.qualified_field_with_unqualified_name(ROW_ID)?;
    Ok(Expr::Column(Column::from((qualifier, field))))
}

/// `plan` with the first scan of `table` giving identities too.
pub(super) fn with_row_ids(
    plan: &LogicalPlan,
    table: &NearfarTable,
) -> Result<LogicalPlan, EngineError> {
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
