//! Conditions of joins of sorted inputs, which name columns by their places.
//!
//! DataFusion moves a projection below such a join, and leaves the join's own condition as it was: it looks at other
//! columns then, or at none. While projections are moved, a node stands above joins with a condition that lets none
//! through. Hash joins see to their condition.
//!
//! Nor does the condition expect nulls of columns without any, which it is given for rows that have found no partner.

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use std::fmt;
use std::sync::Arc;

use crate::plan_rule::PlanRule;
use crate::transparent::{transparent, without};

/// Puts these nodes into a plan.
pub const BLOCK_MERGE_FILTERS: PlanRule = PlanRule {
    name: "nearfar_block_merge_filters",
    rewrite: |plan| {
        let blocked = plan.transform_up(|input| {
            let Some(join) = input.downcast_ref::<SortMergeJoinExec>() else {
                return Ok(Transformed::no(input));
            };
            let Some(filter) = join.filter() else {
                return Ok(Transformed::no(input));
            };
            let input = Arc::new(with_filter(join, with_nulls(filter))?);
            let blocked: Arc<dyn ExecutionPlan> = Arc::new(MergeFilterExec { input });
            Ok(Transformed::yes(blocked))
        });
        blocked.data()
    },
};

/// Takes them out again.
pub const UNBLOCK_MERGE_FILTERS: PlanRule = PlanRule {
    name: "nearfar_unblock_merge_filters",
    rewrite: |plan| without::<MergeFilterExec>(plan),
};

/// The condition, whose columns may all have nulls.
fn with_nulls(filter: &JoinFilter) -> JoinFilter {
    let fields = filter.schema().fields().iter();
    let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
    JoinFilter::new(
        Arc::clone(filter.expression()),
        filter.column_indices().to_vec(),
        Arc::new(Schema::new(fields.collect::<Vec<_>>())),
    )
}

/// The join with another condition.
fn with_filter(join: &SortMergeJoinExec, filter: JoinFilter) -> Result<SortMergeJoinExec> {
    SortMergeJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        join.on().to_vec(),
        Some(filter),
        join.join_type(),
        join.sort_options().to_vec(),
        join.null_equality(),
    )
}

/// The rows of its input, a join with a condition.
#[derive(Debug)]
struct MergeFilterExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for MergeFilterExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MergeFilterExec")
    }
}

impl ExecutionPlan for MergeFilterExec {
    fn name(&self) -> &str {
        "MergeFilterExec"
    }

    transparent!(|_: &Self, input| Self { input });

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
