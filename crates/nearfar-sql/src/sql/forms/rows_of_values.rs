//! `VALUES` inside the query of an `INSERT`, or of a `CREATE TABLE` with columns: the planner gives them the
//! types and the number of the table's columns, which they have only where they are the whole query.

use datafusion::sql::sqlparser::ast::{
    Array, Expr, Ident, Query, SelectItem, SetExpr, Statement as Ast, Values, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

use super::template::{call, parse};
use crate::sql::SqlError;

/// Writes such rows as columns of arrays.
///
/// # Errors
/// Rows of different lengths.
pub(super) fn rewrite(ast: &mut Ast) -> Result<(), SqlError> {
    let query = match ast {
        Ast::Insert(insert) => insert.source.as_mut(),
        Ast::CreateTable(create) if !create.columns.is_empty() => create.query.as_mut(),
        _ => None,
    };
    let Some(query) = query.filter(|query| !matches!(*query.body, SetExpr::Values(_))) else {
        return Ok(());
    };
    match VisitMut::visit(query, &mut Inner) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Inner;

impl VisitorMut for Inner {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        match rewrite_body(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn rewrite_body(body: &mut SetExpr) -> Result<(), SqlError> {
    match body {
        SetExpr::Values(values) => {
            *body = of_arrays(std::mem::replace(values, no_values()))?;
            Ok(())
        }
        SetExpr::SetOperation { left, right, .. } => {
            rewrite_body(left)?;
            rewrite_body(right)
        }
        _ => Ok(()),
    }
}

fn no_values() -> Values {
    Values {
        explicit_row: false,
        value_keyword: false,
        rows: Vec::new(),
    }
}

/// `SELECT unnest(ARRAY[…]) AS column1, …`.
fn of_arrays(values: Values) -> Result<SetExpr, SqlError> {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let mut columns: Vec<Vec<Expr>> = vec![Vec::new(); width];
    for row in values.rows {
        if row.content.len() != width {
            let message = "VALUES lists must all be the same length".to_owned();
            return Err(SqlError::Syntax { message });
        }
        for (column, value) in columns.iter_mut().zip(row.content) {
            column.push(value);
        }
    }
    let mut query = parse("SELECT 1")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        let columns = columns.into_iter().enumerate().map(|(at, elem)| {
            let array = Expr::Array(Array { elem, named: true });
            SelectItem::ExprWithAlias {
                expr: call("unnest", vec![array]),
                alias: Ident::new(format!("column{}", at + 1)),
            }
        });
        select.projection = columns.collect();
    }
    Ok(*query.body)
}
