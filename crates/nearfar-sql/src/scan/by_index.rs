//! Rows that an index leads to.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::Schema;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use std::collections::HashMap;
use std::sync::Arc;

use crate::error::EngineError;
use nearfar_table::table::{KeyRange, Snapshot, Table, TableIndex, with_one_zero};
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

/// The rows that conditions on the first columns of an index leave, where there is one: all that pass `filters` are among
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
    let named = NamedValues::of(filters, table.schema());
    let Some((index, range)) = best_range(snapshot, &named)? else {
        return Ok(None);
    };
    let rows_max = ROWS_MIN.max(snapshot.rows() / SHARE);
    let found = transaction.find(table, index, &range, rows_max)?;
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

/// What conditions say of the values of columns.
#[derive(Default)]
struct NamedValues {
    /// Columns that are to have one value.
    equal: HashMap<usize, ArrayRef>,
    /// Columns whose values are to be this or more.
    lower: HashMap<usize, ArrayRef>,
    /// Columns whose values are to be this or less.
    upper: HashMap<usize, ArrayRef>,
}

impl NamedValues {
    fn of(filters: &[Expr], schema: &Schema) -> Self {
        let mut named = Self::default();
        for condition in filters.iter().flat_map(split_conjunction) {
            if let Expr::Between(between) = condition
                && !between.negated
            {
                named.add(schema, (&between.expr, Operator::GtEq, &between.low));
                named.add(schema, (&between.expr, Operator::LtEq, &between.high));
            } else if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition {
                named.add(schema, (left, *op, right));
            }
        }
        named
    }

    fn add(&mut self, schema: &Schema, condition: (&Expr, Operator, &Expr)) {
        let (column, operator, value) = match condition {
            (Expr::Column(column), operator, Expr::Literal(value, _)) => (column, operator, value),
            (Expr::Literal(value, _), operator, Expr::Column(column)) => match operator.swap() {
                Some(operator) => (column, operator, value),
                None => return,
            },
            _ => return,
        };
        let values = match operator {
            Operator::Eq => &mut self.equal,
            Operator::Gt | Operator::GtEq => &mut self.lower,
            Operator::Lt | Operator::LtEq => &mut self.upper,
            _ => return,
        };
        let Ok(at) = schema.index_of(&column.name) else {
            return;
        };
        let is_of_type = value.data_type() == *schema.field(at).data_type();
        let value = value.to_array().ok();
        if let Some(value) = value.filter(|value| is_of_type && !value.is_null(0)) {
            // Of several conditions one is enough, since all rows are looked at again.
            values.insert(at, with_one_zero(value));
        }
    }
}

/// The keys of the index whose columns the values name best.
fn best_range<'a>(
    snapshot: &'a Snapshot,
    named: &NamedValues,
) -> Result<Option<(&'a Arc<TableIndex>, KeyRange)>, EngineError> {
    let value = |column: usize| named.equal.get(&column).cloned();
    let bounds = |column: usize| {
        let bound = |bounds: &HashMap<_, ArrayRef>| bounds.get(&column).cloned();
        (bound(&named.lower), bound(&named.upper))
    };
    let Some(found) = best_index(snapshot, value, bounds) else {
        return Ok(None);
    };
    let range = found.index.encoder().range(&found.key, found.bounds)?;
    Ok(Some((found.index, range)))
}

/// An index by which rows are found.
pub struct IndexUse<'a, V> {
    /// The index.
    pub index: &'a Arc<TableIndex>,
    /// The values of its first columns.
    pub key: Vec<V>,
    /// The least and the largest value of the column behind these.
    pub bounds: (Option<V>, Option<V>),
}

/// The index of whose first columns most have a `value`, and then of whose next column most `bounds` are given; before
/// others one in which the values are the key of one row. Columns are given by their places.
pub fn best_index<V>(
    snapshot: &Snapshot,
    value: impl Fn(usize) -> Option<V>,
    bounds: impl Fn(usize) -> (Option<V>, Option<V>),
) -> Option<IndexUse<'_, V>> {
    let usable = snapshot.indexes().iter().filter_map(|index| {
        let mut columns = index.definition().columns.iter().map(|own| own.column);
        let mut key = Vec::new();
        let next = columns.find(|column| match value(*column) {
            Some(value) => {
                key.push(value);
                false
            }
            None => true,
        });
        let bounds = next.map_or((None, None), &bounds);
        let bounded = usize::from(bounds.0.is_some()) + usize::from(bounds.1.is_some());
        let is_key = index.definition().role.is_unique() && next.is_none();
        let rank = (is_key, key.len(), bounded);
        let found = IndexUse { index, key, bounds };
        (rank > (false, 0, 0)).then_some((rank, found))
    });
    let best = usable.max_by_key(|(rank, _)| *rank);
    best.map(|(_, found)| found)
}
