//! Windows that begin with another one by its name: `OVER (w ROWS 2 PRECEDING)`, `WINDOW v AS (w ORDER BY x)`.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, VisitMut,
    WindowSpec, WindowType, visit_expressions_mut,
};
use std::ops::ControlFlow;

use super::folding::folded;
use super::{SqlError, flow};

/// Windows by their names, as they are written out in full.
type Known = Vec<(Ident, WindowSpec)>;

/// Writes the windows out that a `SELECT` defines or uses. Those of queries within it have been.
///
/// # Errors
/// A window that is not defined, and clauses that the one it begins with does not allow.
pub fn write_out(select: &mut Select) -> Result<(), SqlError> {
    let known = definitions(&mut select.named_window)?;
    in_expressions(&mut select.projection, &known)
}

/// The same for the order of a query's rows.
///
/// # Errors
/// As [`write_out`].
pub fn write_out_order(query: &mut Query) -> Result<(), SqlError> {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), &mut query.order_by) else {
        return Ok(());
    };
    let known = definitions(&mut select.named_window)?;
    in_expressions(order, &known)
}

/// Windows may begin with those that are defined before them.
fn definitions(definitions: &mut [NamedWindowDefinition]) -> Result<Known, SqlError> {
    let mut known = Known::new();
    for NamedWindowDefinition(name, window) in definitions {
        if let NamedWindowExpr::WindowSpec(window) = window {
            complete(window, &known)?;
            known.push((name.clone(), window.clone()));
        }
    }
    Ok(known)
}

fn in_expressions<T>(node: &mut T, known: &Known) -> Result<(), SqlError>
where
    T: VisitMut,
{
    let visited = visit_expressions_mut(node, |expr| match expr {
        Expr::Function(call) => match &mut call.over {
            Some(WindowType::WindowSpec(window)) => flow(complete(window, known)),
            _ => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    });
    match visited {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn complete(window: &mut WindowSpec, known: &Known) -> Result<(), SqlError> {
    let Some(name) = window.window_name.take() else {
        return Ok(());
    };
    let refused = |why: String| Err(SqlError::Syntax { message: why });
    let is_its = |(other, _): &&(Ident, WindowSpec)| folded(other) == folded(&name);
    let Some((_, first)) = known.iter().find(is_its) else {
        return refused(format!("window \"{}\" does not exist", name.value));
    };
    if !window.partition_by.is_empty() {
        return refused(format!(
            "cannot override PARTITION BY clause of window \"{}\"",
            name.value
        ));
    }
    if !(window.order_by.is_empty() || first.order_by.is_empty()) {
        return refused(format!(
            "cannot override ORDER BY clause of window \"{}\"",
            name.value
        ));
    }
    if first.window_frame.is_some() {
        return refused(format!(
            "cannot copy window \"{0}\" because it has a frame clause: write OVER {0} without parentheses to use it",
            name.value
        ));
    }
    window.partition_by.clone_from(&first.partition_by);
    if window.order_by.is_empty() {
        window.order_by.clone_from(&first.order_by);
    }
    Ok(())
}
