//! Columns of a result that have the same name.
//!
//! PostgreSQL allows them, as long as none is referred to by that name; the planner does not. Behind an
//! invisible character they get a number, which is [cut off](shown) where rows leave. References to the
//! name find nothing then.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    OrderByKind, Query, Select, SelectItem, SetExpr, UnaryOperator, Value, VisitMut, VisitorMut,
    visit_expressions,
};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use super::Names;
use super::folding::folded;
use super::template::{call, take};
use crate::sql::SqlError;
use crate::sql::aggregates::{has, is_aggregate};
use crate::values::TYPED;

/// Stands between a name and its number: INVISIBLE SEPARATOR, which nobody types.
pub(super) const MARK: char = '\u{2063}';

/// What PostgreSQL calls a column whose expression has no name.
const UNNAMED: &str = "?column?";

/// A column's name without its number.
pub(crate) fn shown(name: &str) -> &str {
    name.split_once(MARK).map_or(name, |(name, _)| name)
}

/// What makes two columns the same to the planner.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Name(String),
    /// The text of an expression without a name.
    Text(String),
}

/// Gives numbers to the columns of a part of a query.
pub(super) fn number(select: &mut Select, names: Names) {
    if select.projection.len() < 2 {
        return;
    }
    let is_wildcard = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)
        )
    };
    let has_wildcard = select.projection.iter().any(is_wildcard);
    let keys: Vec<Option<Key>> = select.projection.iter().map(key).collect();
    let mut counts: HashMap<&Key, usize> = HashMap::new();
    for key in keys.iter().flatten() {
        *counts.entry(key).or_default() += 1;
    }
    for (at, (item, key)) in select.projection.iter_mut().zip(&keys).enumerate() {
        let Some(key) = key else { continue };
        let may_be_another = names == Names::All && (has_wildcard || matches!(key, Key::Text(_)));
        if counts[key] < 2 && !may_be_another {
            continue;
        }
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        let name = match key {
            Key::Name(name) => name.clone(),
            Key::Text(_) => name_of(expr),
        };
        let alias = numbered(&name, at);
        let expr = take(expr);
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

/// The name of the column at a place, from 0, with its number.
fn numbered(name: &str, at: usize) -> Ident {
    Ident::with_quote('"', format!("{name}{MARK}{}", at + 1))
}

/// None for what has its number, or no single column.
fn key(item: &SelectItem) -> Option<Key> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } if alias.value.contains(MARK) => None,
        SelectItem::ExprWithAlias { alias, .. } => Some(Key::Name(folded(alias))),
        SelectItem::UnnamedExpr(expr) => Some(match stripped(expr) {
            Expr::Identifier(name) => Key::Name(folded(name)),
            Expr::CompoundIdentifier(names) => Key::Name(folded(names.last()?)),
            _ => Key::Text(canonical(expr)),
        }),
        _ => None,
    }
}

/// An expression without what changes nothing of its name.
fn stripped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner)
        | Expr::Cast { expr: inner, .. }
        | Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr: inner,
        } => stripped(inner),
        other => other,
    }
}

/// A text that is the same for all expressions that the planner gives one name.
fn canonical(expr: &Expr) -> String {
    struct Canonical;
    impl VisitorMut for Canonical {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::Nested(inner)
                | Expr::Cast { expr: inner, .. }
                | Expr::UnaryOp {
                    op: UnaryOperator::Plus,
                    expr: inner,
                } => {
                    *expr = take(inner);
                }
                Expr::CompoundIdentifier(names) => {
                    if let Some(name) = names.pop() {
                        *expr = Expr::Identifier(name);
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    let _ = VisitMut::visit(&mut expr, &mut Canonical);
    // Too much that is the same does no harm.
    expr.to_string().to_lowercase()
}

/// Has a cast be named apart from what it casts.
pub(super) fn name_cast(expr: &mut Expr) {
    let Expr::Cast { data_type, .. } = expr else {
        return;
    };
    let data_type = Expr::value(Value::SingleQuotedString(data_type.to_string()));
    *expr = call(TYPED, vec![take(expr), data_type]);
}

/// Has casts be named apart from what they cast in a query that groups by both.
pub(super) fn name_keys(query: &mut Query) {
    if !groups_by_equal_names(query) {
        return;
    }
    if let SetExpr::Select(select) = query.body.as_mut() {
        for (at, item) in select.projection.iter_mut().enumerate() {
            if let SelectItem::UnnamedExpr(expr) = item {
                let alias = numbered(&name_of(expr), at);
                let expr = take(expr);
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
    }
    struct Casts;
    impl VisitorMut for Casts {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            name_cast(expr);
            ControlFlow::Continue(())
        }
    }
    let _ = VisitMut::visit(query, &mut Casts);
}

/// Gives their names to columns that are computed of aggregates and whose numbers a query is ordered by: the planner takes
/// the number of one without a name for an expression over rows that are not grouped.
pub(super) fn name_ordered(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), &query.order_by) else {
        return;
    };
    let OrderByKind::Expressions(keys) = &order.kind else {
        return;
    };
    let is_grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => !keys.is_empty() || select.having.is_some(),
    };
    let places = keys.iter().filter_map(|key| place_of(&key.expr));
    for at in places.collect::<BTreeSet<usize>>() {
        let Some(SelectItem::UnnamedExpr(expr)) = select.projection.get(at) else {
            continue;
        };
        if !is_computed(expr) || !(is_grouped || has(expr, is_aggregate)) {
            continue;
        }
        let name = name_of(expr);
        let alias = match mentions(select, &name) {
            true => numbered(&name, at),
            false => Ident::with_quote('"', name),
        };
        if let SelectItem::UnnamedExpr(expr) = &mut select.projection[at] {
            let expr = take(expr);
            select.projection[at] = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// Whether an expression is a window, or more than a column, an aggregate or a function of columns.
fn is_computed(expr: &Expr) -> bool {
    match stripped(expr) {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => false,
        Expr::Function(function) if function.over.is_some() => true,
        Expr::Function(function) => !is_aggregate(function) && has(&function.args, is_aggregate),
        _ => true,
    }
}

/// Whether a name stands alone somewhere in a part of a query.
fn mentions(select: &Select, name: &str) -> bool {
    let found = visit_expressions(select, |part| match part {
        Expr::Identifier(other) if folded(other) == name => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn groups_by_equal_names(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    let GroupByExpr::Expressions(keys, _) = &select.group_by else {
        return false;
    };
    let mut texts: HashMap<String, String> = HashMap::new();
    keys.iter().any(|key| {
        let key = listed(key, &select.projection);
        let name = stripped(key).to_string();
        let text = key.to_string();
        texts
            .insert(name, text.clone())
            .is_some_and(|other| other != text)
    })
}

/// The place of the column, from 0, whose number a key is.
fn place_of(key: &Expr) -> Option<usize> {
    match key {
        Expr::Value(value) => value.to_string().parse::<usize>().ok()?.checked_sub(1),
        _ => None,
    }
}

/// What a key means that is the number of a column.
fn listed<'a>(key: &'a Expr, projection: &'a [SelectItem]) -> &'a Expr {
    let item = place_of(key).and_then(|at| projection.get(at));
    match item {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => expr,
        _ => key,
    }
}

/// What PostgreSQL calls the column of an expression (`FigureColname`).
fn name_of(expr: &Expr) -> String {
    let fixed = match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => return name_of(inner),
        Expr::Identifier(name) => return folded(name),
        Expr::CompoundIdentifier(names) => return names.last().map_or_else(unnamed, folded),
        Expr::Function(Function {
            name,
            args: FunctionArguments::List(list),
            ..
        }) if name.to_string() == TYPED => {
            return match list.args.first() {
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(cast))) => name_of(cast),
                _ => unnamed(),
            };
        }
        Expr::Function(Function { name, .. }) => {
            let last = name.0.last().and_then(|part| part.as_ident());
            return last.map_or_else(unnamed, folded);
        }
        Expr::Subquery(query) => {
            return match first_select(&query.body).map(|it| &it.projection[..]) {
                Some([SelectItem::UnnamedExpr(expr)]) => name_of(expr),
                Some([SelectItem::ExprWithAlias { alias, .. }]) => folded(alias),
                _ => unnamed(),
            };
        }
        Expr::Case { .. } => "case",
        Expr::Exists { .. } => "exists",
        Expr::Array(_) => "array",
        Expr::Extract { .. } => "extract",
        Expr::Substring { .. } => "substring",
        Expr::Position { .. } => "position",
        _ => UNNAMED,
    };
    fixed.to_owned()
}

fn unnamed() -> String {
    UNNAMED.to_owned()
}

/// Has `ORDER BY` name the columns with their numbers.
///
/// # Errors
/// A name of columns that are not the same.
pub(super) fn order(query: &mut Query) -> Result<(), SqlError> {
    let Some(order_by) = &mut query.order_by else {
        return Ok(());
    };
    let (OrderByKind::Expressions(keys), Some(select)) =
        (&mut order_by.kind, first_select(&query.body))
    else {
        return Ok(());
    };
    for key in keys {
        let Expr::Identifier(name) = &key.expr else {
            continue;
        };
        let name = folded(name);
        let mut found = select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias }
                if alias.value.contains(MARK) && shown(&alias.value) == name =>
            {
                Some((expr, alias))
            }
            _ => None,
        });
        let Some((expr, alias)) = found.next() else {
            continue;
        };
        if name.contains(MARK) {
            continue;
        }
        let first = canonical(expr);
        // Other parts of a union have other values.
        let is_several = !matches!(query.body.as_ref(), SetExpr::Select(_));
        if found.any(|(other, _)| is_several || canonical(other) != first) {
            return Err(SqlError::AmbiguousColumn { column: name });
        }
        key.expr = Expr::Identifier(alias.clone());
    }
    Ok(())
}

/// The part of a query that names its columns.
fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}
