//! The shape of plans that read or change rows of one table.

use arrow::compute::SortOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{
    Aggregate, Expr, Limit, LogicalPlan, Projection, Sort, SortExpr, WriteOp,
};

/// What becomes of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Read,
    Update,
    Delete,
}

impl Verb {
    /// The word of its statement.
    pub fn statement(self) -> &'static str {
        match self {
            Self::Read => "SELECT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// The parts of a plan that reads or changes rows of one table: aggregates over all that are found, or
/// values of each, in an order, up to a number of rows.
pub struct RowPlan<'a> {
    pub verb: Verb,
    /// What is asked for, or the rows' new values: over the columns of the table, or of `totals` where there
    /// are some.
    pub exprs: Vec<Expr>,
    pub totals: Option<&'a Aggregate>,
    /// Over the columns of the table.
    pub order: Vec<SortExpr>,
    pub limit: Option<&'a Expr>,
    pub predicate: &'a Expr,
    /// What the rows are of.
    pub input: &'a LogicalPlan,
}

impl<'a> RowPlan<'a> {
    /// The parts of a plan. None where it has others.
    pub fn of(plan: &'a LogicalPlan) -> Option<Self> {
        let (verb, plan) = match plan {
            LogicalPlan::Dml(dml) => match &dml.op {
                WriteOp::Update => (Verb::Update, dml.input.as_ref()),
                WriteOp::Delete => (Verb::Delete, dml.input.as_ref()),
                _ => return None,
            },
            query => (Verb::Read, query),
        };
        let mut parts = match (verb, plan) {
            (Verb::Delete, rows) => Self::of_rows(Vec::new(), rows)?,
            (Verb::Update, LogicalPlan::Projection(new)) => {
                Self::of_rows(new.expr.clone(), &new.input)?
            }
            (Verb::Update, _) => return None,
            (Verb::Read, LogicalPlan::Limit(limit)) => Self::of_first(limit)?,
            (Verb::Read, query) => Self::of_ordered(query)?,
        };
        parts.verb = verb;
        Some(parts)
    }

    fn of_first(limit: &'a Limit) -> Option<Self> {
        let rows = Self::of_ordered(&limit.input)?;
        let is_of_rows = limit.skip.is_none() && rows.totals.is_none();
        is_of_rows.then_some(Self {
            limit: Some(limit.fetch.as_deref()?),
            ..rows
        })
    }

    fn of_ordered(plan: &'a LogicalPlan) -> Option<Self> {
        match plan {
            // Columns that rows are ordered by and nobody has asked for.
            LogicalPlan::Projection(shown) if matches!(&*shown.input, LogicalPlan::Sort(_)) => {
                let rows = Self::of_ordered(&shown.input)?;
                let exprs = shown.expr.iter();
                let exprs = exprs.map(|expr| over(expr.clone(), &shown.input, &rows.exprs));
                let exprs = exprs.collect::<Option<_>>()?;
                Some(Self { exprs, ..rows })
            }
            LogicalPlan::Sort(Sort {
                expr,
                input,
                fetch: None,
            }) => {
                let rows = Self::of_shown(input)?;
                let order = expr.iter().map(|sort| {
                    let by = over(sort.expr.clone(), input, &rows.exprs)?;
                    Some(by.sort(sort.asc, sort.nulls_first))
                });
                let order = order.collect::<Option<_>>()?;
                rows.totals.is_none().then_some(Self { order, ..rows })
            }
            shown => Self::of_shown(shown),
        }
    }

    fn of_shown(plan: &'a LogicalPlan) -> Option<Self> {
        let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else {
            return None;
        };
        match input.as_ref() {
            LogicalPlan::Aggregate(totals) if totals.group_expr.is_empty() => {
                let rows = Self::of_rows(expr.clone(), &totals.input)?;
                let totals = Some(totals);
                Some(Self { totals, ..rows })
            }
            rows => Self::of_rows(expr.clone(), rows),
        }
    }

    fn of_rows(exprs: Vec<Expr>, plan: &'a LogicalPlan) -> Option<Self> {
        let LogicalPlan::Filter(filter) = plan else {
            return None;
        };
        Some(Self {
            verb: Verb::Read,
            exprs,
            totals: None,
            order: Vec::new(),
            limit: None,
            predicate: &filter.predicate,
            input: filter.input.as_ref(),
        })
    }
}

/// `expr` over the columns of `plan`, which `exprs` are, as one over what these are over.
fn over(expr: Expr, plan: &LogicalPlan, exprs: &[Expr]) -> Option<Expr> {
    let mut is_known = true;
    let over = expr.transform_up(|expr| {
        let Expr::Column(column) = &expr else {
            return Ok(Transformed::no(expr));
        };
        let at = plan.schema().index_of_column(column)?;
        match exprs.get(at) {
            Some(Expr::Alias(alias)) => Ok(Transformed::yes((*alias.expr).clone())),
            Some(meant) => Ok(Transformed::yes(meant.clone())),
            None => {
                is_known = false;
                Ok(Transformed::no(expr))
            }
        }
    });
    Some(over.ok()?.data).filter(|_| is_known)
}

/// How an order sorts.
pub fn options_of(sort: &SortExpr) -> SortOptions {
    SortOptions {
        descending: !sort.asc,
        nulls_first: sort.nulls_first,
    }
}
