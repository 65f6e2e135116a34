//! Windows over sorted rows, all partitions of a batch at a time.
//!
//! [`SortedWindows`] puts a [`SortedWindowExec`] in the place of DataFusion's operators where all functions are among those
//! of [`functions`]: DataFusion evaluates each partition by itself, and frames that grow row by row. Here, partitions of a
//! batch are groups of one aggregate, and a frame that begins with its partition goes on from the row before. What waits
//! for the end of a partition is no more than that partition.

mod edges;
mod functions;
mod rows;
mod rule;
mod running;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};
use std::fmt;
use std::sync::Arc;

use super::described;
use functions::Windows;
use rows::Rows;
pub use rule::SortedWindows;

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
        if matches!(format, DisplayFormatType::TreeRender) {
            return self.window.fmt_as(format, f);
        }
        let described = described(self.window.as_ref(), format);
        write!(f, "{NAME}{described}")
    }
}

impl ExecutionPlan for SortedWindowExec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.window.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.window.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.window.input_distribution_requirements()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.window.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.window.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.window.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.window.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let recomputed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, recomputed)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let window = Arc::clone(&self.window).replace_children(children, options)?;
        // Its rows may not be sorted any more.
        Ok(match Self::in_place_of(&window) {
            Some(own) => Arc::new(own),
            None => window,
        })
    }

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

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.window.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.window.statistics_from_inputs(inputs, args)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.window.cardinality_effect()
    }
}
