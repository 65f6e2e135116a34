//! `MERGE`: rows of a table that are changed, deleted or added by what another has beside them.
//!
//! A [node](MergeInto) has the plans of its parts ([`crate::sql::MergeForms`]). It is carried out in three steps: a
//! query finds the rows and tells which clause each is for, the rows of the table are locked, and then the values
//! of each clause are computed over its own rows, so that nothing is computed for a row that a clause does not take.

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::compute::kernels::cmp::eq;
use arrow::datatypes::{Int64Type, UInt64Type};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{
    DmlStatement, Expr, Extension, LogicalPlan, LogicalPlanBuilder, Projection,
    UserDefinedLogicalNodeCore, lit,
};
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::node::rows_plan;
use crate::engine::execute::counted;
use crate::engine::execute::modify::{row_id, target, with_row_ids};
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::load::RowWriter;
use crate::sql::{MergeWhen, SqlError};
use nearfar_table::table::{RowId, Table, batch_bytes};
use nearfar_table::transaction::{LockMode, Transaction};

/// The column that says which clause a row is for.
const CLAUSE: &str = "\u{2063}clause";

/// A `MERGE`, with the plans of its parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MergeInto {
    /// A deletion of all rows of the table, which has its name.
    pub of_table: LogicalPlan,
    /// The rows of both tables, if a clause is about these.
    pub joined: Option<LogicalPlan>,
    /// The rows of the table that have none beside them, if a clause is about these.
    pub alone: Option<LogicalPlan>,
    pub clauses: Vec<MergeClause>,
    columns: DFSchemaRef,
}

/// What is done with some of the rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MergeClause {
    pub when: MergeWhen,
    /// A projection of what has to be true.
    pub condition: Option<LogicalPlan>,
    pub action: MergeAction,
}

/// What a clause does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MergeAction {
    Nothing,
    /// By a deletion of all rows of the table.
    Delete(LogicalPlan),
    /// By an update of each row of the table, beside those of the source where the clause is about both.
    Update(LogicalPlan),
    /// By a row for each of the source.
    Insert(LogicalPlan),
}

impl MergeAction {
    fn plan(&self) -> Option<&LogicalPlan> {
        match self {
            Self::Nothing => None,
            Self::Delete(plan) | Self::Update(plan) | Self::Insert(plan) => Some(plan),
        }
    }

    fn with_plan(&self, plan: Option<LogicalPlan>) -> Option<Self> {
        Some(match self {
            Self::Nothing => Self::Nothing,
            Self::Delete(_) => Self::Delete(plan?),
            Self::Update(_) => Self::Update(plan?),
            Self::Insert(_) => Self::Insert(plan?),
        })
    }

    fn changes_known_rows(&self) -> bool {
        matches!(self, Self::Delete(_) | Self::Update(_))
    }
}

impl MergeInto {
    /// One of these parts.
    pub fn new(
        of_table: LogicalPlan,
        (joined, alone): (Option<LogicalPlan>, Option<LogicalPlan>),
        clauses: Vec<MergeClause>,
    ) -> Self {
        Self {
            of_table,
            joined,
            alone,
            clauses,
            columns: Arc::new(DFSchema::empty()),
        }
    }

    /// As a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension {
            node: Arc::new(self),
        })
    }

    /// The node that a plan is, if it is one.
    pub fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => {
                let node: &dyn std::any::Any = extension.node.as_any();
                node.downcast_ref()
            }
            _ => None,
        }
    }

    /// The query that finds its rows, to be explained.
    pub fn rows(&self) -> &LogicalPlan {
        let rows = self.joined.as_ref().or(self.alone.as_ref());
        rows.unwrap_or(&self.of_table)
    }

    /// The same of other parts, in the order of [`UserDefinedLogicalNodeCore::inputs`].
    fn of_inputs(&self, inputs: Vec<LogicalPlan>) -> Option<Self> {
        let mut inputs = inputs.into_iter();
        let mut next_if = |is_there: bool| match is_there {
            true => inputs.next().map(Some),
            false => Some(None),
        };
        let of_table = next_if(true)??;
        let joined = next_if(self.joined.is_some())?;
        let alone = next_if(self.alone.is_some())?;
        let clauses = self.clauses.iter().map(|clause| {
            let condition = next_if(clause.condition.is_some())?;
            let plan = next_if(clause.action.plan().is_some())?;
            Some(MergeClause {
                when: clause.when,
                condition,
                action: clause.action.with_plan(plan)?,
            })
        });
        let clauses = clauses.collect::<Option<Vec<_>>>()?;
        Some(Self::new(of_table, (joined, alone), clauses))
    }
}

impl PartialOrd for MergeInto {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.rows().partial_cmp(other.rows())
    }
}

impl UserDefinedLogicalNodeCore for MergeInto {
    fn name(&self) -> &'static str {
        "MergeInto"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        let parts = std::iter::once(&self.of_table);
        let rows = self.joined.iter().chain(&self.alone);
        let clauses = self.clauses.iter();
        let clauses =
            clauses.flat_map(|clause| clause.condition.iter().chain(clause.action.plan()));
        parts.chain(rows).chain(clauses).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.columns
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MergeInto")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        self.of_inputs(inputs)
            .ok_or_else(|| DataFusionError::Internal("fewer parts than a MERGE has".to_owned()))
    }
}

/// The rows that a `MERGE` has found.
struct FoundRows {
    /// Those of the table that are changed.
    ids: Vec<RowId>,
    seen: HashSet<RowId>,
    /// For each clause, the columns of both tables, or of the table alone.
    of_clauses: Vec<Vec<RecordBatch>>,
}

impl FoundRows {
    /// Takes rows of [`rows_query`] in.
    fn take(&mut self, merge: &MergeInto, batch: &RecordBatch) -> Result<(), EngineError> {
        let clauses = batch.column(1).as_primitive::<Int64Type>();
        for (number, clause) in (0_i64..).zip(&merge.clauses) {
            let is_for_it = eq(clauses, &Int64Array::new_scalar(number))?;
            if is_for_it.true_count() == 0 {
                continue;
            }
            let rows = filter_record_batch(batch, &is_for_it)?;
            if clause.action.changes_known_rows() {
                let ids = rows.column(0).as_primitive::<UInt64Type>().values();
                if !ids.iter().all(|id| self.seen.insert(*id)) {
                    return Err(SqlError::MergedTwice.into());
                }
                self.ids.extend_from_slice(ids);
            }
            let columns: Vec<usize> = (2..rows.num_columns()).collect();
            self.of_clauses[number as usize].push(rows.project(&columns)?);
        }
        Ok(())
    }
}

impl Session {
    /// Carries a `MERGE` out.
    pub(in crate::engine::execute) async fn merge_into(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        merge: &MergeInto,
    ) -> Result<StatementResult, EngineError> {
        transaction.check_writable("MERGE")?;
        let LogicalPlan::Dml(dml) = &merge.of_table else {
            return Err(broken());
        };
        let provider = target(dml)?;
        let table = Arc::clone(provider.table());
        let mut queries = Vec::new();
        let parts = [(&merge.joined, true), (&merge.alone, false)];
        for (rows, is_joined) in parts {
            if let Some(rows) = rows {
                let rows = with_row_ids(input_of(rows)?, &provider)?;
                queries.push(rows_query(merge, rows, is_joined)?);
            }
        }
        let found = loop {
            let found = self
                .rows_to_merge(transaction, state, (merge, &queries))
                .await?;
            let wanted = (&found.ids[..], LockMode::Exclusive);
            if self.locked(transaction, &table, wanted).await? {
                break found;
            }
        };
        let FoundRows {
            ids, of_clauses, ..
        } = found;
        let deleted = merge.clauses.iter().zip(&of_clauses);
        let deleted = deleted.filter(|(clause, _)| matches!(clause.action, MergeAction::Delete(_)));
        let deleted = deleted
            .flat_map(|(_, rows)| rows)
            .map(RecordBatch::num_rows);
        let deleted = deleted.sum::<usize>() as u64;
        let mut writer = RowWriter::new(Arc::clone(&table), self.engine().storage());
        for (clause, rows) in merge.clauses.iter().zip(of_clauses) {
            if rows.is_empty() {
                continue;
            }
            if let Some(plan) = new_rows(merge, clause, rows, &table)? {
                let mut values = self.query(transaction, state, &plan).await?;
                while let Some(batch) = values.next().await {
                    writer.push(batch?)?;
                }
            }
        }
        let (rows, written) = writer.finish()?;
        transaction.replace(&table, ids, rows)?;
        self.end_statement(transaction).await?;
        Ok(counted("MERGE", written + deleted))
    }

    async fn rows_to_merge(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        (merge, queries): (&MergeInto, &[LogicalPlan]),
    ) -> Result<FoundRows, EngineError> {
        let mut found = FoundRows {
            ids: Vec::new(),
            seen: HashSet::new(),
            of_clauses: vec![Vec::new(); merge.clauses.len()],
        };
        for query in queries {
            let mut rows = self.query(transaction, state, query).await?;
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                self.keep(state, batch_bytes(&batch))?;
                found.take(merge, &batch)?;
            }
        }
        Ok(found)
    }
}

/// What a projection is of.
fn input_of(plan: &LogicalPlan) -> Result<&LogicalPlan, EngineError> {
    match plan {
        LogicalPlan::Projection(projection) => Ok(&projection.input),
        _ => Err(broken()),
    }
}

fn broken() -> EngineError {
    EngineError::Internal {
        message: "a MERGE that is planned in another way".to_owned(),
    }
}

/// The query for identities, numbers of clauses and all other columns of `rows` for which there is a clause.
fn rows_query(
    merge: &MergeInto,
    rows: LogicalPlan,
    is_joined: bool,
) -> Result<LogicalPlan, EngineError> {
    let id = row_id(&rows)?;
    let clause = match is_joined {
        // What a clause of other rows asks is not computed for a row.
        true => choice(vec![
            (
                id.clone().is_not_null(),
                number_of(merge, MergeWhen::Matched)?,
            ),
            (
                id.clone().is_null(),
                number_of(merge, MergeWhen::NotMatched)?,
            ),
        ]),
        false => number_of(merge, MergeWhen::NotMatchedBySource)?,
    };
    let clause = clause.alias(CLAUSE);
    let columns = rows.schema().columns().into_iter();
    let columns = columns.filter(|column| Expr::Column(column.clone()) != id);
    // Several of them can have one name.
    let columns = columns
        .enumerate()
        .map(|(at, column)| Expr::Column(column).alias(format!("c{at}")));
    let columns: Vec<Expr> = [id.clone(), clause].into_iter().chain(columns).collect();
    let is_meant = Expr::Column(Column::new_unqualified(CLAUSE)).is_not_null();
    let rows = LogicalPlanBuilder::from(rows).project(columns)?;
    Ok(rows.filter(is_meant)?.build()?)
}

/// The number of the first of the clauses of some rows whose condition is true.
fn number_of(merge: &MergeInto, when: MergeWhen) -> Result<Expr, EngineError> {
    let mut cases = Vec::new();
    let clauses = (0_i64..).zip(&merge.clauses);
    for (number, clause) in clauses.filter(|(_, clause)| clause.when == when) {
        let condition = match &clause.condition {
            Some(LogicalPlan::Projection(condition)) => {
                let condition = condition.expr.first().ok_or_else(broken)?;
                condition.clone().unalias()
            }
            Some(_) => return Err(broken()),
            None => lit(true),
        };
        cases.push((condition, lit(number)));
    }
    Ok(match cases.is_empty() {
        true => lit(ScalarValue::Int64(None)),
        false => choice(cases),
    })
}

/// `CASE WHEN … THEN … END`.
fn choice(cases: Vec<(Expr, Expr)>) -> Expr {
    let boxed = |(when, then)| (Box::new(when), Box::new(then));
    let cases = cases.into_iter().map(boxed).collect();
    Expr::Case(Case::new(None, cases, None))
}

/// The query for what a clause writes, over the rows that it is for. None where it writes none.
fn new_rows(
    merge: &MergeInto,
    clause: &MergeClause,
    rows: Vec<RecordBatch>,
    table: &Table,
) -> Result<Option<LogicalPlan>, EngineError> {
    match &clause.action {
        MergeAction::Nothing | MergeAction::Delete(_) => Ok(None),
        MergeAction::Update(LogicalPlan::Dml(update)) => {
            let of = match clause.when {
                MergeWhen::NotMatchedBySource => &merge.alone,
                MergeWhen::Matched | MergeWhen::NotMatched => &merge.joined,
            };
            let columns = input_of(of.as_ref().ok_or_else(broken)?)?.schema();
            updated(update, columns, rows).map(Some)
        }
        MergeAction::Insert(LogicalPlan::Dml(insert)) => {
            let own = table.schema().fields().len();
            let rows = rows.into_iter().map(|batch| {
                let columns: Vec<usize> = (own..batch.num_columns()).collect();
                batch.project(&columns)
            });
            let rows = rows.collect::<Result<Vec<_>, _>>()?;
            added(insert, rows).map(Some)
        }
        MergeAction::Update(_) | MergeAction::Insert(_) => Err(broken()),
    }
}

fn updated(
    update: &DmlStatement,
    columns: &DFSchemaRef,
    rows: Vec<RecordBatch>,
) -> Result<LogicalPlan, EngineError> {
    let LogicalPlan::Projection(values) = update.input.as_ref() else {
        return Err(broken());
    };
    let rows = rows_plan(columns, rows)?;
    let values = Projection::try_new(values.expr.clone(), Arc::new(rows))?;
    Ok(LogicalPlan::Projection(values))
}

/// The rows that `insert`, a query of nothing but projections of the source, adds of `rows`.
fn added(insert: &DmlStatement, rows: Vec<RecordBatch>) -> Result<LogicalPlan, EngineError> {
    let plan = insert.input.as_ref().clone().transform_down(|node| {
        if matches!(node, LogicalPlan::Projection(_)) {
            return Ok(Transformed::no(node));
        }
        let rows = rows_plan(node.schema(), rows.clone())?;
        Ok(Transformed::new(rows, true, TreeNodeRecursion::Stop))
    })?;
    Ok(plan.data)
}
