//! Rows that an index leads to: by a value of each of its first columns, by ends of a range of the next one, or by a
//! list of values.
//!
//! The list is that of an `IN`, or that of the keys of a join whose other side is small: a hash join hands them to the
//! scan of its large side once it has them, which then looks the rows up instead of reading all.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::{and, filter, is_not_null};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::collections::HashMap;
use std::sync::Arc;

use crate::error::EngineError;
use nearfar_table::table::{KeyRange, Snapshot, Table, TableIndex, with_one_zero};
use nearfar_table::transaction::Transaction;

/// Where one row in so many is wanted, or fewer, they are looked up: reading all takes no longer for more.
const SHARE: usize = 128;

/// The same for values of a list, each of which is looked up by itself.
const LIST_SHARE: usize = 1024;

/// Rows that are looked up of tables that have few.
const ROWS_MIN: usize = 16;

/// `OR`s below each other at most of which it is asked whether they are a list.
const LIST_DEPTH_MAX: usize = 64;

/// Rows of a snapshot, found by an index.
#[derive(Debug, Clone)]
pub struct FoundRows {
    /// The index.
    pub index: Arc<TableIndex>,
    /// Parts and rows in them, ascending.
    pub places: Vec<(usize, usize)>,
}

/// The rows that conditions on the first columns of an index leave, where there is one: all that pass the conditions are
/// among them.
///
/// # Errors
/// An index that can't be made of its table.
pub fn found_rows(
    transaction: &Transaction,
    table: &Table,
    snapshot: &Snapshot,
    named: &NamedValues,
) -> Result<Option<FoundRows>, EngineError> {
    let Some((index, ranges)) = best_ranges(snapshot, named)? else {
        return Ok(None);
    };
    let rows_max = ROWS_MIN.max(snapshot.rows() / SHARE);
    let mut places = Vec::new();
    for range in ranges {
        let left = rows_max - places.len();
        match transaction.find(table, index, &range?, left)? {
            Some(found) if found.len() <= left => places.extend(found),
            _ => return Ok(None),
        }
    }
    // Another statement of the same session may have changed what there is to read.
    if !is_read(transaction, table, snapshot) {
        return Ok(None);
    }
    places.sort_unstable();
    places.dedup();
    let index = Arc::clone(index);
    Ok(Some(FoundRows { index, places }))
}

/// Whether a transaction reads this snapshot of a table.
pub fn is_read(transaction: &Transaction, table: &Table, snapshot: &Snapshot) -> bool {
    let read = transaction.snapshot(table);
    read.is_ok_and(|read| read.is(snapshot))
}

/// What conditions say of the values of columns, which are known by their places.
#[derive(Debug, Default)]
pub struct NamedValues {
    /// Columns that are to have one value.
    equal: HashMap<usize, ArrayRef>,
    /// Columns whose values are to be this or more.
    lower: HashMap<usize, ArrayRef>,
    /// Columns whose values are to be this or less.
    upper: HashMap<usize, ArrayRef>,
    /// The shortest of the lists that there are.
    list: Option<NamedList>,
}

/// Columns whose values are together to be those of one of some rows.
#[derive(Debug)]
struct NamedList {
    columns: Vec<usize>,
    /// The rows' values, column by column, without nulls.
    values: Vec<ArrayRef>,
}

impl NamedList {
    fn len(&self) -> usize {
        self.values.first().map_or(0, |values| values.len())
    }

    /// The list that a condition is: an `IN`, of one column or of several as a row, or comparisons of one column with
    /// `OR` between them.
    fn of(condition: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        let (columns, values) = match condition.downcast_ref::<InListExpr>() {
            Some(list) if !list.negated() => {
                let values = list.list().iter().map(literal);
                (
                    columns_of(list.expr())?,
                    values.collect::<Option<Vec<_>>>()?,
                )
            }
            Some(_) => return None,
            None => {
                let (mut columns, mut values) = (Vec::new(), Vec::new());
                alternatives(condition, (&mut columns, &mut values), LIST_DEPTH_MAX)?;
                (columns, values)
            }
        };
        let values = values.into_iter().filter(|value| !value.is_null());
        let rows = match values.clone().next() {
            Some(_) => ScalarValue::iter_to_array(values).ok()?,
            None => return None,
        };
        let values = match (rows.as_struct_opt(), &columns[..]) {
            (Some(rows), columns) => {
                let present = rows.columns().iter().try_fold(
                    BooleanArray::from(vec![true; rows.len()]),
                    |present, values| and(&present, &is_not_null(values)?),
                );
                let present = present.ok()?;
                let values = rows
                    .columns()
                    .iter()
                    .map(|values| filter(values, &present).ok());
                let values = values.collect::<Option<Vec<ArrayRef>>>()?;
                (values.len() == columns.len()).then_some(values)?
            }
            (None, [_]) => vec![rows],
            (None, _) => return None,
        };
        let kind = |column: &usize| schema.fields().get(*column).map(|field| field.data_type());
        let mut kinds = columns.iter().map(kind).zip(&values);
        let are_of_types = kinds.all(|(kind, values)| kind == Some(values.data_type()));
        are_of_types.then(|| Self {
            columns,
            values: values.into_iter().map(with_one_zero).collect(),
        })
    }
}

/// The value that an expression is.
fn literal(expr: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    let literal = expr.downcast_ref::<Literal>()?;
    Some(literal.value().clone())
}

/// The columns that an expression is: one, or several as a row.
fn columns_of(expr: &Arc<dyn PhysicalExpr>) -> Option<Vec<usize>> {
    let column = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().map(Column::index);
    match expr.downcast_ref::<ScalarFunctionExpr>() {
        Some(row) if row.name() == "struct" => row.args().iter().map(column).collect(),
        Some(_) => None,
        None => Some(vec![column(expr)?]),
    }
}

/// Adds the values that a column is compared with in `condition`, which is `column = value`, or several such of the same
/// column with `OR` between them.
fn alternatives(
    condition: &Arc<dyn PhysicalExpr>,
    (columns, values): (&mut Vec<usize>, &mut Vec<ScalarValue>),
    depth_max: usize,
) -> Option<()> {
    let depth_max = depth_max.checked_sub(1)?;
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    match binary.op() {
        Operator::Or => {
            alternatives(binary.left(), (columns, values), depth_max)?;
            alternatives(binary.right(), (columns, values), depth_max)
        }
        Operator::Eq => {
            let column = binary.left().downcast_ref::<Column>()?.index();
            if columns.is_empty() {
                columns.push(column);
            }
            values.push(literal(binary.right())?);
            (columns[..] == [column]).then_some(())
        }
        _ => None,
    }
}

impl NamedValues {
    /// What `conditions` say, of columns by their places in `schema`.
    pub fn of<'a>(
        conditions: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
        schema: &Schema,
    ) -> Self {
        let mut named = Self::default();
        for condition in conditions.into_iter().flat_map(split_conjunction) {
            let comparison = condition.downcast_ref::<BinaryExpr>();
            match comparison.filter(|comparison| *comparison.op() != Operator::Or) {
                Some(comparison) => named.compare(comparison, schema),
                None => named.add_list(NamedList::of(condition, schema)),
            }
        }
        named
    }

    /// Whether a list is among them.
    pub fn has_list(&self) -> bool {
        self.list.is_some()
    }

    fn add_list(&mut self, list: Option<NamedList>) {
        let len = |list: &NamedList| list.len();
        if let Some(list) = list
            && self
                .list
                .as_ref()
                .map(len)
                .is_none_or(|len| list.len() < len)
        {
            self.list = Some(list);
        }
    }

    fn compare(&mut self, comparison: &BinaryExpr, schema: &Schema) {
        let column =
            |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().map(Column::index);
        let (left, right, operator) = (comparison.left(), comparison.right(), *comparison.op());
        let (column, operator, value) = match (column(left), literal(right)) {
            (Some(column), Some(value)) => (column, Some(operator), value),
            _ => match (literal(left), column(right)) {
                (Some(value), Some(column)) => (column, operator.swap(), value),
                _ => return,
            },
        };
        let values = match operator {
            Some(Operator::Eq) => &mut self.equal,
            Some(Operator::Gt | Operator::GtEq) => &mut self.lower,
            Some(Operator::Lt | Operator::LtEq) => &mut self.upper,
            _ => return,
        };
        let kind = schema.fields().get(column).map(|field| field.data_type());
        let is_of_type = kind.is_some_and(|kind: &DataType| *kind == value.data_type());
        let value = value.to_array().ok();
        if let Some(value) = value.filter(|value| is_of_type && !value.is_null(0)) {
            // Of several conditions one is enough, since all rows are looked at again.
            values.insert(column, with_one_zero(value));
        }
    }
}

/// A value of a key.
#[derive(Debug, Clone)]
enum KeyPart {
    One(ArrayRef),
    /// Each of a list's.
    Each(ArrayRef),
}

impl KeyPart {
    /// The value for the row of the list at this place.
    fn value(&self, at: usize) -> ArrayRef {
        match self {
            Self::One(value) => Arc::clone(value),
            Self::Each(values) => values.slice(at, 1),
        }
    }
}

/// Ranges of the keys of an index.
type Ranges<'a> = Box<dyn Iterator<Item = Result<KeyRange, EngineError>> + 'a>;

/// The keys of the index whose columns the values name best; none where there are too many to look them up.
fn best_ranges<'a>(
    snapshot: &'a Snapshot,
    named: &'a NamedValues,
) -> Result<Option<(&'a Arc<TableIndex>, Ranges<'a>)>, EngineError> {
    let list = named.list.as_ref();
    let list = list.filter(|list| list.len() <= ROWS_MIN.max(snapshot.rows() / LIST_SHARE));
    let value = |column: usize| match named.equal.get(&column) {
        Some(value) => Some(KeyPart::One(Arc::clone(value))),
        None => {
            let list = list?;
            let at = list.columns.iter().position(|own| *own == column)?;
            Some(KeyPart::Each(Arc::clone(&list.values[at])))
        }
    };
    let bounds = |column: usize| {
        let bound = |bounds: &HashMap<_, ArrayRef>| bounds.get(&column).cloned().map(KeyPart::One);
        (bound(&named.lower), bound(&named.upper))
    };
    let Some(found) = best_index(snapshot, value, bounds) else {
        return Ok(None);
    };
    let IndexUse {
        index, key, bounds, ..
    } = found;
    let is_each = |part: &KeyPart| matches!(part, KeyPart::Each(_));
    let list = list.filter(|_| key.iter().any(is_each));
    let ranges = (0..list.map_or(1, NamedList::len)).map(move |at| {
        let key: Vec<ArrayRef> = key.iter().map(|part| part.value(at)).collect();
        let bound = |bound: &Option<KeyPart>| bound.as_ref().map(|part| part.value(at));
        let bounds = (bound(&bounds.0), bound(&bounds.1));
        Ok(index.encoder().range(&key, bounds)?)
    });
    Ok(Some((index, Box::new(ranges))))
}

/// An index by which rows are found.
pub struct IndexUse<'a, V> {
    /// The index.
    pub index: &'a Arc<TableIndex>,
    /// The values of its first columns.
    pub key: Vec<V>,
    /// The least and the largest value of the column behind these.
    pub bounds: (Option<V>, Option<V>),
    /// How well they lead to rows.
    pub rank: IndexRank,
}

/// Whether the values of an index are the key of one row, of how many columns they are, and how many bounds the next one
/// has. The more, the fewer rows.
pub type IndexRank = (bool, usize, usize);

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
        let found = IndexUse {
            index,
            key,
            bounds,
            rank,
        };
        (rank > (false, 0, 0)).then_some(found)
    });
    usable.max_by_key(|found| found.rank)
}
