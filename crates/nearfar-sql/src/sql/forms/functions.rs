//! Functions that the planner knows by another name, or reads as something else.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectNamePart, SelectItem, TableAliasColumnDef, TableFactor, Value,
    VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

use super::folding::folded;
use super::template::{call, take};
use crate::sql::postgres::catalog_name;

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

/// The function of elements and their places, as JDBC's driver calls it.
const ELEMENTS: [&str; 2] = ["information_schema", "_pg_expandarray"];

/// Makes rows of the elements of an array and their places.
pub(super) fn unnest_elements(expr: &mut Expr) {
    let Expr::Function(function) = expr else {
        return;
    };
    let names = function.name.0.iter().filter_map(|part| part.as_ident());
    let is_meant = names.map(folded).eq(ELEMENTS);
    if is_meant {
        function.name.0.remove(0);
        *expr = call("unnest", vec![take(expr)]);
    }
}

/// Has the field of a row, as in `(row).name`, be a function of the row.
pub(super) fn get_field(expr: &mut Expr) {
    if let Expr::CompoundFieldAccess { root, access_chain } = expr
        && let Expr::Nested(row) = root.as_mut()
        && let [AccessExpr::Dot(Expr::Identifier(name))] = &access_chain[..]
    {
        let name = Expr::value(Value::SingleQuotedString(folded(name)));
        *expr = call("get_field", vec![take(row), name]);
    }
}

/// Has a statement call functions by their own names, which `own_name` knows by all of their names.
///
/// The planner keeps the other name around such a call, and looks at what is inside twice whenever it looks:
/// some that stand within each other take it time that doubles with each.
pub(crate) fn call_by_own_names<'a>(
    statement: &mut DfStatement,
    own_name: impl Fn(&str) -> Option<&'a str>,
) {
    match statement {
        DfStatement::Statement(ast) => {
            let _ = VisitMut::visit(ast.as_mut(), &mut OwnNames(own_name));
        }
        DfStatement::Explain(explain) => call_by_own_names(&mut explain.statement, own_name),
        _ => {}
    }
}

struct OwnNames<F>(F);

impl<'a, F: Fn(&str) -> Option<&'a str>> VisitorMut for OwnNames<F> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let [ObjectNamePart::Identifier(name)] = &mut function.name.0[..]
        {
            let called = folded(name);
            if let Some(own) = (self.0)(&called).filter(|own| *own != called) {
                *name = Ident::new(own);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Names the one column of a function's rows like what stands for them: `generate_series(1, 3) AS g` has `g.g`.
pub(super) fn name_column(factor: &mut TableFactor) {
    let alias = match factor {
        TableFactor::Table {
            name,
            alias: Some(alias),
            args: Some(_),
            ..
        } if catalog_name(name).is_some_and(|name| name == SERIES) => alias,
        TableFactor::UNNEST {
            alias: Some(alias),
            array_exprs,
            ..
        } if array_exprs.len() == 1 => alias,
        _ => return,
    };
    if alias.columns.is_empty() {
        alias.columns = vec![TableAliasColumnDef {
            name: alias.name.clone(),
            data_type: None,
        }];
    }
}

/// A function of the places of an array's elements, likewise.
const SUBSCRIPTS: &str = "generate_subscripts";

/// Makes rows of a series in a `SELECT` list.
pub(super) fn unnest_series(item: &mut SelectItem) {
    if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = &mut *item
        && let Some(series) = subscripts(expr)
    {
        *expr = series;
    }
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

/// The places of an array's elements, from 1, as a series.
fn subscripts(expr: &mut Expr) -> Option<Expr> {
    let Expr::Function(Function {
        name,
        args: FunctionArguments::List(list),
        ..
    }) = expr
    else {
        return None;
    };
    let is_meant = matches!(&name.0[..], [ObjectNamePart::Identifier(name)]
        if name.value.eq_ignore_ascii_case(SUBSCRIPTS));
    let mut arguments = list.args.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(take(argument)),
        _ => None,
    });
    if !is_meant {
        return None;
    }
    let (array, dimension) = (arguments.next()?, arguments.next()?);
    let number = |digits: &str| Expr::value(Value::Number(digits.to_owned(), false));
    let length = call("array_length", vec![array, dimension]);
    let length = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call("coalesce", vec![length, number("0")])),
        data_type: DataType::BigInt(None),
        array: false,
        format: None,
    };
    Some(call(SERIES, vec![number("1"), length]))
}

fn is_series(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(Function { name, .. })
        if matches!(&name.0[..], [ObjectNamePart::Identifier(name)] if name.value.eq_ignore_ascii_case(SERIES)))
}
