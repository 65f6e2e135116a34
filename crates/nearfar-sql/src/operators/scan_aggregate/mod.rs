//! Sums, counts and extremes of the rows of a scan, computed where they lie.
//!
//! A scan otherwise decodes the rows that pass its filters into batches, of which DataFusion evaluates the arguments of
//! aggregates, finds the group of each row by the values of its keys, and adds one aggregate after the other. Where keys are
//! few texts or integers that lie together, and arguments are integers, decimals and arithmetic on them within 64 bits,
//! [`SCAN_AGGREGATES`] puts a [`ScanAggregateExec`] in the place of that: the scan hands the positions of its rows to an
//! [`Aggregation`], which reads integers from the codes ([`ColumnSegment::read_integers`]), computes each expression once
//! ([`program`]), finds groups by the codes of the keys ([`groups`]) and adds them up in 64 bits ([`totals`]).
//!
//! [`ColumnSegment::read_integers`]: nearfar_table::segment::ColumnSegment::read_integers

mod aggregation;
mod groups;
mod plan;
mod program;
mod totals;

use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;

use super::in_place::{in_place, show, stands_for};
use crate::plan_rule::SwitchedRule;
use crate::settings::Settings;
use crate::slices::{SLICE_ROWS, slices};
use aggregation::Aggregation;
use plan::AggregatePlan;

/// Puts a [`ScanAggregateExec`] in the place of each aggregate of the rows of a scan that can be one. Behind all rules that
/// decide about expressions and sorts.
pub const SCAN_AGGREGATES: SwitchedRule = SwitchedRule {
    name: "nearfar_scan_aggregates",
    is_on: Settings::scan_aggregates,
    rewrite: |plan| {
        in_place(&plan, |plan| {
            ScanAggregateExec::in_place_of(plan).map(|own| Arc::new(own) as _)
        })
    },
};

/// The operator's name.
pub const NAME: &str = "ScanAggregateExec";

/// An aggregate that is computed in the scan below it. To rules it is the `AggregateExec` that it stands for.
#[derive(Debug)]
pub struct ScanAggregateExec {
    aggregate: Arc<dyn ExecutionPlan>,
    plan: Arc<AggregatePlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanAggregateExec {
    /// In the place of `plan`, if it is an aggregate of a scan that can be computed there.
    fn in_place_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let aggregate = AggregatePlan::of(plan.downcast_ref::<AggregateExec>()?)?;
        Some(Self {
            plan: Arc::new(aggregate),
            aggregate: Arc::clone(plan),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for ScanAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(NAME, self.aggregate.as_ref(), format, f)
    }
}

impl ExecutionPlan for ScanAggregateExec {
    fn name(&self) -> &'static str {
        NAME
    }

    stands_for!(aggregate);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(scan) = self
            .children()
            .first()
            .and_then(|input| plan::scan_of(input))
        else {
            return internal_err!("{NAME} has no scan");
        };
        let memory = MemoryConsumer::new(format!("ScanAggregate[{partition}]"))
            .register(context.memory_pool());
        let aggregation = Aggregation::new(&self.plan, memory)?;
        let rows = scan.open_for(partition, &context, Some(Box::new(aggregation)));
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let sliced = rows.map_ok(move |batch| {
            metrics.record_output(batch.num_rows());
            stream::iter(slices(&batch, SLICE_ROWS).map(Ok))
        });
        let sliced = RecordBatchStreamAdapter::new(self.schema(), sliced.try_flatten().boxed());
        Ok(Box::pin(cooperative(sliced)))
    }
}
