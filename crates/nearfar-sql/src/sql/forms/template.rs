//! Queries over a query that a statement has.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, SelectItem, SetExpr, Statement as Ast, TableAlias,
    TableAliasColumnDef, TableFactor, UnaryOperator,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::names::MARK;
use crate::sql::SqlError;
pub(super) use crate::sql::postgres::{call, null, take};
use crate::sql::script::DIALECT;

/// The name of a column of [`over`], from 0: one that no query has, so that nothing of what surrounds
/// the query is taken for it.
pub(super) fn column(at: usize) -> Expr {
    Expr::Identifier(column_name(at))
}

fn column_name(at: usize) -> Ident {
    Ident::with_quote('"', format!("{MARK}{at}"))
}

/// `SELECT value FROM (query) AS q (columns) [WHERE condition]`.
///
/// # Errors
/// None, as long as the parser reads what it always has read.
pub(super) fn over(
    query: Query,
    columns: usize,
    value: Expr,
    condition: Option<Expr>,
) -> Result<Query, SqlError> {
    let broken = || SqlError::Syntax {
        message: "a query cannot be compared".to_owned(),
    };
    let mut parsed = parse("SELECT 1 FROM (SELECT 1) AS q")?;
    let SetExpr::Select(select) = parsed.body.as_mut() else {
        return Err(broken());
    };
    let from = select.from.first_mut().ok_or_else(broken)?;
    let TableFactor::Derived {
        subquery, alias, ..
    } = &mut from.relation
    else {
        return Err(broken());
    };
    **subquery = query;
    *alias = Some(TableAlias {
        explicit: true,
        name: Ident::with_quote('"', MARK.to_string()),
        columns: (0..columns)
            .map(|at| TableAliasColumnDef {
                name: column_name(at),
                data_type: None,
            })
            .collect(),
        at: None,
    });
    select.projection = vec![SelectItem::UnnamedExpr(value)];
    select.selection = condition;
    Ok(parsed)
}

/// A query of a text of our own.
pub(super) fn parse(sql: &str) -> Result<Query, SqlError> {
    match parse_statement(sql)? {
        Ast::Query(query) => Ok(*query),
        _ => Err(SqlError::Syntax {
            message: sql.to_owned(),
        }),
    }
}

/// A statement of a text of our own.
pub(super) fn parse_statement(sql: &str) -> Result<Ast, SqlError> {
    let parsed = Parser::parse_sql(&DIALECT, sql).map_err(crate::sql::statement::syntax)?;
    parsed.into_iter().next().ok_or_else(|| SqlError::Syntax {
        message: sql.to_owned(),
    })
}

/// Expressions between operators, as a tree that is no deeper than it must be.
pub(super) fn joined(mut expressions: Vec<Expr>, op: &BinaryOperator) -> Expr {
    match expressions.len() {
        0 => null(),
        1 => expressions.swap_remove(0),
        count => {
            let right = expressions.split_off(count / 2);
            Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(joined(expressions, op)),
                op: op.clone(),
                right: Box::new(joined(right, op)),
            }))
        }
    }
}

/// `NOT (…)`.
pub(super) fn negated(expr: Expr) -> Expr {
    Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(Expr::Nested(Box::new(expr))),
    }
}
