//! The row of a whole unique key.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use super::expressions::parameter_of;
use crate::engine::catalog::{PUBLIC, TEMPORARY};
use crate::engine::session::Session;
use crate::error::EngineError;
use crate::scan::{is_read, provider_of, table_of};
use crate::values::Declared;
use nearfar_table::segment::RowSet;
use nearfar_table::table::{IndexDefinition, RowId, Snapshot, Table, TableIndex, TableRules};
use nearfar_table::transaction::Transaction;

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
}

/// The row of a key.
#[derive(Debug)]
pub struct KeyedRow {
    pub table: NamedTable,
    /// The index, which can be another one of its name by the time that the statement runs.
    index: Arc<IndexDefinition>,
    /// The values of its columns.
    key: Vec<KeyValue>,
}

/// A value of a key.
#[derive(Debug, Clone)]
enum KeyValue {
    /// That of a parameter, counted from 0.
    Parameter(usize),
    Constant(ScalarValue),
}

/// What is found by a key.
pub enum Found {
    /// This row of a snapshot, or none.
    Row(Option<Place>),
    /// The statement has to be planned.
    Unknown,
}

/// A row of a snapshot.
pub struct Place {
    pub snapshot: Snapshot,
    part: usize,
    row: usize,
}

impl Place {
    /// The identity of the row.
    pub fn id(&self) -> RowId {
        self.snapshot.parts()[self.part].ids.id(self.row)
    }

    /// The values of some columns of the row; none where they are not in memory.
    ///
    /// # Errors
    /// Columns that can't be read.
    pub fn values(
        &self,
        session: &Session,
        columns: &[usize],
    ) -> Result<Option<Vec<ArrayRef>>, EngineError> {
        if columns.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let segment = &self.snapshot.parts()[self.part].segment;
        let at = [self.row as u32];
        let rows = RowSet::Positions(&at);
        if let Some(written) = segment.tail() {
            let values = columns.iter().map(|column| written.read(*column, rows));
            return Ok(Some(values.collect()));
        }
        let counts = session.counts_accesses();
        let mut values = Vec::with_capacity(columns.len());
        for column in columns {
            let slot = &segment.columns()[*column];
            let Some(in_memory) = slot.in_memory() else {
                return Ok(None);
            };
            // Nothing is emulated where statements are carried out so, and there is nobody to delay.
            if counts {
                slot.record(rows);
            }
            let data_type = self.snapshot.schema().field(*column).data_type();
            values.push(in_memory.read(rows, data_type)?);
        }
        Ok(Some(values))
    }
}

impl KeyedRow {
    /// The row of `input`, a scan of a table, that `predicate` asks for, and which of the conditions of
    /// `predicate` that leaves to be looked at. `predicate` is as it was before types were decided.
    pub fn of(predicate: &Expr, input: &LogicalPlan) -> Option<(Self, Vec<usize>)> {
        let scan = match input {
            LogicalPlan::SubqueryAlias(alias) => alias.input.as_ref(),
            other => other,
        };
        let LogicalPlan::TableScan(scan) = scan else {
            return None;
        };
        if scan.fetch.is_some() || !scan.filters.is_empty() {
            return None;
        }
        let provider = source_as_provider(&scan.source).ok()?;
        let table = provider_of(provider.as_ref())?.table();
        let mut values = BTreeMap::new();
        let mut rest = Vec::new();
        for (at, condition) in split_conjunction(predicate).into_iter().enumerate() {
            match equality(condition, table) {
                // Two conditions on one column need not be the same.
                Some((column, _)) if values.contains_key(&column) => rest.push(at),
                Some((column, value)) => drop(values.insert(column, (value, at))),
                None => rest.push(at),
            }
        }
        let (index, key) = key_of(table, &values)?;
        let is_of_key = |column: &usize| index.columns.iter().any(|own| own.column == *column);
        let others = values.iter().filter(|(column, _)| !is_of_key(column));
        rest.extend(others.map(|(_, (_, at))| *at));
        rest.sort_unstable();
        let table = NamedTable::new(&scan.table_name, table);
        Some((Self { table, index, key }, rest))
    }

    /// The row of `table` that has the key.
    ///
    /// # Errors
    /// Entries that can't be made; a table that the transaction does not see.
    pub fn find(
        &self,
        transaction: &Transaction,
        table: &Table,
        parameters: &[ScalarValue],
    ) -> Result<Found, EngineError> {
        let snapshot = transaction.snapshot(table)?;
        let mut indexes = snapshot.indexes().iter();
        let index = indexes.find(|index| *index.definition() == self.index);
        let Some(index) = index.filter(|index| index.len().is_some()) else {
            return Ok(Found::Unknown);
        };
        let Some(key) = self.values(index, table, parameters) else {
            return Ok(Found::Unknown);
        };
        let key = index.encoder().range(&key, (None, None))?;
        let places = transaction.find(table, index, &key, 1)?;
        let places = places.filter(|_| is_read(transaction, table, &snapshot));
        match places.as_deref() {
            Some([]) => Ok(Found::Row(None)),
            Some(&[(part, row)]) => {
                let place = Place {
                    part,
                    row,
                    snapshot,
                };
                Ok(Found::Row(Some(place)))
            }
            _ => Ok(Found::Unknown),
        }
    }

    /// The values of the key, one of each column of the index, if they can be compared as they are.
    fn values(
        &self,
        index: &TableIndex,
        table: &Table,
        parameters: &[ScalarValue],
    ) -> Option<Vec<ArrayRef>> {
        let columns = index.definition().columns.iter();
        let values = columns.zip(&self.key).map(|(column, value)| {
            let value = match value {
                KeyValue::Parameter(at) => parameters.get(*at)?,
                KeyValue::Constant(value) => value,
            };
            comparable(value, table.schema().field(column.column).data_type())
        });
        values.collect()
    }
}

/// The column and the value that a condition says are equal.
fn equality(condition: &Expr, table: &Table) -> Option<(usize, KeyValue)> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = condition
    else {
        return None;
    };
    let (name, value) = match (value_of(left), value_of(right)) {
        (None, Some(value)) => (left, value),
        (Some(value), None) => (right, value),
        _ => return None,
    };
    match name.as_ref() {
        Expr::Column(column) => Some((table.schema().index_of(&column.name).ok()?, value)),
        _ => None,
    }
}

fn value_of(expr: &Expr) -> Option<KeyValue> {
    match expr {
        Expr::Placeholder(placeholder) => parameter_of(placeholder).map(KeyValue::Parameter),
        Expr::Literal(value, _) => Some(KeyValue::Constant(value.clone())),
        _ => None,
    }
}

/// A unique index all of whose columns have values, and these in its order.
fn key_of(
    table: &Table,
    values: &BTreeMap<usize, (KeyValue, usize)>,
) -> Option<(Arc<IndexDefinition>, Vec<KeyValue>)> {
    let snapshot = table.snapshot();
    snapshot.indexes().iter().find_map(|index| {
        let definition = index.definition();
        let fields = table.schema().fields();
        let key = definition.columns.iter().map(|column| {
            // Texts of a declared length are compared in a way of their own.
            let is_plain = Declared::of(&fields[column.column]).is_none();
            let value = values.get(&column.column).filter(|_| is_plain);
            value.map(|(value, _)| value.clone())
        });
        let is_unique = definition.role.is_unique();
        let key = key
            .collect::<Option<Vec<KeyValue>>>()
            .filter(|_| is_unique)?;
        Some((Arc::clone(definition), key))
    })
}

/// A value as one of a column with the same meaning, where being equal means the same in both types.
fn comparable(value: &ScalarValue, column: &DataType) -> Option<ArrayRef> {
    let given = value.data_type();
    let is_like = given == *column
        || given.is_integer() && column.is_integer()
        || given.is_string() && column.is_string();
    if value.is_null() || !is_like || column.is_floating() {
        return None;
    }
    match given == *column {
        true => value.to_array().ok(),
        false => value.cast_to(column).ok()?.to_array().ok(),
    }
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
        let is_own = [PUBLIC, TEMPORARY].contains(&schema.as_str());
        let own = self.temporary.get(name).filter(|_| is_own);
        let provider = match own {
            Some(own) => own,
            None => self.engine().catalog().schema(schema)?.get(name)?,
        };
        table_of(provider.as_ref())
            .is_some_and(|known| Arc::ptr_eq(known, &table))
            .then_some(table)
    }
}
