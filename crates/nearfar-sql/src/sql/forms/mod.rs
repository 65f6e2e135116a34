//! Forms of SQL that DataFusion's planner has not or reads differently, as forms that it has.
//!
//! | form | becomes |
//! |---|---|
//! | columns of a result that share a name | columns with [numbers](names), which are not shown |
//! | `x < ALL (query)`, `x > ANY (query)` | what the least and the greatest value of the query say |
//! | `(a, b) = (c, d)`, `(a, b) IN ((c, d), …)`, `(a, b) IN (query)` | comparisons of the values |
//! | `j -> 'a'`, `j ->> 'a'`, `j #> '{a,b}'`, `j ? 'a'`, `CAST(… AS json)` | functions of texts |
//! | `a && b`, `a[:2]`, `array_remove(a, 1)`, … | functions of arrays |
//! | `every(b)`, `SELECT generate_series(1, 3)` | functions by the planner's names, rows of arrays |
//! | `information_schema._pg_expandarray(a)` | rows of the elements and their places |
//! | `(row).field` | `get_field(row, 'field')` |
//! | `SELECT sum(v) + 1 … ORDER BY 1` | `SELECT sum(v) + 1 AS "?column?" … ORDER BY 1` |
//! | `SELECT t.* FROM s.t` | `SELECT s.t.* FROM s.t` |
//! | `FETCH FIRST 3 ROWS ONLY` | `LIMIT 3` |
//! | `a JOIN b USING (k)` with `k` or `*` | `a.k`, `b.k` or `coalesce(a.k, b.k)` for `k` |
//! | `x IN ((SELECT 1), 2)` | a list, of which the parser makes a query |
//! | `a::date` beside `a`, where the planner gives both one name | a function that has the type in its name |
//! | `OVER (w ROWS …)`, `WINDOW v AS (w ORDER BY …)` | windows that are written out |
//! | `generate_series(1, 3) AS g` | `generate_series(1, 3) AS g (g)` |
//! | `f(…) WITH ORDINALITY` | a query of the function that numbers its rows |
//! | `INSERT INTO t SELECT … FROM (VALUES …)` | rows of arrays, whose types are not the table's |
//! | `UPDATE t SET A = …` | names without quotes in lower case |
//! | `MERGE` | the statements that it [stands for](merging) |
//! | `SELECT … FOR UPDATE`, `TABLESAMPLE` | an error: rows are not locked, nor chosen |

mod arrays;
mod changes;
mod fetching;
mod folding;
mod functions;
mod in_lists;
mod json;
mod locking;
mod merging;
mod names;
mod ordinality;
mod quantified;
mod rows;
mod rows_of_values;
mod template;
mod using;
mod wildcards;
mod windows;

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, Statement as Ast, TableFactor, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

use super::SqlError;
pub use arrays::elements as array_elements;
pub(crate) use changes::{
    BaseForm, ChangeForms, ConflictForm, JoinedForm, KeyTarget, change_forms,
};
pub(crate) use functions::call_by_own_names;
pub(super) use in_lists::mark as mark_in_lists;
pub(crate) use locking::{LockWait, RowLocking};
pub(super) use locking::{simplify_locks, take_locking};
pub(super) use merging::mark as mark_merge_actions;
pub(crate) use merging::{MergeActionForm, MergeForms, MergeWhen, merge_forms};
pub(crate) use names::shown;

/// Rewrites all parts of a statement.
///
/// # Errors
/// A form that is known not to be supported, and a name that may mean several columns.
pub(super) fn rewrite_forms(ast: &mut Ast) -> Result<(), SqlError> {
    folding::fold(ast);
    rows_of_values::rewrite(ast)?;
    match VisitMut::visit(
        ast,
        &mut Forms {
            names: Names::Equal,
        },
    ) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The statement with numbers at all names of columns that the planner could take for others, where it
/// has found some that are the same.
pub(crate) fn with_unique_names(statement: &DfStatement) -> Option<DfStatement> {
    let mut statement = statement.clone();
    let ast = match &mut statement {
        DfStatement::Statement(ast) => ast,
        DfStatement::Explain(explain) => match explain.statement.as_mut() {
            DfStatement::Statement(ast) => ast,
            _ => return None,
        },
        _ => return None,
    };
    let visited = VisitMut::visit(ast.as_mut(), &mut Forms { names: Names::All });
    visited.is_continue().then_some(statement)
}

/// Which names of columns get numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Those that are seen to be the same.
    Equal,
    /// Also those that are the same to the planner perhaps.
    All,
}

struct Forms {
    names: Names,
}

impl VisitorMut for Forms {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        using::rewrite_order(query);
        names::name_keys(query);
        names::name_ordered(query);
        flow(locking::check(query).and_then(|()| fetching::limit(query)))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        flow(windows::write_out_order(query).and_then(|()| names::order(query)))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        using::rewrite(select);
        wildcards::name_in_full(select);
        rows::simplify_condition(select);
        select
            .projection
            .iter_mut()
            .for_each(functions::unnest_series);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        names::number(select, self.names);
        flow(windows::write_out(select))
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        ordinality::number_rows(factor);
        functions::name_column(factor);
        flow(fetching::check_sample(factor))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        in_lists::unmark(expr);
        json::rewrite(expr);
        functions::rename(expr);
        functions::unnest_elements(expr);
        functions::get_field(expr);
        arrays::rewrite(expr);
        if self.names == Names::All {
            names::name_cast(expr);
        }
        flow(quantified::rewrite(expr).and_then(|()| rows::rewrite(expr)))
    }
}

fn flow(result: Result<(), SqlError>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}
