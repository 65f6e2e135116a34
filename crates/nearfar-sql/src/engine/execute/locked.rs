//! Queries that lock the rows that they read: `SELECT … FOR UPDATE`.
//!
//! Such a query is run with the identities of its rows, which are kept until all are locked. What somebody
//! else has changed meanwhile is looked for again.

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::UInt64Type;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchemaRef};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    Expr, FetchType, Limit, LogicalPlan, LogicalPlanBuilder, Projection, SkipType, TableScan,
};
use futures::StreamExt;
use std::sync::Arc;

use super::access::Action;
use super::change::rows_plan;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::scan::{NearfarTable, ROW_ID, provider_of};
use crate::sql::{LockWait, RowLocking, SqlError};
use nearfar_table::table::{RowId, Table, batch_bytes};
use nearfar_table::transaction::{LockMode, RowLock, Transaction, TransactionError};

/// A table whose rows are locked, and the column of their identities.
type LockedTable = (Arc<Table>, Column);

impl Session {
    /// A query whose rows are the transaction's from then on.
    pub(super) async fn select_locked(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        plan: &LogicalPlan,
        locking: &RowLocking,
    ) -> Result<StatementResult, EngineError> {
        self.check(transaction, Action::LockRows)?;
        if self.distribution.is_some() {
            let instead = "leave it out: rows of a cluster's tables can't be locked";
            return Err(SqlError::unsupported("SELECT … FOR UPDATE in a cluster", instead).into());
        }
        // Rows that are left out do not count.
        let (kept, rows) = match (locking.wait, plan) {
            (LockWait::Skip, LogicalPlan::Limit(limit)) => (Kept::of(limit)?, limit.input.as_ref()),
            _ => (Kept::default(), plan),
        };
        let (query, locked) = with_identities(rows, locking)?;
        let tables: Vec<Arc<Table>> = locked.into_iter().map(|(table, _)| table).collect();
        let shown = plan.schema();
        let found = loop {
            let mut rows = self.query(transaction, state, &query).await?;
            let mut batches = Vec::new();
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                self.keep(state, batch_bytes(&batch))?;
                batches.push(batch);
            }
            let found = (batches, shown.fields().len());
            let locked = match locking.wait {
                LockWait::Skip => lock_free((transaction, locking.mode), &tables, found, kept)?,
                _ => {
                    self.lock_all_of(transaction, &tables, found, locking)
                        .await?
                }
            };
            match locked {
                Some(batches) => break batches,
                None => transaction.refresh()?,
            }
        };
        let plan = named(shown, rows_plan(shown, found)?)?;
        let rows = self.query(transaction, state, &plan).await?.buffered();
        Ok(StatementResult::Rows(rows.await?))
    }

    /// Locks all rows of `batches`, whose columns behind the first `shown` are identities; these first columns. None
    /// where one was changed meanwhile.
    async fn lock_all_of(
        &self,
        transaction: &Transaction,
        tables: &[Arc<Table>],
        (batches, shown): (Vec<RecordBatch>, usize),
        locking: &RowLocking,
    ) -> Result<Option<Vec<RecordBatch>>, EngineError> {
        for (at, table) in tables.iter().enumerate() {
            let ids = batches
                .iter()
                .flat_map(|batch| ids_of(batch, shown + at).flatten());
            let mut ids: Vec<RowId> = ids.collect();
            ids.sort_unstable();
            ids.dedup();
            let rows = (ids.as_slice(), locking.mode);
            let is_taken = match locking.wait {
                LockWait::Wait => self.locked(transaction, table, rows).await?,
                LockWait::Fail | LockWait::Skip => match lock_now(transaction, table, rows)? {
                    Lock::Taken => true,
                    Lock::Changed => false,
                    Lock::Held => return Err(not_available(table).into()),
                },
            };
            if !is_taken {
                return Ok(None);
            }
        }
        let columns: Vec<usize> = (0..shown).collect();
        let batches = batches.iter().map(|batch| Ok(batch.project(&columns)?));
        batches.collect::<Result<_, EngineError>>().map(Some)
    }
}

/// The error of a row that another transaction has, where that is not waited for.
pub(super) fn not_available(table: &Table) -> TransactionError {
    TransactionError::LockNotAvailable {
        table: table.name().to_owned(),
    }
}

/// What became of locks that are not waited for.
pub(super) enum Lock {
    Taken,
    /// A row was changed since it was read.
    Changed,
    /// Another transaction has one of the rows.
    Held,
}

/// Locks rows of a table, without a wait.
///
/// # Errors
/// As [`Transaction::lock`], but for a deadlock, which there is none without a wait.
pub(super) fn lock_now(
    transaction: &Transaction,
    table: &Table,
    (rows, mode): (&[RowId], LockMode),
) -> Result<Lock, TransactionError> {
    match transaction.lock(table, rows, mode) {
        Ok(RowLock::Taken) => Ok(Lock::Taken),
        Ok(RowLock::Changed) => Ok(Lock::Changed),
        Ok(RowLock::Held(_)) | Err(TransactionError::Deadlock) => Ok(Lock::Held),
        Err(other) => Err(other),
    }
}

/// Which of the rows that could be locked are given.
#[derive(Debug, Clone, Copy)]
struct Kept {
    skip: usize,
    fetch: usize,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            skip: 0,
            fetch: usize::MAX,
        }
    }
}

impl Kept {
    fn of(limit: &Limit) -> Result<Self, EngineError> {
        match (limit.get_skip_type()?, limit.get_fetch_type()?) {
            (SkipType::Literal(skip), FetchType::Literal(fetch)) => Ok(Self {
                skip,
                fetch: fetch.unwrap_or(usize::MAX),
            }),
            _ => {
                let what = "SKIP LOCKED with a LIMIT that is computed";
                Err(SqlError::unsupported(what, "give the number, or a parameter").into())
            }
        }
    }
}

/// Locks those rows of `batches` that nobody else has, and gives those of [`Kept`]. None where one was changed
/// meanwhile.
fn lock_free(
    (transaction, mode): (&Transaction, LockMode),
    tables: &[Arc<Table>],
    (batches, shown): (Vec<RecordBatch>, usize),
    kept: Kept,
) -> Result<Option<Vec<RecordBatch>>, EngineError> {
    let columns: Vec<usize> = (0..shown).collect();
    let end = kept.skip.saturating_add(kept.fetch);
    let mut count = 0;
    let mut found = Vec::new();
    for batch in &batches {
        let mut is_given = vec![false; batch.num_rows()];
        for (row, is_given) in is_given.iter_mut().enumerate() {
            if count >= end {
                break;
            }
            let mut is_free = true;
            for (at, table) in tables.iter().enumerate() {
                let Some(id) = id_at(batch, shown + at, row) else {
                    continue;
                };
                match lock_now(transaction, table, (&[id], mode))? {
                    Lock::Taken => {}
                    Lock::Changed => return Ok(None),
                    Lock::Held => is_free = false,
                }
            }
            if is_free {
                *is_given = count >= kept.skip;
                count += 1;
            }
        }
        let given = BooleanArray::from(is_given);
        found.push(filter_record_batch(&batch.project(&columns)?, &given)?);
    }
    Ok(Some(found))
}

/// The identities in a column; none where an outer join has found no row.
fn ids_of(batch: &RecordBatch, column: usize) -> impl Iterator<Item = Option<RowId>> + '_ {
    (0..batch.num_rows()).map(move |row| id_at(batch, column, row))
}

fn id_at(batch: &RecordBatch, column: usize, row: usize) -> Option<RowId> {
    let ids = batch.column(column).as_primitive::<UInt64Type>();
    ids.is_valid(row).then(|| ids.value(row))
}

/// Rows under the names that they are shown with.
fn named(shown: &DFSchemaRef, rows: LogicalPlan) -> Result<LogicalPlan, EngineError> {
    let columns = rows.schema().columns().into_iter().map(Expr::Column);
    let shown = Arc::clone(shown);
    let named = Projection::try_new_with_schema(columns.collect(), Arc::new(rows), shown)?;
    Ok(LogicalPlan::Projection(named))
}

/// `plan` with the identities of the rows behind its columns, for each table of which rows are locked.
fn with_identities(
    plan: &LogicalPlan,
    locking: &RowLocking,
) -> Result<(LogicalPlan, Vec<LockedTable>), EngineError> {
    let mut names = Vec::new();
    check_shape(plan, &mut names)?;
    if let Some(unknown) = locking.of.iter().find(|name| !names.contains(name)) {
        let message = format!(
            "relation \"{unknown}\" in the FOR UPDATE clause is not in the FROM clause: name a table in memory as it is \
             called there"
        );
        return Err(DataFusionError::Plan(message).into());
    }
    let mut locked = Vec::new();
    let plan = identified(plan.clone(), locking, &mut locked)?;
    Ok((plan, locked))
}

/// Refuses a query whose rows are not rows of tables, and collects the names of those whose rows they are.
fn check_shape(plan: &LogicalPlan, names: &mut Vec<String>) -> Result<(), EngineError> {
    let refused = |what: &str| {
        let what = format!("FOR UPDATE with {what}");
        Err(SqlError::unsupported(&what, "lock the rows with a query of its own").into())
    };
    match plan {
        LogicalPlan::TableScan(scan) => {
            if own(scan)?.is_some() {
                names.push(scan.table_name.table().to_owned());
            }
            return Ok(());
        }
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::TableScan(scan) => {
                if own(scan)?.is_some() {
                    names.push(alias.alias.table().to_owned());
                }
                return Ok(());
            }
            _ => return refused("a view or a query in FROM"),
        },
        LogicalPlan::Aggregate(_) => return refused("GROUP BY or aggregate functions"),
        LogicalPlan::Distinct(_) => return refused("DISTINCT"),
        LogicalPlan::Window(_) => return refused("window functions"),
        LogicalPlan::Union(_) => return refused("UNION, INTERSECT or EXCEPT"),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::EmptyRelation(_) => {}
        other => return refused(&format!("{}", other.display())),
    }
    let mut inputs = plan.inputs().into_iter();
    inputs.try_for_each(|input| check_shape(input, names))
}

fn own(scan: &TableScan) -> Result<Option<NearfarTable>, DataFusionError> {
    let provider = source_as_provider(&scan.source)?;
    Ok(provider_of(provider.as_ref()).cloned())
}

/// The same plan with columns of identities, which are added to `locked`.
fn identified(
    plan: LogicalPlan,
    locking: &RowLocking,
    locked: &mut Vec<LockedTable>,
) -> Result<LogicalPlan, DataFusionError> {
    let is_wanted = |name: &str| locking.of.is_empty() || locking.of.iter().any(|of| of == name);
    match plan {
        LogicalPlan::TableScan(scan) => match own(&scan)? {
            Some(table) if is_wanted(scan.table_name.table()) => {
                let id = Column::new(Some(scan.table_name.clone()), ROW_ID);
                locked.push((Arc::clone(table.table()), id));
                scan_of(&scan, &table)
            }
            _ => Ok(LogicalPlan::TableScan(scan)),
        },
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::TableScan(scan) if is_wanted(alias.alias.table()) => match own(scan)? {
                Some(table) => {
                    let id = Column::new(Some(alias.alias.clone()), ROW_ID);
                    locked.push((Arc::clone(table.table()), id));
                    let scan = LogicalPlanBuilder::from(scan_of(scan, &table)?);
                    scan.alias(alias.alias.clone())?.build()
                }
                None => Ok(LogicalPlan::SubqueryAlias(alias)),
            },
            _ => Ok(LogicalPlan::SubqueryAlias(alias)),
        },
        LogicalPlan::Projection(shown) => {
            let first = locked.len();
            let input = Arc::unwrap_or_clone(shown.input);
            let input = identified(input, locking, locked)?;
            let mut columns = shown.expr;
            for (at, (_, id)) in locked.iter_mut().enumerate().skip(first) {
                let name = format!("{ROW_ID} {at}");
                columns.push(Expr::Column(id.clone()).alias(&name));
                *id = Column::new_unqualified(name);
            }
            LogicalPlanBuilder::from(input).project(columns)?.build()
        }
        other => {
            let plan = other
                .map_children(|child| Ok(Transformed::yes(identified(child, locking, locked)?)))?;
            plan.data.recompute_schema()
        }
    }
}

fn scan_of(scan: &TableScan, table: &NearfarTable) -> Result<LogicalPlan, DataFusionError> {
    let source = provider_as_source(Arc::new(table.with_row_ids()));
    LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.build()
}
