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
use std::collections::BTreeMap;
use std::sync::Arc;

use super::connected::for_each_pair;
use super::graph::{Edge, EdgeEnd, JoinGraph, Set};

/// Its name.
pub const NAME: &str = "nearfar_join_order";

/// Cost of putting a row into a hash table, relative to probing it with one.
const BUILD_COST: f64 = 3.0;

/// Cost of a yielded row, likewise.
const OUTPUT_COST: f64 = 1.0;

/// Orders chains of inner joins.
#[derive(Debug, Default)]
pub struct JoinOrder;

impl OptimizerRule for JoinOrder {
    fn name(&self) -> &'static str {
        NAME
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
    let links = links(graph);
    for_each_pair(&graph.neighbours(), &mut |a, b| {
        if let Some(candidate) = join_sides(&links, &best, a, b)
            && best[(a | b) as usize].is_none_or(|known| candidate.cost < known.cost)
        {
            best[(a | b) as usize] = Some(candidate);
        }
    });
    best
}

fn join_sides(links: &[Link], best: &[Option<Best>], a: Set, b: Set) -> Option<Best> {
    let (left, right) = (best[a as usize]?, best[b as usize]?);
    let rows = (left.rows * right.rows * selectivity(links, a, b)).max(1.0);
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

/// What two relations are joined by.
struct Link {
    /// Both.
    relations: Set,
    /// The share of their cross product that their equalities leave.
    selectivity: f64,
}

/// The links between relations. Several keys between the same two relations are one composite key, which can have no more
/// values than the product of its parts, and no more than the smaller relation rows.
fn links(graph: &JoinGraph) -> Vec<Link> {
    let mut keys: BTreeMap<(Set, Set), Vec<(&EdgeEnd, &EdgeEnd)>> = BTreeMap::new();
    for Edge { left, right } in &graph.edges {
        let (first, second) = match left.relation < right.relation {
            true => (left, right),
            false => (right, left),
        };
        let known = keys.entry((first.relation, second.relation));
        known.or_default().push((first, second));
    }
    let links = keys.into_iter().map(|((first, second), ends)| {
        let selectivity = match ends.as_slice() {
            [(first, second)] => of_one_key(graph, first, second),
            ends => {
                let of_first: f64 = ends.iter().map(|(end, _)| end.domain.distinct).product();
                let of_second: f64 = ends.iter().map(|(_, end)| end.domain.distinct).product();
                let values = of_first
                    .min(graph.rows_unfiltered(first))
                    .min(of_second.min(graph.rows_unfiltered(second)));
                1.0 / values.max(1.0)
            }
        };
        Link {
            relations: first | second,
            selectivity,
        }
    });
    links.collect()
}

/// The share of a cross product that one equality leaves. Every value of the side with fewer of them is taken to be found in
/// the other (containment), among those that lie between the bounds of both: the dates of all sales are a small part of
/// those of a calendar, and rows of one year are found there, not among all.
fn of_one_key(graph: &JoinGraph, first: &EdgeEnd, second: &EdgeEnd) -> f64 {
    let common = first.domain.bounds.zip(second.domain.bounds);
    let common = common.map(|(first, second)| (first.0.max(second.0), first.1.min(second.1)));
    let (first, second) = [first, second].map(|end| within(graph, end, common)).into();
    let values = first.distinct.max(second.distinct).max(1.0);
    first.share * second.share / values
}

/// What a side of an equality has between the bounds of both.
struct Within {
    /// Of its rows.
    share: f64,
    /// Of its values.
    distinct: f64,
}

/// Bounds that leave out less than this of a side's values are those of the side.
const NARROW: f64 = 0.5;

fn within(graph: &JoinGraph, end: &EdgeEnd, common: Option<(i128, i128)>) -> Within {
    let all = Within {
        share: 1.0,
        distinct: end.domain.distinct,
    };
    let Some((common, own)) = common.zip(end.domain.bounds) else {
        return all;
    };
    let width = |(least, greatest): (i128, i128)| (greatest as f64 - least as f64 + 1.0).max(0.0);
    let part = width(common) / width(own).max(1.0);
    if part > NARROW {
        return all;
    }
    let share = graph.share_between(end, common).unwrap_or(part);
    // Few values far from all others widen the bounds, not what lies between.
    let distinct = end.domain.distinct * share.max(part);
    Within {
        share,
        distinct: distinct.min(width(common)),
    }
}

/// The share of the cross product of two sets that is left by the links between them.
fn selectivity(links: &[Link], a: Set, b: Set) -> f64 {
    let between = links
        .iter()
        .filter(|link| link.relations & a != 0 && link.relations & b != 0);
    between.map(|link| link.selectivity).product()
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
