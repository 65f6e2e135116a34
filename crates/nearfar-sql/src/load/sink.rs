//! Rows that are added to a table.

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::datasource::sink::DataSink;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;
use nearfar_memory::TierBytes;
use std::fmt;
use std::sync::Arc;

use super::load_turns::LoadTurns;
use super::progress::Progress;
use crate::error::EngineError;
use crate::error::SqlError;
use crate::values::declared::assigned;
use nearfar_table::placement::Storage;
use nearfar_table::table::{RowCheck, Table, with_one_zero};
use nearfar_table::transaction::{CommitGate, NewRows, NewRowsBuilder, Transaction};

/// Collects the rows that one statement adds, and checks them by what the table's columns are declared
/// as.
#[derive(Debug)]
pub struct RowWriter {
    rows: NewRowsBuilder,
    /// What looks at the rows as they are stored.
    check: Option<Arc<dyn RowCheck>>,
    /// The rows as they are stored, where they are asked for.
    kept: Option<Vec<RecordBatch>>,
}

impl RowWriter {
    /// A writer of rows for `table`.
    pub fn new(table: Arc<Table>, storage: &Storage) -> Self {
        // What was declared is taken before what looks for it: a look is never older.
        let rows = NewRowsBuilder::new(Arc::clone(&table), storage);
        Self {
            check: table.row_check(),
            rows,
            kept: None,
        }
    }

    /// The same, which keeps the rows as they are stored if `keeps`.
    #[must_use]
    pub fn keeping(self, keeps: bool) -> Self {
        Self {
            kept: keeps.then(Vec::new),
            ..self
        }
    }

    /// The rows as they are stored, in the order in which they were added.
    pub fn take_kept(&mut self) -> Vec<RecordBatch> {
        self.kept.take().unwrap_or_default()
    }

    /// Adds rows, columns in the order of the table's and of types that cast to them.
    ///
    /// # Errors
    /// A null where none may be; a row that fails a condition; a text that is too long; a value that does not cast; a region that is refused.
    pub fn push(&mut self, batch: RecordBatch) -> Result<(), EngineError> {
        self.check_nulls(&batch)?;
        let batch = self.with_lengths(batch)?;
        if self.kept.is_some() || self.check.is_some() {
            let rows = stored(self.rows.table().schema(), &batch)?;
            if let Some(check) = &self.check {
                check.check(&rows).map_err(of_check)?;
            }
            self.kept
                .iter_mut()
                .for_each(|kept| kept.push(rows.clone()));
        }
        Ok(self.rows.push(batch)?)
    }

    fn check_nulls(&self, batch: &RecordBatch) -> Result<(), EngineError> {
        let table = self.rows.table();
        let mut columns = table.schema().fields().iter().zip(batch.columns());
        columns.try_for_each(|(field, column)| check_nulls(table, field, column))
    }

    /// The rows with texts as long as their columns were declared.
    fn with_lengths(&self, batch: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut changed: Option<Vec<ArrayRef>> = None;
        let fields = self.rows.table().schema().fields().iter();
        for (at, (field, column)) in fields.zip(batch.columns()).enumerate() {
            if let Some(kept) = assigned(field, column)? {
                changed.get_or_insert_with(|| batch.columns().to_vec())[at] = kept;
            }
        }
        match changed {
            Some(columns) => Ok(RecordBatch::try_new(batch.schema(), columns)?),
            None => Ok(batch),
        }
    }

    /// Bytes of segments per tier that were written since this was last asked.
    pub fn take_written(&mut self) -> TierBytes {
        self.rows.take_written()
    }

    /// All rows that were added, and how many they are.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(self) -> Result<(NewRows, u64), EngineError> {
        Ok(self.rows.finish()?)
    }
}

/// Refuses nulls where none may be.
pub(super) fn check_nulls(
    table: &Table,
    field: &Field,
    values: &ArrayRef,
) -> Result<(), EngineError> {
    let nulls = values.logical_null_count();
    match nulls > 0 && !field.is_nullable() {
        true => Err(SqlError::NullsNotAllowed {
            table: Box::new(table.full_name()),
            column: field.name().clone(),
            nulls,
        }
        .into()),
        false => Ok(()),
    }
}

/// The error of whoever looked at rows.
fn of_check(error: Box<dyn std::error::Error + Send + Sync>) -> EngineError {
    match error.downcast::<EngineError>() {
        Ok(error) => *error,
        Err(other) => EngineError::Internal {
            message: other.to_string(),
        },
    }
}

/// Rows as a table of `schema` stores them.
fn stored(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch, EngineError> {
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns.map(|(field, column)| stored_column(field, column));
    let columns = columns.collect::<Result<Vec<ArrayRef>, EngineError>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::clone(schema);
    Ok(RecordBatch::try_new_with_options(schema, columns, &rows)?)
}

/// The same of one column.
pub(super) fn stored_column(field: &Field, values: &ArrayRef) -> Result<ArrayRef, EngineError> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let values = match values.data_type() == field.data_type() {
        true => Arc::clone(values),
        false => cast_with_options(values, field.data_type(), &strict)?,
    };
    Ok(with_one_zero(values))
}

/// Adds the rows of a stream to a table when the last one is in: a stream that fails adds nothing.
/// Tells the [`Progress`] among the extensions of the session's configuration, if there is one.
#[derive(Debug)]
pub struct TableSink {
    table: Arc<Table>,
    storage: Storage,
    transaction: Arc<Transaction>,
    /// Whether nobody else commits.
    is_alone: bool,
    /// The table's schema with nulls everywhere: DataFusion checks nulls by this schema too, but
    /// does not say in which column one is.
    schema: SchemaRef,
}

impl TableSink {
    /// A sink into `table` as part of `transaction`, which whoever runs the statement commits.
    pub fn new(table: Arc<Table>, storage: Storage, transaction: Arc<Transaction>) -> Self {
        let nullable = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
        let fields: Vec<Field> = table.schema().fields().iter().map(nullable).collect();
        Self {
            table,
            storage,
            transaction,
            is_alone: false,
            schema: Arc::new(Schema::new(fields)),
        }
    }

    /// The same where there is nobody else to commit, who could be told of it.
    pub fn committing(mut self) -> Self {
        self.is_alone = true;
        self
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
        let mut writer = RowWriter::new(Arc::clone(&self.table), &self.storage);
        let progress = context.session_config().get_extension::<Progress>();
        let mut turns = LoadTurns::of(context);
        while let Some(batch) = data.next().await {
            let batch = batch?;
            if let Some(progress) = &progress {
                progress.add(&batch);
            }
            writer.push(batch)?;
            turns.wrote(writer.take_written()).await;
        }
        let (rows, count) = writer.finish()?;
        turns.wrote_all(&rows.segments).await;
        self.transaction
            .insert(&self.table, rows)
            .map_err(EngineError::from)?;
        if self.is_alone {
            let gate = CommitGate::default();
            let ended = self.transaction.end_statement(&gate).await;
            ended.map_err(EngineError::from)?;
        }
        Ok(count)
    }
}
