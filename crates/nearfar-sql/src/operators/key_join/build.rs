//! The side of a join that its table is of.

use arrow::array::{
    Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_empty_array,
};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::TryStreamExt;
use nearfar_kernels::{BloomFilter, JoinTable, Matched, NO_ROW};
use nearfar_memory::{ThreadTier, TierId};
use nearfar_model::Native;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::keys::{Keys, Packing, with_values};

/// Rows that are gone through between two moments at which the query can end: a millisecond.
pub const STEP_ROWS: usize = 64 << 10;

/// Rows of a table: they have numbers of 32 bits, of which one stands for no row.
pub const ROWS_MAX: usize = u32::MAX as usize - 1;

/// What a table of a build side is for.
pub struct Purpose {
    /// Whether it has to be known which rows have found a partner.
    pub marks: bool,
    /// Whether keys are looked for in a filter before the table, since that is on a tier that is far.
    pub is_filtered: bool,
    /// Streams of the probe side that will use it.
    pub probes: usize,
}

/// The rows of a build side, and their table.
#[derive(Debug)]
pub struct BuildSide {
    batch: RecordBatch,
    table: JoinTable,
    packing: Packing,
    marks: Option<Marks>,
    /// Streams of the probe side that are not at their end.
    probing: AtomicUsize,
    /// As long as these rows are there.
    _memory: MemoryReservation,
}

impl BuildSide {
    /// The rows of `batch`, [as many as there may be](ROWS_MAX), and a table of their keys, which are packed so. Memory
    /// is asked for before it is taken.
    ///
    /// # Errors
    /// Too little memory, and keys that cannot be computed.
    pub async fn of(
        batch: RecordBatch,
        key_columns: &[ArrayRef],
        packing: Packing,
        memory: MemoryReservation,
        purpose: &Purpose,
    ) -> Result<Self> {
        let rows = batch.num_rows();
        let key_bytes = rows * size_of::<i64>();
        memory.try_grow(key_bytes)?;
        let keys = packing.keys(key_columns)?;
        // A table that is far is of lines: one of these is asked for ahead of each lookup, and the filter has most of
        // the keys that find nothing.
        let bounds = keys.bounds().filter(|_| !purpose.is_filtered);
        let between = bounds.map(|(low, high)| low..=high);
        let mut bytes = JoinTable::bytes_for(rows, between.as_ref());
        if purpose.marks {
            bytes += Marks::bytes_for(rows);
        }
        if purpose.is_filtered {
            bytes += rows;
        }
        memory.try_grow(bytes)?;
        let table = table_of(&keys, between.as_ref(), purpose.is_filtered).await?;
        drop(keys);
        memory.shrink(key_bytes);
        Ok(Self {
            marks: purpose.marks.then(|| Marks::of(rows)),
            batch,
            table,
            packing,
            probing: AtomicUsize::new(purpose.probes),
            _memory: memory,
        })
    }

    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    pub fn table(&self) -> &JoinTable {
        &self.table
    }

    /// How keys become what is in the table.
    pub fn packing(&self) -> &Packing {
        &self.packing
    }

    /// Notes that these rows have found a partner, all but [`NO_ROW`].
    pub fn mark(&self, rows: &[u32]) {
        if let Some(marks) = &self.marks {
            let found = rows.iter().filter(|row| **row != NO_ROW);
            found.for_each(|row| marks.set(*row));
        }
    }

    /// Leaves the pairs whose row of the build side has found no partner yet.
    pub fn leave_unmarked(&self, matched: &mut Matched) {
        let Some(marks) = &self.marks else {
            return;
        };
        let mut left = 0;
        for at in 0..matched.build_rows.len() {
            let row = matched.build_rows[at];
            // Without a branch: whether a row has found one is different from pair to pair.
            matched.build_rows[left] = row;
            matched.probe_rows[left] = matched.probe_rows[at];
            left += usize::from(!marks.has(row));
        }
        matched.build_rows.truncate(left);
        matched.probe_rows.truncate(left);
    }

    /// Ends one stream of the probe side, and says whether it was the last one.
    pub fn end_probe(&self) -> bool {
        self.probing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The rows that have found a partner, or those that have found none, among `count` rows from `first` on.
    pub fn marked(&self, is_marked: bool, first: usize, count: usize) -> UInt32Array {
        let end = self.batch.num_rows().min(first + count);
        let rows = (first as u32..end as u32).filter(|row| {
            let found = self.marks.as_ref().is_some_and(|marks| marks.has(*row));
            found == is_marked
        });
        UInt32Array::from_iter_values(rows)
    }
}

/// The rows of `input` in one batch. Column by column, so that no more than one column is there twice.
///
/// # Errors
/// Those of the input, and too little memory.
pub async fn collected(
    mut input: SendableRecordBatchStream,
    memory: &MemoryReservation,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::new(); schema.fields().len()];
    let mut counter = RecordBatchMemoryCounter::new();
    let mut rows = 0;
    while let Some(batch) = input.try_next().await? {
        if batch.num_rows() == 0 {
            continue;
        }
        memory.try_grow(counter.count_batch(&batch))?;
        rows += batch.num_rows();
        for (column, array) in columns.iter_mut().zip(batch.columns()) {
            column.push(array.clone());
        }
    }
    // What a query holds below has done its work.
    drop(input);
    let mut whole = Vec::with_capacity(columns.len());
    for (arrays, field) in columns.into_iter().zip(schema.fields()) {
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        whole.push(match arrays[..] {
            [] => new_empty_array(field.data_type()),
            _ => concat(&arrays)?,
        });
        tokio::task::yield_now().await;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        schema.clone(),
        whole,
        &options,
    )?)
}

async fn table_of(
    keys: &Keys,
    between: Option<&RangeInclusive<i64>>,
    is_filtered: bool,
) -> Result<JoinTable> {
    let rows = keys.len();
    let table = JoinTable::with_room(rows, between);
    let mut table = table.map_err(|error| DataFusionError::External(error.into()))?;
    let mut filter = is_filtered.then(|| {
        // Near, wherever the table is.
        let _near = ThreadTier::enter(TierId::NEAR);
        BloomFilter::with_room(rows)
    });
    for first in (0..rows).step_by(STEP_ROWS) {
        let step = first..rows.min(first + STEP_ROWS);
        with_values!(keys, |values, valid| {
            if let Some(filter) = &mut filter {
                filter.put(first, &values[..step.end][first..], valid, &Native);
            }
            table.put(values, step, valid, &Native);
        });
        tokio::task::yield_now().await;
    }
    Ok(match filter {
        Some(filter) => table.with_filter(filter),
        None => table,
    })
}

/// A bit for each row of a build side.
#[derive(Debug)]
struct Marks {
    words: Vec<AtomicU64>,
}

impl Marks {
    fn bytes_for(rows: usize) -> usize {
        rows.div_ceil(64) * size_of::<u64>()
    }

    fn of(rows: usize) -> Self {
        let words = (0..rows.div_ceil(64)).map(|_| AtomicU64::new(0));
        Self {
            words: words.collect(),
        }
    }

    /// Streams set bits concurrently, and the last one to end reads them: [`BuildSide::end_probe`] orders that.
    fn set(&self, row: u32) {
        let (word, bit) = (&self.words[row as usize / 64], 1 << (row % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn has(&self, row: u32) -> bool {
        self.words[row as usize / 64].load(Ordering::Relaxed) & 1 << (row % 64) != 0
    }
}
