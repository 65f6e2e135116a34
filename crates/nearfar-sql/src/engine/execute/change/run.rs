//! Statements that change rows, carried out.

use arrow::array::RecordBatch;
use datafusion::common::DFSchemaRef;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, Projection, WriteOp};
use futures::StreamExt;
use std::sync::Arc;

use super::node::{ChangedRows, Upsert, rows_plan};
use crate::engine::execute::counted;
use crate::engine::execute::modify::{target, unsupported};
use crate::engine::execute::within;
use crate::engine::session::Session;
use crate::engine::stream::{RowStream, StatementResult};
use crate::error::EngineError;
use crate::load::RowWriter;
use nearfar_table::error::IndexError;
use nearfar_table::table::{RowId, Table, batch_bytes};
use nearfar_table::transaction::{NewRows, Transaction};

/// What a statement is about to do, once nobody else is changing its rows.
pub struct Changed {
    pub command: &'static str,
    pub table: Arc<Table>,
    /// The rows that go, and those that come.
    pub ids: Vec<RowId>,
    pub rows: NewRows,
    /// How many rows the statement has changed.
    pub count: u64,
    /// These, if they are asked for.
    pub kept: Vec<RecordBatch>,
}

/// A statement that changes rows one by one, or gives some of them back.
pub struct Change<'a> {
    dml: &'a DmlStatement,
    upsert: Option<&'a Upsert>,
    returning: Option<(&'a Projection, &'a ChangedRows)>,
}

impl<'a> Change<'a> {
    /// The change that a plan is. None for what gives no rows back and adds some, or truncates a table.
    pub fn of(plan: &'a LogicalPlan) -> Option<Self> {
        let (plan, returning) = match plan {
            LogicalPlan::Projection(projection) => {
                let rows = ChangedRows::of(&projection.input)?;
                (rows.change(), Some((projection, rows)))
            }
            plan => (plan, None),
        };
        let upsert = Upsert::of(plan);
        let plan = upsert.map_or(plan, Upsert::insert);
        let LogicalPlan::Dml(dml) = plan else {
            return None;
        };
        let is_changed_here = returning.is_some()
            || upsert.is_some()
            || matches!(dml.op, WriteOp::Update | WriteOp::Delete);
        is_changed_here.then_some(Self {
            dml,
            upsert,
            returning,
        })
    }
}

impl Session {
    /// Changes rows, and gives back what is asked for of them. Where others have committed a key while a statement
    /// of its own was about to, that looks whose rows are in its way, it looks again.
    pub(in crate::engine::execute) async fn change(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        change: &Change<'_>,
    ) -> Result<StatementResult, EngineError> {
        let mut done = self.change_once(transaction, state, change).await?;
        loop {
            match done {
                Some(result) => return Ok(result),
                None => {
                    let again = self.current_transaction()?;
                    let state = within(&again, state.clone());
                    done = self.change_once(&again, &state, change).await?;
                }
            }
        }
    }

    /// The same once. None, and nothing is done, where others have committed a key first.
    async fn change_once(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        change: &Change<'_>,
    ) -> Result<Option<StatementResult>, EngineError> {
        let columns = change.returning.map(|(_, rows)| rows.columns());
        let changed = match (&change.dml.op, change.upsert) {
            (WriteOp::Insert(InsertOp::Append), Some(upsert)) => {
                let given = (change.dml, upsert, columns.is_some());
                self.rows_to_upsert(transaction, state, given).await?
            }
            (WriteOp::Insert(InsertOp::Append), None) => {
                self.rows_to_insert(transaction, state, change.dml).await?
            }
            (WriteOp::Update | WriteOp::Delete, _) => {
                self.modify(transaction, state, (change.dml, columns))
                    .await?
            }
            (other, _) => return Err(unsupported(other.name()).into()),
        };
        let Changed {
            command,
            table,
            ids,
            rows,
            count,
            kept,
        } = changed;
        // Its queries read what there was before the statement.
        let returned = match change.returning {
            Some((projection, rows)) => {
                let rows = rows_plan(rows.columns(), kept)?;
                let rows = self.returned(transaction, state, (projection, rows));
                Some(rows.await?.of_command(command))
            }
            None => None,
        };
        transaction.replace(&table, ids, rows)?;
        match self.end_statement(transaction).await {
            Err(EngineError::Index(IndexError::Duplicate { .. })) if change.upsert.is_some() => {
                return Ok(None);
            }
            ended => ended?,
        }
        let done = returned.map_or_else(|| counted(command, count), StatementResult::Rows);
        Ok(Some(done))
    }

    /// What is given back, all of which is there: what is wrong with it is so before anything is changed.
    async fn returned(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        (projection, rows): (&Projection, LogicalPlan),
    ) -> Result<RowStream, EngineError> {
        let (exprs, schema) = (projection.expr.clone(), Arc::clone(&projection.schema));
        let plan = Projection::try_new_with_schema(exprs, Arc::new(rows), schema)?;
        let plan = LogicalPlan::Projection(plan);
        self.query(transaction, state, &plan)
            .await?
            .buffered()
            .await
    }

    /// The rows that an `INSERT` adds, which are kept.
    async fn rows_to_insert(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        dml: &DmlStatement,
    ) -> Result<Changed, EngineError> {
        transaction.check_writable("INSERT")?;
        let table = Arc::clone(target(dml)?.table());
        let mut rows = self.query(transaction, state, &dml.input).await?;
        let writer = RowWriter::new(Arc::clone(&table), self.engine().storage());
        let mut writer = writer.keeping(true);
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            self.keep(state, batch_bytes(&batch))?;
            writer.push(batch)?;
        }
        let kept = writer.take_kept();
        let (rows, count) = writer.finish()?;
        Ok(Changed {
            command: "INSERT",
            table,
            ids: Vec::new(),
            rows,
            count,
            kept,
        })
    }
}

/// The columns that are asked for of changed rows, if any are.
pub type Asked<'a> = Option<&'a DFSchemaRef>;
