//! Rows that are added as a statement gives them.

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use datafusion::common::DFSchema;
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, Projection, Values};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use super::expressions::{RowValues, is_given, with_types};
use super::key::NamedTable;
use super::returning::Returning;
use super::{Attempt, Outcome, has_entries, rows_for};
use crate::engine::session::Session;
use crate::error::EngineError;
use crate::load::RowWriter;
use crate::scan::provider_of;
use nearfar_table::table::Table;
use nearfar_table::transaction::Transaction;

/// The values of a statement at most that are not planned as what they are: a query.
const VALUES_MAX: usize = 1 << 12;

/// The rows of an `INSERT … VALUES`.
#[derive(Debug)]
pub struct GivenRows {
    table: NamedTable,
    /// The values, row by row.
    given: RowValues,
    /// How many a row has.
    width: usize,
    /// The table's columns, of those of the rows.
    columns: RowValues,
    returning: Option<Returning>,
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
        let (columns, rows) = parts_of(typed)?;
        let nothing = DFSchema::empty();
        Some(Self {
            table: NamedTable::new(&dml.table_name, table),
            given: RowValues::of(state, rows.values.iter().flatten(), &nothing)?,
            width: rows.schema.fields().len(),
            columns: RowValues::of(state, columns, &rows.schema)?,
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
        let takes = self.given.take(parameters)
            && self.columns.take(parameters)
            && asked.is_none_or(|asked| asked.takes(parameters));
        let table = session.same_table(&self.table).filter(|_| takes);
        let Some(table) = table else {
            return Ok(Attempt::Unknown);
        };
        if !has_entries(&transaction.snapshot(&table)?) {
            return Ok(Attempt::Unknown);
        }
        transaction.check_writable("INSERT")?;
        let given = self.given.evaluate((&[], 1), parameters)?;
        let rows = given.len() / self.width.max(1);
        let column = |at: &usize| -> Result<ArrayRef, EngineError> {
            let values = given.iter().skip(*at).step_by(self.width);
            let values: Vec<&dyn Array> = values.map(AsRef::as_ref).collect();
            match rows {
                1 => Ok(Arc::clone(&given[*at])),
                _ => Ok(concat(&values)?),
            }
        };
        let columns = self.columns.columns().iter().map(column);
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let values = self.columns.evaluate((&columns, rows), parameters)?;
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
