//! `JOIN … USING (columns)`, of which PostgreSQL makes one column for each of these: that of the left side, of the right one
//! where the join keeps all of its rows, or of whichever is there where it keeps those of both. It comes first of what `*`
//! stands for. The planner takes one of both for it, and in conditions none.
//!
//! References to it become references to that of the side, or a call of `coalesce`; `*` becomes these columns, and what else each
//! table has. Names in queries within are left alone: they may be those of other tables.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator,
    ObjectName, ObjectNamePart, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, VisitMut, VisitorMut,
    WildcardAdditionalOptions,
};
use std::ops::ControlFlow;

use super::folding::folded;
use super::template::{call, joined};

/// Rewrites the keys that a query is ordered by.
pub(super) fn rewrite_order(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return;
    };
    let Some(order) = query.order_by.as_mut() else {
        return;
    };
    let OrderByKind::Expressions(keys) = &mut order.kind else {
        return;
    };
    let columns = Columns::of_all(&select.from);
    if !columns.merged.is_empty() {
        resolve_keys(
            keys.iter_mut().map(|key| &mut key.expr),
            &select.projection,
            &columns,
        );
    }
}

/// Rewrites the rest of a part of a query.
pub(super) fn rewrite(select: &mut Select) {
    let columns = Columns::of_all(&select.from);
    if columns.merged.is_empty() {
        return;
    }
    let tables = select.from.iter();
    let all: Vec<SelectItem> = tables
        .flat_map(|table| Columns::of(table).items())
        .collect();
    let items = std::mem::take(&mut select.projection);
    let is_bare = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_));
    let compares = columns.is_clear || !items.iter().any(is_bare);
    let tables = select.from.iter_mut();
    tables.for_each(|table| resolve_conditions(table, compares));
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        resolve_keys(keys, &items, &columns);
    }
    for item in items {
        match item {
            SelectItem::Wildcard(options) if is_all(&options) && columns.is_clear => {
                select.projection.extend_from_slice(&all);
            }
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                select.projection.push(columns.item(name));
            }
            mut other => {
                resolve(&mut other, &columns.merged);
                select.projection.push(other);
            }
        }
    }
    resolve(&mut select.selection, &columns.merged);
    resolve(&mut select.group_by, &columns.merged);
    resolve(&mut select.having, &columns.merged);
    resolve(&mut select.qualify, &columns.merged);
    resolve(&mut select.named_window, &columns.merged);
}

/// Whether `*` stands for all columns.
fn is_all(options: &WildcardAdditionalOptions) -> bool {
    let all = WildcardAdditionalOptions {
        wildcard_token: options.wildcard_token.clone(),
        ..WildcardAdditionalOptions::default()
    };
    *options == all
}

/// Rewrites keys of order, for which the names of the result, of these `items`, come before those of tables.
fn resolve_keys<'a>(
    keys: impl IntoIterator<Item = &'a mut Expr>,
    items: &[SelectItem],
    columns: &Columns,
) {
    for key in keys {
        let is_of_result = match &*key {
            Expr::Identifier(name) => {
                let name = folded(name);
                items.iter().any(|item| columns.has(item, &name))
            }
            _ => false,
        };
        if !is_of_result {
            resolve(key, &columns.merged);
        }
    }
}

/// A column that a join has made of two.
#[derive(Debug, Clone)]
struct Merged {
    name: Ident,
    value: Expr,
}

/// A table of a join.
#[derive(Debug, Clone)]
struct Joined {
    /// As it stands before its columns: the alias, or else the whole name.
    name: Vec<Ident>,
    /// Columns of it that are in one with others', as the planner has them.
    merged: Vec<Ident>,
}

/// What is known of the columns of tables that are joined.
#[derive(Debug, Clone)]
struct Columns {
    /// In the order in which they come first.
    merged: Vec<Merged>,
    tables: Vec<Joined>,
    /// Whether all tables have names, and it is known whose columns those are that are in one.
    is_clear: bool,
}

impl Columns {
    fn none() -> Self {
        Self {
            merged: Vec::new(),
            tables: Vec::new(),
            is_clear: true,
        }
    }

    /// Those of several tables that are not joined by their columns.
    fn of_all(tables: &[TableWithJoins]) -> Self {
        let all = tables.iter().map(Self::of);
        all.fold(Self::none(), |left, right| left.beside(right, &[]))
    }

    fn of(table: &TableWithJoins) -> Self {
        Self::of_first(&table.relation, &table.joins)
    }

    fn of_first(first: &TableFactor, joins: &[Join]) -> Self {
        let joined = joins.iter();
        joined.fold(Self::of_table(first), |left, join| left.join(join))
    }

    fn of_table(table: &TableFactor) -> Self {
        let name = match table {
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => return Self::of(table_with_joins),
            // Those of functions are the planner's.
            TableFactor::Table {
                name,
                alias: None,
                args: None,
                ..
            } => idents(name),
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => {
                let alias = alias.as_ref();
                alias.map(|alias| vec![alias.name.clone()])
            }
            _ => None,
        };
        let table = name.map(|name| Joined {
            name,
            merged: Vec::new(),
        });
        Self {
            merged: Vec::new(),
            is_clear: table.is_some(),
            tables: table.into_iter().collect(),
        }
    }

    fn join(mut self, join: &Join) -> Self {
        let mut right = Self::of_table(&join.relation);
        let (constraint, keeps_left, keeps_right) = match &join.join_operator {
            JoinOperator::Join(on) | JoinOperator::Inner(on) => (on, false, false),
            JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (on, true, false),
            JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (on, false, true),
            JoinOperator::FullOuter(on) => (on, true, true),
            _ => return self.beside(right, &[]),
        };
        self.is_clear &= !matches!(constraint, JoinConstraint::Natural);
        let mut merged = Vec::new();
        for name in used(constraint) {
            let sides = (self.take(name), right.take(name));
            let value = match (keeps_left, keeps_right, sides) {
                (true, true, (Some(left), Some(right))) => {
                    Some(call("coalesce", vec![left, right]))
                }
                (true, true, _) => None,
                (true, false, (left, _)) => left,
                (false, true, (_, right)) => right,
                (false, false, (left, right)) => left.or(right),
            };
            let name = name.clone();
            merged.extend(value.map(|value| Merged { name, value }));
        }
        self.beside(right, &merged)
    }

    /// The columns of two sides, of which some have become `merged`.
    fn beside(mut self, right: Self, merged: &[Merged]) -> Self {
        self.merged.splice(0..0, merged.iter().cloned());
        self.merged.extend(right.merged);
        self.tables.extend(right.tables);
        self.is_clear &= right.is_clear;
        self
    }

    /// The column that is to become one with another, which it is no longer by itself. None where it is not known whose it
    /// is.
    fn take(&mut self, name: &Ident) -> Option<Expr> {
        let folded_name = folded(name);
        let known = self.merged.iter();
        if let Some(at) = known
            .map(|it| folded(&it.name))
            .position(|it| it == folded_name)
        {
            return Some(self.merged.remove(at).value);
        }
        match &mut self.tables[..] {
            [table] if self.is_clear => {
                table.merged.push(Ident::with_quote('"', folded_name));
                let names = table.name.iter().chain([name]);
                Some(Expr::CompoundIdentifier(names.cloned().collect()))
            }
            _ => {
                self.is_clear = false;
                None
            }
        }
    }

    /// What the name alone of a column stands for in a list of columns.
    fn item(&self, name: Ident) -> SelectItem {
        match value_of(&self.merged, &name) {
            None => SelectItem::UnnamedExpr(Expr::Identifier(name)),
            Some(value @ Expr::CompoundIdentifier(_)) => SelectItem::UnnamedExpr(value.clone()),
            Some(value) => SelectItem::ExprWithAlias {
                expr: value.clone(),
                alias: name,
            },
        }
    }

    /// Whether a column of the result that an item stands for has a name.
    fn has(&self, item: &SelectItem, name: &str) -> bool {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(column)) => folded(column) == name,
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => {
                names.last().is_some_and(|column| folded(column) == name)
            }
            SelectItem::ExprWithAlias { alias, .. } => folded(alias) == name,
            SelectItem::Wildcard(_) => true,
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(table),
                _,
            ) => {
                let last = idents(table).and_then(|names| names.last().map(folded));
                let mut tables = self.tables.iter();
                tables.any(|table| {
                    table.name.last().map(folded) == last
                        && table.merged.iter().any(|column| column.value == name)
                })
            }
            _ => false,
        }
    }

    /// What `*` stands for.
    fn items(&self) -> Vec<SelectItem> {
        let merged = self.merged.iter().map(|it| self.item(it.name.clone()));
        let tables = self.tables.iter().map(|table| {
            let names = table.merged.iter().cloned().map(ObjectName::from);
            let exclude =
                (!table.merged.is_empty()).then(|| ExcludeSelectItem::Multiple(names.collect()));
            let options = WildcardAdditionalOptions {
                opt_exclude: exclude,
                ..WildcardAdditionalOptions::default()
            };
            let name = ObjectName::from(table.name.clone());
            let table = SelectItemQualifiedWildcardKind::ObjectName(name);
            SelectItem::QualifiedWildcard(table, options)
        });
        merged.chain(tables).collect()
    }
}

/// The parts of a name.
fn idents(name: &ObjectName) -> Option<Vec<Ident>> {
    let parts = name.0.iter();
    parts.map(|part| part.as_ident().cloned()).collect()
}

fn value_of<'a>(columns: &'a [Merged], name: &Ident) -> Option<&'a Expr> {
    let name = folded(name);
    let mut columns = columns.iter();
    let column = columns.find(|column| folded(&column.name) == name)?;
    Some(&column.value)
}

/// The columns that two sides have in common.
fn used(constraint: &JoinConstraint) -> impl Iterator<Item = &Ident> {
    let names = match constraint {
        JoinConstraint::Using(names) => names.as_slice(),
        _ => &[],
    };
    names.iter().filter_map(|name| match &name.0[..] {
        [ObjectNamePart::Identifier(name)] => Some(name),
        _ => None,
    })
}

/// Has names in the conditions of joins stand for what was joined before, and compares columns that are made of two, if
/// `compares`: `*` is written out then.
fn resolve_conditions(table: &mut TableWithJoins, compares: bool) {
    let nested = |table: &mut TableFactor| {
        if let TableFactor::NestedJoin {
            table_with_joins, ..
        } = table
        {
            resolve_conditions(table_with_joins, compares);
        }
    };
    nested(&mut table.relation);
    for at in 0..table.joins.len() {
        let (before, rest) = table.joins.split_at_mut(at);
        let left = Columns::of_first(&table.relation, before);
        let join = &mut rest[0];
        nested(&mut join.relation);
        let right = Columns::of_table(&join.relation);
        let Some(constraint) = constraint(&mut join.join_operator) else {
            continue;
        };
        resolve(constraint, &left.merged);
        resolve(constraint, &right.merged);
        if compares && left.merged.len() + right.merged.len() > 0 {
            compare(constraint, left, right);
        }
    }
}

fn constraint(join: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match join {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on) => Some(on),
        _ => None,
    }
}

/// Makes a comparison of the columns that two sides have in common.
fn compare(constraint: &mut JoinConstraint, mut left: Columns, mut right: Columns) {
    let equal = used(constraint).map(|name| {
        Some(Expr::BinaryOp {
            left: Box::new(left.take(name)?),
            op: BinaryOperator::Eq,
            right: Box::new(right.take(name)?),
        })
    });
    if let Some(equal) = equal
        .collect::<Option<Vec<_>>>()
        .filter(|it| !it.is_empty())
    {
        *constraint = JoinConstraint::On(joined(equal, &BinaryOperator::And));
    }
}

/// Has names in `part` stand for the `columns`.
fn resolve(part: &mut impl VisitMut, columns: &[Merged]) {
    struct Names<'a> {
        columns: &'a [Merged],
        /// Queries around.
        depth: usize,
    }
    impl VisitorMut for Names<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if self.depth == 0
                && let Expr::Identifier(name) = expr
                && let Some(value) = value_of(self.columns, name)
            {
                *expr = value.clone();
            }
            ControlFlow::Continue(())
        }
    }
    let _ = part.visit(&mut Names { columns, depth: 0 });
}
