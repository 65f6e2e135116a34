//! Which subtrees of a plan give the same rows.
//!
//! Two operators are the same if all is equal that is known of them: their kind, their text, their columns,
//! partitions and order, their expressions, and what no text shows. Operators of kinds that are not listed
//! here are the same as no other, and neither is one with an expression that gives another value each time.

use datafusion::common::JoinType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::Volatility;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::displayable;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::collections::HashMap;
use std::sync::Arc;

use super::exec::SharedPlan;
use crate::optimize::varying_order;
use crate::scan::TableScan;

/// A subtree of a plan: the class of all that are equal to it, and its inputs.
#[derive(Debug)]
pub struct Subtree {
    pub class: usize,
    pub inputs: Vec<Subtree>,
}

/// The classes of equal subtrees.
#[derive(Debug, Default)]
pub struct Classes {
    classes: Vec<Class>,
    /// By the text of the operator and the classes of its inputs.
    known: HashMap<(String, Vec<usize>), Vec<usize>>,
}

#[derive(Debug)]
struct Class {
    operator: Arc<dyn ExecutionPlan>,
    /// Whether there is a join or an aggregate in it.
    is_costly: bool,
    /// Whether a filter of its columns reaches the scans in it.
    passes_filters: bool,
    /// The classes of which it is an input, and which one.
    readers: Vec<(usize, usize)>,
}

impl Classes {
    /// Finds the classes of a plan's subtrees.
    pub fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Subtree {
        let inputs = plan.children().into_iter().map(|input| self.add(input));
        let inputs: Vec<Subtree> = inputs.collect();
        let classes: Vec<usize> = inputs.iter().map(|input| input.class).collect();
        let class = self.class(plan, classes);
        Subtree { class, inputs }
    }

    fn class(&mut self, operator: &Arc<dyn ExecutionPlan>, inputs: Vec<usize>) -> usize {
        let own = self.classes.len();
        if is_comparable(operator.as_ref()) {
            let text = displayable(operator.as_ref()).one_line().to_string();
            let known = self.known.entry((text, inputs.clone())).or_default();
            let classes = &self.classes;
            let is_same =
                |class: &&usize| is_same(classes[**class].operator.as_ref(), operator.as_ref());
            if let Some(class) = known.iter().find(is_same) {
                return *class;
            }
            known.push(own);
        }
        let is_costly = inputs.iter().any(|input| self.classes[*input].is_costly);
        let of_inputs = |input: &usize| self.classes[*input].passes_filters;
        let passes_filters = passes_filters(operator.as_ref()) && inputs.iter().all(of_inputs);
        for (at, input) in inputs.into_iter().enumerate() {
            self.classes[input].readers.push((own, at));
        }
        self.classes.push(Class {
            operator: Arc::clone(operator),
            is_costly: is_costly || is_join_or_aggregate(operator.as_ref()),
            passes_filters,
            readers: Vec::new(),
        });
        own
    }

    /// What is shared, by class.
    pub fn shared(&self) -> impl Iterator<Item = Option<Arc<SharedPlan>>> {
        let mut number = 0;
        self.classes.iter().map(move |class| {
            let is_shared = class.is_costly && class.readers.len() > 1 && !self.is_looked_up(class);
            is_shared.then(|| {
                number += 1;
                SharedPlan::new(number)
            })
        })
    }

    /// Whether all readers are joins that look few keys up in it, together as well: each of them computes no more than what
    /// it asks for, if it computes it for itself.
    fn is_looked_up(&self, class: &Class) -> bool {
        let mut keys = 0;
        let all = class.passes_filters
            && class.readers.iter().all(|(reader, at)| {
                let reader = self.classes[*reader].operator.as_ref();
                let join = reader.downcast_ref::<HashJoinExec>();
                let sought = join.filter(|_| *at == 1).and_then(keys_handed_down);
                keys += sought.unwrap_or_default();
                sought.is_some()
            });
        let rows = || expected_rows(class.operator.as_ref());
        all && rows().is_some_and(|rows| keys.saturating_mul(FEW_KEYS_SHARE) <= rows)
    }
}

/// Few keys are one for so many rows, or fewer.
const FEW_KEYS_SHARE: usize = 8;

/// How many keys a join is expected to hand down to its probe side, if it does that.
fn keys_handed_down(join: &HashJoinExec) -> Option<usize> {
    let hands_down = matches!(
        join.join_type(),
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi
    );
    hands_down
        .then(|| expected_rows(join.left().as_ref()))
        .flatten()
}

fn expected_rows(plan: &dyn ExecutionPlan) -> Option<usize> {
    let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new());
    statistics.ok()?.num_rows.get_value().copied()
}

/// Whether an operator hands filters of its columns on to its inputs.
fn passes_filters(operator: &dyn ExecutionPlan) -> bool {
    operator.is::<HashJoinExec>()
        || operator.is::<FilterExec>()
        || operator.is::<ProjectionExec>()
        || operator.is::<RepartitionExec>()
        || operator.is::<CoalescePartitionsExec>()
        || operator.is::<CooperativeExec>()
        || TableScan::of(operator).is_some()
}

fn is_join_or_aggregate(operator: &dyn ExecutionPlan) -> bool {
    operator.is::<AggregateExec>()
        || operator.is::<HashJoinExec>()
        || operator.is::<SortMergeJoinExec>()
        || operator.is::<NestedLoopJoinExec>()
        || operator.is::<CrossJoinExec>()
}

/// Whether all is known of an operator that its rows depend on, and they are the same each time.
fn is_comparable(operator: &dyn ExecutionPlan) -> bool {
    let is_known = is_join_or_aggregate(operator)
        || operator.is::<FilterExec>()
        || operator.is::<ProjectionExec>()
        || operator.is::<RepartitionExec>()
        || operator.is::<CoalescePartitionsExec>()
        || operator.is::<SortPreservingMergeExec>()
        || operator.is::<SortExec>()
        || operator.is::<CooperativeExec>()
        || operator.is::<UnionExec>()
        || operator.is::<InterleaveExec>()
        || operator.is::<GlobalLimitExec>()
        || operator.is::<LocalLimitExec>()
        || operator.is::<WindowAggExec>()
        || operator.is::<BoundedWindowAggExec>()
        || varying_order(operator).is_some()
        || TableScan::of(operator).is_some();
    let expressions = is_known.then(|| expressions(operator)).flatten();
    let Some(expressions) = expressions else {
        return false;
    };
    let of_aggregates = functions(operator).into_iter().map(volatility);
    let of_windows = windows(operator)
        .iter()
        .map(|window| match of_window(window.as_ref()) {
            Some(OfWindow::Aggregate(function)) => volatility(function),
            Some(OfWindow::Other(function)) => function.fun().signature().volatility,
            None => Volatility::Volatile,
        });
    !expressions.iter().any(is_volatile)
        && of_aggregates
            .chain(of_windows)
            .all(|volatility| volatility != Volatility::Volatile)
}

fn volatility(function: &AggregateFunctionExpr) -> Volatility {
    function.fun().signature().volatility
}

/// Whether two operators of the same text, which are comparable, do the same.
fn is_same(one: &dyn ExecutionPlan, other: &dyn ExecutionPlan) -> bool {
    let places = |operator: &dyn ExecutionPlan| {
        let partitions = format!("{:?}", operator.output_partitioning());
        (partitions, operator.output_ordering().cloned())
    };
    one.name() == other.name()
        && one.schema() == other.schema()
        && places(one) == places(other)
        && expressions(one) == expressions(other)
        && varying_order(one) == varying_order(other)
        && has_same_functions(one, other)
        && has_same_windows(one, other)
        && columns_of_filter(one) == columns_of_filter(other)
        && match (TableScan::of(one), TableScan::of(other)) {
            (Some(one), Some(other)) => one.is_same(other),
            (None, None) => true,
            _ => false,
        }
}

/// The expressions of an operator; none where they can't be told.
fn expressions(operator: &dyn ExecutionPlan) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
    // A filter that such an operator makes for itself while it runs. It is not handed down yet.
    let has_own_filter = operator.is::<SortExec>() || operator.is::<AggregateExec>();
    let mut expressions = Vec::new();
    let visited = operator.apply_expressions(&mut |expr| {
        if !(has_own_filter && expr.is::<DynamicFilterPhysicalExpr>()) {
            expressions.push(Arc::clone(expr));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_ok().then_some(expressions)
}

fn functions(operator: &dyn ExecutionPlan) -> Vec<&AggregateFunctionExpr> {
    let aggregate = operator.downcast_ref::<AggregateExec>();
    let functions = aggregate.map_or(&[][..], AggregateExec::aggr_expr);
    functions.iter().map(AsRef::as_ref).collect()
}

fn has_same_functions(one: &dyn ExecutionPlan, other: &dyn ExecutionPlan) -> bool {
    let filtered = |operator: &dyn ExecutionPlan| {
        let aggregate = operator.downcast_ref::<AggregateExec>();
        let filters = aggregate.map_or(&[][..], AggregateExec::filter_expr);
        filters.iter().map(Option::is_some).collect::<Vec<_>>()
    };
    let (of_one, of_other) = (functions(one), functions(other));
    let pairs = of_one.iter().zip(&of_other);
    filtered(one) == filtered(other)
        && of_one.len() == of_other.len()
        && pairs
            .into_iter()
            .all(|(one, other)| is_same_function(one, other))
}

fn is_same_function(one: &AggregateFunctionExpr, other: &AggregateFunctionExpr) -> bool {
    let flags = |function: &AggregateFunctionExpr| {
        let is_distinct = function.is_distinct();
        (is_distinct, function.ignore_nulls(), function.is_reversed())
    };
    one == other && flags(one) == flags(other) && one.order_bys() == other.order_bys()
}

fn windows(operator: &dyn ExecutionPlan) -> &[Arc<dyn WindowExpr>] {
    let bounded = operator.downcast_ref::<BoundedWindowAggExec>();
    let whole = operator.downcast_ref::<WindowAggExec>();
    match (bounded, whole) {
        (Some(windows), _) => windows.window_expr(),
        (_, Some(windows)) => windows.window_expr(),
        _ => &[],
    }
}

/// What a window computes.
enum OfWindow<'a> {
    Aggregate(&'a AggregateFunctionExpr),
    Other(&'a WindowUDFExpr),
}

fn of_window(window: &dyn WindowExpr) -> Option<OfWindow<'_>> {
    let window = window.as_any();
    if let Some(plain) = window.downcast_ref::<PlainAggregateWindowExpr>() {
        return Some(OfWindow::Aggregate(plain.get_aggregate_expr()));
    }
    if let Some(sliding) = window.downcast_ref::<SlidingAggregateWindowExpr>() {
        return Some(OfWindow::Aggregate(sliding.get_aggregate_expr()));
    }
    let function = window.downcast_ref::<StandardWindowExpr>()?;
    let function = function.get_standard_func_expr().as_any();
    function
        .downcast_ref::<WindowUDFExpr>()
        .map(OfWindow::Other)
}

fn has_same_windows(one: &dyn ExecutionPlan, other: &dyn ExecutionPlan) -> bool {
    let (of_one, of_other) = (windows(one), windows(other));
    let mut pairs = of_one.iter().zip(of_other);
    of_one.len() == of_other.len()
        && pairs.all(|(one, other)| {
            let is_same = match (of_window(one.as_ref()), of_window(other.as_ref())) {
                (Some(OfWindow::Aggregate(one)), Some(OfWindow::Aggregate(other))) => {
                    is_same_function(one, other)
                }
                (Some(OfWindow::Other(one)), Some(OfWindow::Other(other))) => {
                    one.fun() == other.fun()
                }
                _ => false,
            };
            is_same
                && one.name() == other.name()
                && one.partition_by() == other.partition_by()
                && one.order_by() == other.order_by()
                && one.get_window_frame() == other.get_window_frame()
                && one.expressions() == other.expressions()
        })
}

/// Which columns of its inputs the filter of a join is about.
fn columns_of_filter(operator: &dyn ExecutionPlan) -> Option<String> {
    let hash = operator
        .downcast_ref::<HashJoinExec>()
        .map(HashJoinExec::filter);
    let nested = operator
        .downcast_ref::<NestedLoopJoinExec>()
        .map(NestedLoopJoinExec::filter);
    let merge = operator.downcast_ref::<SortMergeJoinExec>();
    let merge = merge.map(|join| join.filter().as_ref());
    let filter: &JoinFilter = hash.or(nested).or(merge).flatten()?;
    Some(format!(
        "{:?} {:?}",
        filter.column_indices(),
        filter.schema()
    ))
}
