//! Aggregates in the text of statements.

use datafusion::sql::sqlparser::ast::{Expr, Function, Query, Visit, Visitor};
use std::ops::ControlFlow;

use super::postgres::catalog_name;

/// The usual aggregates.
const AGGREGATES: [&str; 15] = [
    "array_agg",
    "avg",
    "bool_and",
    "bool_or",
    "count",
    "every",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "max",
    "min",
    "stddev",
    "string_agg",
    "sum",
    "variance",
];

/// Whether a function is called by the name of a usual aggregate, over groups or a window.
pub(super) fn is_of_aggregate(function: &Function) -> bool {
    catalog_name(&function.name).is_some_and(|name| AGGREGATES.contains(&name.as_str()))
}

/// Whether a function is a usual aggregate over groups.
pub(super) fn is_aggregate(function: &Function) -> bool {
    function.over.is_none() && is_of_aggregate(function)
}

/// Whether one of the functions in a part of a statement, outside of queries within it, is one of these.
pub(super) fn has(of: &impl Visit, is_one: impl Fn(&Function) -> bool) -> bool {
    of.visit(&mut Search { depth: 0, is_one }).is_break()
}

struct Search<F> {
    /// Queries that the part is within.
    depth: usize,
    is_one: F,
}

impl<F: Fn(&Function) -> bool> Visitor for Search<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if self.depth == 0 && (self.is_one)(function) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
