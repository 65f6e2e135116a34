//! Rows that are put together of rows of several tables, which indexes lead to: of the first table by values that are
//! given, of each other one by values of those before it.

mod order;
mod places;
mod tables;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::{cast, take};
use datafusion::common::ScalarValue;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::Expr;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::expressions::RowValues;
use super::key::{FoundRows, KeyValue, KeyedRows, NamedTable, Places, ROWS_MAX};
use super::shape::RowPlan;
use crate::engine::session::Session;
use crate::error::EngineError;
use crate::scan::is_read;
use nearfar_table::table::{IndexDefinition, Table};
use nearfar_table::transaction::Transaction;
pub use order::TableOrder;
use places::{JoinedPair, JoinedPlaces};
use tables::JoinedTables;

/// How rows of several tables are put together.
#[derive(Debug)]
pub struct Joins {
    /// The places of the first table's columns among those of all.
    first: Range<usize>,
    steps: Vec<Step>,
}

/// How rows of one more table are found.
#[derive(Debug)]
struct Step {
    table: NamedTable,
    /// The index, which can be another one of its name by the time that the statement runs.
    index: Arc<IndexDefinition>,
    /// The values of its first columns.
    key: Vec<StepValue>,
    /// The places of the table's columns among those of all.
    columns: Range<usize>,
    /// What its rows have to pass to be put to others, if these are kept without.
    optional: Option<RowValues>,
    /// What all rows have to pass from here on.
    conditions: RowValues,
}

/// A value of a key.
#[derive(Debug, Clone)]
pub enum StepValue {
    Given(KeyValue),
    /// That of a column of a table before, by its place among those of all.
    Column(usize),
}

/// The rows of the first table, what they have to pass, and how they are joined with others.
pub struct JoinedWork {
    pub rows: KeyedRows,
    pub conditions: RowValues,
    pub joins: Joins,
}

impl JoinedWork {
    /// What is done where indexes lead to the rows of a plan as in `order`, whose types are decided in `typed`.
    pub fn of(
        state: &SessionState,
        (rows, order): (KeyedRows, &TableOrder<'_>),
        typed: &RowPlan<'_>,
    ) -> Option<Self> {
        let (raw, schema) = (&order.joined, typed.input.schema());
        let typed = JoinedTables::of(typed.input, typed.predicate)?.conditions;
        if raw.conditions.len() != typed.len() {
            return None;
        }
        let mut steps = Vec::with_capacity(order.steps.len());
        let conditions = |at: usize, of: Option<usize>| {
            let own = order
                .left_at(at, of)
                .map(|condition| &typed[condition].expr);
            // Constants decide before anything is computed of the rows.
            let (varying, constant): (Vec<&Expr>, Vec<_>) =
                own.partition(|expr| expr.any_column_refs());
            RowValues::of(state, constant.into_iter().chain(varying), schema)
        };
        for (at, (index, key)) in order.steps.iter().enumerate() {
            let place = order.tables[at + 1];
            let joined = &raw.tables[place];
            let optional = match joined.is_optional {
                true => Some(conditions(at + 1, Some(place))?),
                false => None,
            };
            steps.push(Step {
                table: NamedTable::new(joined.name, &joined.table),
                index: Arc::clone(index),
                key: key.clone(),
                columns: joined.columns.clone(),
                optional,
                conditions: conditions(at + 1, None)?,
            });
        }
        Some(Self {
            rows,
            conditions: conditions(0, None)?,
            joins: Joins {
                first: raw.tables[order.tables[0]].columns.clone(),
                steps,
            },
        })
    }
}

impl Joins {
    /// The tables that are joined, while they are there.
    pub fn tables(&self) -> impl Iterator<Item = Arc<Table>> {
        self.steps.iter().filter_map(|step| step.table.known())
    }

    /// Whether the values of parameters have the types that it is made for.
    pub fn take(&self, parameters: &[ScalarValue]) -> bool {
        self.steps.iter().all(|step| {
            let optional = step.optional.as_ref();
            step.conditions.take(parameters) && optional.is_none_or(|it| it.take(parameters))
        })
    }

    /// The rows that are put together of rows of the first table, of which those are left that pass `conditions`. None
    /// where the statement has to be planned.
    ///
    /// # Errors
    /// Columns that can't be read, entries that can't be made, and those of the conditions.
    pub fn rows(
        &self,
        within: Within<'_>,
        places: Places,
        conditions: &RowValues,
    ) -> Result<Option<JoinedPlaces>, EngineError> {
        let mut rows = JoinedPlaces::of(places, self.first.clone());
        if !rows.keep_passing(within.session, conditions, within.parameters)? {
            return Ok(None);
        }
        for step in &self.steps {
            match step.put_to(within, rows)? {
                Some(more) => rows = more,
                None => return Ok(None),
            }
        }
        Ok(Some(rows))
    }
}

/// Who looks rows up, with which values of parameters.
#[derive(Clone, Copy)]
pub struct Within<'a> {
    pub session: &'a Session,
    pub transaction: &'a Transaction,
    pub parameters: &'a [ScalarValue],
}

impl Step {
    /// The rows with what they have of this table.
    fn put_to(
        &self,
        within: Within<'_>,
        rows: JoinedPlaces,
    ) -> Result<Option<JoinedPlaces>, EngineError> {
        let Some((places, pairs)) = self.look_up(within, &rows)? else {
            return Ok(None);
        };
        let places = (Arc::new(places), self.columns.clone());
        let mut joined = rows.with(places.clone(), &pairs);
        let (session, parameters) = (within.session, within.parameters);
        if let Some(optional) = &self.optional {
            let Some(passing) = joined.passing(session, optional, parameters)? else {
                return Ok(None);
            };
            let mut pairs: Vec<JoinedPair> = passing.iter().map(|at| pairs[*at]).collect();
            let with: BTreeSet<usize> = pairs.iter().map(|(row, _)| *row).collect();
            let without = (0..rows.len()).filter(|row| !with.contains(row));
            pairs.extend(without.map(|row| (row, None)));
            joined = rows.with(places, &pairs);
        }
        let is_read = joined.keep_passing(session, &self.conditions, parameters)?;
        Ok(is_read.then_some(joined))
    }

    /// The places of this table's rows, and which of them each row has.
    fn look_up(
        &self,
        within: Within<'_>,
        rows: &JoinedPlaces,
    ) -> Result<Option<(Places, Vec<JoinedPair>)>, EngineError> {
        let transaction = within.transaction;
        let Some(table) = within.session.same_table(&self.table) else {
            return Ok(None);
        };
        let snapshot = transaction.snapshot(&table)?;
        let mut indexes = snapshot.indexes().iter();
        let index = indexes.find(|index| *index.definition() == self.index);
        let Some(index) = index.filter(|index| index.len().is_some()) else {
            return Ok(None);
        };
        let Some(key) = self.key_values(within, &table, rows)? else {
            return Ok(None);
        };
        let mut found = Vec::with_capacity(rows.len());
        for (row, range) in index.encoder().ranges(&key)?.into_iter().enumerate() {
            let Some(range) = range else {
                continue;
            };
            let left = ROWS_MAX - found.len();
            match transaction.find(&table, index, &range, left)? {
                Some(places) => found.extend(places.into_iter().map(|place| (row, place))),
                None => return Ok(None),
            }
        }
        if !is_read(transaction, &table, &snapshot) {
            return Ok(None);
        }
        let mut at: Vec<(usize, usize)> = found.iter().map(|(_, place)| *place).collect();
        at.sort_unstable();
        at.dedup();
        let pairs = found.into_iter().map(|(row, place)| {
            let place = at.binary_search(&place).ok();
            (row, place.map(|place| place as u32))
        });
        let pairs = pairs.collect();
        Ok(Some((Places::new(snapshot, at), pairs)))
    }

    /// The values of the key for each row.
    fn key_values(
        &self,
        within: Within<'_>,
        table: &Table,
        rows: &JoinedPlaces,
    ) -> Result<Option<Vec<ArrayRef>>, EngineError> {
        let mut key = Vec::with_capacity(self.key.len());
        for (value, column) in self.key.iter().zip(&self.index.columns) {
            let kind = table.schema().field(column.column).data_type();
            let values = match value {
                StepValue::Given(value) => {
                    let value = value.as_one_of(kind, within.parameters);
                    let first = UInt32Array::from(vec![0; rows.len()]);
                    value.map(|value| take(&value, &first, None)).transpose()?
                }
                StepValue::Column(column) => {
                    let values = rows.values(within.session, &[*column])?;
                    // A value that the other type does not have is none of its own either.
                    values.map(|values| cast(&values[0], kind)).transpose()?
                }
            };
            match values {
                Some(values) => key.push(values),
                None => return Ok(None),
            }
        }
        Ok(Some(key))
    }
}
