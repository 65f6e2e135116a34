//! Groups by the smallest or largest of floating-point numbers are all made before the first ones are taken.
//!
//! DataFusion's aggregate that keeps the first groups only compares numbers in a way in which NaN is neither less nor
//! greater than any.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::aggregates::AggregateExec;
use std::sync::Arc;

use crate::plan_rule::PlanRule;

/// Takes limits from such aggregates.
pub const FLOAT_LIMITS: PlanRule = PlanRule {
    name: "nearfar_float_limits",
    rewrite: |plan| {
        plan.transform_up(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            let limited = aggregate.filter(|aggregate| is_limited_by_floats(aggregate));
            Ok(match limited {
                Some(limited) => {
                    Transformed::yes(Arc::new(limited.with_new_limit_options(None)) as _)
                }
                None => Transformed::no(node),
            })
        })
        .data()
    },
};

fn is_limited_by_floats(aggregate: &AggregateExec) -> bool {
    let mut extremes = aggregate.aggr_expr().iter();
    aggregate.limit_options().is_some()
        && extremes.any(|function| {
            let extreme = function.get_minmax_desc();
            extreme.is_some_and(|(field, _)| field.data_type().is_floating())
        })
}
