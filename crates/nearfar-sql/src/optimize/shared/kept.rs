//! The rows of a shared subplan, kept until all readers have had them.
//!
//! All partitions are computed by tasks of their own that wait for no reader: a reader that waits for another
//! one's rows can't stop them. What is kept is charged to the query, and spilled where the query has no more
//! memory.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::JoinSet;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use tokio::task::AbortHandle;

use crate::error::{EngineError, Panicked};
use nearfar_table::table::batch_bytes;

/// One run of a shared subplan.
pub struct Run {
    partitions: Vec<Arc<Partition>>,
    /// Partitions that are still to be begun by readers, over all readers.
    left: AtomicUsize,
    work: Mutex<Work>,
}

/// The tasks that compute partitions, which end with this.
#[derive(Default)]
struct Work {
    inputs: Vec<SendableRecordBatchStream>,
    tasks: JoinSet<()>,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl Run {
    /// A run of `plan` in `context` for so many `readers`.
    ///
    /// # Errors
    /// A plan that does not run.
    pub fn new(
        plan: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
        readers: usize,
    ) -> Result<Arc<Self>> {
        let count = plan.output_partitioning().partition_count();
        let inputs = (0..count).map(|partition| plan.execute(partition, Arc::clone(context)));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let partitions = (0..count).map(|partition| {
            let spills = Spills::new(&plan.schema(), context, partition);
            Arc::new(Partition::new(spills, readers.max(1)))
        });
        Ok(Arc::new(Self {
            partitions: partitions.collect(),
            left: AtomicUsize::new(count * readers.max(1)),
            work: Mutex::new(Work {
                inputs,
                tasks: JoinSet::new(),
            }),
        }))
    }

    /// Notes that a reader begins with a partition; whether all readers have begun with all.
    pub fn is_last_begun(&self) -> bool {
        self.left.fetch_sub(1, Relaxed) <= 1
    }

    /// Starts what computes the partitions, if nobody has.
    pub fn start(&self) {
        let mut work = self.work.lock();
        let inputs = std::mem::take(&mut work.inputs);
        for (input, partition) in inputs.into_iter().zip(&self.partitions) {
            let task = work.tasks.spawn(compute(input, Arc::clone(partition)));
            partition.is_computed_by(task);
        }
    }

    /// A partition.
    pub fn partition(&self, partition: usize) -> &Arc<Partition> {
        &self.partitions[partition]
    }
}

async fn compute(mut input: SendableRecordBatchStream, partition: Arc<Partition>) {
    let end = End(partition);
    let kept = async {
        while let Some(batch) = input.next().await {
            end.0.keep(batch?)?;
        }
        Ok(())
    };
    let ended = AssertUnwindSafe(kept).catch_unwind().await;
    let ended = ended.unwrap_or_else(|panic| {
        let message = format!("an operator has panicked: {}", Panicked::of(panic.as_ref()));
        Err(EngineError::Internal { message }.into())
    });
    end.0.end(ended);
}

/// Has readers wait for a partition no longer when its task is gone.
struct End(Arc<Partition>);

impl Drop for End {
    fn drop(&mut self) {
        let message = String::from("a shared subplan was given up");
        self.0.end(Err(EngineError::Internal { message }.into()));
    }
}

/// Rows of one partition, in order.
pub struct Partition(Mutex<Rows>);

struct Rows {
    /// Batches that all readers have had.
    gone: usize,
    batches: VecDeque<Kept>,
    end: Option<Result<(), Arc<DataFusionError>>>,
    readers: Vec<Reader>,
    /// How many readers have begun.
    begun: usize,
    spills: Spills,
    task: Option<AbortHandle>,
}

enum Kept {
    Here(RecordBatch, usize),
    /// The batch of a number in a file.
    Spilled(Arc<dyn SpillFile>, usize),
}

struct Reader {
    /// How many batches it has had.
    had: usize,
    waker: Option<Waker>,
}

/// What a reader gets.
pub enum Next {
    /// Rows.
    Batch(RecordBatch),
    /// The batch of a number in a file.
    Spilled(Arc<dyn SpillFile>, usize),
    /// No more.
    End,
}

impl Partition {
    fn new(spills: Spills, readers: usize) -> Self {
        let readers = (0..readers).map(|_| Reader {
            had: 0,
            waker: None,
        });
        Self(Mutex::new(Rows {
            gone: 0,
            batches: VecDeque::new(),
            end: None,
            readers: readers.collect(),
            begun: 0,
            spills,
            task: None,
        }))
    }

    fn is_computed_by(&self, task: AbortHandle) {
        self.0.lock().task = Some(task);
    }

    /// The number of a new reader.
    ///
    /// # Errors
    /// One more than there were to be, which would miss rows: a bug.
    pub fn begin(&self) -> Result<usize> {
        let mut rows = self.0.lock();
        if rows.begun == rows.readers.len() {
            let message = String::from("a shared subplan has one reader too many");
            return Err(EngineError::Internal { message }.into());
        }
        rows.begun += 1;
        Ok(rows.begun - 1)
    }

    /// What comes next for a reader, which has it with this.
    ///
    /// # Errors
    /// What ended the rows early.
    pub fn poll(&self, reader: usize, context: &Context<'_>) -> Poll<Result<Next>> {
        let mut rows = self.0.lock();
        let at = rows.readers[reader].had - rows.gone;
        let next = match (rows.batches.get(at), &rows.end) {
            (_, Some(Err(error))) => {
                return Poll::Ready(Err(DataFusionError::Shared(Arc::clone(error))));
            }
            (Some(Kept::Here(batch, _)), _) => Next::Batch(batch.clone()),
            (Some(Kept::Spilled(file, number)), _) => Next::Spilled(Arc::clone(file), *number),
            (None, Some(Ok(()))) => return Poll::Ready(Ok(Next::End)),
            (None, None) => {
                rows.readers[reader].waker = Some(context.waker().clone());
                return Poll::Pending;
            }
        };
        rows.readers[reader].had += 1;
        rows.let_go();
        Poll::Ready(Ok(next))
    }

    /// A reader reads no more.
    pub fn leave(&self, reader: usize) {
        let mut rows = self.0.lock();
        rows.readers[reader].had = usize::MAX;
        rows.let_go();
        let is_left = rows.readers.iter().all(|reader| reader.had == usize::MAX);
        if let Some(task) = rows.task.take_if(|_| is_left) {
            task.abort();
        }
    }

    /// How spilled batches are read.
    pub fn spills(&self) -> SpillManager {
        self.0.lock().spills.manager.clone()
    }

    fn keep(&self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let mut rows = self.0.lock();
        let kept = rows.kept(batch)?;
        rows.batches.push_back(kept);
        rows.wake();
        Ok(())
    }

    fn end(&self, ended: Result<()>) {
        let mut rows = self.0.lock();
        if rows.end.is_none() {
            rows.end = Some(ended.map_err(Arc::new));
            rows.wake();
        }
    }
}

impl Rows {
    fn wake(&mut self) {
        let wakers = self
            .readers
            .iter_mut()
            .filter_map(|reader| reader.waker.take());
        wakers.for_each(Waker::wake);
    }

    /// Drops what all readers have had.
    fn let_go(&mut self) {
        let had = self.readers.iter().map(|reader| reader.had).min();
        while self.gone < had.unwrap_or(usize::MAX)
            && let Some(kept) = self.batches.pop_front()
        {
            self.gone += 1;
            if let Kept::Here(_, bytes) = kept {
                self.spills.memory.shrink(bytes);
            }
        }
    }

    /// `batch` in memory, or else in a file: then all that came before it is in one, too.
    fn kept(&mut self, batch: RecordBatch) -> Result<Kept> {
        let bytes = batch_bytes(&batch) as usize;
        if self.spills.memory.try_grow(bytes).is_ok() {
            return Ok(Kept::Here(batch, bytes));
        }
        self.spill()?;
        if self.spills.memory.try_grow(bytes).is_ok() {
            return Ok(Kept::Here(batch, bytes));
        }
        let file = self.spills.write(&[batch])?;
        Ok(Kept::Spilled(file, 0))
    }

    fn spill(&mut self) -> Result<()> {
        let here = self.batches.iter().filter_map(|kept| match kept {
            Kept::Here(batch, _) => Some(batch.clone()),
            Kept::Spilled(..) => None,
        });
        let here: Vec<RecordBatch> = here.collect();
        if here.is_empty() {
            return Ok(());
        }
        let file = self.spills.write(&here)?;
        let mut number = 0;
        for kept in &mut self.batches {
            if let Kept::Here(..) = kept {
                *kept = Kept::Spilled(Arc::clone(&file), number);
                number += 1;
            }
        }
        self.spills.memory.free();
        Ok(())
    }
}

/// The memory of a partition, and where its rows go when that is used up.
struct Spills {
    memory: MemoryReservation,
    manager: SpillManager,
}

impl Spills {
    fn new(schema: &SchemaRef, context: &Arc<TaskContext>, partition: usize) -> Self {
        let consumer = MemoryConsumer::new(format!("SharedExec[{partition}]"));
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), partition);
        let environment = context.runtime_env();
        Self {
            memory: consumer
                .with_can_spill(true)
                .register(context.memory_pool()),
            manager: SpillManager::new(environment, metrics, Arc::clone(schema)),
        }
    }

    fn write(&self, batches: &[RecordBatch]) -> Result<Arc<dyn SpillFile>> {
        let file = self
            .manager
            .spill_record_batch_and_finish(batches, "SharedExec")?;
        file.ok_or_else(|| {
            let message = String::from("a shared subplan has spilled nothing");
            EngineError::Internal { message }.into()
        })
    }
}
