//! A chain of inner joins as a graph: relations, and what they are joined by.

use datafusion::common::{Column, NullEquality, Result};
use datafusion::logical_expr::utils::{can_hash, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, JoinType, LogicalPlan, Operator,
};
use std::collections::HashSet;
use std::sync::Arc;

use super::estimate::{self, Domain};

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

/// An equality between an expression over one relation and one over another.
#[derive(Debug)]
pub struct Edge {
    pub left: EdgeEnd,
    pub right: EdgeEnd,
}

/// One side of an equality.
#[derive(Debug)]
pub struct EdgeEnd {
    pub key: Expr,
    /// The relation whose columns the key is made of.
    pub relation: Set,
    /// The values that the key has there.
    pub domain: Domain,
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

/// Whether `inner` may change places with the joins above it, of which `root` is the highest.
fn is_reorderable(inner: &Join, root: &Join) -> bool {
    inner.join_type == JoinType::Inner
        && !inner.null_aware
        && inner.null_equality == root.null_equality
}

impl JoinGraph {
    /// The graph of the joins at and below `join`, or nothing where there is nothing to choose.
    pub fn of(join: &Join) -> Result<Option<Self>> {
        let mut leaves = Vec::new();
        let mut equalities = Vec::new();
        let mut conditions = Vec::new();
        collect(join, join, &mut leaves, &mut equalities, &mut conditions);
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
            if let Some(edge) = graph.edge_of(&expr, join) {
                graph.edges.push(edge);
                continue;
            }
            match graph.relations_of(&expr) {
                Some(relations) => graph.conditions.push(Condition { expr, relations }),
                None => return Ok(None),
            }
        }
        Ok(Some(graph))
    }

    /// Nothing where a side is over no relation or several: with such a side, some trees have no join
    /// that could check the equality.
    fn edge(&self, left: Expr, right: Expr) -> Option<Edge> {
        let (left, right) = (self.edge_end(left)?, self.edge_end(right)?);
        (left.relation != right.relation).then_some(Edge { left, right })
    }

    /// The edge that a condition is which has come to a join since its keys were told from its conditions.
    fn edge_of(&self, condition: &Expr, join: &Join) -> Option<Edge> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else {
            return None;
        };
        let is_equality = *op == Operator::Eq
            && join.null_equality == NullEquality::NullEqualsNothing
            && !condition.is_volatile();
        let data_type = |expr: &Expr| expr.get_type(&join.schema).ok().filter(can_hash);
        let is_key =
            is_equality && data_type(left).is_some() && data_type(left) == data_type(right);
        is_key
            .then(|| self.edge(left.as_ref().clone(), right.as_ref().clone()))
            .flatten()
    }

    fn edge_end(&self, key: Expr) -> Option<EdgeEnd> {
        let relation = self.relations_of(&key)?;
        (relation.count_ones() == 1).then(|| EdgeEnd {
            domain: self.domain(&key, relation),
            key,
            relation,
        })
    }

    /// The relations that each relation has an equality with.
    pub fn neighbours(&self) -> Vec<Set> {
        let mut neighbours = vec![0; self.relations.len()];
        for Edge { left, right } in &self.edges {
            let ends = (left.relation, right.relation);
            for (from, to) in [ends, (ends.1, ends.0)] {
                neighbours[from.trailing_zeros() as usize] |= to;
            }
        }
        neighbours
    }

    /// Rows of a single relation without its filters.
    pub fn rows_unfiltered(&self, relation: Set) -> f64 {
        self.relations[relation.trailing_zeros() as usize].rows_unfiltered
    }

    fn domain(&self, key: &Expr, relation: Set) -> Domain {
        let relation = &self.relations[relation.trailing_zeros() as usize];
        let unknown = Domain {
            distinct: relation.rows,
            bounds: None,
        };
        estimate::domain(&relation.plan, key).unwrap_or(unknown)
    }

    /// What share of the rows of a side have keys between two values.
    pub fn share_between(&self, end: &EdgeEnd, bounds: (i128, i128)) -> Option<f64> {
        let relation = &self.relations[end.relation.trailing_zeros() as usize];
        estimate::share_between(&relation.plan, &end.key, bounds)
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
    root: &Join,
    leaves: &mut Vec<Arc<LogicalPlan>>,
    equalities: &mut Vec<(Expr, Expr)>,
    conditions: &mut Vec<Expr>,
) {
    for input in [&join.left, &join.right] {
        match input.as_ref() {
            LogicalPlan::Join(inner) if is_reorderable(inner, root) => {
                collect(inner, root, leaves, equalities, conditions);
            }
            _ => leaves.push(Arc::clone(input)),
        }
    }
    equalities.extend(join.on.iter().cloned());
    let filter = join.filter.iter().flat_map(split_conjunction);
    conditions.extend(filter.cloned());
}
