//! Rows that an index leads to.

use arrow::array::ArrayRef;
use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use std::collections::HashMap;
use std::sync::Arc;

use crate::error::EngineError;
use nearfar_table::table::{Snapshot, Table, TableIndex, with_one_zero};
use nearfar_table::transaction::Transaction;

/// Where one row in so many is wanted, or fewer, they are looked up: reading all takes no longer for more.
const SHARE: usize = 128;

/// Rows that are looked up of tables that have few.
const ROWS_MIN: usize = 16;

/// Rows of a snapshot, found by an index.
#[derive(Debug, Clone)]
pub struct FoundRows {
    /// The index.
    pub index: Arc<TableIndex>,
    /// Parts and rows in them, ascending.
    pub places: Vec<(usize, usize)>,
}

/// The rows that conditions of equality leave, where an index has them: all that pass `filters` are among
/// them.
///
/// # Errors
/// An index that can't be made of its table.
pub fn found_rows(
    transaction: &Transaction,
    table: &Table,
    snapshot: &Snapshot,
    filters: &[Expr],
) -> Result<Option<FoundRows>, EngineError> {
    if snapshot.indexes().is_empty() || filters.is_empty() {
        return Ok(None);
    }
    let constants = constants(filters, table.schema());
    let Some((index, values)) = best_index(snapshot, &constants) else {
        return Ok(None);
    };
    let rows_max = ROWS_MIN.max(snapshot.rows() / SHARE);
    let found = transaction.find(table, index, &values, rows_max)?;
    // Another statement of the same session may have changed what there is to read.
    let found = found.filter(|_| is_read(transaction, table, snapshot));
    Ok(found.map(|mut places| {
        places.sort_unstable();
        let index = Arc::clone(index);
        FoundRows { index, places }
    }))
}

/// Whether a transaction reads this snapshot of a table.
pub fn is_read(transaction: &Transaction, table: &Table, snapshot: &Snapshot) -> bool {
    let read = transaction.snapshot(table);
    read.is_ok_and(|read| read.is(snapshot))
}

/// The columns that are to have one value, with that.
fn constants(filters: &[Expr], schema: &Schema) -> HashMap<usize, ArrayRef> {
    let conditions = filters.iter().flat_map(split_conjunction);
    let constants = conditions.filter_map(|condition| {
        let (column, value) = equality(condition)?;
        let column = schema.index_of(column).ok()?;
        let is_of_type = value.data_type() == *schema.field(column).data_type();
        let value = value.to_array().ok().filter(|_| is_of_type)?;
        Some((column, with_one_zero(value)))
    });
    constants.collect()
}

fn equality(condition: &Expr) -> Option<(&str, &ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = condition
    else {
        return None;
    };
    match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(value, _))
        | (Expr::Literal(value, _), Expr::Column(column)) => {
            (!value.is_null()).then_some((column.name.as_str(), value))
        }
        _ => None,
    }
}

/// The index whose first columns are the most that have constants, and these; before others one in which
/// they are the key of one row.
fn best_index<'a>(
    snapshot: &'a Snapshot,
    constants: &HashMap<usize, ArrayRef>,
) -> Option<(&'a Arc<TableIndex>, Vec<ArrayRef>)> {
    let usable = snapshot.indexes().iter().filter_map(|index| {
        let columns = &index.definition().columns;
        let values = columns
            .iter()
            .map_while(|column| constants.get(&column.column));
        let values: Vec<ArrayRef> = values.cloned().collect();
        (!values.is_empty()).then_some((index, values))
    });
    usable.max_by_key(|(index, values)| {
        let definition = index.definition();
        let is_key = definition.role.is_unique() && values.len() == definition.columns.len();
        (is_key, values.len())
    })
}
