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
use datafusion::common::{Statistics, internal_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, HashJoinExecBuilder, PartitionMode};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan,
    ExecutionPlanProperties, InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::future::{BoxFuture, FutureExt, Shared};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

use super::{described, evaluate};
use crate::datafusion_names::HASH_JOIN_BUILD;
use build::{BuildSide, Purpose, ROWS_MAX, collected};
use keys::Packing;
use probe::{Prober, Shape, gives_marked};
use pushed::{Announcement, ListMax, PushedFilter};
pub use rule::KeyJoins;

/// A hash join by keys of 64 bits. To rules it is the [`HashJoinExec`] that it stands for, but that its rows come in no
/// order.
#[derive(Debug)]
pub struct KeyJoinExec {
    join: Arc<HashJoinExec>,
    properties: Arc<PlanProperties>,
    /// Whether keys are looked for in a filter before the table.
    is_filtered: bool,
    shape: Mutex<Option<Arc<Shape>>>,
    /// The build side of all partitions, where they have one together.
    collected: Mutex<Option<Collected>>,
    pushed: Mutex<Option<Arc<PushedFilter>>>,
    metrics: ExecutionPlanMetricsSet,
}

/// What streams of the probe side look their rows up in.
#[derive(Debug, Clone)]
enum Built {
    ByKey(Arc<BuildSide>),
    /// DataFusion's join of what was collected: keys are no number of 64 bits, or rows are too many.
    Otherwise(Arc<HashJoinExec>),
}

/// A build side that several streams wait for.
type Collected = Shared<BoxFuture<'static, Result<Built, Arc<DataFusionError>>>>;

impl KeyJoinExec {
    /// `join` by the kernels; `is_filtered` where its table is on a tier that is far.
    fn new(join: Arc<HashJoinExec>, is_filtered: bool) -> Self {
        Self {
            properties: without_order(&join),
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

    fn is_shared(&self) -> bool {
        *self.join.partition_mode() == PartitionMode::CollectLeft
    }

    fn shape(&self, batch_rows: usize) -> Arc<Shape> {
        let mut shape = self.shape.lock();
        let made = shape.get_or_insert_with(|| {
            Arc::new(Shape {
                join_type: *self.join.join_type(),
                keys: keys_of(&self.join).1,
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
            let (keys, schema) = (keys_of(&self.join).1, self.join.right().schema());
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
    ) -> Result<BoxFuture<'static, Result<Built>>> {
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
        let purpose = Purpose {
            marks: gives_marked(*self.join.join_type()).is_some(),
            is_filtered: self.is_filtered,
            probes,
        };
        let join = Arc::clone(&self.join);
        let time = MetricBuilder::new(&self.metrics).subset_time("build_time", partition);
        let row_count = MetricBuilder::new(&self.metrics).counter("build_input_rows", partition);
        let collected = async move {
            let batch = collected(rows, &memory, &join.left().schema()).await?;
            row_count.add(batch.num_rows());
            let _timer = time.timer();
            let (keys, _) = keys_of(&join);
            let keys = evaluate(&keys, &batch)?;
            let built = match Packing::of([&keys[..]].into_iter())? {
                Some(packing) if batch.num_rows() <= ROWS_MAX => {
                    let build = BuildSide::of(batch, &keys, packing, memory, &purpose).await?;
                    Built::ByKey(Arc::new(build))
                }
                _ => Built::Otherwise(Arc::new(joined_otherwise(&join, input, batch)?)),
            };
            if let Some(announcement) = announcement {
                announcement.announce(keys).await?;
            }
            Ok(built)
        };
        Ok(collected.boxed())
    }

    /// The build side that a partition looks its rows up in, the same one for all where they share it.
    fn build_side(&self, partition: usize, context: &Arc<TaskContext>) -> Result<Collected> {
        let begin = || {
            let collected = self.collect(partition, context)?;
            let collected = collected.map(|built| built.map_err(Arc::new));
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

/// The columns of the key, of the build side and of the probe side.
fn keys_of(join: &HashJoinExec) -> (Vec<PhysicalExprRef>, Vec<PhysicalExprRef>) {
    join.on().iter().cloned().unzip()
}

/// The properties of a join whose rows come in no order.
fn without_order(join: &HashJoinExec) -> Arc<PlanProperties> {
    let properties = join.properties();
    if properties.output_ordering().is_none() {
        return Arc::clone(properties);
    }
    let mut equivalences = properties.equivalence_properties().clone();
    equivalences.clear_orderings();
    Arc::new(properties.as_ref().clone().with_eq_properties(equivalences))
}

/// DataFusion's join with what was collected of one partition of the build side. Its own memory is asked for when it
/// runs.
fn joined_otherwise(join: &HashJoinExec, input: usize, build: RecordBatch) -> Result<HashJoinExec> {
    let partitions = join.left().output_partitioning().partition_count();
    let mut rows = vec![Vec::new(); partitions];
    rows[input].push(build);
    let left = MemorySourceConfig::try_new_exec(&rows, join.left().schema(), None)?;
    let (right, on) = (Arc::clone(join.right()), join.on().to_vec());
    let projection = join.projection.as_ref().map(|columns| columns.to_vec());
    HashJoinExecBuilder::new(left, right, on, *join.join_type())
        .with_filter(join.filter().cloned())
        .with_projection(projection)
        .with_partition_mode(*join.partition_mode())
        .with_null_equality(join.null_equality())
        .build()
}

/// Where each column of a join's result comes from.
fn columns(join: &HashJoinExec) -> Vec<ColumnIndex> {
    let (left, right) = (join.left().schema(), join.right().schema());
    let (_, all) = build_join_schema(&left, &right, join.join_type());
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
    let build = match build.await.map_err(DataFusionError::Shared)? {
        Built::ByKey(build) => build,
        Built::Otherwise(join) => return join.execute(partition, context),
    };
    // Also where none of its rows are wanted: other readers of what is shared below do not wait for this one then.
    let input = join.right().execute(partition, context)?;
    let schema = Arc::clone(&shape.schema);
    if build.batch().num_rows() == 0 && shape.needs_build_rows() {
        return Ok(Box::pin(EmptyRecordBatchStream::new(schema)));
    }
    let prober = Prober::new(shape, build, input, metrics);
    let rows = stream::try_unfold(Box::new(prober), |mut prober| async move {
        let batch = prober.next().await?;
        Ok(batch.map(|batch| (batch, prober)))
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

impl DisplayAs for KeyJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) {
            return self.join.fmt_as(format, f);
        }
        let described = described(self.join.as_ref(), format);
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
        &self.properties
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
        let join = Arc::clone(&self.join);
        let rows = rows(join, partition, (shape, build), metrics, context);
        let rows = stream::once(rows).try_flatten();
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
