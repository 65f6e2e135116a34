//! Columns in the memory of another host, in parts of some rows.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use nearfar_kernels::copy::{
    Copiers, CopyCancel, CopyError, CopyOptions, Fetch, FetchError, staged_from,
};
use nearfar_rdma::{RemoteBuffer, RemoteError, RemoteHost};

use crate::slices::slices;

/// The most rows of a part, all columns of which that a scan needs are near together.
const PART_ROWS: usize = 65_536;
/// Parts of a column begin with a block that has a checksum of its own.
const PART_ALIGN: usize = 4096;

/// What goes wrong with a table on another host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteTableError {
    /// The host does not take it, or is lost.
    #[error(transparent)]
    Host(#[from] RemoteError),
    /// Its columns were not fetched.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// A batch that is not of the schema, or a type that Arrow's format does not have.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// Bytes that came back whole hold no column.
    #[error("column {column:?} of a table on another host holds no rows where it should")]
    Empty {
        /// The column.
        column: String,
    },
}

/// A column: for each part, where its bytes are, as a stream of Arrow's format with this column alone.
struct RemoteColumn {
    buffer: RemoteBuffer,
    parts: Vec<Range<usize>>,
}

/// A table whose columns lie in the memory of another host. It does not change. Dropping it gives the memory back.
pub struct RemoteTable {
    schema: SchemaRef,
    host: String,
    part_rows: Vec<usize>,
    columns: Vec<RemoteColumn>,
}

impl fmt::Debug for RemoteTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTable")
            .field("host", &self.host)
            .field("rows", &self.rows())
            .finish_non_exhaustive()
    }
}

impl RemoteTable {
    /// Writes the columns of these batches to the host, one after another; each is encoded near before.
    ///
    /// # Errors
    /// [`RemoteTableError`]; what was written is given back.
    pub fn put(
        host: &RemoteHost,
        schema: SchemaRef,
        batches: &[RecordBatch],
    ) -> Result<Self, RemoteTableError> {
        let names = |schema: &Schema| -> Vec<String> {
            let fields = schema.fields().iter();
            fields.map(|field| field.name().clone()).collect()
        };
        let has_columns = |batch: &RecordBatch| names(&batch.schema()) == names(&schema);
        if !batches.iter().all(has_columns) {
            let message = "a batch has other columns than the table".to_owned();
            return Err(ArrowError::SchemaError(message).into());
        }
        let parts = batches.iter().flat_map(|batch| slices(batch, PART_ROWS));
        let parts: Vec<RecordBatch> = parts.collect();
        let columns = (0..schema.fields().len()).map(|column| put(host, &schema, &parts, column));
        Ok(Self {
            columns: columns.collect::<Result<_, _>>()?,
            schema,
            host: host.name().to_owned(),
            part_rows: parts.iter().map(RecordBatch::num_rows).collect(),
        })
    }

    /// Its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Its rows.
    pub fn rows(&self) -> usize {
        self.part_rows.iter().sum()
    }

    /// The host's name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Parts that are fetched one by one.
    pub(super) fn parts(&self) -> usize {
        self.part_rows.len()
    }

    /// Bytes that a part of these columns takes near.
    pub(super) fn part_bytes(&self, part: usize, projection: &[usize]) -> usize {
        let columns = projection.iter();
        columns
            .map(|column| self.columns[*column].parts[part].len())
            .sum()
    }

    /// The rows of a part with these columns, fetched by so many copiers.
    pub(super) fn fetch(
        &self,
        part: usize,
        projection: &[usize],
        schema: &SchemaRef,
        copiers: Copiers,
        cancel: &CopyCancel,
    ) -> Result<RecordBatch, RemoteTableError> {
        let columns: Vec<&RemoteColumn> = projection
            .iter()
            .map(|column| &self.columns[*column])
            .collect();
        let mut bytes: Vec<Vec<u8>> = columns
            .iter()
            .map(|column| vec![0; column.parts[part].len()])
            .collect();
        let failed = Mutex::new(None);
        let fetch = |_| PartFetch {
            columns: &columns,
            part,
            cancel,
            failed: &failed,
        };
        let to = bytes.iter_mut().map(Vec::as_mut_slice).collect();
        let options = CopyOptions {
            copiers,
            ..CopyOptions::default()
        };
        let copied = staged_from(to, options, cancel, fetch, |staged| {
            (0..columns.len()).try_for_each(|column| staged.wait(column).map(|_| ()))
        });
        if let Err(error) = copied.and_then(|waited| waited) {
            let told = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
            return Err(told.map_or(RemoteTableError::Copy(error), RemoteTableError::Host));
        }
        let arrays = bytes
            .into_iter()
            .zip(schema.fields())
            .map(|(bytes, field)| {
                let column = decoded(bytes)?;
                column.ok_or_else(|| RemoteTableError::Empty {
                    column: field.name().clone(),
                })
            });
        let options = RecordBatchOptions::new().with_row_count(Some(self.part_rows[part]));
        let arrays = arrays.collect::<Result<_, _>>()?;
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            arrays,
            &options,
        )?)
    }
}

fn put(
    host: &RemoteHost,
    schema: &SchemaRef,
    parts: &[RecordBatch],
    column: usize,
) -> Result<RemoteColumn, RemoteTableError> {
    let own = Arc::new(Schema::new(vec![schema.field(column).clone()]));
    let mut bytes = io::Cursor::new(Vec::new());
    let mut ranges = Vec::new();
    for part in parts {
        let begin = bytes.get_ref().len().next_multiple_of(PART_ALIGN);
        bytes.get_mut().resize(begin, 0);
        bytes.set_position(begin as u64);
        let batch = RecordBatch::try_new(Arc::clone(&own), vec![Arc::clone(part.column(column))])?;
        let mut writer = StreamWriter::try_new(&mut bytes, &own)?;
        writer.write(&batch)?;
        writer.finish()?;
        ranges.push(begin..bytes.get_ref().len());
    }
    Ok(RemoteColumn {
        buffer: RemoteBuffer::put(host, bytes.get_ref())?,
        parts: ranges,
    })
}

/// The column of these bytes.
fn decoded(bytes: Vec<u8>) -> Result<Option<ArrayRef>, ArrowError> {
    let mut bytes = Buffer::from_vec(bytes);
    let mut decoder = StreamDecoder::new();
    while !bytes.is_empty() {
        if let Some(batch) = decoder.decode(&mut bytes)? {
            return Ok(batch.columns().first().cloned());
        }
    }
    Ok(None)
}

/// What copiers read a part of some columns by. The first error is kept with its type.
struct PartFetch<'a> {
    columns: &'a [&'a RemoteColumn],
    part: usize,
    cancel: &'a CopyCancel,
    failed: &'a Mutex<Option<RemoteError>>,
}

impl Fetch for PartFetch<'_> {
    fn fetch(&mut self, part: usize, offset_bytes: usize, to: &mut [u8]) -> Result<(), FetchError> {
        let column = self.columns[part];
        let begin = column.parts[self.part].start + offset_bytes;
        let is_cancelled = || self.cancel.is_cancelled();
        column
            .buffer
            .read_unless(begin, to, &is_cancelled)
            .map_err(|error| {
                let told = FetchError::new(error.to_string());
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
                told
            })
    }
}
