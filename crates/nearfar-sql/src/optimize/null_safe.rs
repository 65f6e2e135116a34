//! Joins whose nulls are equal to each other, kept apart from conditions whose nulls are not.
//!
//! Two rules of DataFusion take `=` of a condition for one more key of such a join, where null equals null
//! then: `extract_equijoin_predicate`, and `eliminate_cross_join`, which also puts the keys of joins of both
//! kinds together.

use datafusion::common::NullEquality;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{JoinType, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// One of these rules, which does not see such joins.
#[derive(Debug)]
pub struct KeepNullSafe(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for KeepNullSafe {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let is_kept = match self.apply_order() {
            Some(_) => is_null_safe(&plan),
            // It goes through the whole plan by itself.
            None => has_null_safe_inner_join(&plan)?,
        };
        match is_kept {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}

fn is_null_safe(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join)
        if join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty())
}

fn has_null_safe_inner_join(plan: &LogicalPlan) -> Result<bool> {
    let is_inner = |plan: &LogicalPlan| matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::Inner);
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= is_null_safe(node) && is_inner(node);
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}
