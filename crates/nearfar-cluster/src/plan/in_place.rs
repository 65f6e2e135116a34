//! Joins where the rows are: both sides are divided among the nodes by the columns that they are joined by, so that no
//! row has to go to another node.
//!
//! The distributed engine cuts a plan where it finds a [`RepartitionExec`] by hash. The two of such a join are put into
//! an [`InPlaceExec`] each, which it does not know: the join stays in one stage with its leaves, and each task of it
//! divides its node's rows among its own partitions only.
//!
//! The rows of a stage that is made so are on other nodes than the engine's own hash would put them. Nothing above the
//! join, up to the next exchange of rows, may count on that: a join in place stands only below operators with one input
//! and joins that take one side as a whole.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode,
};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};
use std::fmt;
use std::sync::Arc;

use super::leaf::ClusterScan;
use crate::home::TableHome;

type Plan = Arc<dyn ExecutionPlan>;

/// Divides the rows of one task among the partitions of that task, by the hash of columns.
#[derive(Debug)]
pub struct InPlaceExec(RepartitionExec);

impl InPlaceExec {
    /// # Errors
    /// A column that the input does not have.
    pub fn try_new(input: Plan, columns: Vec<Column>, partitions: usize) -> Result<Self> {
        let columns = columns.into_iter().map(|column| Arc::new(column) as _);
        let hash = Partitioning::Hash(columns.collect(), partitions);
        Ok(Self(RepartitionExec::try_new(input, hash)?))
    }

    /// The columns, and the number of partitions.
    pub fn hash(&self) -> (Vec<Column>, usize) {
        let partitions = self.0.partitioning().partition_count();
        (hash_columns(&self.0).unwrap_or_default(), partitions)
    }

    /// The same, as everybody knows it.
    pub fn repartition(&self) -> Result<RepartitionExec> {
        let input = Arc::clone(self.0.input());
        RepartitionExec::try_new(input, self.0.partitioning().clone())
    }
}

impl DisplayAs for InPlaceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InPlaceExec: partitioning={}", self.0.partitioning())
    }
}

impl ExecutionPlan for InPlaceExec {
    fn name(&self) -> &str {
        "InPlaceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        vec![self.0.input()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Plan>) -> Result<Plan> {
        let (columns, partitions) = self.hash();
        let input = children.swap_remove(0);
        Ok(Arc::new(Self::try_new(input, columns, partitions)?))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.0.statistics_from_inputs(inputs, args)
    }
}

/// Has joins be made where rows are.
#[derive(Debug)]
pub struct InPlaceJoins;

impl PhysicalOptimizerRule for InPlaceJoins {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        rewritten(plan, true, config.execution.target_partitions)
    }

    fn name(&self) -> &str {
        "in_place_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A plan that runs on one machine, with operators that everybody knows.
pub fn undone(plan: Plan) -> Result<Plan> {
    let undone = plan.transform_up(|plan| match plan.downcast_ref::<InPlaceExec>() {
        Some(exchange) => Ok(Transformed::yes(Arc::new(exchange.repartition()?) as _)),
        None => Ok(Transformed::no(plan)),
    })?;
    Ok(undone.data)
}

/// `is_free` says that nothing above in the same stage counts on where the engine's hash would put rows.
fn rewritten(plan: Plan, is_free: bool, partitions: usize) -> Result<Plan> {
    if plan.children().is_empty() {
        return Ok(plan);
    }
    let children = plan.children().into_iter().enumerate();
    let children = children
        .map(|(index, child)| {
            let is_free = frees(&plan, index, is_free);
            rewritten(Arc::clone(child), is_free, partitions)
        })
        .collect::<Result<Vec<_>>>()?;
    let plan = replaced(&plan, limited_once(&plan, children))?;
    match is_free {
        true => joined_in_place(plan, partitions),
        false => Ok(plan),
    }
}

fn replaced(plan: &Plan, children: Vec<Plan>) -> Result<Plan> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(children, options)
}

/// The inputs of a join that takes one side as a whole, where a limit on that side is below what sends it to all tasks:
/// the engine would put the limit above, and each task would keep other rows.
fn limited_once(plan: &Plan, mut children: Vec<Plan>) -> Vec<Plan> {
    if collects_left(plan)
        && let Some(gathered) = children[0].downcast_ref::<CoalescePartitionsExec>()
        && let Some(fetch) = gathered.fetch()
    {
        let left = Arc::clone(&children[0]);
        children[0] = Arc::new(GlobalLimitExec::new(left, 0, Some(fetch)));
    }
    children
}

/// Whether an operator has all rows of its first input before any of the second one.
fn collects_left(plan: &Plan) -> bool {
    match plan.downcast_ref::<HashJoinExec>() {
        Some(join) => join.mode == PartitionMode::CollectLeft,
        None => plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>(),
    }
}

/// What `is_free` is for an input of `plan`.
fn frees(plan: &Plan, input: usize, is_free: bool) -> bool {
    if let Some(exchange) = plan.downcast_ref::<RepartitionExec>() {
        return is_free || matches!(exchange.partitioning(), Partitioning::Hash(..));
    }
    if plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>() {
        return true;
    }
    match (collects_left(plan), plan.children().len()) {
        (true, _) => input == 0 || is_free,
        (false, 1) => is_free,
        (false, _) => false,
    }
}

/// The same, in place if it is a join of rows that are: also one that would send all of one side to every node.
fn joined_in_place(plan: Plan, partitions: usize) -> Result<Plan> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
        return Ok(plan);
    };
    let sides = match join.mode {
        _ if join.null_aware => None,
        PartitionMode::Partitioned => divided(join),
        PartitionMode::CollectLeft => collected(join),
        PartitionMode::Auto => None,
    };
    let Some([left, right]) = sides else {
        return Ok(plan);
    };
    let right_homes = homes(&right);
    let mut left_homes = homes(&left).into_iter();
    let is_there = left_homes.any(|home| right_homes.iter().any(|other| meet(join, &home, other)));
    let (true, Some([left_keys, right_keys])) = (is_there, key_columns(join)) else {
        return Ok(plan);
    };
    let children: Vec<Plan> = vec![
        Arc::new(InPlaceExec::try_new(left, left_keys, partitions)?),
        Arc::new(InPlaceExec::try_new(right, right_keys, partitions)?),
    ];
    let joined = join
        .builder()
        .with_partition_mode(PartitionMode::Partitioned);
    Ok(Arc::new(joined.with_new_children(children)?.build()?))
}

/// What is below the exchanges of a join whose sides are divided by their keys.
fn divided(join: &HashJoinExec) -> Option<[Plan; 2]> {
    let below = |plan| hashed(plan).map(|exchange| Arc::clone(exchange.input()));
    Some([below(join.left())?, below(join.right())?])
}

/// The sides of a join that has all rows of the left one before any of the right one.
fn collected(join: &HashJoinExec) -> Option<[Plan; 2]> {
    let left = match join.left().downcast_ref::<CoalescePartitionsExec>() {
        Some(gathered) if gathered.fetch().is_none() => gathered.input(),
        Some(_) => return None,
        None => join.left(),
    };
    Some([Arc::clone(left), Arc::clone(join.right())])
}

/// The columns that a join is by, if they are columns.
fn key_columns(join: &HashJoinExec) -> Option<[Vec<Column>; 2]> {
    let column = |key: &Arc<dyn PhysicalExpr>| key.downcast_ref::<Column>().cloned();
    let columns = join.on().iter();
    let columns = columns.map(|(left, right)| Some((column(left)?, column(right)?)));
    let (left, right) = columns.collect::<Option<Vec<_>>>()?.into_iter().unzip();
    Some([left, right])
}

/// An exchange of rows by the hash of columns, without an order that it keeps.
fn hashed(plan: &Plan) -> Option<&RepartitionExec> {
    let exchange = plan.downcast_ref::<RepartitionExec>()?;
    hash_columns(exchange)?;
    (!exchange.preserve_order()).then_some(exchange)
}

fn hash_columns(exchange: &RepartitionExec) -> Option<Vec<Column>> {
    match exchange.partitioning() {
        Partitioning::Hash(keys, _) => keys
            .iter()
            .map(|key| key.downcast_ref::<Column>().cloned())
            .collect(),
        _ => None,
    }
}

/// Whether rows of both sides that are joined are on one node, where the columns `left` and `right` tell their nodes.
fn meet(join: &HashJoinExec, left: &[usize], right: &[usize]) -> bool {
    let (left_schema, right_schema) = (join.left().schema(), join.right().schema());
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| {
            let (one, other) = (left_schema.field(*left), right_schema.field(*right));
            let is_key = join
                .on()
                .iter()
                .any(|(l, r)| index(l) == Some(*left) && index(r) == Some(*right));
            is_key && one.data_type() == other.data_type() && has_one_text(one.data_type())
        })
}

/// Whether equal values have equal texts, by which rows are divided.
fn has_one_text(kind: &DataType) -> bool {
    kind.is_integer()
        || matches!(
            kind,
            DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Boolean
                | DataType::Date32
                | DataType::Decimal128(..)
                | DataType::Timestamp(..)
        )
}

fn index(key: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    Some(key.downcast_ref::<Column>()?.index())
}

/// By which columns the rows of a plan are divided among the nodes, as their keys say: each of the possible answers.
fn homes(plan: &Plan) -> Vec<Vec<usize>> {
    if let Some(scan) = plan.downcast_ref::<ClusterScan>() {
        return home_of(scan).into_iter().collect();
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return homes_of_join(join);
    }
    let inputs = plan.children();
    let [input] = inputs[..] else {
        return Vec::new();
    };
    let homes = homes(input);
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return moved(homes, |column| match filter.projection() {
            Some(projection) => projection.iter().position(|kept| *kept == column),
            None => Some(column),
        });
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let kept: Vec<_> = projection
            .expr()
            .iter()
            .map(|one| index(&one.expr))
            .collect();
        return moved(homes, |column| {
            kept.iter().position(|kept| *kept == Some(column))
        });
    }
    if let Some(groups) = plan.downcast_ref::<AggregateExec>() {
        let groups = groups.group_expr();
        let kept: Vec<_> = groups.expr().iter().map(|(key, _)| index(key)).collect();
        return match groups.is_single() {
            true => moved(homes, |column| {
                kept.iter().position(|kept| *kept == Some(column))
            }),
            false => Vec::new(),
        };
    }
    let stays = match plan.downcast_ref::<RepartitionExec>() {
        Some(exchange) => matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_)),
        None => plan.is::<InPlaceExec>() || plan.is::<CooperativeExec>(),
    };
    if stays { homes } else { Vec::new() }
}

/// The columns of a leaf by which its table is divided, if it has all of them.
fn home_of(scan: &ClusterScan) -> Option<Vec<usize>> {
    let TableHome::Distributed { columns, .. } = scan.node.home(&scan.table)? else {
        return None;
    };
    let schema = scan.schema();
    let indices = columns.iter().map(|column| schema.index_of(column).ok());
    indices.collect()
}

fn homes_of_join(join: &HashJoinExec) -> Vec<Vec<usize>> {
    use JoinType::{Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
    let kind = *join.join_type();
    let is_in_place = join.left().is::<InPlaceExec>() && join.right().is::<InPlaceExec>();
    let collects_left = join.mode == PartitionMode::CollectLeft;
    let mut all = Vec::new();
    if is_in_place && matches!(kind, Inner | Left | LeftSemi | LeftAnti) {
        all.extend(homes(join.left()));
    }
    if (is_in_place || collects_left) && matches!(kind, Inner | Right | RightSemi | RightAnti) {
        let before = match kind {
            Inner | Right => join.left().schema().fields().len(),
            _ => 0,
        };
        all.extend(moved(homes(join.right()), |column| Some(column + before)));
    }
    moved(all, |column| match &join.projection {
        Some(projection) => projection.iter().position(|kept| *kept == column),
        None => Some(column),
    })
}

/// Homes behind an operator that has moved columns, or has left them out.
fn moved(homes: Vec<Vec<usize>>, to: impl Fn(usize) -> Option<usize>) -> Vec<Vec<usize>> {
    let moved = homes
        .into_iter()
        .map(|home| home.into_iter().map(&to).collect::<Option<Vec<_>>>());
    moved.flatten().collect()
}
