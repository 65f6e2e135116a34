//! Statements that are carried out without being planned again: queries for the row of a key, and of
//! nothing but constants.
//!
//! Such a statement is recognised when it is planned for the first time, and what it takes is kept with
//! it. Each time that it runs, it is made sure that its table is still the one of that name, and has the
//! index; whatever is not as it was is planned as any other statement.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{ScalarValue, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::plan::shown_schema;
use super::transaction::FailOnDrop;
use crate::engine::catalog::{PUBLIC, TEMPORARY};
use crate::engine::session::Session;
use crate::engine::stream::RowStream;
use crate::error::EngineError;
use crate::scan::{PartitionCosts, provider_of, table_of};
use crate::sql::Statement;
use crate::values::Declared;
use nearfar_table::segment::RowSet;
use nearfar_table::table::{IndexDefinition, Snapshot, Table, TableIndex};
use nearfar_table::transaction::Transaction;

/// What a statement takes that is not planned again.
#[derive(Debug)]
pub struct Compiled {
    /// What stands for the plan where errors look for one; it has the columns.
    plan: Arc<dyn ExecutionPlan>,
    rows: Rows,
}

/// The rows that it gives.
#[derive(Debug)]
enum Rows {
    /// These.
    Constant(RecordBatch),
    /// The one of a key.
    OfKey(KeyQuery),
}

/// The row of a key.
#[derive(Debug)]
struct KeyQuery {
    name: TableReference,
    table: Weak<Table>,
    /// The index, which can be another one of its name by the time that the query runs.
    index: Arc<IndexDefinition>,
    /// The values of its columns.
    key: Vec<KeyValue>,
    /// The table's columns that are asked for.
    columns: Vec<usize>,
}

/// A value of a key.
#[derive(Debug, Clone)]
enum KeyValue {
    /// That of a parameter, counted from 0.
    Parameter(usize),
    Constant(ScalarValue),
}

impl Compiled {
    /// What `plan` takes, which was made of a statement before its parameters were put in. None where it
    /// has to be planned each time.
    pub fn of(plan: &LogicalPlan) -> Option<Self> {
        let schema = shown_schema(&Arc::new(plan.schema().as_arrow().clone()));
        let LogicalPlan::Projection(projection) = plan else {
            return None;
        };
        let rows = match projection.input.as_ref() {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
                Rows::Constant(constants(&projection.expr, &schema)?)
            }
            LogicalPlan::Filter(filter) => {
                let key = KeyQuery::of(&projection.expr, &filter.predicate, &filter.input)?;
                Rows::OfKey(key)
            }
            _ => return None,
        };
        let plan = Arc::new(EmptyExec::new(schema));
        Some(Self { plan, rows })
    }
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

impl KeyQuery {
    fn of(exprs: &[Expr], predicate: &Expr, input: &LogicalPlan) -> Option<Self> {
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
        let column = |expr: &Expr| match expr {
            Expr::Column(column) => table.schema().index_of(&column.name).ok(),
            _ => None,
        };
        let columns = exprs.iter().map(|expr| column(without_alias(expr)));
        let mut values = BTreeMap::new();
        for condition in split_conjunction(predicate) {
            let (name, value) = equality(condition)?;
            // Two conditions on one column need not be the same.
            let before = values.insert(column(name)?, value);
            before.is_none().then_some(())?;
        }
        let (index, key) = key_of(table, &values)?;
        Some(Self {
            name: scan.table_name.clone(),
            table: Arc::downgrade(table),
            index,
            key,
            columns: columns.collect::<Option<_>>()?,
        })
    }

    /// The rows of `table`, if the values of its key can be compared as they are.
    fn run(
        &self,
        session: &Session,
        transaction: &Transaction,
        (table, parameters): (&Table, &[ScalarValue]),
        schema: &SchemaRef,
    ) -> Result<Option<RecordBatch>, EngineError> {
        let snapshot = transaction.snapshot(table)?;
        let mut indexes = snapshot.indexes().iter();
        let index = indexes.find(|index| *index.definition() == self.index);
        let Some(index) = index.filter(|index| index.len().is_some()) else {
            return Ok(None);
        };
        let Some(key) = self.values(index, table, parameters) else {
            return Ok(None);
        };
        let Some(places) = transaction.find(table, index, &key, 1)? else {
            return Ok(None);
        };
        match places[..] {
            [] => Ok(Some(RecordBatch::new_empty(Arc::clone(schema)))),
            [place] => self.row(session, (&snapshot, table), place, schema),
            _ => Ok(None),
        }
    }

    /// The values of the key, one of each column of the index.
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

    /// The row at a place; none where it is not in memory.
    fn row(
        &self,
        session: &Session,
        (snapshot, table): (&Snapshot, &Table),
        (part, row): (usize, usize),
        schema: &SchemaRef,
    ) -> Result<Option<RecordBatch>, EngineError> {
        let (engine, settings) = (session.engine(), session.settings());
        let metrics = ExecutionPlanMetricsSet::new();
        let counts = settings.count_accesses();
        let mut costs = PartitionCosts::new(engine.costs(), counts, &metrics, 0);
        let segment = &snapshot.parts()[part].segment;
        let at = [row as u32];
        let rows = RowSet::Positions(&at);
        let mut values = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let slot = &segment.columns()[*column];
            let Some(column_segment) = slot.in_memory() else {
                return Ok(None);
            };
            costs.read(slot, &column_segment, rows);
            let data_type = table.schema().field(*column).data_type();
            values.push(column_segment.read(rows, data_type)?);
        }
        Ok(Some(RecordBatch::try_new(Arc::clone(schema), values)?))
    }
}

fn equality(condition: &Expr) -> Option<(&Expr, KeyValue)> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = condition
    else {
        return None;
    };
    match (value_of(left), value_of(right)) {
        (None, Some(value)) => Some((left, value)),
        (Some(value), None) => Some((right, value)),
        _ => None,
    }
}

fn value_of(expr: &Expr) -> Option<KeyValue> {
    match expr {
        Expr::Placeholder(parameter) => {
            let number = parameter.id.strip_prefix('$')?.parse::<usize>().ok()?;
            Some(KeyValue::Parameter(number.checked_sub(1)?))
        }
        Expr::Literal(value, _) => Some(KeyValue::Constant(value.clone())),
        _ => None,
    }
}

/// The unique index whose columns are those that have values, and these in its order.
fn key_of(
    table: &Table,
    values: &BTreeMap<usize, KeyValue>,
) -> Option<(Arc<IndexDefinition>, Vec<KeyValue>)> {
    let snapshot = table.snapshot();
    snapshot.indexes().iter().find_map(|index| {
        let definition = index.definition();
        let is_key = definition.role.is_unique() && definition.columns.len() == values.len();
        let fields = table.schema().fields();
        let key = definition.columns.iter().map(|column| {
            // Texts of a declared length are compared in a way of their own.
            let is_plain = Declared::of(&fields[column.column]).is_none();
            values.get(&column.column).filter(|_| is_plain).cloned()
        });
        let key = key.collect::<Option<Vec<KeyValue>>>().filter(|_| is_key)?;
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
    value.cast_to(column).ok()?.to_array().ok()
}

impl Session {
    /// Runs a statement that is not planned again, if it is one and all that it needs is in memory: what
    /// takes no longer than handing it over to another thread. None for all others.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_immediately(
        &self,
        statement: &Statement,
        parameters: &[ScalarValue],
    ) -> Result<Option<RowStream>, EngineError> {
        let compiled = statement.compiled::<Option<Compiled>>();
        let Some(Some(compiled)) = compiled.as_deref() else {
            return Ok(None);
        };
        if !self.engine().models().is_empty() {
            return Ok(None);
        }
        let schema = compiled.plan.schema();
        let transaction = self.current_transaction()?;
        let failing = FailOnDrop(Some(Arc::clone(&transaction)));
        let batch = match &compiled.rows {
            Rows::Constant(batch) => Some(batch.clone()),
            Rows::OfKey(query) => match self.table_of(query) {
                Some(table) => query.run(self, &transaction, (&table, parameters), &schema)?,
                None => None,
            },
        };
        failing.forget();
        let rows = batch.map(|batch| self.rows_of(compiled, batch, transaction));
        rows.transpose()
    }

    fn rows_of(
        &self,
        compiled: &Compiled,
        batch: RecordBatch,
        transaction: Arc<Transaction>,
    ) -> Result<RowStream, EngineError> {
        let settings = self.settings();
        let (memory, limit) = (settings.memory(), settings.memory_limit_bytes());
        let memory = self
            .engine()
            .query_memory()
            .query(memory, settings.heap_tier(), limit);
        let plan = Arc::clone(&compiled.plan);
        let pool = self.engine().pool().cloned();
        RowStream::of_batch(plan, batch, memory, transaction, pool)
    }

    /// The table of a query, if it is still the one of its name.
    fn table_of(&self, query: &KeyQuery) -> Option<Arc<Table>> {
        let table = query.table.upgrade()?;
        let (schema, name) = self.resolve(&query.name).ok()?;
        let is_own = [PUBLIC, TEMPORARY].contains(&schema.as_str());
        let own = self.temporary.get(&name).filter(|_| is_own);
        let provider = match own {
            Some(own) => own,
            None => self.engine().catalog().schema(&schema)?.get(&name)?,
        };
        table_of(provider.as_ref())
            .is_some_and(|known| Arc::ptr_eq(known, &table))
            .then_some(table)
    }
}
