//! Batches of rows in slices that operators, or transfers, can take.

use arrow::array::RecordBatch;

/// Rows of a batch that operators get together.
pub const SLICE_ROWS: usize = 8192;

/// The rows of a batch in slices of so many, the last of what is left.
pub fn slices(batch: &RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> + use<> {
    let starts = (0..batch.num_rows()).step_by(rows);
    let batch = batch.clone();
    starts.map(move |start| batch.slice(start, rows.min(batch.num_rows() - start)))
}
