//! What the distributed engine is told: how many tasks a stage has, what each of them reads, and where it runs.
//!
//! A stage that reads a divided table has one task for each share of it, and runs task `i` on the node that reads share
//! `i`: the one whose share it is, or the next one where that one is missing. Where the engine can't cut a stage so,
//! its tasks fetch the rows of several nodes.

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExt, DistributedLeafExec,
    RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
    SessionStateBuilderExt, WorkerResolver,
};
use std::sync::Arc;
use url::Url;

use super::codec::ClusterCodec;
use super::coordinate::Coordinator;
use super::in_place::InPlaceJoins;
use super::leaf::{ClusterScan, Share};
use super::pin::QueryPin;
use super::windows::WindowOrders;
use crate::error::failed_query;
use crate::node::{Node, NodeLinks};

fn leaf(plan: &Arc<dyn ExecutionPlan>) -> Option<&ClusterScan> {
    (plan.as_ref() as &dyn std::any::Any).downcast_ref()
}

/// Whether all rows of a leaf's table are on every node.
fn is_replicated(scan: &ClusterScan) -> bool {
    scan.shares
        .iter()
        .all(|share| !matches!(share, Share::Of { .. }))
}

fn desired_tasks(
    event: DesiredTaskCountEvent<'_>,
) -> Option<Result<DesiredTaskCountEventResponse>> {
    let scan = leaf(event.plan)?;
    let tasks = match is_replicated(scan) {
        true => 1,
        false => scan.node.nodes(),
    };
    Some(Ok(DesiredTaskCountEventResponse::desired(tasks)))
}

/// What each of `tasks` tasks reads of a leaf.
fn shares(scan: &ClusterScan, tasks: usize) -> Vec<Vec<Share>> {
    if is_replicated(scan) {
        let first = std::iter::once(vec![Share::Here]);
        return first
            .chain(std::iter::repeat(vec![Share::Nothing]))
            .take(tasks)
            .collect();
    }
    let each = scan.shares.len().div_ceil(tasks);
    let task = |task: usize| {
        let own = (0..each).map(|at| task + at * tasks);
        let own = own.map(|share| scan.shares.get(share).copied());
        own.map(|share| share.unwrap_or(Share::Nothing)).collect()
    };
    (0..tasks).map(task).collect()
}

fn scaled_up(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let scan = leaf(event.plan)?;
    let tasks = event.task_count;
    let of_tasks = match tasks {
        // All shares in one task, wherever that is.
        1 => vec![scan.of_shares(scan.shares.clone(), None)],
        _ => {
            let of_tasks = shares(scan, tasks).into_iter().enumerate();
            let of_tasks = of_tasks.map(|(task, own)| scan.of_shares(own, Some((task, tasks))));
            of_tasks.collect()
        }
    };
    let variants = of_tasks.into_iter();
    let variants = variants.map(|scan| Arc::new(scan) as Arc<dyn ExecutionPlan>);
    let scaled = DistributedLeafExec::try_new(Arc::clone(event.plan), variants);
    Some(scaled.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// The nodes, for the distributed engine.
struct Urls(Arc<Node>);

impl WorkerResolver for Urls {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self
            .0
            .links()
            .iter()
            .map(|link| link.url().clone())
            .collect())
    }
}

/// Has the sessions of `builder` plan for the cluster.
///
/// # Errors
/// A setting that the engine does not know.
pub fn distributed(node: &Arc<Node>, builder: SessionStateBuilder) -> Result<SessionStateBuilder> {
    let mut builder = builder;
    let config = builder.config().get_or_insert_default();
    // With one partition, a stage that reads several nodes would have nothing that gathers them.
    let partitions = config.target_partitions().max(2);
    let options = config.options_mut();
    options.execution.target_partitions = partitions;
    // Filters that a join finds while it runs are within one process.
    options.optimizer.enable_dynamic_filter_pushdown = false;
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    options.optimizer.enable_topk_dynamic_filter_pushdown = false;
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    let routed = Arc::clone(node);
    let route = move |event: RouteTasksEvent<'_>| {
        let nodes = routed.nodes();
        let me = routed.me();
        let pin = event.task_ctx.session_config().get_extension::<QueryPin>();
        // One task runs here, where all of replicated tables is; several run where shares are read.
        let node = |task: usize| match (event.task_count, &pin) {
            (1, _) => me,
            (_, Some(pin)) => pin.runner(task % nodes),
            (_, None) => routed.first_heard(task % nodes),
        };
        let url = |task: usize| routed.link(node(task)).url().clone();
        let urls = (0..event.task_count).map(url).collect();
        Some(Ok(RouteTasksEventResponse::new(urls)))
    };
    let own = node
        .worker()?
        .to_local_worker_context(node.link(node.me()).url().clone());
    let mut builder = builder
        .with_distributed_worker_resolver(Urls(Arc::clone(node)))
        .with_distributed_channel_resolver(NodeLinks(node.links().to_vec()))
        .with_distributed_user_codec(ClusterCodec(Arc::downgrade(node)))
        .with_distributed_desired_task_count_handler(desired_tasks)
        .with_distributed_scale_up_leaf_node_handler(scaled_up)
        .with_distributed_route_tasks_handler(route)
        .with_distributed_local_worker_context(own)
        .with_physical_optimizer_rule(Arc::new(InPlaceJoins))
        .with_physical_optimizer_rule(Arc::new(WindowOrders))
        .with_distributed_planner()
        .with_distributed_children_isolator_unions(false)?
        .with_distributed_metrics_collection(false)?;
    let inner = builder.query_planner().clone();
    let inner = inner.ok_or_else(|| failed_query("there is no planner for the cluster"))?;
    let node = Arc::clone(node);
    Ok(builder.with_query_planner(Arc::new(Coordinator { node, inner })))
}

/// Whether [`distributed`] is going to work.
///
/// # Errors
/// A setting that the engine does not know.
pub fn check(node: &Arc<Node>) -> Result<()> {
    distributed(node, SessionStateBuilder::new()).map(drop)
}

/// A planner that plans nothing: what reads only this node's rows would be wrong.
pub fn refusing(builder: SessionStateBuilder, reason: String) -> SessionStateBuilder {
    builder.with_query_planner(Arc::new(Refusing(reason)))
}

#[derive(Debug)]
struct Refusing(String);

#[async_trait]
impl QueryPlanner for Refusing {
    async fn create_physical_plan(
        &self,
        _: &LogicalPlan,
        _: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(failed_query(self.0.clone()))
    }
}
