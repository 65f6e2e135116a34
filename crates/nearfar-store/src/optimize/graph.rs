//! A chain of inner joins as a graph: relations, and what they are joined by.

use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan};
use std::collections::HashSet;
use std::sync::Arc;

use super::estimate;

/// A set of relations, a bit each.
pub type Set = u32;

/// More relations than this are left in the order they were written in.
pub const MAX_RELATIONS: usize = 14;

/// An input of the join chain.
#[derive(Debug)]
pub struct Relation {
    pub plan: Arc<LogicalPlan>,
    /// Rows it yields.
    pub rows: f64,
    /// Rows it would yield without its filters.
    pub rows_unfiltered: f64,
}

/// An equality between expressions over two relations.
#[derive(Debug, Clone)]
pub struct Edge {
    pub left: Expr,
    pub right: Expr,
    pub left_relations: Set,
    pub right_relations: Set,
    pub left_distinct: f64,
    pub right_distinct: f64,
}

/// A condition that is no equality.
#[derive(Debug, Clone)]
pub struct Condition {
    pub expr: Expr,
    pub relations: Set,
}

/// What a chain of inner joins is made of.
#[derive(Debug, Default)]
pub struct JoinGraph {
    pub relations: Vec<Relation>,
    pub edges: Vec<Edge>,
    pub conditions: Vec<Condition>,
}

/// Whether a join may change places with its neighbours.
pub fn is_reorderable(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join)
        if join.join_type == JoinType::Inner && !join.null_aware)
}

impl JoinGraph {
    /// The graph of the joins at and below `join`, or nothing where there is nothing to choose.
    pub fn of(join: &Join) -> Result<Option<Self>> {
        let mut leaves = Vec::new();
        let mut equalities = Vec::new();
        let mut conditions = Vec::new();
        collect(join, &mut leaves, &mut equalities, &mut conditions);
        if !(3..=MAX_RELATIONS).contains(&leaves.len()) {
            return Ok(None);
        }
        let mut graph = Self {
            relations: leaves
                .into_iter()
                .map(|plan| Relation {
                    rows: estimate::rows(&plan),
                    rows_unfiltered: estimate::rows_unfiltered(&plan),
                    plan,
                })
                .collect(),
            ..Self::default()
        };
        for (left, right) in equalities {
            match graph.edge(left, right) {
                Some(edge) => graph.edges.push(edge),
                None => return Ok(None),
            }
        }
        for expr in conditions {
            match graph.relations_of(&expr) {
                Some(relations) => graph.conditions.push(Condition { expr, relations }),
                None => return Ok(None),
            }
        }
        Ok(Some(graph))
    }

    fn edge(&self, left: Expr, right: Expr) -> Option<Edge> {
        let (left_relations, right_relations) =
            (self.relations_of(&left)?, self.relations_of(&right)?);
        let disjoint = left_relations & right_relations == 0;
        (disjoint && left_relations != 0 && right_relations != 0).then(|| Edge {
            left_distinct: self.distinct(&left, left_relations),
            right_distinct: self.distinct(&right, right_relations),
            left,
            right,
            left_relations,
            right_relations,
        })
    }

    /// Rows of a single relation without its filters.
    pub fn rows_unfiltered(&self, relation: Set) -> f64 {
        self.relations[relation.trailing_zeros() as usize].rows_unfiltered
    }

    fn distinct(&self, key: &Expr, relations: Set) -> f64 {
        let relation = &self.relations[relations.trailing_zeros() as usize];
        estimate::distinct(&relation.plan, key)
            .unwrap_or(relation.rows)
            .max(1.0)
    }

    /// The relations whose columns `expr` names; nothing where a column belongs to none or many.
    fn relations_of(&self, expr: &Expr) -> Option<Set> {
        let columns: HashSet<&Column> = expr.column_refs();
        let mut set = 0;
        for column in columns {
            let mut owners = (0..self.relations.len())
                .filter(|i| self.relations[*i].plan.schema().has_column(column));
            set |= 1 << owners.next()?;
            if owners.next().is_some() {
                return None;
            }
        }
        Some(set)
    }
}

fn collect(
    join: &Join,
    leaves: &mut Vec<Arc<LogicalPlan>>,
    equalities: &mut Vec<(Expr, Expr)>,
    conditions: &mut Vec<Expr>,
) {
    for input in [&join.left, &join.right] {
        match input.as_ref() {
            LogicalPlan::Join(inner) if is_reorderable(input) => {
                collect(inner, leaves, equalities, conditions);
            }
            _ => leaves.push(Arc::clone(input)),
        }
    }
    equalities.extend(join.on.iter().cloned());
    conditions.extend(join.filter.clone());
}
