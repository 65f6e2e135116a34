//! Hash joins by keys of 64 bits, with the table of `nearfar-kernels`.
//!
//! [`KeyJoins`] puts a [`KeyJoinExec`] in the place of DataFusion's hash join where all columns of the key are integers,
//! dates, times or decimals of 18 digits at most. It differs in its table, of which a lookup is one cache line that is asked
//! for some lookups ahead ([`JoinTable`](nearfar_kernels::JoinTable)), so that it may be on a tier that is far, and
//! in what it tells the scan of its probe side ([`pushed`]). Several columns are one number by the ranges of their
//! values; where these are too large for that, which only the rows tell, DataFusion's join goes on with what was
//! collected.

mod build;
mod keys;
mod members;
mod probe;
mod pushed;
mod rule;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, Statistics, internal_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::joins::utils::ColumnIndex;
use datafusion::physical_plan::joins::{HashJoinExec, HashJoinExecBuilder, PartitionMode};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::future::{BoxFuture, FutureExt, Shared};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

use crate::datafusion_names::HASH_JOIN_BUILD;
use build::{BuildSide, Collect};
use probe::{Prober, Shape, gives_marked};
use pushed::{Announcement, ListMax, PushedFilter};
pub use rule::KeyJoins;

/// A hash join by keys of 64 bits. To rules it is the [`HashJoinExec`] that it stands for.
#[derive(Debug)]
pub struct KeyJoinExec {
    join: Arc<HashJoinExec>,
    /// Whether keys are looked for in a filter before the table.
    is_filtered: bool,
    shape: Mutex<Option<Arc<Shape>>>,
    /// The build side of all partitions, where they have one together.
    collected: Mutex<Option<Collected>>,
    pushed: Mutex<Option<Arc<PushedFilter>>>,
    metrics: ExecutionPlanMetricsSet,
}

/// A build side that several streams wait for.
type Collected = Shared<BoxFuture<'static, Result<Arc<BuildSide>, Arc<DataFusionError>>>>;

impl KeyJoinExec {
    /// `join` by the kernels; `is_filtered` where its table is on a tier that is far.
    fn new(join: Arc<HashJoinExec>, is_filtered: bool) -> Self {
        Self {
            join,
            is_filtered,
            shape: Mutex::default(),
            collected: Mutex::default(),
            pushed: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same over another join.
    fn over(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        match plan.downcast_ref::<HashJoinExec>() {
            Some(join) => {
                let join = join.builder().build()?;
                Ok(Arc::new(Self::new(Arc::new(join), self.is_filtered)))
            }
            None => internal_err!("a hash join became {}", plan.name()),
        }
    }

    fn keys(&self) -> (Vec<PhysicalExprRef>, Vec<PhysicalExprRef>) {
        self.join.on().iter().cloned().unzip()
    }

    fn is_shared(&self) -> bool {
        *self.join.partition_mode() == PartitionMode::CollectLeft
    }

    fn shape(&self, batch_rows: usize) -> Arc<Shape> {
        let mut shape = self.shape.lock();
        let made = shape.get_or_insert_with(|| {
            Arc::new(Shape {
                join_type: *self.join.join_type(),
                keys: self.keys().1,
                filter: self.join.filter().cloned(),
                schema: self.schema(),
                columns: columns(&self.join),
                batch_rows,
            })
        });
        Arc::clone(made)
    }

    /// What to tell the probe side, if it asks: one of its scans has the filter.
    fn pushed(&self, context: &TaskContext) -> Option<Arc<PushedFilter>> {
        let mut pushed = self.pushed.lock();
        if pushed.is_none() {
            let produced = self
                .join
                .dynamic_expressions_produced()
                .into_iter()
                .next()?;
            let filter = Arc::downcast::<DynamicFilterPhysicalExpr>(produced).ok()?;
            if !filter
                .expression_id()
                .is_some_and(|id| reads(self.join.right(), id))
            {
                return None;
            }
            let partitions = match self.is_shared() {
                true => 1,
                false => self.join.left().output_partitioning().partition_count(),
            };
            let (keys, schema) = (self.keys().1, self.join.right().schema());
            let memory = MemoryConsumer::new("JoinKeys").register(context.memory_pool());
            let made = PushedFilter::new(filter, keys, schema, partitions, memory);
            *pushed = Some(Arc::new(made));
        }
        pushed.clone()
    }

    /// The build side of one partition, being collected.
    fn collect(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<BoxFuture<'static, Result<BuildSide>>> {
        let (input, probes) = match self.is_shared() {
            true => (0, self.join.right().output_partitioning().partition_count()),
            false => (partition, 1),
        };
        let announcement = self.pushed(context).map(|filter| {
            let list_max = ListMax::of(context.session_config().options());
            Announcement::new(filter, list_max)
        });
        let rows = self.join.left().execute(input, Arc::clone(context))?;
        let memory = MemoryConsumer::new(format!("{HASH_JOIN_BUILD}[{input}]"))
            .register(context.memory_pool());
        let how = Collect {
            schema: self.join.left().schema(),
            keys: self.keys().0,
            marks: gives_marked(*self.join.join_type()).is_some(),
            is_filtered: self.is_filtered,
            probes,
        };
        let time = MetricBuilder::new(&self.metrics).subset_time("build_time", partition);
        let row_count = MetricBuilder::new(&self.metrics).counter("build_input_rows", partition);
        let collected = async move {
            let timer = time.timer();
            let build = BuildSide::collect(rows, memory, &how).await?;
            timer.done();
            row_count.add(build.batch().num_rows());
            if let Some(announcement) = announcement {
                announcement.announce(build.key_columns().to_vec()).await?;
            }
            Ok(build)
        };
        Ok(collected.boxed())
    }

    /// The build side that a partition looks its rows up in, the same one for all where they share it.
    fn build_side(&self, partition: usize, context: &Arc<TaskContext>) -> Result<Collected> {
        let begin = || {
            let collected = self.collect(partition, context)?;
            let collected = collected.map(|build| build.map(Arc::new).map_err(Arc::new));
            Ok(collected.boxed().shared())
        };
        if !self.is_shared() {
            return begin();
        }
        let mut collected = self.collected.lock();
        let made = match collected.take() {
            Some(made) => made,
            None => begin()?,
        };
        Ok(collected.insert(made).clone())
    }
}

/// Whether an operator of `plan` has the filter of this number.
fn reads(plan: &Arc<dyn ExecutionPlan>, id: u64) -> bool {
    let mut is_found = false;
    let visited = plan.apply(|node| {
        node.apply_expressions(&mut |expression| {
            is_found |= expression.exists(|part| Ok(part.expression_id() == Some(id)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match is_found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    });
    is_found && visited.is_ok()
}

/// DataFusion's join of what was collected, for keys that are no number of 64 bits.
fn joined_otherwise(
    join: &HashJoinExec,
    partition: usize,
    build: &RecordBatch,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let partitions = match join.partition_mode() {
        PartitionMode::CollectLeft => 1,
        _ => join.left().output_partitioning().partition_count(),
    };
    let mut rows = vec![Vec::new(); partitions];
    rows[if partitions == 1 { 0 } else { partition }].push(build.clone());
    let left = MemorySourceConfig::try_new_exec(&rows, join.left().schema(), None)?;
    let (right, on) = (Arc::clone(join.right()), join.on().to_vec());
    let projection = join.projection.as_ref().map(|columns| columns.to_vec());
    let other = HashJoinExecBuilder::new(left, right, on, *join.join_type())
        .with_filter(join.filter().cloned())
        .with_projection(projection)
        .with_partition_mode(*join.partition_mode())
        .with_null_equality(join.null_equality())
        .build()?;
    other.execute(partition, Arc::clone(context))
}

/// Where each column of a join's result comes from.
fn columns(join: &HashJoinExec) -> Vec<ColumnIndex> {
    let of = |side, count: usize| (0..count).map(move |index| ColumnIndex { index, side });
    let left = of(JoinSide::Left, join.left().schema().fields().len());
    let right = of(JoinSide::Right, join.right().schema().fields().len());
    let all: Vec<ColumnIndex> = match join.join_type() {
        JoinType::LeftSemi | JoinType::LeftAnti => left.collect(),
        JoinType::RightSemi | JoinType::RightAnti => right.collect(),
        _ => left.chain(right).collect(),
    };
    match &join.projection {
        Some(projection) => projection.iter().map(|at| all[*at].clone()).collect(),
        None => all,
    }
}

/// The rows of one partition, once the build side is there.
async fn rows(
    join: Arc<HashJoinExec>,
    partition: usize,
    (shape, build): (Arc<Shape>, Collected),
    metrics: BaselineMetrics,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let build = build.await.map_err(DataFusionError::Shared)?;
    if build.table().is_none() {
        return joined_otherwise(&join, partition, build.batch(), &context);
    }
    let input = join.right().execute(partition, context)?;
    let schema = Arc::clone(&shape.schema);
    let prober = Prober::new(shape, Arc::clone(&build), input, metrics);
    let rows = stream::try_unfold(
        (Box::new(prober), build),
        |(mut prober, build)| async move {
            let Some(table) = build.table() else {
                return Ok(None);
            };
            let batch = prober.next(table).await?;
            Ok(batch.map(|batch| (batch, (prober, build))))
        },
    );
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

impl DisplayAs for KeyJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) {
            return self.join.fmt_as(format, f);
        }
        /// As the join that it stands for.
        struct Described<'a>(&'a HashJoinExec, DisplayFormatType);
        impl fmt::Display for Described<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_as(self.1, f)
            }
        }
        let described = Described(&self.join, format).to_string();
        let described = described.trim_start_matches("HashJoinExec");
        write!(f, "KeyJoinExec{described}")?;
        match self.is_filtered {
            true => f.write_str(", filtered"),
            false => Ok(()),
        }
    }
}

impl ExecutionPlan for KeyJoinExec {
    fn name(&self) -> &'static str {
        "KeyJoinExec"
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.join.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.join.input_distribution_requirements()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(f)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.join.dynamic_expressions_produced()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let recomputed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, recomputed)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = Arc::clone(&self.join).replace_children(children, options)?;
        self.over(join)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let join = Arc::clone(&self.join).reset_state()?;
        self.over(join)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let shape = self.shape(context.session_config().batch_size());
        let schema = Arc::clone(&shape.schema);
        let build = self.build_side(partition, &context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let counted = metrics.output_rows().clone();
        let join = Arc::clone(&self.join);
        let rows = rows(join, partition, (shape, build), metrics, context);
        let rows = stream::once(rows).try_flatten().inspect_ok(move |batch| {
            counted.add(batch.num_rows());
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            rows.boxed(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.join.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.join.statistics_from_inputs(inputs, args)
    }
}
