//! Statements that are carried out without being planned again: those that read or change the few rows that an
//! index leads to, or indexes of several tables that are joined, add rows of given values, or ask for nothing but
//! constants.
//!
//! Such a statement is recognised when it is planned for the first time, and what it takes is kept with
//! it. Each time that it runs, it is made sure that its table is still the one of that name, and has the
//! index; whatever is not as it was is planned as any other statement.

mod expressions;
mod immediate;
mod insert;
mod joined;
mod key;
mod returning;
mod rows;
mod shape;
mod totals;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan, WriteOp};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use std::sync::Arc;

use super::counted;
use super::plan::shown_schema;
use crate::engine::session::Session;
use crate::engine::stream::{ReadyRows, RowStream, StatementResult};
use crate::error::EngineError;
use crate::sql::{RowLocking, Statement};
pub use expressions::parameter_of;
pub(super) use expressions::{RowValues, with_types};
pub use immediate::{Immediate, Ran};
use insert::GivenRows;
use nearfar_table::table::{RowId, Snapshot, Table};
use nearfar_table::transaction::{LockMode, TableLockMode, Transaction};
use returning::{Returning, split};
use rows::KeyedWork;

/// What a statement takes that is not planned again.
#[derive(Debug)]
pub struct Compiled {
    /// What stands for the plan where errors look for one; it has the columns.
    plan: Arc<dyn ExecutionPlan>,
    /// The settings that it was made with.
    options: Arc<ConfigOptions>,
    work: Work,
}

/// What a statement does.
#[derive(Debug)]
enum Work {
    /// It gives this row.
    Constant(RecordBatch),
    /// It reads or changes rows that an index leads to.
    Rows(Box<KeyedWork>),
    /// It adds rows.
    Insert(Box<GivenRows>),
}

/// What a statement has done.
enum Outcome {
    /// It gives these rows.
    Rows(ReadyRows),
    /// It has changed rows.
    Changed(&'static str, u64),
    /// It has changed rows and gives this back of them.
    Returned(&'static str, RecordBatch),
}

/// What became of a statement.
enum Attempt {
    Done(Outcome),
    /// Nothing: these rows of a table are another transaction's, or not what they were.
    Blocked(Arc<Table>, Vec<RowId>, LockMode),
    /// Nothing: it has to be planned.
    Unknown,
}

impl Compiled {
    /// What `plan` takes, which was made of a statement before its parameters were put in, which have the
    /// types of `parameters`, and whose rows are to be locked as `locking` says. None where it has to be planned each
    /// time.
    pub fn of(
        session: &Session,
        state: &SessionState,
        plan: &LogicalPlan,
        (parameters, locking): (&[ScalarValue], Option<&RowLocking>),
    ) -> Option<Self> {
        let schema = shown_schema(&Arc::new(plan.schema().as_arrow().clone()));
        let (plan, returning) = match split(plan) {
            Some((_, rows)) => {
                let returning = Returning::of(state, plan, parameters, &schema)?;
                (rows.change(), Some(returning))
            }
            None => (plan, None),
        };
        let given = (parameters, returning);
        let work = match plan {
            LogicalPlan::Projection(projection)
                if is_one_row(&projection.input) && locking.is_none() =>
            {
                Work::Constant(constants(&projection.expr, &schema)?)
            }
            LogicalPlan::Dml(dml) if matches!(dml.op, WriteOp::Insert(InsertOp::Append)) => {
                Work::Insert(Box::new(GivenRows::of(state, dml, plan, given)?))
            }
            plan => Work::Rows(Box::new(KeyedWork::of(state, plan, given, locking)?)),
        };
        let schema = match &work {
            Work::Rows(rows) => rows.schema(schema)?,
            Work::Insert(rows) => rows.returned().map_or(schema, Arc::clone),
            Work::Constant(_) => schema,
        };
        Some(Self {
            plan: Arc::new(EmptyExec::new(schema)),
            options: session.config_options(),
            work,
        })
    }

    fn changes_rows(&self) -> bool {
        match &self.work {
            Work::Constant(_) => false,
            Work::Rows(rows) => rows.changes_rows(),
            Work::Insert(_) => true,
        }
    }
}

impl Compiled {
    /// The tables that it reads or changes, and how they are locked.
    fn tables(&self) -> (Vec<Arc<Table>>, TableLockMode) {
        match &self.work {
            Work::Constant(_) => (Vec::new(), TableLockMode::AccessShare),
            Work::Insert(rows) => {
                let table = rows.table().into_iter().collect();
                (table, TableLockMode::RowExclusive)
            }
            Work::Rows(rows) => {
                let mode = match (rows.changes_rows(), rows.locks_rows()) {
                    (true, _) => TableLockMode::RowExclusive,
                    (false, true) => TableLockMode::RowShare,
                    (false, false) => TableLockMode::AccessShare,
                };
                (rows.tables(), mode)
            }
        }
    }

    /// Whether it puts rows of several tables together.
    pub fn is_join(&self) -> bool {
        matches!(&self.work, Work::Rows(rows) if rows.is_join())
    }

    /// Whether it changes rows that have to be held against foreign keys, which may take a wait.
    fn has_references(&self) -> bool {
        match &self.work {
            Work::Constant(_) => false,
            Work::Rows(rows) => rows.changes_rows() && rows.has_references(),
            Work::Insert(rows) => rows.has_references(),
        }
    }

    /// Whether what it changes is held against foreign keys by look-ups alone: no key is taken away that rows of other
    /// tables refer to, which may have to follow as they are planned to, and the keys that its rows refer to have their
    /// entries.
    fn is_held_by_keys(&self, session: &Session, transaction: &Transaction) -> bool {
        let leads_others = match &self.work {
            Work::Constant(_) | Work::Insert(_) => false,
            Work::Rows(rows) => rows.leads_others(&session.references()),
        };
        let (tables, _) = self.tables();
        let knows_parents = |table: &Arc<Table>| session.knows_parents(transaction, table);
        !leads_others && tables.iter().all(knows_parents)
    }
}

/// Whether a plan is what a query without `FROM` reads.
fn is_one_row(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(empty) if empty.produce_one_row)
}

/// The row that a list of constants is.
fn constants(exprs: &[Expr], schema: &SchemaRef) -> Option<RecordBatch> {
    let values = exprs.iter().map(|expr| match without_alias(expr) {
        Expr::Literal(value, _) => value.to_array().ok(),
        _ => None,
    });
    let values = values.collect::<Option<Vec<ArrayRef>>>()?;
    RecordBatch::try_new(Arc::clone(schema), values).ok()
}

fn without_alias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => &alias.expr,
        other => other,
    }
}

/// Whether all indexes have their entries, which take a while to make.
fn has_entries(snapshot: &Snapshot) -> bool {
    let mut indexes = snapshot.indexes().iter();
    indexes.all(|index| index.len().is_some())
}

/// Values of all columns of a table, of types that cast to theirs.
fn rows_for(table: &Table, values: Vec<ArrayRef>) -> Result<RecordBatch, EngineError> {
    let fields = table.schema().fields().iter();
    let values = values.into_iter().zip(fields);
    let values: Vec<ArrayRef> = values
        .map(|(values, field)| as_stored(values, field.data_type()))
        .collect();
    let mut columns = table.schema().fields().iter().zip(&values);
    let are_of_schema = columns.all(|(field, values)| {
        field.data_type() == values.data_type()
            && (field.is_nullable() || values.logical_null_count() == 0)
    });
    if are_of_schema {
        return Ok(RecordBatch::try_new(Arc::clone(table.schema()), values)?);
    }
    let fields = table.schema().fields().iter().zip(&values);
    let fields =
        fields.map(|(field, values)| Field::new(field.name(), values.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    Ok(RecordBatch::try_new(Arc::new(schema), values)?)
}

/// Texts, and nulls of no type, as a table has them whose type is `wanted`. Other values stay as they are.
fn as_stored(values: ArrayRef, wanted: &DataType) -> ArrayRef {
    match (values.data_type(), wanted) {
        (DataType::Utf8, DataType::Utf8View) => {
            Arc::new(StringViewArray::from(values.as_string::<i32>()))
        }
        (DataType::Null, _) => new_null_array(wanted, values.len()),
        _ => values,
    }
}

impl Session {
    /// Runs a statement that is not planned again, and waits for its commit. None where it has to be
    /// planned, and nothing is done.
    pub(super) async fn run_compiled(
        &self,
        transaction: &Arc<Transaction>,
        statement: &Statement,
        parameters: &[ScalarValue],
    ) -> Result<Option<StatementResult>, EngineError> {
        let Some(compiled) = self.compiled(statement) else {
            return Ok(None);
        };
        if transaction.meets_locked_tables() {
            let (tables, mode) = compiled.tables();
            for table in tables {
                self.wait_for_table(transaction, &table, mode).await?;
            }
        }
        let outcome = loop {
            match self.attempt(&compiled, transaction, parameters)? {
                Attempt::Done(outcome) => break outcome,
                Attempt::Blocked(table, rows, mode) => {
                    self.locked(transaction, &table, (&rows, mode)).await?;
                }
                Attempt::Unknown => return Ok(None),
            }
        };
        if compiled.changes_rows() {
            self.end_statement(transaction).await?;
        }
        let transaction = Arc::clone(transaction);
        Ok(Some(self.result_of(&compiled, outcome, transaction)))
    }

    /// What a statement takes that was planned before, with the settings as they are.
    fn compiled(&self, statement: &Statement) -> Option<Arc<Compiled>> {
        let compiled = statement.compiled::<Compiled>()?;
        let is_same = Arc::ptr_eq(&compiled.options, &self.config_options());
        // What is emulated takes its time, which other threads have.
        (is_same && self.engine().models().is_empty()).then_some(compiled)
    }

    fn attempt(
        &self,
        compiled: &Compiled,
        transaction: &Transaction,
        parameters: &[ScalarValue],
    ) -> Result<Attempt, EngineError> {
        match &compiled.work {
            Work::Constant(row) => Ok(Attempt::Done(Outcome::Rows(row.clone().into()))),
            Work::Rows(rows) => {
                let schema = compiled.plan.schema();
                rows.run(self, transaction, parameters, &schema)
            }
            Work::Insert(rows) => rows.insert(self, transaction, parameters),
        }
    }

    fn result_of(
        &self,
        compiled: &Compiled,
        outcome: Outcome,
        transaction: Arc<Transaction>,
    ) -> StatementResult {
        let (command, rows) = match outcome {
            Outcome::Rows(rows) => ("SELECT", rows),
            Outcome::Returned(command, batch) => (command, batch.into()),
            Outcome::Changed(command, rows) => return counted(command, rows),
        };
        let plan = Arc::clone(&compiled.plan);
        let pool = self.engine().pool().cloned();
        let rows = RowStream::of_ready(plan, rows, transaction, pool);
        StatementResult::Rows(rows.of_command(command))
    }
}
