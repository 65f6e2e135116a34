//! A subquery for all values that it refers to together.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, NullEquality};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, FetchType, JoinType, Limit, LogicalPlan, LogicalPlanBuilder,
    SkipType, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits, lit, when,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use super::outer::{Columns, bound, free};
use super::unique;

/// The distinct values of the query around that a subquery refers to.
pub(super) struct Domain {
    /// The columns of the query around.
    outer: Vec<Column>,
    plan: LogicalPlan,
}

/// A plan with the values of the domain that its rows belong to in columns of its own.
pub(super) struct Dependent {
    pub plan: LogicalPlan,
    /// As many as the domain has columns.
    pub keys: Vec<Column>,
}

const MARK: &str = "__is_there";

/// The domain of a subquery of a query over `input`; none where it refers to something else too.
pub(super) fn domain(input: &LogicalPlan, subquery: &LogicalPlan) -> Result<Option<Domain>> {
    let outer: Vec<Column> = free(subquery)?.into_iter().collect();
    let schema = input.schema();
    if !outer.iter().all(|column| schema.has_column(column)) {
        return Ok(None);
    }
    let values = outer.iter().enumerate();
    let values = values.map(|(at, column)| Expr::Column(column.clone()).alias(key(at)));
    let plan = LogicalPlanBuilder::from(without_limits(input.clone())?)
        .project(values)?
        .distinct()?;
    Ok(Some(Domain {
        outer,
        plan: plan.build()?,
    }))
}

/// More rows of the domain do no harm, but those of a limit could be others the second time.
fn without_limits(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up(|node| match node {
        LogicalPlan::Limit(Limit { input, .. }) => {
            Ok(Transformed::yes(Arc::unwrap_or_clone(input)))
        }
        other => Ok(Transformed::no(other)),
    });
    plan.data()
}

/// Whether a subquery has rows, for each row of the query around: that with a column more, and the
/// value. None where nothing can be made of the subquery.
pub(super) fn mark_join(
    input: &LogicalPlan,
    subquery: &LogicalPlan,
) -> Result<Option<(LogicalPlan, Expr)>> {
    let Some(domain) = domain(input, subquery)? else {
        return Ok(None);
    };
    let Some(Dependent { plan, keys }) = domain.unnest(subquery)? else {
        return Ok(None);
    };
    let keys = domain.named(keys.into_iter().map(Expr::Column));
    let plan = LogicalPlanBuilder::from(plan).project(keys)?.distinct()?;
    let columns = plan.schema().columns().into_iter().map(Expr::Column);
    let columns: Vec<Expr> = columns.chain([lit(true).alias(MARK)]).collect();
    let plan = plan.project(columns)?.build()?;
    let joined = domain.join(input, plan, |column| column(MARK).is_not_null())?;
    Ok(Some(joined))
}

fn key(at: usize) -> String {
    format!("__key_{at}")
}

fn columns(keys: Vec<Column>) -> impl Iterator<Item = Expr> {
    keys.into_iter().map(Expr::Column)
}

impl Domain {
    /// The values of keys under their names.
    pub fn named(&self, keys: impl Iterator<Item = Expr>) -> impl Iterator<Item = Expr> {
        keys.enumerate().map(|(at, value)| value.alias(key(at)))
    }

    /// The query around with what belongs to each of its rows, and what `value` makes of that.
    pub fn join(
        &self,
        input: &LogicalPlan,
        plan: LogicalPlan,
        value: impl FnOnce(&dyn Fn(&str) -> Expr) -> Expr,
    ) -> Result<(LogicalPlan, Expr)> {
        let name = unique("subquery");
        let plan = LogicalPlanBuilder::from(plan)
            .alias(name.as_str())?
            .build()?;
        let keys = 0..self.outer.len();
        let keys = keys.map(|at| Column::new(Some(name.as_str()), key(at)));
        let joined = null_safe_join(
            input.clone(),
            plan,
            JoinType::Left,
            self.outer.clone(),
            keys.collect(),
        )?;
        let column = |column: &str| Expr::Column(Column::new(Some(name.as_str()), column));
        Ok((joined, value(&column)))
    }

    /// The domain as a table of its own.
    fn table(&self) -> Result<Dependent> {
        let plan = LogicalPlanBuilder::from(self.plan.clone()).alias(unique("domain"))?;
        let plan = plan.build()?;
        Ok(Dependent {
            keys: plan.schema().columns(),
            plan,
        })
    }

    fn columns(&self, keys: &[Column]) -> Columns {
        self.outer
            .iter()
            .cloned()
            .zip(keys.iter().cloned())
            .collect()
    }

    pub(super) fn bound(&self, expr: Expr, keys: &[Column], own: &DFSchema) -> Result<Expr> {
        bound(expr, &self.columns(keys), own)
    }

    /// The rows of `plan` for each value of the domain. None for operators that nothing can be made of.
    pub fn unnest(&self, plan: &LogicalPlan) -> Result<Option<Dependent>> {
        if free(plan)?.is_empty() {
            let Dependent { plan: table, keys } = self.table()?;
            let plan = LogicalPlanBuilder::from(table).cross_join(plan.clone())?;
            let plan = plan.build()?;
            return Ok(Some(Dependent { plan, keys }));
        }
        match plan {
            LogicalPlan::Join(join) => self.unnest_join(join),
            LogicalPlan::Union(union) => self.unnest_union(&union.inputs),
            LogicalPlan::Limit(limit) => self.unnest_limit(limit),
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Distinct(Distinct::All(_))
            | LogicalPlan::Sort(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_) => {
                let inputs = plan.inputs();
                let [input] = inputs[..] else {
                    return Ok(None);
                };
                match self.unnest(input)? {
                    Some(input) => self.over(plan, input),
                    None => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// An operator over an input that has the domain's values.
    fn over(&self, node: &LogicalPlan, input: Dependent) -> Result<Option<Dependent>> {
        let own = merge_schema(&node.inputs());
        let Dependent { plan, keys } = input;
        let below = LogicalPlanBuilder::from(plan);
        let bind = |expr: &Expr| self.bound(expr.clone(), &keys, &own);
        let bind_all = |exprs: &[Expr]| exprs.iter().map(bind).collect::<Result<Vec<_>>>();
        let plan = match node {
            LogicalPlan::Filter(filter) => below.filter(bind(&filter.predicate)?)?,
            LogicalPlan::Projection(projection) => {
                let names = NamePreserver::new_for_projection();
                let own = projection.expr.iter().map(|expr| {
                    let name = names.save(expr);
                    Ok(name.restore(bind(expr)?))
                });
                let own = own.collect::<Result<Vec<_>>>()?;
                below.project(columns(keys.clone()).chain(own))?
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let count = keys.len();
                let named = self.named(columns(keys));
                let others = node.schema().fields().len();
                // Keys come first, and under names of their own.
                let all = below.schema().columns();
                let rest = all
                    .into_iter()
                    .filter(|column| alias.input.schema().has_column(column));
                let rest: Vec<Expr> = rest.map(Expr::Column).collect();
                if rest.len() != others {
                    return Ok(None);
                }
                let plan = below
                    .project(named.chain(rest))?
                    .alias(alias.alias.clone())?;
                let plan = plan.build()?;
                let keys = plan.schema().columns().into_iter().take(count).collect();
                return Ok(Some(Dependent { plan, keys }));
            }
            LogicalPlan::Distinct(_) => below.distinct()?,
            // Rows of a subquery have no order but for a limit.
            LogicalPlan::Sort(_) => below,
            LogicalPlan::Aggregate(aggregate) => {
                let groups = bind_all(&aggregate.group_expr)?;
                let values = bind_all(&aggregate.aggr_expr)?;
                let is_whole = groups.is_empty();
                let groups = columns(keys.clone()).chain(groups);
                let plan = below.aggregate(groups, values)?.build()?;
                if is_whole {
                    return self.with_empty(node, Dependent { plan, keys }).map(Some);
                }
                return Ok(Some(Dependent { plan, keys }));
            }
            LogicalPlan::Window(window) => {
                let windows = window.window_expr.iter().map(|expr| {
                    let expr = bind(expr)?;
                    partitioned(expr, &keys)
                });
                below.window(windows.collect::<Result<Vec<_>>>()?)?
            }
            _ => return Ok(None),
        };
        let plan = plan.build()?;
        Ok(Some(Dependent { plan, keys }))
    }

    /// An aggregate over all rows gives a row where there are none.
    fn with_empty(&self, node: &LogicalPlan, found: Dependent) -> Result<Dependent> {
        let LogicalPlan::Aggregate(aggregate) = node else {
            return Ok(found);
        };
        let Dependent { plan: table, keys } = self.table()?;
        let plan = null_safe_join(table, found.plan, JoinType::Left, keys.clone(), found.keys)?;
        let values = aggregate.schema.iter().zip(&aggregate.aggr_expr);
        let values = values.map(|((qualifier, field), expr)| {
            let value = Expr::Column(Column::from((qualifier, field)));
            let of_none = default_of(expr, field.data_type())?;
            match of_none {
                Some(of_none) => Ok(when(value.clone().is_null(), lit(of_none))
                    .otherwise(value)?
                    .alias_qualified(qualifier.cloned(), field.name())),
                None => Ok(value),
            }
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let plan = LogicalPlanBuilder::from(plan).project(columns(keys.clone()).chain(values))?;
        let plan = plan.build()?;
        Ok(Dependent { plan, keys })
    }

    fn unnest_union(&self, inputs: &[Arc<LogicalPlan>]) -> Result<Option<Dependent>> {
        let mut all: Option<LogicalPlanBuilder> = None;
        for input in inputs {
            let Some(Dependent { plan, keys }) = self.unnest(input)? else {
                return Ok(None);
            };
            let rest = input.schema().columns();
            let named = self.named(columns(keys)).chain(columns(rest));
            let plan = LogicalPlanBuilder::from(plan).project(named)?.build()?;
            all = Some(match all {
                Some(others) => others.union(plan)?,
                None => LogicalPlanBuilder::from(plan),
            });
        }
        let Some(all) = all else { return Ok(None) };
        let plan = all.build()?;
        let keys = plan.schema().columns();
        let keys = keys.into_iter().take(self.outer.len()).collect();
        Ok(Some(Dependent { plan, keys }))
    }

    /// The first rows of each value of the domain.
    fn unnest_limit(&self, limit: &Limit) -> Result<Option<Dependent>> {
        if let Some(above) = above_limit(limit)? {
            return self.unnest(&above);
        }
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Ok(None);
        };
        let own = merge_schema(&[limit.input.as_ref()]);
        let Some(Dependent { plan, keys }) = self.unnest(&limit.input)? else {
            return Ok(None);
        };
        let order: Vec<SortExpr> = match limit.input.as_ref() {
            LogicalPlan::Sort(sort) => {
                let order = sort.expr.iter().map(|key| {
                    let expr = self.bound(key.expr.clone(), &keys, &own)?;
                    Ok(SortExpr::new(expr, key.asc, key.nulls_first))
                });
                order.collect::<Result<_>>()?
            }
            _ => Vec::new(),
        };
        let number = unique("row");
        let numbered = row_number()
            .partition_by(columns(keys.clone()).collect())
            .order_by(order)
            .window_frame(rows_so_far())
            .build()?
            .alias(number.as_str());
        let kept = plan.schema().columns();
        let number = Expr::Column(Column::new_unqualified(number));
        let mut condition = number.clone().gt(lit(skip as u64));
        if let Some(fetch) = fetch {
            condition = condition.and(number.lt_eq(lit(skip.saturating_add(fetch) as u64)));
        }
        let plan = LogicalPlanBuilder::from(plan)
            .window([numbered])?
            .filter(condition)?
            .project(columns(kept))?
            .build()?;
        Ok(Some(Dependent { plan, keys }))
    }
}

/// What is above a sort below a limit, above the limit: it keeps rows and their order, but may leave out what they are
/// sorted by. None where there is nothing between.
fn above_limit(limit: &Limit) -> Result<Option<LogicalPlan>> {
    let between = limit.input.as_ref();
    let (LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_)) = between else {
        return Ok(None);
    };
    let below = between.inputs().into_iter().cloned();
    let below = below.map(|input| {
        LogicalPlan::Limit(Limit {
            input: Arc::new(input),
            ..limit.clone()
        })
    });
    let above = between.with_new_exprs(between.expressions(), below.collect())?;
    Ok(Some(above))
}

/// The frame of a row's number, which may be one of rows in no order.
fn rows_so_far() -> WindowFrame {
    let start = WindowFrameBound::Preceding(ScalarValue::UInt64(None));
    WindowFrame::new_bounds(WindowFrameUnits::Rows, start, WindowFrameBound::CurrentRow)
}

/// A join on values of which nulls are equal to each other.
fn null_safe_join(
    left: LogicalPlan,
    right: LogicalPlan,
    kind: JoinType,
    keys: Vec<Column>,
    others: Vec<Column>,
) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(left)
        .join_detailed(
            right,
            kind,
            (keys, others),
            None,
            NullEquality::NullEqualsNull,
        )?
        .build()
}

/// What an aggregate gives for no rows, where that is not null.
fn default_of(expr: &Expr, data_type: &DataType) -> Result<Option<ScalarValue>> {
    match expr {
        Expr::Alias(alias) => default_of(&alias.expr, data_type),
        Expr::AggregateFunction(function) => {
            let value = function.func.default_value(data_type)?;
            Ok((!value.is_null()).then_some(value))
        }
        _ => Ok(None),
    }
}

/// A window function within the rows of one value of the domain.
fn partitioned(expr: Expr, keys: &[Column]) -> Result<Expr> {
    let partitioned = expr.transform_down(|expr| match expr {
        Expr::WindowFunction(mut function) => {
            let WindowFunction { params, .. } = function.as_mut();
            params
                .partition_by
                .splice(0..0, keys.iter().cloned().map(Expr::Column));
            Ok(Transformed::yes(Expr::WindowFunction(function)))
        }
        other => Ok(Transformed::no(other)),
    });
    partitioned.data()
}
