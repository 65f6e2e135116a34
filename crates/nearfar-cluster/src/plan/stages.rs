//! What the distributed engine is told: how many tasks a stage has, what each of them reads, and where it runs.
//!
//! A stage that reads a divided table has one task for each node, in the order of nodes, and runs task `i` where
//! the rows of node `i` are. Where the engine can't cut a stage so, its tasks fetch the rows of several nodes.

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExec, DistributedExt,
    DistributedLeafExec, RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse, SessionStateBuilderExt, WorkerResolver,
};
use futures::{StreamExt, TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;
use url::Url;

use super::codec::ClusterCodec;
use super::in_place::{InPlaceJoins, undone};
use super::leaf::{ClusterScan, Share};
use crate::error::failed_query;
use crate::node::{Link, Node, NodeLinks};

fn leaf(plan: &Arc<dyn ExecutionPlan>) -> Option<&ClusterScan> {
    (plan.as_ref() as &dyn std::any::Any).downcast_ref()
}

/// Whether all rows of a leaf's table are on every node.
fn is_replicated(scan: &ClusterScan) -> bool {
    scan.shares
        .iter()
        .all(|share| !matches!(share, Share::Of(_)))
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
    let nodes = scan.node.nodes();
    let each = nodes.div_ceil(tasks);
    let task = |task: usize| {
        let own = (0..each).map(|at| task + at * tasks);
        let own = own.map(|node| match node < nodes {
            true => Share::Of(node),
            false => Share::Nothing,
        });
        own.collect()
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
        // One task runs here, where all of replicated tables is; several run in the order of the nodes.
        let url = |task: usize| match event.task_count {
            1 => routed.link(me).url().clone(),
            _ => routed.link(task % nodes).url().clone(),
        };
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
        .with_distributed_planner()
        .with_distributed_children_isolator_unions(false)?
        .with_distributed_metrics_collection(false)?;
    let inner = builder.query_planner().clone();
    let inner = inner.ok_or_else(|| failed_query("there is no planner for the cluster"))?;
    let node = Arc::clone(node);
    Ok(builder.with_query_planner(Arc::new(NamedFailures { node, inner })))
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

/// Plans with the distributed engine, and has errors say which node is gone.
struct NamedFailures {
    node: Arc<Node>,
    inner: Arc<dyn QueryPlanner + Send + Sync>,
}

impl fmt::Debug for NamedFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NamedFailures")
    }
}

#[async_trait]
impl QueryPlanner for NamedFailures {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.inner.create_physical_plan(plan, session).await?;
        let is_distributed = (plan.as_ref() as &dyn std::any::Any).is::<DistributedExec>();
        if !is_distributed {
            // What runs here alone has this machine's accounts, as on a machine without a cluster.
            let options = session.config_options();
            return self
                .node
                .parts_session()
                .worker_plan(undone(plan)?, options);
        }
        self.node.count_query();
        Ok(Arc::new(CoordinatedExec {
            node: Arc::clone(&self.node),
            input: plan,
        }))
    }
}

/// The whole of a distributed query.
#[derive(Debug)]
struct CoordinatedExec {
    node: Arc<Node>,
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for CoordinatedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.node.links().iter().map(Link::name).collect();
        write!(f, "CoordinatedExec: nodes=[{}]", names.join(", "))
    }
}

impl ExecutionPlan for CoordinatedExec {
    fn name(&self) -> &str {
        "CoordinatedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            node: Arc::clone(&self.node),
            input: children.swap_remove(0),
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let node = Arc::clone(&self.node);
        let rows = self.input.execute(partition, context)?;
        let schema = rows.schema();
        let rows = rows.then(move |batch| {
            let node = Arc::clone(&node);
            async move {
                match batch {
                    Ok(batch) => Ok(batch),
                    Err(error) => Err(node.blamed(error).await),
                }
            }
        });
        // Nothing comes behind an error. The plan has the pin of the state that is read.
        let plan = Arc::clone(&self.input);
        let rows = stream::unfold(Some((Box::pin(rows), plan)), |running| async {
            let (mut rows, plan) = running?;
            match rows.try_next().await {
                Ok(Some(batch)) => Some((Ok(batch), Some((rows, plan)))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
