//! Rows that are added to a table.

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::datasource::sink::DataSink;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

use super::Progress;
use crate::error::StoreError;
use crate::placement::Storage;
use crate::sql::SqlError;
use crate::table::{Table, TableBuilder};

/// Adds the rows of a stream to a table, as segments of their own, when the last one is in: a
/// stream that fails adds nothing. Tells the [`Progress`] among the extensions of the session's
/// configuration, if there is one.
#[derive(Debug)]
pub struct TableSink {
    table: Arc<Table>,
    storage: Storage,
    /// The table's schema with nulls everywhere: DataFusion checks nulls by this schema too, but
    /// does not say in which column one is.
    schema: SchemaRef,
}

impl TableSink {
    /// A sink into `table`, whose segments go where its columns do.
    pub fn new(table: Arc<Table>, storage: Storage) -> Self {
        let nullable = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
        let fields: Vec<Field> = table.schema().fields().iter().map(nullable).collect();
        Self {
            table,
            storage,
            schema: Arc::new(Schema::new(fields)),
        }
    }

    fn check_nulls(&self, batch: &RecordBatch) -> Result<(), StoreError> {
        for (field, column) in self.table.schema().fields().iter().zip(batch.columns()) {
            let nulls = column.logical_null_count();
            if nulls > 0 && !field.is_nullable() {
                return Err(SqlError::NullsNotAllowed {
                    table: self.table.name().to_owned(),
                    column: field.name().clone(),
                    nulls,
                }
                .into());
            }
        }
        Ok(())
    }
}

impl DisplayAs for TableSink {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableSink(table={})", self.table.name())
    }
}

#[async_trait]
impl DataSink for TableSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        mut data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let schema = Arc::clone(self.table.schema());
        let placements = self.table.placements();
        let mut builder = TableBuilder::new(schema, placements.clone(), self.storage.clone());
        let progress = context.session_config().get_extension::<Progress>();
        let mut rows = 0;
        while let Some(batch) = data.next().await {
            let batch = batch?;
            self.check_nulls(&batch)?;
            if let Some(progress) = &progress {
                progress.add(&batch);
            }
            builder.push(&batch)?;
            rows += batch.num_rows() as u64;
        }
        self.table
            .append(builder.finish()?, placements, &self.storage)?;
        Ok(rows)
    }
}
