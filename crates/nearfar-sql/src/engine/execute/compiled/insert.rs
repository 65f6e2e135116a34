//! Rows that are added as a statement gives them.

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable, LogicalPlan, Projection, Values,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use super::expressions::{RowValues, is_given, with_types};
use super::key::NamedTable;
use super::returning::Returning;
use super::{Attempt, Outcome, has_entries, rows_for};
use crate::engine::session::Session;
use crate::error::EngineError;
use crate::load::{AddedRow, RowWriter, added_row, packs};
use crate::scan::provider_of;
use nearfar_table::table::Table;
use nearfar_table::transaction::Transaction;

/// The values of a statement at most that are not planned as what they are: a query.
const VALUES_MAX: usize = 1 << 12;

/// The rows of an `INSERT … VALUES`.
#[derive(Debug)]
pub struct GivenRows {
    table: NamedTable,
    values: AddedValues,
    returning: Option<Returning>,
}

/// The values of rows that are added.
#[derive(Debug)]
enum AddedValues {
    /// Those of the table's columns, for a single row.
    One(RowValues),
    /// Those that are given, row by row.
    Several {
        given: RowValues,
        /// How many a row has.
        width: usize,
        /// The table's columns, of those of the rows.
        columns: RowValues,
    },
}

impl GivenRows {
    /// The table that gets them, while it is there.
    pub fn table(&self) -> Option<Arc<Table>> {
        self.table.known()
    }

    /// The rows that `dml`, which is `plan`, adds, of which it gives back what `returning` says. None where it
    /// has to be planned each time.
    pub fn of(
        state: &SessionState,
        dml: &DmlStatement,
        plan: &LogicalPlan,
        (parameters, returning): (&[ScalarValue], Option<Returning>),
    ) -> Option<Self> {
        let provider = source_as_provider(&dml.target).ok()?;
        let table = provider_of(provider.as_ref())?.table();
        let (columns, rows) = parts_of(dml)?;
        let values = || rows.values.iter().flatten();
        let is_small = values().count() <= VALUES_MAX;
        if !is_small || !columns.iter().chain(values()).all(is_given) {
            return None;
        }
        let typed = with_types(state, plan, parameters)?;
        let LogicalPlan::Dml(typed) = &typed else {
            return None;
        };
        Some(Self {
            table: NamedTable::new(&dml.table_name, table),
            values: AddedValues::of(state, parts_of(typed)?)?,
            returning,
        })
    }

    /// The columns of what it gives back.
    pub fn returned(&self) -> Option<&SchemaRef> {
        self.returning.as_ref().map(Returning::schema)
    }

    /// Whether its table takes part in foreign keys.
    pub fn has_references(&self) -> bool {
        self.table.has_references()
    }

    /// Adds the rows.
    pub fn insert(
        &self,
        session: &Session,
        transaction: &Transaction,
        parameters: &[ScalarValue],
    ) -> Result<Attempt, EngineError> {
        let asked = self.returning.as_ref();
        let takes =
            self.values.take(parameters) && asked.is_none_or(|asked| asked.takes(parameters));
        let table = session.same_table(&self.table).filter(|_| takes);
        let Some(table) = table else {
            return Ok(Attempt::Unknown);
        };
        if !has_entries(&transaction.snapshot(&table)?) {
            return Ok(Attempt::Unknown);
        }
        transaction.check_writable("INSERT")?;
        let values = match self.packed(&table, parameters)? {
            Some(AddedRow::Packed(rows)) => {
                transaction.insert(&table, rows)?;
                return Ok(Attempt::Done(Outcome::Changed("INSERT", 1)));
            }
            Some(AddedRow::Columns(values)) => values,
            None => self.values.evaluate(parameters)?,
        };
        let writer = RowWriter::new(table.clone(), session.engine().storage());
        let mut writer = writer.keeping(asked.is_some());
        writer.push(rows_for(&table, values)?)?;
        let kept = writer.take_kept();
        let (rows, count) = writer.finish()?;
        let outcome = match asked {
            Some(asked) => Outcome::Returned("INSERT", asked.of_rows(&kept, parameters)?),
            None => Outcome::Changed("INSERT", count),
        };
        transaction.insert(&table, rows)?;
        Ok(Attempt::Done(outcome))
    }

    /// The only row, which is not given back. None where there are several, or it is to be made column by column.
    fn packed(
        &self,
        table: &Arc<Table>,
        parameters: &[ScalarValue],
    ) -> Result<Option<AddedRow>, EngineError> {
        match &self.values {
            AddedValues::One(values) if self.returning.is_none() && packs(table, 1) => {
                added_row(table, &values.of_one_row(parameters)?).map(Some)
            }
            _ => Ok(None),
        }
    }
}

impl AddedValues {
    /// Those of the table's `columns`, of `rows`. None for what can't be evaluated by itself.
    fn of(state: &SessionState, (columns, rows): (&[Expr], &Values)) -> Option<Self> {
        let nothing = DFSchema::empty();
        if let Some(columns) = of_one_row(columns, rows) {
            return RowValues::of(state, &columns, &nothing).map(Self::One);
        }
        Some(Self::Several {
            given: RowValues::of(state, rows.values.iter().flatten(), &nothing)?,
            width: rows.schema.fields().len(),
            columns: RowValues::of(state, columns, &rows.schema)?,
        })
    }

    /// Whether the values of parameters have the types that they are made for.
    fn take(&self, parameters: &[ScalarValue]) -> bool {
        match self {
            Self::One(values) => values.take(parameters),
            Self::Several { given, columns, .. } => {
                given.take(parameters) && columns.take(parameters)
            }
        }
    }

    /// The table's columns.
    fn evaluate(&self, parameters: &[ScalarValue]) -> Result<Vec<ArrayRef>> {
        let (given, width, columns) = match self {
            Self::One(values) => return values.evaluate((&[], 1), parameters),
            Self::Several {
                given,
                width,
                columns,
            } => (given.evaluate((&[], 1), parameters)?, *width, columns),
        };
        let column = |at: &usize| -> Result<ArrayRef> {
            let values = given.iter().skip(*at).step_by(width);
            let values: Vec<&dyn Array> = values.map(AsRef::as_ref).collect();
            Ok(concat(&values)?)
        };
        let taken = columns.columns().iter().map(column);
        let rows = given.len() / width.max(1);
        columns.evaluate((&taken.collect::<Result<Vec<_>>>()?, rows), parameters)
    }
}

/// The table's `columns` of what the only one of `rows` gives. None for several rows, for values of which each use
/// would give another one, and for such as have another type than their column among the rows.
fn of_one_row(columns: &[Expr], rows: &Values) -> Option<Vec<Expr>> {
    let [row] = rows.values.as_slice() else {
        return None;
    };
    let nothing = DFSchema::empty();
    let has_type = |(value, field): (&Expr, &FieldRef)| {
        let kind = value.get_type(&nothing);
        !value.is_volatile() && kind.is_ok_and(|kind| kind == *field.data_type())
    };
    if !row.iter().zip(rows.schema.fields()).all(has_type) {
        return None;
    }
    let given = |expr: Expr| match &expr {
        Expr::Column(column) => {
            let at = rows.schema.index_of_column(column)?;
            Ok(Transformed::yes(row[at].clone()))
        }
        _ => Ok(Transformed::no(expr)),
    };
    let columns = columns.iter().map(|expr| expr.clone().transform_up(given));
    let columns = columns.map(|expr| Some(expr.ok()?.data));
    columns.collect()
}

/// The table's columns, and the rows that they are of.
fn parts_of(dml: &DmlStatement) -> Option<(&[Expr], &Values)> {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = dml.input.as_ref() else {
        return None;
    };
    match input.as_ref() {
        LogicalPlan::Values(values) => Some((expr, values)),
        _ => None,
    }
}
