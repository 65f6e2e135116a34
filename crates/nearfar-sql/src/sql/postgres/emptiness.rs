//! Catalogs of what there is none of, which queries are planned without.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, JoinOperator, Query, Select, SelectItem, SetExpr, TableFactor, Value,
    VisitorMut,
};
use std::ops::ControlFlow;

use super::{EMPTY_CATALOGS, catalog_name, null};
use crate::sql::aggregates::{has, is_of_aggregate};

/// Columns of catalogs with lists that are not kept, and so are always null.
const NULL_LISTS: [&str; 6] = [
    "attacl",
    "attoptions",
    "datacl",
    "nspacl",
    "relacl",
    "reloptions",
];

/// A function of several rows, which are the options in such a list.
const OPTIONS: &str = "pg_options_to_table";

/// A function of several rows, which are the tables that a table is a part of.
const ANCESTORS: &str = "pg_partition_ancestors";

/// Replaces what reads a catalog without rows by what that gives.
pub(super) struct Emptiness;

impl VisitorMut for Emptiness {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !reads_nothing(select) {
            return ControlFlow::Continue(());
        }
        if let Some(columns) = counts_of_nothing(select) {
            select.projection = columns;
            select.from = Vec::new();
            select.selection = None;
        } else if let Some(columns) = columns_of_nothing(&select.projection) {
            select.projection = columns;
            select.distinct = None;
            select.from = Vec::new();
            select.selection = Some(Expr::value(Value::Boolean(false)));
            select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
            select.having = None;
            select.sort_by = Vec::new();
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if is_nothing(query) {
            query.order_by = None;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Subquery(query) if is_nothing(query) => *expr = null(),
            Expr::Exists { subquery, negated } if is_nothing(subquery) => {
                *expr = Expr::value(Value::Boolean(*negated));
            }
            Expr::AnyOp { right, .. } if is_null_list(right) => *expr = null(),
            Expr::Function(function) if joins_nothing(function) => {
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(null()),
                    data_type: DataType::Text,
                    array: false,
                    format: None,
                };
            }
            Expr::Function(function) => {
                let is_array = catalog_name(&function.name).is_some_and(|name| name == "array");
                if let FunctionArguments::Subquery(query) = &function.args
                    && is_array
                    && is_nothing(query)
                {
                    *expr = Expr::value(Value::SingleQuotedString("{}".to_owned()));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Whether a function makes a text or another list of a list of the catalogs, which are kept as texts.
fn joins_nothing(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else {
        return false;
    };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first() else {
        return false;
    };
    let is_of_list = |name: String| ["array_to_string", "array_remove"].contains(&name.as_str());
    catalog_name(&function.name).is_some_and(is_of_list) && is_null_list(first)
}

fn is_null_list(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(name) => NULL_LISTS.contains(&name.value.as_str()),
        Expr::CompoundIdentifier(names) => names
            .last()
            .is_some_and(|name| NULL_LISTS.contains(&name.value.as_str())),
        Expr::BinaryOp { left, right, .. } => is_null_list(left) || is_null_list(right),
        Expr::Nested(inner) => is_null_list(inner),
        Expr::Cast { expr, .. } => **expr == null(),
        Expr::Value(value) => value.value == Value::SingleQuotedString("{}".to_owned()),
        _ => false,
    }
}

/// Whether a query is what [`Emptiness`] makes of one without rows.
fn is_nothing(query: &Query) -> bool {
    match query.body.as_ref() {
        SetExpr::Select(select) => {
            select.from.is_empty() && select.selection == Some(Expr::value(Value::Boolean(false)))
        }
        _ => false,
    }
}

/// Whether a table has no rows: a catalog of what there is none of, or the elements of a null.
fn is_empty(factor: &TableFactor) -> bool {
    let TableFactor::Table { name, args, .. } = factor else {
        return false;
    };
    let Some(catalog) = catalog_name(name) else {
        return false;
    };
    match args {
        None => name.0.len() == 2 && EMPTY_CATALOGS.contains(&catalog.as_str()),
        Some(_) if catalog == OPTIONS => true,
        Some(arguments) => match &arguments.args[..] {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(names)))] => {
                let column = names.last().map(|name| name.value.to_ascii_lowercase());
                catalog == "unnest"
                    && column.is_some_and(|column| NULL_LISTS.contains(&column.as_str()))
            }
            _ => false,
        },
    }
}

/// Whether a part of a query gives no rows, since a table that each would be made of has none.
fn reads_nothing(select: &Select) -> bool {
    let is_nothing = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(Expr::Function(function))
            if catalog_name(&function.name).is_some_and(|name| name == ANCESTORS))
    };
    if select.projection.iter().any(is_nothing) {
        return true;
    }
    select.from.iter().any(|from| {
        let mut is_preserved = true;
        let mut reads_nothing = is_empty(&from.relation);
        for join in &from.joins {
            match &join.join_operator {
                JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_) => {
                    reads_nothing |= is_preserved && is_empty(&join.relation);
                }
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => {}
                _ => {
                    is_preserved = false;
                    reads_nothing = false;
                }
            }
        }
        reads_nothing
    })
}

/// Zeros for numbers of rows, where nothing else is asked for of all of them.
fn counts_of_nothing(select: &Select) -> Option<Vec<SelectItem>> {
    let ungrouped = GroupByExpr::Expressions(Vec::new(), Vec::new());
    if select.group_by != ungrouped || select.having.is_some() {
        return None;
    }
    columns_of(&select.projection, |expr| match expr {
        Expr::Function(function) if function.over.is_none() => {
            let is_count = catalog_name(&function.name).is_some_and(|name| name == "count");
            is_count.then(|| Expr::value(Value::Number("0".to_owned(), false)))
        }
        _ => None,
    })
}

/// Nulls with the names of the columns; none if their number is not known, or if they would have a row
/// all the same.
fn columns_of_nothing(projection: &[SelectItem]) -> Option<Vec<SelectItem>> {
    columns_of(projection, |expr| (!has(expr, is_of_aggregate)).then(null))
}

/// The columns with their names and other values; none if their number is not known, or one of them has no value.
fn columns_of(
    projection: &[SelectItem],
    value: impl Fn(&Expr) -> Option<Expr>,
) -> Option<Vec<SelectItem>> {
    let column = |item: &SelectItem| {
        let (expr, alias) = match item {
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
            SelectItem::UnnamedExpr(expr) => (expr, name_of(expr)),
            _ => return None,
        };
        Some(SelectItem::ExprWithAlias {
            expr: value(expr)?,
            alias: alias.unwrap_or_else(|| Ident::with_quote('"', "?column?")),
        })
    };
    let mut columns: Vec<SelectItem> = projection.iter().map(column).collect::<Option<_>>()?;
    // The planner wants names that differ.
    let mut seen = Vec::new();
    for (at, column) in columns.iter_mut().enumerate() {
        if let SelectItem::ExprWithAlias { alias, .. } = column {
            if seen.contains(&alias.value) {
                *alias = Ident::with_quote('"', format!("?column?{at}"));
            }
            seen.push(alias.value.clone());
        }
    }
    Some(columns)
}

fn name_of(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Identifier(name) => Some(name.clone()),
        Expr::CompoundIdentifier(names) => names.last().cloned(),
        Expr::Function(function) => function.name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}
