//! Where rows are kept that tables on other hosts are made, and rebuilt, from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use nearfar_table::table::stored_schema;

use super::encode::{Digest, Digester, EncodedColumn, Parts, stored};
use crate::error::{EngineError, RemoteTableError};
use crate::foreign::FileFormat;
use crate::load::file_plan;

/// Rows that are kept elsewhere than on the host, and can be read again.
#[async_trait]
pub trait RowSource: fmt::Debug + Send + Sync {
    /// Where they are, as errors have it.
    fn name(&self) -> String;

    /// All rows, as they are now.
    ///
    /// # Errors
    /// What the source reports.
    async fn rows(&self) -> Result<SendableRecordBatchStream, EngineError>;
}

/// The rows of a file, or of all files of a folder.
#[derive(Debug)]
pub struct FileRows {
    path: PathBuf,
    format: FileFormat,
}

impl FileRows {
    /// Those of `path`, which has this format.
    pub fn new(path: impl Into<PathBuf>, format: FileFormat) -> Self {
        let path = path.into();
        Self { path, format }
    }
}

#[async_trait]
impl RowSource for FileRows {
    fn name(&self) -> String {
        format!("`{}`", self.path.display())
    }

    async fn rows(&self) -> Result<SendableRecordBatchStream, EngineError> {
        let (plan, context) = file_plan(&self.path, self.format, 1).await?;
        let partitions = 0..plan.output_partitioning().partition_count();
        let rows = partitions.map(|partition| plan.execute(partition, context.task_ctx()));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let rows = stream::iter(rows).flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(plan.schema(), rows)))
    }
}

/// All rows of a source, encoded.
pub(super) struct SourceRows {
    pub(super) schema: SchemaRef,
    pub(super) columns: Vec<EncodedColumn>,
    pub(super) digest: Digest,
}

impl SourceRows {
    /// Reads them near, with types as tables store them. What they take is charged to `memory`, if it is given, as it
    /// grows.
    pub(super) async fn read(
        source: &dyn RowSource,
        memory: Option<&MemoryReservation>,
    ) -> Result<Self, RemoteTableError> {
        let unread = |error: EngineError| RemoteTableError::Source {
            from: source.name(),
            error: Box::new(error),
        };
        let rows = source.rows().await.map_err(unread)?;
        let unread = |error: DataFusionError| unread(error.into());
        Self::read_rows(rows, unread, memory).await
    }

    /// The same of rows that are under way, where `unread` says what is wrong with them.
    pub(super) async fn read_rows(
        mut batches: SendableRecordBatchStream,
        unread: impl Fn(DataFusionError) -> RemoteTableError,
        memory: Option<&MemoryReservation>,
    ) -> Result<Self, RemoteTableError> {
        let schema = stored_schema(&batches.schema());
        let mut digester = Digester::new(&schema)?;
        let mut read = Self {
            columns: schema
                .fields()
                .iter()
                .map(|_| EncodedColumn::default())
                .collect(),
            schema,
            digest: Digest::default(),
        };
        let mut parts = Parts::default();
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(&unread)?;
            let batch = stored(&batch, &read.schema)?;
            digester.push(&batch)?;
            for part in parts.push(&batch) {
                read.push(&part, memory)?;
            }
        }
        if let Some(part) = parts.finish() {
            read.push(&part, memory)?;
        }
        read.digest = digester.digest();
        Ok(read)
    }

    fn push(
        &mut self,
        part: &[arrow::array::RecordBatch],
        memory: Option<&MemoryReservation>,
    ) -> Result<(), RemoteTableError> {
        let fields = self.schema.fields().iter();
        for (column, (encoded, field)) in self.columns.iter_mut().zip(fields).enumerate() {
            encoded.push(field, part, column)?;
        }
        if let Some(memory) = memory {
            let bytes = self.columns.iter().map(|column| column.bytes.capacity());
            let charged = memory.try_resize(bytes.sum());
            charged.map_err(RemoteTableError::Query)?;
        }
        Ok(())
    }

    /// Rows of the table.
    pub(super) fn rows(&self) -> usize {
        self.digest.rows as usize
    }
}

/// A table's source, and what its rows are known again by.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) source: Arc<dyn RowSource>,
    pub(super) digest: Digest,
}
