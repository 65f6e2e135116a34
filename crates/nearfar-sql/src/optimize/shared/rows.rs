//! What a reader of a shared subplan gets.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, SpillFile};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput};
use futures::{Stream, StreamExt};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::kept::{Next, Partition, Run};
use crate::error::EngineError;

/// The rows of a partition, for another reader.
///
/// # Errors
/// A reader that there was not to be.
pub fn read(
    run: Arc<Run>,
    partition: usize,
    schema: SchemaRef,
    metrics: BaselineMetrics,
) -> Result<SendableRecordBatchStream> {
    let partition = Arc::clone(run.partition(partition));
    Ok(Box::pin(cooperative(SharedStream {
        reader: partition.begin()?,
        partition,
        run,
        schema,
        metrics,
        file: None,
        has_ended: false,
    })))
}

struct SharedStream {
    /// Its tasks run as long as there is a reader.
    run: Arc<Run>,
    partition: Arc<Partition>,
    reader: usize,
    schema: SchemaRef,
    metrics: BaselineMetrics,
    file: Option<OpenFile>,
    has_ended: bool,
}

/// A file that batches are read from.
struct OpenFile {
    file: Arc<dyn SpillFile>,
    /// The number of the batch that comes next.
    next: usize,
    /// The number of the batch that is looked for.
    wanted: Option<usize>,
    batches: SendableRecordBatchStream,
}

impl SharedStream {
    /// Opens the file of a spilled batch where it is not open yet.
    fn open(&mut self, file: Arc<dyn SpillFile>, wanted: usize) -> Result<()> {
        let open = self.file.take();
        let open = open.filter(|open| Arc::ptr_eq(&open.file, &file) && open.next <= wanted);
        let (next, batches) = match open {
            Some(open) => (open.next, open.batches),
            None => {
                let spills = self.partition.spills();
                (0, spills.read_spill_as_stream(Arc::clone(&file), None)?)
            }
        };
        self.file = Some(OpenFile {
            file,
            next,
            wanted: Some(wanted),
            batches,
        });
        Ok(())
    }

    fn poll_rows(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            if let Some(open) = &mut self.file
                && let Some(wanted) = open.wanted
            {
                let batch = ready!(open.batches.poll_next_unpin(context));
                let batch = batch.unwrap_or_else(|| {
                    let message = String::from("rows of a shared subplan are missing");
                    Err(EngineError::Internal { message }.into())
                });
                open.next += 1;
                if batch.is_err() || open.next > wanted {
                    open.wanted = None;
                    return Poll::Ready(Some(batch));
                }
                continue;
            }
            match ready!(self.partition.poll(self.reader, context)) {
                Ok(Next::Batch(batch)) => return Poll::Ready(Some(Ok(batch))),
                Ok(Next::Spilled(file, wanted)) => {
                    if let Err(error) = self.open(file, wanted) {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                Ok(Next::End) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl Stream for SharedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.has_ended {
            return Poll::Ready(None);
        }
        this.run.start();
        let next = ready!(this.poll_rows(context));
        this.has_ended = !matches!(next, Some(Ok(_)));
        Poll::Ready(next.map(|batch| batch.record_output(&this.metrics)))
    }
}

impl RecordBatchStream for SharedStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        self.partition.leave(self.reader);
    }
}
