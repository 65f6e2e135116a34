//! The streams of the nodes around an operator.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt};
use nearfar_memory::{ThreadTier, TierId};
use nearfar_model::{Direction, HeapAccess, Pattern};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use super::exec::Input;
use super::usage::{OperatorMetrics, Usage};
use nearfar_table::table::batch_bytes;

/// The longest time for which a thread is delayed in one poll, so that a query can be cancelled.
const DELAY_MAX: Duration = Duration::from_millis(20);

/// What the threads of an operator's stream still have to be delayed for.
struct Debt {
    usage: Arc<Usage>,
    metrics: OperatorMetrics,
    owed: Duration,
    /// Of what is transferred next.
    pattern: Pattern,
}

impl Debt {
    fn new(usage: Arc<Usage>, partition: usize) -> Self {
        let metrics = usage.partition_metrics(partition);
        Self {
            usage,
            metrics,
            owed: Duration::ZERO,
            pattern: Pattern::First,
        }
    }

    /// Notes what the operator accounts for now.
    fn observe(&self, partition: usize) {
        let held = self.usage.held_bytes(partition).load(Relaxed) as usize;
        self.metrics.held_bytes_max.set_max(held);
    }

    fn charge(&mut self, access: &HeapAccess) {
        if let Some(model) = &self.usage.model {
            self.owed += model.heap_delay(access);
        }
    }

    /// Delays the thread until `batch` is read from the tier, or written to it, in order.
    fn transfer(&mut self, direction: Direction, batch: &RecordBatch) {
        if let (Some(model), Some(wait)) = (&self.usage.model, &self.metrics.wait) {
            let _waiting = wait.timer();
            model.transfer(direction, self.pattern.advance(), batch_bytes(batch));
        }
    }

    /// Delays the thread for a while; whether nothing is owed any more.
    fn pay(&mut self) -> bool {
        if let (Some(model), Some(wait)) = (&self.usage.model, &self.metrics.wait)
            && !self.owed.is_zero()
        {
            let now = self.owed.min(DELAY_MAX);
            model.delay(now);
            wait.add_duration(now);
            self.owed -= now;
        }
        self.owed.is_zero()
    }
}

/// What an operator yields.
pub struct OperatorStream {
    operator: SendableRecordBatchStream,
    debt: Debt,
    partition: usize,
}

impl OperatorStream {
    pub fn new(operator: SendableRecordBatchStream, usage: Arc<Usage>, partition: usize) -> Self {
        Self {
            operator,
            debt: Debt::new(usage, partition),
            partition,
        }
    }

    fn charge(&mut self, batch: &RecordBatch) {
        let access = self
            .debt
            .usage
            .output(self.partition, batch.num_rows() as u64);
        self.debt.charge(&access);
        if self.debt.usage.operator.yields_in_order() {
            self.debt.transfer(Direction::Read, batch);
        }
    }
}

impl Stream for OperatorStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.debt.pay() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let usage = Arc::clone(&self.debt.usage);
        let next = {
            let tier = if usage.is_probing(self.partition) {
                TierId::NEAR
            } else {
                usage.tier
            };
            let _entered = ThreadTier::enter(tier);
            self.operator.poll_next_unpin(context)
        };
        self.debt.observe(self.partition);
        if let Poll::Ready(Some(Ok(batch))) = &next {
            self.charge(batch);
        }
        next
    }
}

impl RecordBatchStream for OperatorStream {
    fn schema(&self) -> SchemaRef {
        self.operator.schema()
    }
}

/// What goes into an operator.
pub struct InputStream {
    input: SendableRecordBatchStream,
    debt: Debt,
    role: Input,
    partition: usize,
}

impl InputStream {
    pub fn new(
        input: SendableRecordBatchStream,
        usage: Arc<Usage>,
        role: Input,
        partition: usize,
    ) -> Self {
        Self {
            input,
            debt: Debt::new(usage, partition),
            role,
            partition,
        }
    }

    fn charge(&mut self, batch: &RecordBatch) {
        let rows = batch.num_rows() as u64;
        let usage = Arc::clone(&self.debt.usage);
        match self.role {
            // The table's entries are charged when it is whole and its size known.
            Input::Build => usage.add_built_rows(self.partition, rows),
            Input::Probe | Input::Rows => self.debt.charge(&usage.input(self.partition, rows)),
        }
        if usage.operator.keeps_in_order(self.role == Input::Build) {
            self.debt.transfer(Direction::Write, batch);
        }
    }
}

impl Stream for InputStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.debt.observe(self.partition);
        let usage = Arc::clone(&self.debt.usage);
        if self.role == Input::Probe && usage.begin_probing(self.partition) {
            let building = usage.building(self.partition);
            self.debt.charge(&building);
        }
        if !self.debt.pay() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = {
            let _entered = ThreadTier::enter(TierId::NEAR);
            self.input.poll_next_unpin(context)
        };
        if let Poll::Ready(Some(Ok(batch))) = &next {
            self.charge(batch);
        }
        if self.role == Input::Probe {
            // For the rest of the operator's poll: what it makes of these rows are results. The
            // operator's own stream restores the tier when the poll ends.
            std::mem::forget(ThreadTier::enter(TierId::NEAR));
        }
        next
    }
}

impl RecordBatchStream for InputStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
