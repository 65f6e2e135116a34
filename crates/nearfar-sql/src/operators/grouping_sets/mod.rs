//! Grouping sets, each made of the groups of the smallest one above it.
//!
//! DataFusion looks up each row once for each set, all in one table of groups. Of `ROLLUP (a, b, c)` the groups by `a, b`
//! can be made of those by `a, b, c`, and those by `a` of these, which are fewer. [`GROUPING_SETS`] puts a
//! [`GroupingSetsExec`] in the place of an aggregate of sets over the states of the finest groups
//! ([`FINEST_GROUPS`](crate::optimize::FINEST_GROUPS)). These are handed on as they come where they are a set themselves, and
//! to the [`stages`] that make the others: DataFusion's aggregates, one for each set, which hand groups on early where
//! memory is short.

mod plan;
mod stages;

use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::stream;
use std::fmt;
use std::sync::Arc;

use super::in_place::{in_place, show, stands_for};
use crate::plan_rule::SwitchedRule;
use crate::settings::Settings;
use plan::SetsPlan;
use stages::Stages;

/// Puts a [`GroupingSetsExec`] in the place of each aggregate of sets over states. Behind all rules that decide about
/// expressions.
pub const GROUPING_SETS: SwitchedRule = SwitchedRule {
    name: "nearfar_grouping_sets",
    is_on: Settings::group_finest_first,
    rewrite: |plan| {
        in_place(&plan, |plan| {
            GroupingSetsExec::in_place_of(plan).map(|own| Arc::new(own) as _)
        })
    },
};

/// The operator's name.
const NAME: &str = "GroupingSetsExec";

/// Groups of several sets, of the states of the finest groups. To rules it is the `AggregateExec` that it stands for.
#[derive(Debug)]
pub struct GroupingSetsExec {
    aggregate: Arc<dyn ExecutionPlan>,
    plan: Arc<SetsPlan>,
    metrics: ExecutionPlanMetricsSet,
}

impl GroupingSetsExec {
    /// In the place of `plan`, if it is such an aggregate.
    fn in_place_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let sets = SetsPlan::of(plan.downcast_ref::<AggregateExec>()?)?;
        Some(Self {
            plan: Arc::new(sets),
            aggregate: Arc::clone(plan),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for GroupingSetsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(NAME, self.aggregate.as_ref(), format, f)
    }
}

impl ExecutionPlan for GroupingSetsExec {
    fn name(&self) -> &'static str {
        NAME
    }

    stands_for!(aggregate);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let [input] = self.children()[..] else {
            return internal_err!("{NAME} has no input");
        };
        let finest = input.execute(partition, Arc::clone(&context))?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let mut stages = Stages::new(&self.plan, finest, &context, metrics)?;
        let batches = stream::poll_fn(move |context| stages.poll_next(context));
        let batches = RecordBatchStreamAdapter::new(self.schema(), batches);
        Ok(Box::pin(cooperative(batches)))
    }
}
