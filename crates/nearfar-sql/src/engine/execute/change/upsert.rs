//! `INSERT … ON CONFLICT`: rows that are added unless others have their keys.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::compute::{concat, concat_batches, take, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use datafusion::common::{Column, DFSchema};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, Projection};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::StreamExt;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::node::{Upsert, rows_plan};
use super::run::Changed;
use crate::engine::execute::modify::target;
use crate::engine::session::Session;
use crate::error::EngineError;
use crate::load::RowWriter;
use crate::scan::{PartitionCosts, Reader};
use crate::sql::{KeyTarget, SqlError};
use nearfar_table::error::{TableError, TransactionError};
use nearfar_table::segment::RowSet;
use nearfar_table::table::{Keys, RowId, Snapshot, Table, TableIndex, batch_bytes};
use nearfar_table::traffic::Task;
use nearfar_table::transaction::{Isolation, LockMode, RowLock, Transaction};

/// The column that says which of the proposed rows a row stands for; nobody can type its name.
const POSITION: &str = "\u{2063}position";

/// A row that is in the way of another: its part and its place in that, and the position of the other.
type InTheWay = (usize, usize, u64);

/// The rows that a statement proposes, and what becomes of each.
struct Proposed {
    rows: RecordBatch,
    /// Those that no row is in the way of, by their positions.
    new: Vec<u64>,
    /// The rows that are in the way of others.
    others: Vec<InTheWay>,
    /// Where these are.
    snapshot: Snapshot,
}

/// What is to happen before the statement looks again.
enum Looked {
    Done(Proposed),
    Again(RowLock),
}

impl Session {
    /// What an `INSERT … ON CONFLICT` adds and changes, which is the transaction's from then on.
    pub(super) async fn rows_to_upsert(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        (dml, upsert, keeps): (&DmlStatement, &Upsert, bool),
    ) -> Result<Changed, EngineError> {
        transaction.check_writable("INSERT")?;
        let table = Arc::clone(target(dml)?.table());
        loop {
            let rows = self
                .proposed_rows(transaction, state, (&table, dml))
                .await?;
            let proposed = match look(transaction, &table, upsert, rows)? {
                Looked::Done(proposed) => proposed,
                Looked::Again(lock) => {
                    self.waited(lock, &table).await?;
                    transaction.refresh()?;
                    continue;
                }
            };
            return self
                .resolved(transaction, state, (&table, upsert, keeps), proposed)
                .await;
        }
    }

    /// The rows that are proposed, as the table stores them.
    async fn proposed_rows(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        (table, dml): (&Arc<Table>, &DmlStatement),
    ) -> Result<RecordBatch, EngineError> {
        let mut given = self.query(transaction, state, &dml.input).await?;
        let writer = RowWriter::new(Arc::clone(table), self.engine().storage());
        let mut writer = writer.keeping(true);
        while let Some(batch) = given.next().await {
            let batch = batch?;
            self.keep(state, batch_bytes(&batch))?;
            writer.push(batch)?;
        }
        Ok(concat_batches(table.schema(), &writer.take_kept())?)
    }

    /// What is added and changed where it is known which rows are in the way.
    async fn resolved(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        (table, upsert, keeps): (&Arc<Table>, &Upsert, bool),
        proposed: Proposed,
    ) -> Result<Changed, EngineError> {
        let writer = RowWriter::new(Arc::clone(table), self.engine().storage());
        let mut writer = writer.keeping(keeps);
        let mut ids = Vec::new();
        let mut positions = proposed.new.clone();
        let new = UInt64Array::from(proposed.new.clone());
        writer.push(take_record_batch(&proposed.rows, &new)?)?;
        if let Some(update) = upsert.update()
            && !proposed.others.is_empty()
        {
            let pairs = self.pairs(table, &proposed)?;
            let plan = update_plan(update, pairs)?;
            let mut updated = self.query(transaction, state, &plan).await?;
            let of =
                |(part, row, at): &InTheWay| (*at, proposed.snapshot.parts()[*part].ids.id(*row));
            let by_position: HashMap<u64, RowId> = proposed.others.iter().map(of).collect();
            let mut seen = HashSet::new();
            while let Some(batch) = updated.next().await {
                let batch = batch?;
                for at in batch.column(0).as_primitive::<UInt64Type>().values() {
                    let id = by_position[at];
                    if !seen.insert(id) {
                        return Err(SqlError::ChangedTwice.into());
                    }
                    ids.push(id);
                    positions.push(*at);
                }
                let values: Vec<usize> = (1..batch.num_columns()).collect();
                writer.push(batch.project(&values)?)?;
            }
        }
        let kept = in_order(writer.take_kept(), &positions)?;
        let (rows, count) = writer.finish()?;
        Ok(Changed {
            command: "INSERT",
            table: Arc::clone(table),
            ids,
            rows,
            count,
            kept,
        })
    }

    /// The rows that are in the way, beside those that were proposed and their positions.
    fn pairs(&self, table: &Table, proposed: &Proposed) -> Result<RecordBatch, EngineError> {
        let metrics = ExecutionPlanMetricsSet::new();
        let counts = self.settings().count_accesses();
        let reader = Reader {
            account: Arc::clone(self.traffic()),
            task: Task::Point,
        };
        let mut costs = PartitionCosts::new(self.engine().costs(), (counts, reader), &metrics, 0);
        let mut others = proposed.others.clone();
        others.sort_unstable();
        let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::new(); table.schema().fields().len()];
        for run in others.chunk_by(|one, next| one.0 == next.0) {
            let segment = &proposed.snapshot.parts()[run[0].0].segment;
            let mut places: Vec<u32> = run.iter().map(|(_, row, _)| *row as u32).collect();
            places.dedup();
            let each = run.iter().map(|(_, row, _)| {
                let at = places.partition_point(|place| (*place as usize) < *row);
                at as u64
            });
            let each: UInt64Array = each.collect();
            let rows = RowSet::Positions(&places);
            for (at, values) in columns.iter_mut().enumerate() {
                let read = match segment.tail() {
                    Some(written) => written.read(at, rows),
                    None => {
                        let slot = &segment.columns()[at];
                        let column = slot.current()?;
                        costs.read(slot, &column, rows);
                        column.read(rows, table.schema().field(at).data_type())?
                    }
                };
                values.push(take(&read, &each, None)?);
            }
        }
        let _counted = costs.settle();
        let positions = others.iter().map(|(_, _, at)| *at).collect::<UInt64Array>();
        let rows = take_record_batch(&proposed.rows, &positions)?;
        let known = columns.iter().map(|values| {
            let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
            Ok(concat(&values)?)
        });
        let mut arrays = known.collect::<Result<Vec<ArrayRef>, EngineError>>()?;
        arrays.extend(rows.columns().iter().cloned());
        arrays.push(Arc::new(positions));
        let fields = arrays.iter().enumerate();
        let fields =
            fields.map(|(at, array)| Field::new(format!("c{at}"), array.data_type().clone(), true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        Ok(RecordBatch::try_new(Arc::new(schema), arrays)?)
    }
}

/// Looks which rows are in the way of those that are proposed, and has their keys, and themselves where they are
/// to be changed, be the transaction's.
fn look(
    transaction: &Transaction,
    table: &Arc<Table>,
    upsert: &Upsert,
    rows: RecordBatch,
) -> Result<Looked, EngineError> {
    let known = transaction.snapshot(table)?;
    let indexes = indexes_of(upsert.target(), table.name(), &known)?;
    let mut keys = Vec::with_capacity(indexes.len());
    for index in &indexes {
        let columns = index.definition().columns.iter();
        let columns = columns.map(|column| Arc::clone(rows.column(column.column)));
        let of_index = index.encoder().keys(&columns.collect::<Vec<_>>())?;
        let numbers = of_index.numbers(&index.definition().name);
        match transaction.lock_keys(table, &numbers)? {
            RowLock::Taken => keys.push(of_index),
            other => return Ok(Looked::Again(other)),
        }
    }
    // Whoever had the keys before may have committed.
    transaction.refresh()?;
    let mut places = Vec::with_capacity(indexes.len());
    for (index, keys) in indexes.iter().zip(&keys) {
        match transaction.find_keys(table, index, keys) {
            Ok(found) => places.push(found),
            Err(TableError::Transaction(TransactionError::Conflict { .. }))
                if transaction.isolation() == Isolation::ReadCommitted =>
            {
                return Ok(Looked::Again(RowLock::Changed));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let snapshot = transaction.snapshot(table)?;
    let (new, others) = match indexes.is_empty() {
        true => ((0..rows.num_rows() as u64).collect(), Vec::new()),
        false => sorted_out(&keys, &places, upsert.update().is_some())?,
    };
    if upsert.update().is_some() {
        let id = |(part, row, _): &InTheWay| snapshot.parts()[*part].ids.id(*row);
        let ids: HashSet<RowId> = others.iter().map(id).collect();
        match transaction.lock(
            table,
            &ids.into_iter().collect::<Vec<_>>(),
            LockMode::Exclusive,
        )? {
            RowLock::Taken => {}
            other => return Ok(Looked::Again(other)),
        }
    }
    Ok(Looked::Done(Proposed {
        rows,
        new,
        others,
        snapshot,
    }))
}

/// The positions of rows that no row is in the way of, and the rows that are in the way of others, of which are
/// known the keys in each index and where the rows of these are. Of several rows with one key, the first is added.
///
/// # Errors
/// [`SqlError::ChangedTwice`] where the others would be updates of that.
fn sorted_out(
    keys: &[Keys],
    places: &[Vec<Option<(usize, usize)>>],
    is_update: bool,
) -> Result<(Vec<u64>, Vec<InTheWay>), SqlError> {
    let (mut new, mut others) = (Vec::new(), Vec::new());
    let mut own: HashSet<(usize, &[u8])> = HashSet::new();
    let mut keys: Vec<_> = keys.iter().map(Keys::iter).collect();
    let rows = places.first().map_or(0, Vec::len);
    for at in 0..rows {
        let of_row = keys.iter_mut().map(|keys| keys.next()).enumerate();
        let of_row = of_row.filter_map(|(index, key)| {
            let (key, has_null) = key?;
            (!has_null).then_some((index, key))
        });
        let of_row: Vec<(usize, &[u8])> = of_row.collect();
        let is_repeated = of_row.iter().any(|key| own.contains(key));
        match (places.iter().find_map(|found| found[at]), is_repeated) {
            (Some((part, row)), _) => others.push((part, row, at as u64)),
            (None, true) if is_update => return Err(SqlError::ChangedTwice),
            (None, true) => {}
            (None, false) => {
                own.extend(of_row);
                new.push(at as u64);
            }
        }
    }
    Ok((new, others))
}

/// The indexes whose keys a statement looks at.
///
/// # Errors
/// [`SqlError::NoSuchKey`], [`SqlError::UnknownConstraint`].
pub fn indexes_of(
    target: &KeyTarget,
    table: &str,
    snapshot: &Snapshot,
) -> Result<Vec<Arc<TableIndex>>, SqlError> {
    let schema = snapshot.schema();
    let unique = snapshot.indexes().iter();
    let unique = unique.filter(|index| index.definition().role.is_unique());
    let named: BTreeSet<&str> = match target {
        KeyTarget::Columns(columns) => columns.iter().map(String::as_str).collect(),
        _ => BTreeSet::new(),
    };
    if let Some(column) = named.iter().find(|column| schema.index_of(column).is_err()) {
        let known = schema.fields().iter();
        return Err(SqlError::UnknownColumn {
            table: table.to_owned(),
            column: (*column).to_owned(),
            known: known.map(|field| field.name().clone()).collect(),
        });
    }
    let is_meant = |index: &&Arc<TableIndex>| match target {
        KeyTarget::All => true,
        KeyTarget::Columns(_) => {
            let own = index.definition().columns.iter();
            let own = own.map(|column| schema.field(column.column).name().as_str());
            own.collect::<BTreeSet<&str>>() == named
        }
        KeyTarget::Constraint(name) => {
            let definition = index.definition();
            definition.name == *name && definition.role.is_constraint()
        }
    };
    let meant: Vec<Arc<TableIndex>> = unique.filter(is_meant).cloned().collect();
    match (target, meant.is_empty()) {
        (KeyTarget::Columns(_), true) => Err(SqlError::NoSuchKey),
        (KeyTarget::Constraint(name), true) => Err(SqlError::UnknownConstraint {
            constraint: name.clone(),
            table: table.to_owned(),
        }),
        _ => Ok(meant),
    }
}

/// The query for positions and new values of rows, over those that are there, those that were proposed, and the
/// positions.
fn update_plan(update: &LogicalPlan, pairs: RecordBatch) -> Result<LogicalPlan, EngineError> {
    let LogicalPlan::Projection(values) = update else {
        let message = "new values that are no list".to_owned();
        return Err(EngineError::Internal { message });
    };
    let (condition, columns) = match values.input.as_ref() {
        LogicalPlan::Filter(filter) => (Some(&filter.predicate), filter.input.schema()),
        _ => (None, values.input.schema()),
    };
    let fields = columns.iter();
    let fields = fields.map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
    let position = Arc::new(Field::new(POSITION, DataType::UInt64, false));
    let fields = fields.chain([(None, position)]).collect();
    let columns = DFSchema::new_with_metadata(fields, HashMap::new())?;
    let mut rows = LogicalPlanBuilder::from(rows_plan(&Arc::new(columns), vec![pairs])?);
    if let Some(condition) = condition {
        rows = rows.filter(condition.clone())?;
    }
    let position = Expr::Column(Column::new_unqualified(POSITION));
    let exprs = std::iter::once(position).chain(values.expr.iter().cloned());
    let plan = Projection::try_new(exprs.collect(), Arc::new(rows.build()?))?;
    Ok(LogicalPlan::Projection(plan))
}

/// Rows in the order of their positions.
fn in_order(kept: Vec<RecordBatch>, positions: &[u64]) -> Result<Vec<RecordBatch>, EngineError> {
    let Some(first) = kept.first() else {
        return Ok(kept);
    };
    let rows = concat_batches(&first.schema(), &kept)?;
    let mut order: Vec<u64> = (0..positions.len() as u64).collect();
    order.sort_unstable_by_key(|at| positions[*at as usize]);
    Ok(vec![take_record_batch(&rows, &UInt64Array::from(order))?])
}
