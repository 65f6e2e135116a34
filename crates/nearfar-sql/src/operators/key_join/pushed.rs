//! What a join tells the scan of its probe side, once it knows its keys.
//!
//! DataFusion's join has a condition for each partition, between which the scan chooses by a hash of the key. Here
//! one condition is for all: the range of the keys, a list of them if they are few, and a bit for each number in their
//! range or, where that is large, a Bloom filter. Of keys of several columns, each column has such bits, too, if they are few
//! and leave most of its numbers out.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, DynamicFilterPhysicalExpr, InListExpr, lit,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use parking_lot::Mutex;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tokio::sync::Notify;

use super::keys::{Packing, with_values};
use super::members::Members;
use crate::operators::evaluate;

/// A filter that is made when all partitions of a build side are known.
#[derive(Debug)]
pub struct PushedFilter {
    filter: Arc<DynamicFilterPhysicalExpr>,
    /// The columns of the key on the probe side.
    keys: Vec<PhysicalExprRef>,
    schema: Arc<Schema>,
    /// What the filter takes.
    memory: MemoryReservation,
    partitions: Mutex<Partitions>,
    made: Notify,
}

#[derive(Debug)]
struct Partitions {
    waiting_for: usize,
    /// Of each partition that is known, its keys.
    known: Vec<Vec<ArrayRef>>,
    /// Whether one has ended without saying what its keys are.
    is_any_unknown: bool,
    outcome: Option<Result<(), Arc<DataFusionError>>>,
}

/// A list of keys is handed down instead of a filter where it is no longer.
#[derive(Debug, Clone, Copy)]
pub struct ListMax {
    values: usize,
    bytes: usize,
}

impl ListMax {
    /// What the settings say.
    pub fn of(options: &ConfigOptions) -> Self {
        Self {
            values: options
                .optimizer
                .hash_join_inlist_pushdown_max_distinct_values,
            bytes: options.optimizer.hash_join_inlist_pushdown_max_size,
        }
    }
}

impl PushedFilter {
    /// `filter`, to be made of so many partitions.
    pub fn new(
        filter: Arc<DynamicFilterPhysicalExpr>,
        keys: Vec<PhysicalExprRef>,
        schema: Arc<Schema>,
        partitions: usize,
        memory: MemoryReservation,
    ) -> Self {
        let partitions = Partitions {
            waiting_for: partitions,
            known: Vec::new(),
            is_any_unknown: false,
            outcome: None,
        };
        Self {
            filter,
            keys,
            schema,
            memory,
            partitions: Mutex::new(partitions),
            made: Notify::new(),
        }
    }

    /// Adds the keys of one partition, or says that they stay unknown. Gives the last one those of all, to make the
    /// filter of.
    fn add(&self, keys: Option<Vec<ArrayRef>>) -> Option<Vec<Vec<ArrayRef>>> {
        let mut partitions = self.partitions.lock();
        // A partition that runs again adds nothing to a filter that is there.
        partitions.waiting_for = partitions.waiting_for.checked_sub(1)?;
        match keys {
            Some(keys) => partitions.known.push(keys),
            None => partitions.is_any_unknown = true,
        }
        if partitions.waiting_for > 0 {
            return None;
        }
        let known = std::mem::take(&mut partitions.known);
        let is_any_unknown = partitions.is_any_unknown;
        drop(partitions);
        if is_any_unknown {
            self.publish(Ok(()));
            return None;
        }
        Some(known)
    }

    /// Lets all partitions go on.
    fn publish(&self, made: Result<()>) {
        self.filter.mark_complete();
        self.partitions.lock().outcome = Some(made.map_err(Arc::new));
        self.made.notify_waiters();
    }

    /// Waits for the filter.
    async fn made(&self) -> Result<()> {
        loop {
            // Before the look at the outcome: what is made after it wakes this.
            let made = self.made.notified();
            match &self.partitions.lock().outcome {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => return Err(DataFusionError::Shared(Arc::clone(error))),
                None => {}
            }
            made.await;
        }
    }

    async fn make(&self, partitions: &[Vec<ArrayRef>], list_max: ListMax) -> Result<()> {
        let rows = |keys: &[ArrayRef]| keys.first().map_or(0, |column| column.len());
        if partitions.iter().all(|keys| rows(keys) == 0) {
            return self.filter.update(lit(false));
        }
        let mut conditions = Vec::new();
        for (at, key) in self.keys.iter().enumerate() {
            if let Some([low, high]) = bounds(partitions.iter().map(|keys| &keys[at]))? {
                let compare = |operator, bound| {
                    Arc::new(BinaryExpr::new(Arc::clone(key), operator, lit(bound)))
                        as PhysicalExprRef
                };
                conditions.push(compare(Operator::GtEq, low));
                conditions.push(compare(Operator::LtEq, high));
            }
        }
        let lists = self.lists(partitions, list_max)?;
        // What keys take is taken first, and looked at last.
        let members = self.members(partitions).await?;
        if lists.is_empty() {
            conditions.extend(self.columns_members(partitions).await?);
        }
        conditions.extend(lists);
        conditions.extend(members);
        let all = conditions
            .into_iter()
            .reduce(|all, next| Arc::new(BinaryExpr::new(all, Operator::And, next)));
        match all {
            Some(all) => self.filter.update(all),
            None => Ok(()),
        }
    }

    /// The values of each column of the key as a list, where that is short: an index can be asked for these.
    fn lists(
        &self,
        partitions: &[Vec<ArrayRef>],
        list_max: ListMax,
    ) -> Result<Vec<PhysicalExprRef>> {
        let mut lists: Vec<PhysicalExprRef> = Vec::new();
        let rows: usize = partitions.iter().map(|keys| keys[0].len()).sum();
        if rows > list_max.values {
            return Ok(lists);
        }
        for (at, key) in self.keys.iter().enumerate() {
            let arrays: Vec<&dyn Array> = partitions.iter().map(|keys| keys[at].as_ref()).collect();
            let list = concat(&arrays)?;
            if list.get_array_memory_size() <= list_max.bytes {
                let key = Arc::clone(key);
                let list = InListExpr::try_new_from_array(key, list, false, &self.schema)?;
                lists.push(Arc::new(list));
            }
        }
        Ok(lists)
    }

    /// Of keys of several columns, whether those of a column are the build side's, where few are: that is decided by what
    /// the column is stored as, and leaves few rows whose columns have to be put together.
    async fn columns_members(&self, partitions: &[Vec<ArrayRef>]) -> Result<Vec<PhysicalExprRef>> {
        let mut all: Vec<PhysicalExprRef> = Vec::new();
        if self.keys.len() == 1 {
            return Ok(all);
        }
        for (at, key) in self.keys.iter().enumerate() {
            let column = partitions.iter().map(|keys| &keys[at..=at]);
            let members = Members::of_sparse(column, &self.memory).await?;
            all.extend(members.map(|members| {
                let of_column = MemberExpr {
                    keys: vec![Arc::clone(key)],
                    packing: Packing::ONE,
                    members: Arc::new(members),
                };
                Arc::new(of_column) as PhysicalExprRef
            }));
        }
        Ok(all)
    }

    /// Whether a key may be one of the build side's; none where keys of several columns are no number, or memory has no
    /// room.
    async fn members(&self, partitions: &[Vec<ArrayRef>]) -> Result<Option<PhysicalExprRef>> {
        let columns = partitions.iter().map(|keys| &keys[..]);
        let Some(packing) = Packing::of(columns.clone())? else {
            return Ok(None);
        };
        let Some(members) = Members::of(&packing, columns, &self.memory).await? else {
            return Ok(None);
        };
        Ok(Some(Arc::new(MemberExpr {
            keys: self.keys.clone(),
            packing,
            members: Arc::new(members),
        })))
    }
}

/// The lowest and the highest value of columns of one type; none without values, or where their order is not that
/// of the numbers.
fn bounds<'a>(columns: impl Iterator<Item = &'a ArrayRef>) -> Result<Option<[ScalarValue; 2]>> {
    let mut ends: Vec<ArrayRef> = Vec::new();
    for column in columns {
        if *column.data_type() == DataType::UInt64 {
            return Ok(None);
        }
        let keys = Packing::ONE.keys(std::slice::from_ref(column))?;
        if let Some((low, high)) = keys.bounding_rows() {
            ends.extend([column.slice(low, 1), column.slice(high, 1)]);
        }
    }
    let ends: Vec<&dyn Array> = ends.iter().map(AsRef::as_ref).collect();
    if ends.is_empty() {
        return Ok(None);
    }
    let ends = concat(&ends)?;
    let keys = Packing::ONE.keys(std::slice::from_ref(&ends))?;
    let rows = keys.bounding_rows();
    let bound = |row| ScalarValue::try_from_array(&ends, row);
    rows.map(|(low, high)| Ok([bound(low)?, bound(high)?]))
        .transpose()
}

/// One partition's part in a filter. Dropped before it has said its keys, it says that they stay unknown.
#[derive(Debug)]
pub struct Announcement {
    filter: Option<Arc<PushedFilter>>,
    list_max: ListMax,
}

impl Announcement {
    /// For one partition of the build side.
    pub fn new(filter: Arc<PushedFilter>, list_max: ListMax) -> Self {
        Self {
            filter: Some(filter),
            list_max,
        }
    }

    /// Says the keys, and waits until all partitions have: then the probe side can be read.
    ///
    /// # Errors
    /// A filter that cannot be made of these keys.
    pub async fn announce(mut self, keys: Vec<ArrayRef>) -> Result<()> {
        let Some(filter) = self.filter.take() else {
            return Ok(());
        };
        if let Some(all) = filter.add(Some(keys)) {
            let mut unpublished = Unpublished(Some(&filter));
            let made = filter.make(&all, self.list_max).await;
            unpublished.0 = None;
            filter.publish(made);
        }
        filter.made().await
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if let Some(filter) = self.filter.take() {
            // It was dropped before its keys were known: there is nothing to make a filter of.
            let _none = filter.add(None);
        }
    }
}

/// A filter that is being made. Dropped before it is, it lets all partitions go on without.
struct Unpublished<'a>(Option<&'a PushedFilter>);

impl Drop for Unpublished<'_> {
    fn drop(&mut self) {
        if let Some(filter) = self.0 {
            filter.publish(Ok(()));
        }
    }
}

/// Whether the key of a row may be one of a build side's. Some that are not may pass; the join finds them out.
#[derive(Debug, Clone)]
struct MemberExpr {
    keys: Vec<PhysicalExprRef>,
    packing: Packing,
    members: Arc<Members>,
}

impl PartialEq for MemberExpr {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys && Arc::ptr_eq(&self.members, &other.members)
    }
}

impl Eq for MemberExpr {}

impl Hash for MemberExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.keys.hash(state);
        Arc::as_ptr(&self.members).hash(state);
    }
}

impl fmt::Display for MemberExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        let verb = match self.members.is_exact() {
            true => "is",
            false => "may_be",
        };
        write!(f, "key_{verb}_there({})", keys.join(", "))
    }
}

impl PhysicalExpr for MemberExpr {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _schema: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let columns = evaluate(&self.keys, batch)?;
        let keys = self.packing.keys(&columns)?;
        let members = with_values!(keys, |values, valid| {
            BooleanBuffer::collect_bool(values.len(), |row| {
                self.members.may_have(values[row]) && valid.is_none_or(|valid| valid.contains(row))
            })
        });
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(
            members, None,
        ))))
    }

    fn children(&self) -> Vec<&PhysicalExprRef> {
        self.keys.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<PhysicalExprRef>,
    ) -> Result<PhysicalExprRef> {
        Ok(Arc::new(Self {
            keys: children,
            packing: self.packing.clone(),
            members: Arc::clone(&self.members),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
