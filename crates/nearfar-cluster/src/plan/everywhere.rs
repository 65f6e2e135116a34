//! Replicated tables that are joined: each task reads them on its own node, instead of getting them from one.
//!
//! The distributed engine has one task read the side that all others need whole, and sends it to them by a
//! [`NetworkBroadcastExec`]. Where that side is made of replicated tables only, by operators of which every node gets the
//! same rows, it is put in the place of the exchange.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use datafusion_distributed::{BroadcastExec, DistributedLeafExec, NetworkBroadcastExec};
use std::sync::Arc;

use super::leaf::{ClusterScan, Share};

type Plan = Arc<dyn ExecutionPlan>;

/// The same plan, which sends no replicated tables.
///
/// # Errors
/// Those of an operator that gets other inputs.
pub fn read_everywhere(plan: Plan) -> Result<Plan> {
    let read = plan.transform_down(|plan| {
        if !plan.is::<NetworkBroadcastExec>() {
            return Ok(Transformed::no(plan));
        }
        match sent(&plan).map(here).transpose()? {
            Some(Some(read)) => Ok(Transformed::yes(read)),
            _ => Ok(Transformed::no(plan)),
        }
    })?;
    Ok(read.data)
}

/// What a broadcast sends.
fn sent(broadcast: &Plan) -> Option<&Plan> {
    let [head] = broadcast.children()[..] else {
        return None;
    };
    Some(head.downcast_ref::<BroadcastExec>()?.children()[0])
}

/// The same plan for any node, if each of them has all that it reads.
fn here(plan: &Plan) -> Result<Option<Plan>> {
    if let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() {
        let [only] = leaf.variants() else {
            return Ok(None);
        };
        let scan = only.downcast_ref::<ClusterScan>();
        let is_here = scan.is_some_and(|scan| {
            scan.shares == [Share::Here] && scan.task.is_none() && scan.scan.fetch.is_none()
        });
        return Ok(is_here.then(|| Arc::clone(only)));
    }
    // What is sent within one task is not sent.
    if plan.is::<BroadcastExec>() {
        return here(plan.children()[0]);
    }
    if !gives_the_same_everywhere(plan) {
        return Ok(None);
    }
    let children = plan.children().into_iter().map(here);
    let Some(children) = children.collect::<Result<Option<Vec<_>>>>()? else {
        return Ok(None);
    };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan)
        .replace_children(children, options)
        .map(Some)
}

/// Whether an operator gives the same rows on every node, in whatever order, if its inputs do.
fn gives_the_same_everywhere(plan: &Plan) -> bool {
    let is_known = plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<HashJoinExec>();
    // Which rows a limit keeps is open.
    is_known && plan.fetch().is_none() && !plan.children().is_empty() && !is_volatile(plan)
}

/// Whether an operator evaluates something that is another value each time.
fn is_volatile(plan: &Plan) -> bool {
    let mut found = false;
    let looked = plan.apply_expressions(&mut |expression: &Arc<dyn PhysicalExpr>| {
        found |= datafusion::physical_expr_common::physical_expr::is_volatile(expression);
        Ok(TreeNodeRecursion::Continue)
    });
    found || looked.is_err()
}
