//! Join ordering by cost, from the exact statistics and sampled filters of Nearfar's tables.
//!
//! Every bushy tree without cross products is considered (dynamic programming over pairs of connected sets,
//! [`for_each_pair`]). The cost of a join is what a hash join moves:
//! building the smaller side into a table costs more per row than probing it or yielding a row.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, Join, JoinConstraint, JoinType, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

use super::connected::for_each_pair;
use super::graph::{Edge, EdgeEnd, JoinGraph, Set};

/// Cost of putting a row into a hash table, relative to probing it with one.
const BUILD_COST: f64 = 3.0;

/// Cost of a yielded row, likewise.
const OUTPUT_COST: f64 = 1.0;

/// Orders chains of inner joins.
#[derive(Debug, Default)]
pub struct JoinOrder;

impl OptimizerRule for JoinOrder {
    fn name(&self) -> &'static str {
        "nearfar_join_order"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        ordered(plan)
    }
}

/// `plan` with every chain of inner joins in it ordered.
fn ordered(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|plan| {
        let LogicalPlan::Join(join) = &plan else {
            return Ok(Transformed::no(plan));
        };
        if join.join_type != JoinType::Inner {
            return Ok(Transformed::no(plan));
        }
        let Some(best) = order(join)? else {
            return Ok(Transformed::no(plan));
        };
        // The chain is ordered as a whole, its inputs with it: nothing below is to be visited.
        if best == plan {
            return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
        }
        let columns = plan.schema().columns().into_iter().map(Expr::Column);
        let restored = LogicalPlanBuilder::from(best).project(columns)?.build()?;
        Ok(Transformed::new(restored, true, TreeNodeRecursion::Jump))
    })
}

/// The best tree for a set of relations.
#[derive(Debug, Clone, Copy)]
struct Best {
    cost: f64,
    rows: f64,
    /// The two sides, the smaller one (the build side) first; none for a single relation.
    sides: Option<(Set, Set)>,
}

fn order(join: &Join) -> Result<Option<LogicalPlan>> {
    let Some(graph) = JoinGraph::of(join)? else {
        return Ok(None);
    };
    let all: Set = (1 << graph.relations.len()) - 1;
    let best = enumerate(&graph);
    if best[all as usize].is_none() {
        return Ok(None);
    }
    let mut placed = vec![false; graph.conditions.len()];
    build(&graph, &best, all, &mut placed, join).map(Some)
}

/// The best tree of every set of relations that are connected.
fn enumerate(graph: &JoinGraph) -> Vec<Option<Best>> {
    let count = graph.relations.len();
    let mut best: Vec<Option<Best>> = vec![None; 1 << count];
    for (index, relation) in graph.relations.iter().enumerate() {
        best[1 << index] = Some(Best {
            cost: 0.0,
            rows: relation.rows,
            sides: None,
        });
    }
    for_each_pair(&graph.neighbours(), &mut |a, b| {
        if let Some(candidate) = join_sides(graph, &best, a, b)
            && best[(a | b) as usize].is_none_or(|known| candidate.cost < known.cost)
        {
            best[(a | b) as usize] = Some(candidate);
        }
    });
    best
}

fn join_sides(graph: &JoinGraph, best: &[Option<Best>], a: Set, b: Set) -> Option<Best> {
    let (left, right) = (best[a as usize]?, best[b as usize]?);
    let selectivity = selectivity(graph, a, b)?;
    let rows = (left.rows * right.rows * selectivity).max(1.0);
    let (build, probe, sides) = if left.rows <= right.rows {
        (left, right, (a, b))
    } else {
        (right, left, (b, a))
    };
    let own = BUILD_COST * build.rows + probe.rows + OUTPUT_COST * rows;
    Some(Best {
        cost: left.cost + right.cost + own,
        rows,
        sides: Some(sides),
    })
}

/// The edges between two sets of relations, each as its end over `a` and its end over `b`.
fn edges_between(graph: &JoinGraph, a: Set, b: Set) -> impl Iterator<Item = (&EdgeEnd, &EdgeEnd)> {
    let joins =
        move |left: &EdgeEnd, right: &EdgeEnd| left.relation & a != 0 && right.relation & b != 0;
    graph.edges.iter().filter_map(move |Edge { left, right }| {
        if joins(left, right) {
            Some((left, right))
        } else {
            joins(right, left).then_some((right, left))
        }
    })
}

/// The share of the cross product of two sets that their equalities leave; nothing where there is
/// no equality. Every value of the side with fewer distinct keys is taken to be found in the other
/// (containment). Several keys between the same two relations are one composite key, which can
/// have no more values than the product of its parts, and no more than the smaller relation rows.
fn selectivity(graph: &JoinGraph, a: Set, b: Set) -> Option<f64> {
    let mut pairs: Vec<(Set, Set, f64, f64)> = Vec::new();
    for (left, right) in edges_between(graph, a, b) {
        let known = pairs
            .iter_mut()
            .find(|(l, r, ..)| (*l, *r) == (left.relation, right.relation));
        match known {
            Some((_, _, left_keys, right_keys)) => {
                *left_keys *= left.distinct;
                *right_keys *= right.distinct;
            }
            None => pairs.push((left.relation, right.relation, left.distinct, right.distinct)),
        }
    }
    if pairs.is_empty() {
        return None;
    }
    let composite = |(l, r, left, right): &(Set, Set, f64, f64)| {
        let keys = graph
            .edges
            .iter()
            .filter(|e| (e.left.relation | e.right.relation) == (l | r));
        if keys.count() > 1 {
            left.min(graph.rows_unfiltered(*l))
                .min(right.min(graph.rows_unfiltered(*r)))
        } else {
            left.max(*right)
        }
    };
    Some(
        pairs
            .iter()
            .map(|pair| 1.0 / composite(pair).max(1.0))
            .product(),
    )
}

fn build(
    graph: &JoinGraph,
    best: &[Option<Best>],
    set: Set,
    placed: &mut [bool],
    original: &Join,
) -> Result<LogicalPlan> {
    let Some((left_set, right_set)) = best[set as usize].and_then(|b| b.sides) else {
        let relation = &graph.relations[set.trailing_zeros() as usize];
        return Ok(ordered(relation.plan.as_ref().clone())?.data);
    };
    let left = build(graph, best, left_set, placed, original)?;
    let right = build(graph, best, right_set, placed, original)?;
    let on = edges_between(graph, left_set, right_set)
        .map(|(left, right)| (left.key.clone(), right.key.clone()))
        .collect();
    let mut conditions = Vec::new();
    for (condition, done) in graph.conditions.iter().zip(placed) {
        if !*done && condition.relations & set == condition.relations {
            *done = true;
            conditions.push(condition.expr.clone());
        }
    }
    Ok(LogicalPlan::Join(Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        conjunction(conditions),
        JoinType::Inner,
        JoinConstraint::On,
        original.null_equality,
        false,
    )?))
}
