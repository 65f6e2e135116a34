//! Rows that an index leads to: by values of its first columns, and ends of a range of the next one.

use arrow::array::{Array, ArrayRef, new_empty_array};
use arrow::compute::{SortOptions, concat};
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use nearfar_memory::TierBytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};

use super::expressions::{RowValues, parameter_of};
use crate::engine::session::Session;
use crate::error::EngineError;
use crate::scan::{IndexRank, best_index, is_read, provider_of, table_of};
use crate::values::Declared;
use nearfar_table::segment::{ColumnSegment, RowSet};
use nearfar_table::table::{
    ColumnSlot, IndexDefinition, KeyBound, KeyRange, PackedRows, RowId, Segment, Snapshot, Table,
    TableIndex, TableRules,
};
use nearfar_table::traffic::Task;
use nearfar_table::transaction::Transaction;

/// Rows of a table at most that a statement is carried out for where it was read, or that it puts to others: more take
/// their time.
pub const ROWS_MAX: usize = 512;

/// A table, by the name that a statement has for it.
#[derive(Debug)]
pub struct NamedTable {
    name: TableReference,
    table: Weak<Table>,
    /// Schema and name with the settings that the statement was planned with, once they are known.
    resolved: OnceLock<(String, String)>,
    /// What was declared of its rows.
    rules: Arc<TableRules>,
}

impl NamedTable {
    /// The table of `name`.
    pub fn new(name: &TableReference, table: &Arc<Table>) -> Self {
        Self {
            name: name.clone(),
            table: Arc::downgrade(table),
            resolved: OnceLock::new(),
            rules: table.rules(),
        }
    }

    /// The table, while it is there.
    pub fn known(&self) -> Option<Arc<Table>> {
        self.table.upgrade()
    }

    /// Whether it takes part in foreign keys.
    pub fn has_references(&self) -> bool {
        let table = self.table.upgrade();
        table.is_some_and(|table| table.has_references())
    }
}

/// Rows with the same values of the first columns of an index.
#[derive(Debug)]
pub struct KeyedRows {
    pub table: NamedTable,
    /// The index, which can be another one of its name by the time that the statement runs.
    index: Arc<IndexDefinition>,
    /// The values of its first columns.
    key: Vec<KeyValue>,
    /// The least and the largest value of the column behind these.
    bounds: (Option<KeyValue>, Option<KeyValue>),
}

/// A value of a key.
#[derive(Debug, Clone)]
pub enum KeyValue {
    /// That of a parameter, counted from 0, if it has the type that it is cast to.
    Parameter(usize, Option<DataType>),
    Constant(ScalarValue),
}

/// Rows that a statement has found.
pub trait FoundRows {
    /// Number of rows.
    fn len(&self) -> usize;

    /// Keeps some of the rows, which are ascending.
    fn keep(&mut self, rows: &[usize]);

    /// The values of some columns of the rows; none where they are not in memory.
    ///
    /// # Errors
    /// Columns that can't be read.
    fn values(
        &self,
        session: &Session,
        columns: &[usize],
    ) -> Result<Option<Vec<ArrayRef>>, EngineError>;

    /// The same packed, as rows of `schema`. None where they are to be made column by column.
    fn packed(
        &self,
        session: &Session,
        columns: &[usize],
        schema: &SchemaRef,
    ) -> Option<PackedRows>;

    /// The rows that pass `conditions`; none where the columns are not in memory.
    ///
    /// # Errors
    /// Columns that can't be read, and those of the conditions.
    fn passing(
        &self,
        session: &Session,
        conditions: &RowValues,
        parameters: &[ScalarValue],
    ) -> Result<Option<Vec<usize>>, EngineError> {
        let Some(values) = self.values(session, conditions.columns())? else {
            return Ok(None);
        };
        Ok(Some(conditions.passing((&values, self.len()), parameters)?))
    }

    /// Keeps the rows that pass `conditions`. False where the columns are not in memory, and nothing is done.
    ///
    /// # Errors
    /// As [`Self::passing`].
    fn keep_passing(
        &mut self,
        session: &Session,
        conditions: &RowValues,
        parameters: &[ScalarValue],
    ) -> Result<bool, EngineError> {
        if conditions.is_empty() {
            return Ok(true);
        }
        let passing = self.passing(session, conditions, parameters)?;
        if let Some(passing) = &passing {
            self.keep(passing);
        }
        Ok(passing.is_some())
    }
}

/// Rows of a snapshot.
#[derive(Debug, Clone)]
pub struct Places {
    pub snapshot: Snapshot,
    /// Parts and rows in them, ascending.
    at: Vec<(usize, usize)>,
}

impl Places {
    /// Rows of parts of a snapshot, by part and row, ascending.
    pub fn new(snapshot: Snapshot, at: Vec<(usize, usize)>) -> Self {
        Self { snapshot, at }
    }

    /// The identities of the rows.
    pub fn ids(&self) -> Vec<RowId> {
        let parts = self.snapshot.parts();
        let ids = self.at.iter().map(|(part, row)| parts[*part].ids.id(*row));
        ids.collect()
    }

    /// The segment that all of the rows are in, and which of it they are. None where they are in several.
    pub fn in_one_segment(&self) -> Option<(&Segment, Vec<u32>)> {
        let (part, _) = *self.at.first()?;
        let are_in_one = self.at.iter().all(|(other, _)| *other == part);
        let rows = || self.at.iter().map(|(_, row)| *row as u32).collect();
        are_in_one.then(|| (self.snapshot.parts()[part].segment.as_ref(), rows()))
    }

    /// Counts that values of `columns` were read, one by one.
    pub fn count(&self, session: &Session, columns: impl Iterator<Item = usize> + Clone) {
        let is_counted = session.counts_accesses();
        let is_limited = session.traffic().traffic().limit().is_some();
        if !(is_counted || is_limited) {
            return;
        }
        let mut read = is_limited.then_some(TierBytes::ZERO);
        for of_part in self.at.chunk_by(|one, next| one.0 == next.0) {
            let segment = &self.snapshot.parts()[of_part[0].0].segment;
            if segment.written().is_some() {
                continue;
            }
            let rows: Vec<u32> = of_part.iter().map(|(_, row)| *row as u32).collect();
            for column in columns.clone() {
                let slot = &segment.columns()[column];
                if let Some(in_memory) = slot.in_memory() {
                    let rows = RowSet::Positions(&rows);
                    record((slot, &in_memory), rows, (is_counted, read.as_mut()));
                }
            }
        }
        if let Some(read) = read {
            session.traffic().read(Task::Point, &read);
        }
    }

    /// The values of one column in rows of one part, which its slot counts if `is_counted`, and `read` their bytes.
    fn column(
        &self,
        (part, rows): (usize, RowSet<'_>),
        column: usize,
        (is_counted, read): (bool, Option<&mut TierBytes>),
    ) -> Result<Option<ArrayRef>, EngineError> {
        let segment = &self.snapshot.parts()[part].segment;
        if let Some(written) = segment.written() {
            return Ok(Some(written.read(column, rows)?));
        }
        let slot = &segment.columns()[column];
        let Some(in_memory) = slot.in_memory() else {
            return Ok(None);
        };
        record((slot, &in_memory), rows, (is_counted, read));
        let data_type = self.snapshot.schema().field(column).data_type();
        Ok(Some(in_memory.read(rows, data_type)?))
    }
}

/// Counts that `rows` of a column are read, in its slot if `is_counted`, and their bytes.
fn record(
    (slot, column): (&ColumnSlot, &ColumnSegment),
    rows: RowSet<'_>,
    (is_counted, read): (bool, Option<&mut TierBytes>),
) {
    if is_counted {
        slot.record(rows);
    }
    if let Some(read) = read {
        *read += column.bytes_read(rows);
    }
}

impl FoundRows for Places {
    fn len(&self) -> usize {
        self.at.len()
    }

    fn keep(&mut self, rows: &[usize]) {
        if rows.len() < self.at.len() {
            self.at = rows.iter().map(|row| self.at[*row]).collect();
        }
    }

    fn values(
        &self,
        session: &Session,
        columns: &[usize],
    ) -> Result<Option<Vec<ArrayRef>>, EngineError> {
        let schema = self.snapshot.schema();
        if self.at.is_empty() {
            let none = columns
                .iter()
                .map(|column| new_empty_array(schema.field(*column).data_type()));
            return Ok(Some(none.collect()));
        }
        // Nothing is emulated where statements are carried out so, and there is nobody to delay.
        let is_counted = session.counts_accesses();
        // To say which tiers values are on takes a lock of each column's region.
        let is_limited = session.traffic().traffic().limit().is_some();
        let mut read = is_limited.then_some(TierBytes::ZERO);
        let mut parts: Vec<Vec<ArrayRef>> = Vec::with_capacity(1);
        for of_part in self.at.chunk_by(|one, next| one.0 == next.0) {
            let rows: Vec<u32> = of_part.iter().map(|(_, row)| *row as u32).collect();
            let rows = RowSet::Positions(&rows);
            let mut values = Vec::with_capacity(columns.len());
            for column in columns {
                match self.column((of_part[0].0, rows), *column, (is_counted, read.as_mut()))? {
                    Some(some) => values.push(some),
                    None => return Ok(None),
                }
            }
            parts.push(values);
        }
        if let Some(read) = read {
            session.traffic().read(Task::Point, &read);
        }
        if parts.len() == 1 {
            return Ok(parts.pop());
        }
        let values = (0..columns.len()).map(|column| {
            let parts: Vec<&dyn Array> = parts.iter().map(|part| part[column].as_ref()).collect();
            Ok(concat(&parts)?)
        });
        values.collect::<Result<_, EngineError>>().map(Some)
    }

    fn packed(
        &self,
        session: &Session,
        columns: &[usize],
        schema: &SchemaRef,
    ) -> Option<PackedRows> {
        if !PackedRows::takes(schema, self.at.len()) {
            return None;
        }
        let parts = self.snapshot.parts();
        let rows = self.at.iter();
        let rows = rows.map(|(part, row)| (parts[*part].segment.as_ref(), *row));
        let packed = PackedRows::read_of(schema, rows, columns)?;
        self.count(session, columns.iter().copied());
        Some(packed)
    }
}

/// Which rows of a range are wanted.
#[derive(Debug, Clone, Copy)]
pub enum Wanted {
    /// All, if they are so many at most.
    All(usize),
    /// So many, in the order of the index.
    First(usize),
}

impl KeyedRows {
    /// The rows of `input`, a scan of a table, that `predicate` asks for, and which of the conditions of
    /// `predicate` that leaves to be looked at. `predicate` is as it was before types were decided.
    pub fn of(predicate: &Expr, input: &LogicalPlan) -> Option<(Self, Vec<usize>)> {
        let (name, table) = scanned(input)?;
        let conditions = split_conjunction(predicate);
        let column = |column: &Column| table.schema().index_of(&column.name).ok();
        let conditions = conditions.into_iter().enumerate();
        let (rows, used, _) = Self::best((name, &table), conditions.clone(), column)?;
        let rest = (0..conditions.len()).filter(|at| !used.contains(at));
        Some((rows, rest.collect()))
    }

    /// The rows of a table that `conditions`, each with its number, ask for, in which `place` knows the table's columns,
    /// the numbers of those that hold for all of these rows, and how well they lead to them.
    pub fn best<'a>(
        (name, table): (&TableReference, &Arc<Table>),
        conditions: impl Iterator<Item = (usize, &'a Expr)>,
        place: impl Fn(&Column) -> Option<usize>,
    ) -> Option<(Self, BTreeSet<usize>, IndexRank)> {
        let given = GivenValues::of(conditions, place);
        let ((index, key, bounds), rank) = given.best_index(table)?;
        let of_key = index.columns.iter().take(key.len());
        let used = of_key.filter_map(|own| given.equal.get(&own.column));
        let used = used.map(|(_, at)| *at).collect();
        let rows = Self {
            table: NamedTable::new(name, table),
            index,
            key,
            bounds,
        };
        Some((rows, used, rank))
    }

    /// Whether the index has the rows in this order, of columns by their places.
    pub fn are_ordered_by(&self, order: &[(usize, SortOptions)]) -> bool {
        let columns = self.index.columns.get(self.key.len()..).unwrap_or_default();
        order.len() <= columns.len()
            && order.iter().zip(columns).all(|((column, options), own)| {
                own.column == *column
                    && own.is_descending == options.descending
                    && own.nulls_first == options.nulls_first
            })
    }

    /// The rows of `table`. None where the statement has to be planned.
    ///
    /// # Errors
    /// Entries that can't be made; a table that the transaction does not see.
    pub fn find(
        &self,
        transaction: &Transaction,
        table: &Table,
        parameters: &[ScalarValue],
        wanted: Wanted,
    ) -> Result<Option<Places>, EngineError> {
        let snapshot = transaction.snapshot(table)?;
        let mut indexes = snapshot.indexes().iter();
        let index = indexes.find(|index| *index.definition() == self.index);
        let Some(index) = index.filter(|index| index.len().is_some()) else {
            return Ok(None);
        };
        let range = match self.range_of_integers(index, table, parameters) {
            Some(range) => range,
            None => {
                let Some((key, bounds)) = self.values(table, parameters) else {
                    return Ok(None);
                };
                index.encoder().range(&key, bounds)?
            }
        };
        let found = match wanted {
            Wanted::All(rows_max) => transaction.find(table, index, &range, rows_max)?,
            Wanted::First(count) => Some(transaction.find_first(table, index, &range, count)?),
        };
        let found = found.filter(|_| is_read(transaction, table, &snapshot));
        Ok(found.map(|mut at| {
            at.sort_unstable();
            Places::new(snapshot, at)
        }))
    }

    /// The keys in `index`, if their values are integers without bounds behind them.
    fn range_of_integers(
        &self,
        index: &TableIndex,
        table: &Table,
        parameters: &[ScalarValue],
    ) -> Option<KeyRange> {
        let values = self.key.iter().zip(&self.index.columns);
        let values = values.map(|(value, column)| {
            let kind = table.schema().field(column.column).data_type();
            value.as_integer_of(kind, parameters)
        });
        match self.bounds {
            (None, None) => index.encoder().range_of_integers(values),
            _ => None,
        }
    }

    /// The values of the key and its bounds, if they can be compared as they are.
    fn values(&self, table: &Table, parameters: &[ScalarValue]) -> Option<KeyValues> {
        let value_at = |at: usize, value: &KeyValue| {
            let column = self.index.columns.get(at)?.column;
            value.as_one_of(table.schema().field(column).data_type(), parameters)
        };
        let key = self.key.iter().enumerate();
        let key = key.map(|(at, value)| value_at(at, value));
        let bound = |bound: &Option<KeyValue>| match bound {
            Some(value) => value_at(self.key.len(), value).map(Some),
            None => Some(None),
        };
        Some((
            key.collect::<Option<_>>()?,
            (bound(&self.bounds.0)?, bound(&self.bounds.1)?),
        ))
    }
}

/// The values of the first columns of an index, and of the bounds of the next one.
type KeyValues = (Vec<ArrayRef>, (KeyBound, KeyBound));

/// An index, the values of its first columns, and the bounds of the next one.
type DefinedUse = (
    Arc<IndexDefinition>,
    Vec<KeyValue>,
    (Option<KeyValue>, Option<KeyValue>),
);

/// What conditions say of the values of columns, by the columns' places.
#[derive(Default)]
struct GivenValues {
    /// Columns that are to have a value, with the place of the condition.
    equal: BTreeMap<usize, (KeyValue, usize)>,
    /// Columns whose values are to be this or more.
    lower: BTreeMap<usize, KeyValue>,
    /// Columns whose values are to be this or less.
    upper: BTreeMap<usize, KeyValue>,
}

impl GivenValues {
    /// What `conditions` say, in which `place` knows the columns.
    fn of<'a>(
        conditions: impl Iterator<Item = (usize, &'a Expr)>,
        place: impl Fn(&Column) -> Option<usize>,
    ) -> Self {
        let mut given = Self::default();
        for (at, condition) in conditions {
            match condition {
                Expr::Between(between) if !between.negated => {
                    given.add(&place, (&between.expr, Operator::GtEq, &between.low), at);
                    given.add(&place, (&between.expr, Operator::LtEq, &between.high), at);
                }
                Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                    given.add(&place, (left, *op, right), at);
                }
                _ => {}
            }
        }
        given
    }

    /// Takes a comparison in.
    fn add(
        &mut self,
        place: impl Fn(&Column) -> Option<usize>,
        (left, operator, right): Comparison<'_>,
        at: usize,
    ) {
        let (name, operator, value) = match (KeyValue::of(left), KeyValue::of(right)) {
            (None, Some(value)) => (left, Some(operator), value),
            (Some(value), None) => (right, operator.swap(), value),
            _ => return,
        };
        let (Expr::Column(column), Some(operator)) = (name, operator) else {
            return;
        };
        let Some(column) = place(column) else {
            return;
        };
        match operator {
            // Two conditions on one column need not be the same.
            Operator::Eq => {
                self.equal.entry(column).or_insert((value, at));
            }
            Operator::Gt | Operator::GtEq => {
                self.lower.insert(column, value);
            }
            Operator::Lt | Operator::LtEq => {
                self.upper.insert(column, value);
            }
            _ => {}
        }
    }

    /// The index that they lead to rows by, the values of its first columns, and the bounds of the next one.
    fn best_index(&self, table: &Table) -> Option<(DefinedUse, IndexRank)> {
        let fields = table.schema().fields();
        let is_plain = |column: usize| is_compared_as_stored(&fields[column]);
        let value = |column: usize| {
            let value = self.equal.get(&column).filter(|_| is_plain(column));
            value.map(|(value, _)| value.clone())
        };
        let bounds = |column: usize| {
            let bound = |bounds: &BTreeMap<_, KeyValue>| {
                bounds.get(&column).filter(|_| is_plain(column)).cloned()
            };
            (bound(&self.lower), bound(&self.upper))
        };
        let snapshot = table.snapshot();
        let found = best_index(&snapshot, value, bounds)?;
        let definition = Arc::clone(found.index.definition());
        Some(((definition, found.key, found.bounds), found.rank))
    }
}

/// A comparison of two expressions.
type Comparison<'a> = (&'a Expr, Operator, &'a Expr);

impl KeyValue {
    /// The value that an expression is, whatever the row.
    pub fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Placeholder(placeholder) => {
                parameter_of(placeholder).map(|at| Self::Parameter(at, None))
            }
            Expr::Literal(value, _) => Some(Self::Constant(value.clone())),
            Expr::Cast(cast) => match Self::of(&cast.expr)? {
                Self::Parameter(at, None) => {
                    Some(Self::Parameter(at, Some(cast.field.data_type().clone())))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The value as one of a column of type `kind`, if it can be compared as it is.
    pub fn as_one_of(&self, kind: &DataType, parameters: &[ScalarValue]) -> Option<ArrayRef> {
        comparable(self.given(parameters)?, kind)
    }

    /// The same of an integer of an integer column, or a date of one of dates.
    fn as_integer_of(&self, kind: &DataType, parameters: &[ScalarValue]) -> Option<i128> {
        match self.given(parameters)? {
            ScalarValue::Date32(Some(days)) if *kind == DataType::Date32 => Some((*days).into()),
            _ if !kind.is_integer() => None,
            ScalarValue::Int8(Some(value)) => Some((*value).into()),
            ScalarValue::Int16(Some(value)) => Some((*value).into()),
            ScalarValue::Int32(Some(value)) => Some((*value).into()),
            ScalarValue::Int64(Some(value)) => Some((*value).into()),
            ScalarValue::UInt8(Some(value)) => Some((*value).into()),
            ScalarValue::UInt16(Some(value)) => Some((*value).into()),
            ScalarValue::UInt32(Some(value)) => Some((*value).into()),
            ScalarValue::UInt64(Some(value)) => Some((*value).into()),
            _ => None,
        }
    }

    /// The value, if it has the type that it is to have.
    fn given<'a>(&'a self, parameters: &'a [ScalarValue]) -> Option<&'a ScalarValue> {
        match self {
            Self::Parameter(at, wanted) => {
                let value = parameters.get(*at)?;
                let is_wanted = |wanted: &DataType| value.data_type() == *wanted;
                wanted.as_ref().is_none_or(is_wanted).then_some(value)
            }
            Self::Constant(value) => Some(value),
        }
    }
}

/// A value as one of a column with the same meaning, where being equal means the same in both types.
fn comparable(value: &ScalarValue, column: &DataType) -> Option<ArrayRef> {
    let given = value.data_type();
    if value.is_null() || !are_alike(&given, column) {
        return None;
    }
    match given == *column {
        true => value.to_array().ok(),
        false => value.cast_to(column).ok()?.to_array().ok(),
    }
}

/// Whether values of a column are compared as they are stored: texts of a declared length are not.
pub fn is_compared_as_stored(column: &Field) -> bool {
    Declared::of(column).is_none()
}

/// Whether values of two types are equal exactly where they are as values of one of them.
pub fn are_alike(one: &DataType, other: &DataType) -> bool {
    let are_like = one == other
        || one.is_integer() && other.is_integer()
        || one.is_string() && other.is_string();
    are_like && !other.is_floating()
}

/// The name and the table that a plan scans, if it is nothing but a scan.
pub fn scanned(plan: &LogicalPlan) -> Option<(&TableReference, Arc<Table>)> {
    let scan = match plan {
        LogicalPlan::SubqueryAlias(alias) => alias.input.as_ref(),
        other => other,
    };
    let LogicalPlan::TableScan(scan) = scan else {
        return None;
    };
    if scan.fetch.is_some() || scan.projection.is_some() || !scan.filters.is_empty() {
        return None;
    }
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider_of(provider.as_ref())?.table();
    Some((&scan.table_name, Arc::clone(table)))
}

impl Session {
    /// The table of a name, if it is still the same one, and the same is declared of it. For a statement with the settings that it was
    /// planned with, by which names are resolved.
    pub(super) fn same_table(&self, named: &NamedTable) -> Option<Arc<Table>> {
        let table = named.table.upgrade()?;
        if !Arc::ptr_eq(&named.rules, &table.rules()) {
            return None;
        }
        let (schema, name) = match named.resolved.get() {
            Some(known) => known,
            None => {
                let resolved = self.resolve(&named.name).ok()?;
                named.resolved.get_or_init(|| resolved)
            }
        };
        let provider = self.tables().get(schema, name)?;
        table_of(provider.as_ref())
            .is_some_and(|known| Arc::ptr_eq(known, &table))
            .then_some(table)
    }
}
