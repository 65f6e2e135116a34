//! Functions that the planner knows by another name, or reads as something else.

use datafusion::sql::sqlparser::ast::{Expr, Function, Ident, ObjectNamePart, SelectItem};

use super::template::{call, take};

/// PostgreSQL's names of functions, and the planner's.
const RENAMED: [(&str, &str); 8] = [
    ("array_remove", "array_remove_all"),
    ("array_replace", "array_replace_all"),
    ("every", "bool_and"),
    ("gen_random_uuid", "uuid"),
    ("json_array_length", "json_length"),
    ("jsonb_array_length", "json_length"),
    ("variance", "var_samp"),
    ("statement_timestamp", "now"),
];

/// A function of several rows, which is one of an array to the planner where it stands in a `SELECT` list.
const SERIES: &str = "generate_series";

/// Gives a function the planner's name.
pub(super) fn rename(expr: &mut Expr) {
    let Expr::Function(function) = expr else {
        return;
    };
    let [ObjectNamePart::Identifier(name)] = &mut function.name.0[..] else {
        return;
    };
    let is_meant = |(theirs, _): &&(&str, &str)| name.value.eq_ignore_ascii_case(theirs);
    if let Some((_, meant)) = RENAMED.iter().find(is_meant) {
        *name = Ident::new(*meant);
    }
}

/// Makes rows of a series in a `SELECT` list.
pub(super) fn unnest_series(item: &mut SelectItem) {
    match item {
        SelectItem::UnnamedExpr(expr) if is_series(expr) => {
            let expr = call("unnest", vec![take(expr)]);
            let alias = Ident::new(SERIES);
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
        SelectItem::ExprWithAlias { expr, .. } if is_series(expr) => {
            *expr = call("unnest", vec![take(expr)]);
        }
        _ => {}
    }
}

fn is_series(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(Function { name, .. })
        if matches!(&name.0[..], [ObjectNamePart::Identifier(name)] if name.value.eq_ignore_ascii_case(SERIES)))
}
