//! The leaf of plans: a scan of a table of the cluster, whose partitions are on nodes.

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, exec_err};
use datafusion::error::{DataFusionError, Result};
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
use super::pin::QueryPin;
use crate::error::failed_query;
use crate::home::rank;
use crate::messages::Read;
use crate::node::Node;

/// Whose rows some partitions of a leaf are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Share {
    /// Those that belong to the node of this index.
    Of {
        /// Whose they are.
        share: usize,
        /// The node that reads them: this one, or one that has a copy.
        reader: usize,
    },
    /// Those of the node that runs the leaf, which has all rows.
    Here,
    /// Nobody's: there are none.
    Nothing,
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
    /// How this node reads each of the shares, once it does.
    local: Arc<[OnceLock<Arc<dyn ExecutionPlan>>]>,
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
            local: unread(&parts.shares),
            shares: parts.shares,
            width: parts.width,
            rows: None,
            task: parts.task,
        })
    }

    /// The same scan of other shares, for a task. Tasks hold no pin: workers keep their plans for longer than queries
    /// run.
    pub fn of_shares(&self, shares: Vec<Share>, task: Option<(usize, usize)>) -> Self {
        Self {
            properties: properties(&self.schema(), shares.len() * self.width),
            local: unread(&shares),
            shares,
            task,
            pinned: None,
            ..self.clone()
        }
    }

    /// The rows of one partition of the share at place `at`, which this node keeps with this rank.
    fn own_rows(
        &self,
        at: usize,
        rank: usize,
        part: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let plan = match self.local[at].get() {
            Some(plan) => plan,
            None => {
                let plan = self.local_plan(rank)?;
                self.local[at].get_or_init(|| plan)
            }
        };
        match part < plan.output_partitioning().partition_count() {
            true => plan.execute(part, context),
            false => Ok(Box::pin(EmptyRecordBatchStream::new(self.schema()))),
        }
    }

    /// The scan of what this node keeps with this rank.
    fn local_plan(&self, rank: usize) -> Result<Arc<dyn ExecutionPlan>> {
        let local = self.node.table(&self.table)?;
        let table = local.kept(rank)?;
        let pinned = self.node.pinned(self.pin)?;
        let snapshot = pinned.snapshot.table(table).cloned();
        let snapshot = snapshot.ok_or_else(|| {
            failed_query(format!(
                "table `{}` was made after the query began",
                self.table
            ))
        })?;
        let costs = self.node.engine().costs();
        local_scan(table, snapshot, self.scan.clone(), self.width, costs)
    }

    /// The rows of one partition of a share that `reader` keeps, where a plan can't be run where they are.
    fn others_rows(
        &self,
        share: usize,
        reader: usize,
        part: usize,
    ) -> Result<SendableRecordBatchStream> {
        let there = self.of_shares(vec![Share::Of { share, reader }], None);
        let read = Read::Plan {
            plan: encoded(&there)?,
            partition: part,
        };
        let link = self.node.link(reader).clone();
        let rows = async move {
            let rows = link.read(&read).await?;
            Result::<_>::Ok(rows.map_err(DataFusionError::from))
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Room for the scans of shares, none of which has been read.
fn unread(shares: &[Share]) -> Arc<[OnceLock<Arc<dyn ExecutionPlan>>]> {
    shares.iter().map(|_| OnceLock::new()).collect()
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
        let name = |node: usize| self.node.name_of(node);
        let nodes: Vec<String> = self
            .shares
            .iter()
            .map(|share| match *share {
                Share::Of { share, reader } if share == reader => name(reader).to_owned(),
                Share::Of { share, reader } => format!("{} for {}", name(reader), name(share)),
                Share::Here => "here".to_owned(),
                Share::Nothing => "none".to_owned(),
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
        let (at, part) = (partition / self.width, partition % self.width);
        match self.shares.get(at).copied() {
            Some(Share::Here) => self.own_rows(at, 0, part, context),
            Some(Share::Of { share, reader }) if reader == self.node.me() => {
                let rank = rank(share, reader, self.node.nodes());
                self.own_rows(at, rank, part, context)
            }
            Some(Share::Of { share, reader }) => self.others_rows(share, reader, part),
            Some(Share::Nothing) | None => Ok(Box::pin(EmptyRecordBatchStream::new(self.schema()))),
        }
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Ok(local) = self.local_plan(0) {
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
