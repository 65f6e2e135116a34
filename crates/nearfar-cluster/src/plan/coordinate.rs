//! The whole of a query that several nodes run: it is run again, once, where a node is lost that others stand in for.

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion_distributed::{DistributedExec, DistributedExt, NetworkBoundaryExt};
use futures::{TryStreamExt, stream};
use nearfar_sql::scan::StatementPin;
use std::fmt;
use std::sync::Arc;
use tonic::Code;
use url::Url;

use super::everywhere::read_everywhere;
use super::in_place::undone;
use super::pin::QueryPin;
use crate::error::{AskError, failed_query};
use crate::node::{Link, Node};

/// Plans with the distributed engine, and keeps what is needed to plan again.
#[derive(Clone)]
pub struct Coordinator {
    pub node: Arc<Node>,
    pub inner: Arc<dyn QueryPlanner + Send + Sync>,
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coordinator")
    }
}

#[async_trait]
impl QueryPlanner for Coordinator {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.plan(logical, session).await?;
        if !plan.is::<DistributedExec>() {
            if plan.exists(|part| Ok(part.is::<DistributedExec>()))? {
                // A query that is analyzed: each node puts its accounts into its own parts.
                return Ok(plan);
            }
            // What runs here alone has this machine's accounts, as on a machine without a cluster.
            let options = session.config_options();
            return self
                .node
                .parts_session()
                .worker_plan(undone(plan)?, options);
        }
        self.node.count_query();
        let state = session.as_any().downcast_ref::<SessionState>();
        let again = state.filter(|_| only_reads(logical)).map(|state| Again {
            coordinator: self.clone(),
            logical: logical.clone(),
            state: state.clone(),
        });
        Ok(Arc::new(CoordinatedExec {
            node: Arc::clone(&self.node),
            pin: pin_of(session),
            input: plan,
            again: again.map(Arc::new),
        }))
    }
}

impl Coordinator {
    /// The plan for all nodes, or for this one where it needs no other.
    async fn plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.inner.create_physical_plan(logical, session).await?;
        let plan = read_everywhere(plan)?;
        let crosses = plan.exists(|part| Ok(part.is_network_boundary()))?;
        match plan.children()[..] {
            [alone] if plan.is::<DistributedExec>() && !crosses => Ok(Arc::clone(alone)),
            _ => Ok(plan),
        }
    }
}

/// The state that the scans of a statement read, if they read one of the cluster.
fn pin_of(session: &dyn Session) -> Option<Arc<QueryPin>> {
    let cell = session.config().get_extension::<StatementPin>()?;
    Arc::clone(cell.0.get()?).downcast().ok()
}

/// What a plan runs in, which tells its pin.
fn with_pin(context: &TaskContext, pin: &Arc<QueryPin>) -> Result<TaskContext> {
    let mut config = context.session_config().clone();
    config.set_extension(Arc::clone(pin));
    if pin.is_without_some() {
        // Several tasks of a stage may run here. Handed over in memory, they would share their operators, which are for
        // one task: this node sends itself plans as it sends them to others, since it is not at this address.
        let elsewhere = Url::parse("https://elsewhere.invalid")
            .map_err(|error| failed_query(error.to_string()))?;
        let worker = pin.node.worker()?;
        config.set_distributed_local_worker_context(worker.to_local_worker_context(elsewhere));
    }
    Ok(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    ))
}

/// Whether a plan may be run twice.
fn only_reads(plan: &LogicalPlan) -> bool {
    let writes = plan.exists(|part| {
        Ok(matches!(
            part,
            LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Ddl(_)
        ))
    });
    writes.is_ok_and(|writes| !writes)
}

/// How a query is planned once more.
struct Again {
    coordinator: Coordinator,
    logical: LogicalPlan,
    state: SessionState,
}

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Again")
    }
}

impl Again {
    /// The plan over the nodes that answer now.
    async fn plan(&self) -> Result<CoordinatedExec> {
        let mut state = self.state.clone();
        state
            .config_mut()
            .set_extension(Arc::new(StatementPin::default()));
        let input = self.coordinator.plan(&self.logical, &state).await?;
        Ok(CoordinatedExec {
            node: Arc::clone(&self.coordinator.node),
            pin: pin_of(&state),
            input,
            again: None,
        })
    }
}

/// The whole of a distributed query.
#[derive(Debug, Clone)]
struct CoordinatedExec {
    node: Arc<Node>,
    /// The state that is read.
    pin: Option<Arc<QueryPin>>,
    input: Arc<dyn ExecutionPlan>,
    /// How it is run once more, where it may be.
    again: Option<Arc<Again>>,
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
            input: children.swap_remove(0),
            ..Self::clone(&self)
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.begin(partition, &context)?;
        let schema = rows.schema();
        let running = Running {
            query: self.clone(),
            partition,
            context,
            rows,
            has_given: false,
        };
        // Nothing comes behind an error. The query has the pin of the state that is read.
        let rows = stream::try_unfold(running, |mut running| async move {
            let batch = running.next().await?;
            Ok(batch.map(|batch| (batch, running)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

impl CoordinatedExec {
    fn begin(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let context = match &self.pin {
            Some(pin) => Arc::new(with_pin(context, pin)?),
            None => Arc::clone(context),
        };
        self.input.execute(partition, context)
    }

    /// How the query is run once more, from its beginning, if it may be.
    fn once_more(&self) -> Option<Arc<Again>> {
        // Rows of one partition would be of another state than those of the others.
        let is_one = self.input.output_partitioning().partition_count() == 1;
        self.again.clone().filter(|_| is_one)
    }
}

/// A query that runs.
struct Running {
    query: CoordinatedExec,
    partition: usize,
    context: Arc<TaskContext>,
    rows: SendableRecordBatchStream,
    /// Whether somebody has rows of it.
    has_given: bool,
}

impl Running {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let error = match self.rows.try_next().await {
            Ok(batch) => {
                self.has_given |= batch.as_ref().is_some_and(|batch| batch.num_rows() > 0);
                return Ok(batch);
            }
            Err(error) => error,
        };
        let node = Arc::clone(&self.query.node);
        let lost = lost_since(&node, self.query.pin.as_deref()).await;
        let is_lost = !lost.is_empty() || is_of_connection(&error);
        let may_begin_again = is_lost && !self.has_given;
        if let Some(again) = self.query.once_more().filter(|_| may_begin_again) {
            tracing::warn!(%error, ?lost, "a query is run again without what was lost");
            node.count_retry();
            self.query = again.plan().await?;
            self.rows = self.query.begin(self.partition, &self.context)?;
            return Box::pin(self.next()).await;
        }
        node.count_failure();
        Err(named(error, &lost))
    }
}

/// A node that a query has lost.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lost {
    /// It does not answer.
    Silent(String),
    /// It was started again since, and knows nothing of the query.
    Restarted(String),
}

/// The nodes that take part in a query and have not its plans any more, or can't be asked.
async fn lost_since(node: &Node, pin: Option<&QueryPin>) -> Vec<Lost> {
    let own = node.hello().await;
    let taking_part = node.links().iter().enumerate().filter_map(|(index, link)| {
        let life = match pin.map(|pin| &pin.nodes[index]) {
            Some(Ok(pinned)) => Some(pinned.life),
            Some(Err(_)) => return None,
            None => None,
        };
        (index != node.me()).then_some((link, life))
    });
    let own = &own;
    let asked = taking_part.map(|(link, life)| async move {
        let name = || format!("`{}` at {}", link.name(), link.address());
        match link.hello(own).await {
            Err(AskError::Silent { .. }) => Some(Lost::Silent(name())),
            Ok(hello) if life.is_some_and(|life| life != hello.life) => {
                Some(Lost::Restarted(name()))
            }
            _ => None,
        }
    });
    let lost = futures::future::join_all(asked).await;
    lost.into_iter().flatten().collect()
}

/// Whether a connection between nodes has broken, as it does to one that is there and too busy to answer in time.
fn is_of_connection(error: &DataFusionError) -> bool {
    // Other nodes send their errors as texts.
    error.to_string().contains(Code::Unavailable.description())
}

/// The error of a query that was not run again, or not to its end, because of those nodes.
fn named(error: DataFusionError, lost: &[Lost]) -> DataFusionError {
    let silent = lost.iter().filter_map(|lost| match lost {
        Lost::Silent(name) => Some(name.as_str()),
        Lost::Restarted(_) => None,
    });
    let silent = silent.collect::<Vec<_>>().join(" and ");
    match silent.is_empty() {
        true => error,
        false => failed_query(format!(
            "node {silent} does not answer: repeat the query, or start the node again where its rows are on no other"
        )),
    }
}
