//! The aggregates of sets, while they run.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{BaselineMetrics, RecordOutput};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::plan::SetsPlan;

/// All of them. Groups are pushed from set to set: an aggregate asks its [`Inbox`] for what there is, and waits where that
/// is nothing.
pub struct Stages {
    plan: Arc<SetsPlan>,
    /// In the order of the plan.
    stages: Vec<Stage>,
    metrics: BaselineMetrics,
}

/// The groups of a set.
struct Stage {
    groups: SendableRecordBatchStream,
    /// What they are made of; none for the finest groups.
    inbox: Option<Arc<Inbox>>,
    is_done: bool,
}

impl Stage {
    /// Whether it has something to do, other than to wait for the set that it is made of.
    fn is_busy(&self) -> bool {
        let has_work = |inbox: &Arc<Inbox>| {
            let groups = inbox.groups.lock();
            groups.is_complete || !groups.batches.is_empty()
        };
        !self.is_done && self.inbox.as_ref().is_none_or(has_work)
    }
}

impl Stages {
    /// Of the groups that `finest` gives.
    pub fn new(
        plan: &Arc<SetsPlan>,
        finest: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
        metrics: BaselineMetrics,
    ) -> Result<Self> {
        let mut stages = vec![Stage {
            groups: finest,
            inbox: None,
            is_done: false,
        }];
        for set in 1..plan.sets.len() {
            let inbox = Arc::new(Inbox {
                schema: plan.schema_of(plan.sets[set].parent),
                groups: Mutex::default(),
            });
            let aggregate = plan.aggregate_of(set, inbox.plan()?)?;
            stages.push(Stage {
                groups: aggregate.execute(0, Arc::clone(context))?,
                inbox: Some(inbox),
                is_done: false,
            });
        }
        Ok(Self {
            plan: Arc::clone(plan),
            stages,
            metrics,
        })
    }

    /// The next batch of groups of any set.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            // Coarse sets first: no more than a batch of each set waits in inboxes.
            let Some(set) = self.stages.iter().rposition(Stage::is_busy) else {
                return Poll::Ready(None);
            };
            let given = ready!(self.advance(set, context)).transpose();
            if let Some(given) = given {
                let given = given.map(|batch| batch.record_output(&self.metrics));
                return Poll::Ready(Some(given));
            }
        }
    }

    /// Lets a set that is busy go on, and gives what is to be given of that. It waits only where its groups are to come
    /// later from outside: aggregates of DataFusion 55.2 wait for nothing but their input.
    fn advance(
        &mut self,
        set: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<RecordBatch>>> {
        let elapsed = self.metrics.elapsed_compute().clone();
        let stage = &mut self.stages[set];
        let timer = stage.inbox.is_some().then(|| elapsed.timer());
        let polled = stage.groups.poll_next_unpin(context);
        drop(timer);
        match polled {
            Poll::Ready(Some(batch)) => {
                let _timer = elapsed.timer();
                Poll::Ready(batch.and_then(|batch| self.hand_on(set, &batch)))
            }
            Poll::Ready(None) => {
                self.finish(set);
                Poll::Ready(Ok(None))
            }
            // It has taken all that there was.
            Poll::Pending if !stage.is_busy() => Poll::Ready(Ok(None)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Groups of a set as they are given; others are made of them.
    fn hand_on(&self, set: usize, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        for inbox in self.inboxes_of(set) {
            inbox.groups.lock().batches.push_back(batch.clone());
        }
        self.plan.marked(set, batch)
    }

    /// All groups of a set are there.
    fn finish(&mut self, set: usize) {
        let stage = &mut self.stages[set];
        stage.is_done = true;
        let schema = stage.groups.schema();
        // What the aggregate holds is released.
        stage.groups = Box::pin(RecordBatchStreamAdapter::new(schema, stream::empty()));
        for inbox in self.inboxes_of(set) {
            inbox.groups.lock().is_complete = true;
        }
    }

    /// Where the groups of a set go.
    fn inboxes_of(&self, set: usize) -> impl Iterator<Item = &Arc<Inbox>> {
        let stages = self.stages.iter().zip(&self.plan.sets);
        let of_set = stages.filter(move |(_, made)| made.parent == set);
        of_set.filter_map(|(stage, _)| stage.inbox.as_ref())
    }
}

/// Groups that a set is to be made of.
#[derive(Debug)]
struct Inbox {
    schema: SchemaRef,
    groups: Mutex<Groups>,
}

#[derive(Debug, Default)]
struct Groups {
    batches: VecDeque<RecordBatch>,
    /// Whether no more will come.
    is_complete: bool,
}

impl Inbox {
    /// The plan that reads it. Its stream lets others have the thread now and then, which keeps queries cancellable.
    fn plan(self: &Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let (schema, inlet) = (Arc::clone(&self.schema), Inlet(Arc::clone(self)));
        let plan =
            StreamingTableExec::try_new(schema, vec![Arc::new(inlet)], None, [], false, None)?;
        Ok(Arc::new(plan))
    }

    fn next(&self) -> Poll<Option<Result<RecordBatch>>> {
        let mut groups = self.groups.lock();
        match groups.batches.pop_front() {
            Some(batch) => Poll::Ready(Some(Ok(batch))),
            None if groups.is_complete => Poll::Ready(None),
            // Nobody has to be woken: who pushes polls.
            None => Poll::Pending,
        }
    }
}

/// An [`Inbox`], as the only partition of a plan.
#[derive(Debug)]
struct Inlet(Arc<Inbox>);

impl PartitionStream for Inlet {
    fn schema(&self) -> &SchemaRef {
        &self.0.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let inbox = Arc::clone(&self.0);
        let schema = Arc::clone(&inbox.schema);
        let batches = stream::poll_fn(move |_| inbox.next());
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}
