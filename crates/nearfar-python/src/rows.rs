//! The rows of a query, as they come, for whoever reads Arrow's.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use futures::StreamExt;
use nearfar_sql::engine::RowStream;
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::database::{Database, LOOK_UP};
use crate::failure::Failure;

/// Whether whoever waits has been interrupted. It is asked while a statement or its rows are waited for, with the rows
/// so far: those that were read of somebody, or given.
pub type Interrupt = Arc<dyn Fn(u64) -> Result<(), Failure> + Send + Sync>;

/// Why rows have ended early, for whoever can't tell from what Arrow's interface says.
pub type LastFailure = Arc<Mutex<Option<Failure>>>;

/// A reader of a query's rows.
pub struct Rows {
    database: Arc<Database>,
    stream: Option<RowStream>,
    schema: SchemaRef,
    interrupt: Interrupt,
    given: u64,
    failure: LastFailure,
}

impl Rows {
    /// Rows of a query that was started on `database`.
    pub fn new(database: Arc<Database>, stream: RowStream, interrupt: Interrupt) -> Self {
        Self {
            given: 0,
            schema: Arc::clone(stream.schema()),
            stream: Some(stream),
            database,
            interrupt,
            failure: LastFailure::default(),
        }
    }

    /// Where the reason of an early end is found.
    pub fn failure(&self) -> &LastFailure {
        &self.failure
    }

    /// The next rows.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, Failure> {
        self.database.check_process()?;
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        loop {
            let next = async { timeout(LOOK_UP, stream.next()).await };
            let next = match self.database.handle().block_on(next) {
                Ok(next) => next.transpose().map_err(Failure::from),
                Err(_) => match (self.interrupt)(self.given) {
                    Ok(()) => continue,
                    Err(failure) => Err(failure),
                },
            };
            match &next {
                Ok(Some(batch)) => self.given += batch.num_rows() as u64,
                _ => self.stream = None,
            }
            return next;
        }
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_batch() {
            Ok(batch) => batch.map(Ok),
            Err(failure) => {
                let error = ArrowError::ExternalError(failure.to_string().into());
                *self.failure.lock() = Some(failure);
                Some(Err(error))
            }
        }
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
