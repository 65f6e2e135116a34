//! One operator whose expressions have subqueries.

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Projection,
    Window, not,
};
use std::sync::Arc;

use super::shape::{Place, is_left};
use super::{dependent, has_subquery, membership, replaced, rows, single, subquery, unique};

/// Makes joins of the subqueries of an operator that are not left to DataFusion.
pub(super) fn rewrite(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Filter(_)
        | LogicalPlan::Projection(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_) => one_input(node),
        LogicalPlan::Join(_) => filter_of_join(node),
        LogicalPlan::Values(values) => Ok(match rows::as_queries(&values)? {
            Some(queries) => Transformed::yes(queries),
            None => Transformed::no(LogicalPlan::Values(values)),
        }),
        other => Ok(Transformed::no(other)),
    }
}

/// An inner join's condition as a filter over it.
fn filter_of_join(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = node else {
        return Ok(Transformed::no(node));
    };
    let is_wanted = match &join.filter {
        Some(filter) => has_subquery(filter)?,
        None => false,
    };
    if join.join_type != JoinType::Inner || !is_wanted {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let Some(filter) = join.filter.take() else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let joined = LogicalPlanBuilder::from(LogicalPlan::Join(join)).filter(filter)?;
    one_input(joined.build()?).map(|done| Transformed::yes(done.data))
}

fn one_input(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let has_own = node
        .expressions()
        .iter()
        .map(has_subquery)
        .try_fold(false, |is, own| {
            Ok::<_, datafusion::error::DataFusionError>(is || own?)
        })?;
    let inputs = node.inputs();
    let (true, [input]) = (has_own, &inputs[..]) else {
        return Ok(Transformed::no(node));
    };
    let mut joins = Joins {
        input: (*input).clone(),
        has_changed: false,
        is_refused: false,
    };
    let is_filter = matches!(node, LogicalPlan::Filter(_));
    let place = match &node {
        LogicalPlan::Filter(_) => Place::Conjunct,
        LogicalPlan::Projection(_) => Place::Value,
        _ => Place::Elsewhere,
    };
    let names = NamePreserver::new(&node);
    let is_sort = matches!(node, LogicalPlan::Sort(_));
    let rewritten = node.clone().map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = match is_filter {
            true => joins.condition(expr, place)?,
            false => joins.expression(expr, place)?,
        };
        Ok(Transformed::yes(match is_sort {
            true => expr,
            false => name.restore(expr),
        }))
    });
    let rewritten = rewritten?.data;
    if joins.is_refused || !joins.has_changed {
        return Ok(Transformed::no(node));
    }
    over(rewritten, joins.input, &node).map(Transformed::yes)
}

/// An operator over its input with more columns, of which it gives on none.
fn over(rewritten: LogicalPlan, input: LogicalPlan, node: &LogicalPlan) -> Result<LogicalPlan> {
    let input = Arc::new(input);
    let plan = match rewritten {
        LogicalPlan::Projection(projection) => {
            return Ok(LogicalPlan::Projection(Projection::try_new(
                projection.expr,
                input,
            )?));
        }
        LogicalPlan::Aggregate(aggregate) => {
            return Ok(LogicalPlan::Aggregate(Aggregate::try_new(
                input,
                aggregate.group_expr,
                aggregate.aggr_expr,
            )?));
        }
        LogicalPlan::Window(window) => {
            LogicalPlan::Window(Window::try_new(window.window_expr, input)?)
        }
        LogicalPlan::Filter(filter) => LogicalPlanBuilder::new_from_arc(input)
            .filter(filter.predicate)?
            .build()?,
        LogicalPlan::Sort(mut sort) => {
            sort.input = input;
            LogicalPlan::Sort(sort)
        }
        other => other,
    };
    let columns = node.schema().columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// An input, joined with what subqueries become.
struct Joins {
    input: LogicalPlan,
    has_changed: bool,
    /// Whether there is a subquery of a form that nothing can be made of.
    is_refused: bool,
}

impl Joins {
    /// A condition, whose parts that are not subqueries themselves are in another place.
    fn condition(&mut self, expr: Expr, place: Place) -> Result<Expr> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if op == Operator::And || op == Operator::Or =>
            {
                let place = if op == Operator::Or {
                    Place::Disjunct
                } else {
                    place
                };
                let left = self.condition(*left, place)?;
                let right = self.condition(*right, place)?;
                let (left, right) = (Box::new(left), Box::new(right));
                Ok(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            Expr::Not(inner) => match *inner {
                Expr::Exists(Exists { subquery, negated }) => {
                    let exists = Expr::Exists(Exists {
                        subquery,
                        negated: !negated,
                    });
                    self.expression(exists, place)
                }
                Expr::InSubquery(mut member) => {
                    member.negated = !member.negated;
                    self.expression(Expr::InSubquery(member), place)
                }
                other => Ok(not(self.expression(other, Place::Value)?)),
            },
            Expr::Exists(_) | Expr::InSubquery(_) => self.expression(expr, place),
            other => self.expression(other, Place::Value),
        }
    }

    /// An expression without the subqueries that are not left.
    fn expression(&mut self, expr: Expr, place: Place) -> Result<Expr> {
        expr.transform_down(|expr| {
            if subquery(&expr).is_none() || is_left(&expr, place)? {
                return Ok(Transformed::no(expr));
            }
            Ok(match expr {
                Expr::InSubquery(mut member) => {
                    if has_subquery(&member.expr)? {
                        *member.expr = self.computed(*member.expr)?;
                    }
                    let schema = Arc::clone(self.input.schema());
                    let exists = membership::as_exists(member, &schema)?;
                    self.has_changed = true;
                    replaced(self.expression(exists, Place::Value)?)
                }
                Expr::Exists(exists) => self.exists(exists)?,
                Expr::ScalarSubquery(scalar) => {
                    let joined = single::join(&self.input, &scalar.subquery)?;
                    self.joined(joined, Expr::ScalarSubquery(scalar))
                }
                other => Transformed::no(other),
            })
        })
        .data()
    }

    /// An expression as a column of the input, where subqueries in it become what they can be made.
    fn computed(&mut self, expr: Expr) -> Result<Expr> {
        let name = unique("computed");
        let columns = self.input.schema().columns().into_iter();
        let columns = columns.map(Expr::Column).chain([expr.alias(&name)]);
        let input =
            LogicalPlanBuilder::from(self.input.clone()).project(columns.collect::<Vec<_>>())?;
        self.input = input.build()?;
        Ok(Expr::Column(Column::new_unqualified(name)))
    }

    fn exists(&mut self, exists: Exists) -> Result<Transformed<Expr>> {
        let negated = |is: Expr| if exists.negated { not(is) } else { is };
        if let Some(has_rows) = membership::has_rows(&exists.subquery.subquery)? {
            self.has_changed = true;
            return Ok(replaced(negated(has_rows)));
        }
        let joined = dependent::mark_join(&self.input, &exists.subquery.subquery)?;
        let joined = joined.map(|(plan, mark)| (plan, negated(mark)));
        Ok(self.joined(joined, Expr::Exists(exists)))
    }

    fn joined(&mut self, joined: Option<(LogicalPlan, Expr)>, expr: Expr) -> Transformed<Expr> {
        match joined {
            Some((plan, value)) => {
                self.input = plan;
                self.has_changed = true;
                replaced(value)
            }
            None => {
                self.is_refused = true;
                Transformed::no(expr)
            }
        }
    }
}
