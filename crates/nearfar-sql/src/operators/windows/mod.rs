//! Windows over sorted rows, all partitions of a batch at a time.
//!
//! [`SORTED_WINDOWS`] puts a [`SortedWindowExec`] in the place of DataFusion's operators where all functions are among those
//! of [`functions`]: DataFusion evaluates each partition by itself, and frames that grow row by row. Here, partitions of a
//! batch are groups of one aggregate, and a frame that begins with its partition goes on from the row before. What waits
//! for the end of a partition is no more than that partition.

mod edges;
mod functions;
mod rows;
mod running;

use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, stream};
use std::fmt;
use std::sync::Arc;

use super::in_place::{in_place, show, stands_for};
use crate::plan_rule::SwitchedRule;
use crate::settings::Settings;
use functions::Windows;
use rows::Rows;

/// Puts a [`SortedWindowExec`] in the place of each operator for windows that can be one. Behind all rules that decide
/// about sorts.
pub const SORTED_WINDOWS: SwitchedRule = SwitchedRule {
    name: "nearfar_sorted_windows",
    is_on: Settings::sorted_windows,
    rewrite: |plan| {
        in_place(&plan, |plan| {
            SortedWindowExec::in_place_of(plan).map(|own| Arc::new(own) as _)
        })
    },
};

/// The operator's name.
pub const NAME: &str = "SortedWindowExec";

/// Windows over rows that are sorted by what they are partitioned by. To rules it is the operator of DataFusion that it
/// stands for.
#[derive(Debug)]
pub struct SortedWindowExec {
    /// A `WindowAggExec`, or a `BoundedWindowAggExec`.
    window: Arc<dyn ExecutionPlan>,
    windows: Arc<Windows>,
    metrics: ExecutionPlanMetricsSet,
}

impl SortedWindowExec {
    /// In the place of `window`, if it is an operator all of whose functions are known.
    fn in_place_of(window: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        Some(Self {
            windows: Arc::new(Windows::of(window.as_ref())?),
            window: Arc::clone(window),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    fn input(&self) -> Result<&Arc<dyn ExecutionPlan>> {
        match self.window.children()[..] {
            [input] => Ok(input),
            _ => internal_err!("{} has no input", self.window.name()),
        }
    }
}

impl DisplayAs for SortedWindowExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(NAME, self.window.as_ref(), format, f)
    }
}

impl ExecutionPlan for SortedWindowExec {
    fn name(&self) -> &'static str {
        NAME
    }

    stands_for!(window);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input()?.execute(partition, Arc::clone(&context))?;
        let memory = MemoryConsumer::new(format!("SortedWindow[{partition}]"))
            .register(context.memory_pool());
        let rows = Rows::new(
            Arc::clone(&self.windows),
            self.schema(),
            input,
            memory,
            BaselineMetrics::new(&self.metrics, partition),
        );
        let batches = stream::try_unfold(Box::new(rows), |mut rows| async move {
            let batch = rows.next().await?;
            Ok(batch.map(|batch| (batch, rows)))
        });
        // A partition of many batches is given without asking the input for any.
        let batches = RecordBatchStreamAdapter::new(self.schema(), batches.boxed());
        Ok(Box::pin(cooperative(batches)))
    }
}
