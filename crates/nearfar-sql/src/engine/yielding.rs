//! Joins without keys let go of their thread now and then.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ReplaceChildrenOptions,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

use crate::plan_rule::PlanRule;
use crate::transparent::transparent;

/// Has joins that pair every row with every other yield after some batches that they make, and after
/// every batch that they take. DataFusion counts on the leaves of a plan to yield, but such a join
/// makes thousands of batches from one batch of a leaf, or spends as long on finding that none of
/// them has a row, and a query could not be cancelled all that time.
pub const YIELDING_JOINS: PlanRule = PlanRule {
    name: "yielding_joins",
    rewrite: |plan| {
        let yielding = plan.transform_up(|node| {
            if !node.is::<NestedLoopJoinExec>() && !node.is::<CrossJoinExec>() {
                return Ok(Transformed::no(node));
            }
            let inputs = node.children().into_iter().map(|input| {
                let input = Arc::clone(input);
                Arc::new(YieldingExec {
                    input,
                    often: Often::EveryBatch,
                }) as _
            });
            let inputs = inputs.collect();
            let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            let input = node.replace_children(inputs, same)?;
            Ok(Transformed::yes(Arc::new(YieldingExec {
                input,
                often: Often::SomeBatches,
            }) as _))
        })?;
        Ok(yielding.data)
    },
};

/// When to yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Often {
    EveryBatch,
    /// As the leaves of a plan do.
    SomeBatches,
}

/// Yields after batches of its input.
#[derive(Debug)]
struct YieldingExec {
    input: Arc<dyn ExecutionPlan>,
    often: Often,
}

impl DisplayAs for YieldingExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str("YieldingExec"),
        }
    }
}

impl ExecutionPlan for YieldingExec {
    fn name(&self) -> &str {
        "YieldingExec"
    }

    transparent!(|this: &Self, input| Self {
        input,
        often: this.often
    });

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        Ok(match self.often {
            Often::SomeBatches => make_cooperative(input),
            Often::EveryBatch => {
                let schema = input.schema();
                let each = input.then(async |batch| {
                    tokio::task::yield_now().await;
                    batch
                });
                Box::pin(RecordBatchStreamAdapter::new(schema, each))
            }
        })
    }
}
