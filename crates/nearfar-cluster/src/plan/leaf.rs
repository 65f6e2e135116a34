//! The leaf of plans: a scan of a table of the cluster, whose partitions are on nodes.

use arrow::datatypes::SchemaRef;
use arrow_flight::Ticket;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, exec_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, StatisticsArgs, StatisticsContext,
};
use datafusion_distributed::DistributedTaskContext;
use futures::{TryStreamExt, stream};
use nearfar_sql::scan::{RoutedScan, local_scan};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::codec::encoded;
use crate::error::{AskError, failed_query};
use crate::messages::{Read, Request};
use crate::node::{Heard, Node};

/// Whose rows some partitions of a leaf are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Share {
    /// Those of the node of this index.
    Of(usize),
    /// Those of the node that runs the leaf, which has all rows.
    Here,
    /// Nobody's: there are none.
    Nothing,
}

/// The state that a query reads on all nodes, as long as one of its plans is there.
#[derive(Debug)]
pub struct QueryPin {
    pub node: Arc<Node>,
    pub pin: u64,
    /// The rows of each table, on all nodes together.
    pub rows: std::collections::BTreeMap<String, u64>,
    /// Why there is no state of some nodes.
    pub missing: Vec<AskError>,
}

impl Drop for QueryPin {
    fn drop(&mut self) {
        self.node.unpin(self.pin);
        let (node, pin) = (Arc::clone(&self.node), self.pin);
        // Outside of a runtime, the pins of other nodes end by their age.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            for (index, link) in node.links().iter().enumerate() {
                // One that is being stopped waits for this.
                if index != node.me() && link.heard() != Heard::Nothing {
                    let _forgotten = link.ask(&Request::Unpin { pin }).await;
                }
            }
        });
    }
}

/// A scan of a table of the cluster.
#[derive(Debug, Clone)]
pub struct ClusterScan {
    pub node: Arc<Node>,
    pub table: String,
    pub scan: RoutedScan,
    /// The number of the state that is read.
    pub pin: u64,
    /// The same, on the node that plans.
    pub pinned: Option<Arc<QueryPin>>,
    pub shares: Vec<Share>,
    /// Partitions of each share.
    pub width: usize,
    /// Rows of the table on all nodes, as far as is known.
    pub rows: Option<u64>,
    /// The task of the stage that this leaf is for, and how many there are; nothing where it may run anywhere.
    pub task: Option<(usize, usize)>,
    local: Arc<OnceLock<Arc<dyn ExecutionPlan>>>,
    properties: Arc<PlanProperties>,
}

/// All that a leaf is made of.
pub struct ScanParts {
    pub table: String,
    pub scan: RoutedScan,
    pub pin: u64,
    pub shares: Vec<Share>,
    pub width: usize,
    pub task: Option<(usize, usize)>,
}

impl ClusterScan {
    /// # Errors
    /// A table or column that this node does not have.
    pub fn try_new(node: &Arc<Node>, parts: ScanParts) -> Result<Self> {
        let local = node.table(&parts.table)?;
        let schema = Arc::new(local.table.schema().project(&parts.scan.projection)?);
        Ok(Self {
            node: Arc::clone(node),
            table: parts.table,
            scan: parts.scan,
            pin: parts.pin,
            pinned: None,
            properties: properties(&schema, parts.shares.len() * parts.width),
            shares: parts.shares,
            width: parts.width,
            rows: None,
            task: parts.task,
            local: Arc::default(),
        })
    }

    /// The same scan of other shares, for a task. Tasks hold no pin: workers keep their plans for longer than queries
    /// run.
    pub fn of_shares(&self, shares: Vec<Share>, task: Option<(usize, usize)>) -> Self {
        Self {
            properties: properties(&self.schema(), shares.len() * self.width),
            shares,
            task,
            pinned: None,
            local: Arc::default(),
            ..self.clone()
        }
    }

    /// The rows of one partition of this node's own rows.
    fn own_rows(
        &self,
        part: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let plan = match self.local.get() {
            Some(plan) => plan,
            None => {
                let plan = self.local_plan()?;
                self.local.get_or_init(|| plan)
            }
        };
        match part < plan.output_partitioning().partition_count() {
            true => plan.execute(part, context),
            false => Ok(Box::pin(EmptyRecordBatchStream::new(self.schema()))),
        }
    }

    fn local_plan(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let local = self.node.table(&self.table)?;
        let pinned = self.node.pinned(self.pin)?;
        let snapshot = pinned.snapshot.table(&local.table).cloned();
        let snapshot = snapshot.ok_or_else(|| {
            failed_query(format!(
                "table `{}` was made after the query began",
                self.table
            ))
        })?;
        let costs = self.node.engine().costs();
        local_scan(&local.table, snapshot, self.scan.clone(), self.width, costs)
    }

    /// The rows of one partition of another node's rows, where a plan can't be run where they are.
    fn others_rows(&self, owner: usize, part: usize) -> Result<SendableRecordBatchStream> {
        let there = self.of_shares(vec![Share::Of(owner)], None);
        let read = Read {
            plan: encoded(&there)?,
            partition: part,
        };
        let ticket = serde_json::to_vec(&read).map_err(|error| failed_query(error.to_string()))?;
        let link = self.node.link(owner).clone();
        let rows = async move {
            let asked = link.flight().do_get(Ticket::new(ticket)).await;
            let data = asked.map_err(|status| link.lost(&status))?.into_inner();
            let data = data.map_err(|status| FlightError::Tonic(Box::new(status)));
            let rows = FlightRecordBatchStream::new_from_flight_data(data);
            Result::<_>::Ok(
                rows.map_err(move |error| failed_query(format!("node `{}`: {error}", link.name()))),
            )
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

fn properties(schema: &SchemaRef, partitions: usize) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(Arc::clone(schema)),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

impl DisplayAs for ClusterScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<&str> = self
            .shares
            .iter()
            .map(|share| match share {
                Share::Of(node) => self.node.name_of(*node),
                Share::Here => "here",
                Share::Nothing => "none",
            })
            .collect();
        let schema = self.schema();
        let columns: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let (nodes, columns) = (nodes.join(", "), columns.join(", "));
        write!(
            f,
            "ClusterScan: table={}, nodes=[{nodes}], columns=[{columns}]",
            self.table
        )?;
        let filters: Vec<String> = self.scan.filters.iter().map(ToString::to_string).collect();
        if !filters.is_empty() {
            write!(f, ", filters=[{}]", filters.join(", "))?;
        }
        self.scan
            .fetch
            .map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
    }
}

impl ExecutionPlan for ClusterScan {
    fn name(&self) -> &str {
        "ClusterScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in &self.scan.filters {
            if f(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if let Some((task, tasks)) = self.task {
            let running = DistributedTaskContext::from_ctx(&context);
            // Another task would read rows twice, or not at all.
            if (running.task_index, running.task_count) != (task, tasks) {
                return exec_err!(
                    "the scan of task {task} of {tasks} of `{}` runs as task {} of {}",
                    self.table,
                    running.task_index,
                    running.task_count
                );
            }
        }
        let part = partition % self.width;
        match self.shares.get(partition / self.width) {
            Some(Share::Here) => self.own_rows(part, context),
            Some(Share::Of(owner)) if *owner == self.node.me() => self.own_rows(part, context),
            Some(Share::Of(owner)) => self.others_rows(*owner, part),
            Some(Share::Nothing) | None => Ok(Box::pin(EmptyRecordBatchStream::new(self.schema()))),
        }
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Ok(local) = self.local_plan() {
            statistics = StatisticsContext::new()
                .compute(local.as_ref(), &StatisticsArgs::new())?
                .as_ref()
                .clone()
                .to_inexact();
            let own = self.node.table(&self.table)?.table.snapshot().rows().max(1);
            // This node's rows stand for those of all.
            let share = self.rows.map_or(1.0, |rows| rows as f64 / own as f64);
            let scaled = |rows: &Precision<usize>| match rows {
                Precision::Exact(rows) | Precision::Inexact(rows) => {
                    Precision::Inexact((*rows as f64 * share).round() as usize)
                }
                Precision::Absent => Precision::Absent,
            };
            statistics.num_rows = scaled(&statistics.num_rows);
            statistics.total_byte_size = scaled(&statistics.total_byte_size);
        }
        if args.partition().is_some() {
            let partitions = self.shares.len() * self.width;
            statistics.num_rows = statistics.num_rows.map(|rows| rows / partitions.max(1));
        }
        Ok(Arc::new(statistics))
    }
}
