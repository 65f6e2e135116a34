//! What clients of PostgreSQL write about its system catalogs, as DataFusion's planner takes it.
//!
//! Names of `pg_catalog` are spelled in full for tables and in short for functions and operators, and
//! types of the catalogs become those that stand for them. A part of a query that reads a catalog of
//! things that Nearfar has none of gives no rows whatever else it says, and is planned as that.

use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, JoinOperator, ObjectName, ObjectNamePart,
    Query, Select, SelectItem, SetExpr, Statement as Ast, TableFactor, Value, Visit, VisitMut,
    Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// The schema of PostgreSQL's system catalogs.
pub const PG_CATALOG: &str = "pg_catalog";

/// The system catalogs that have rows.
pub const CATALOGS: [&str; 12] = [
    "pg_am",
    "pg_attribute",
    "pg_authid",
    "pg_class",
    "pg_database",
    "pg_namespace",
    "pg_roles",
    "pg_tables",
    "pg_tablespace",
    "pg_type",
    "pg_user",
    "pg_views",
];

/// The system catalogs of what Nearfar has not.
const EMPTY_CATALOGS: [&str; 35] = [
    "pg_aggregate",
    "pg_attrdef",
    "pg_auth_members",
    "pg_cast",
    "pg_collation",
    "pg_constraint",
    "pg_conversion",
    "pg_default_acl",
    "pg_depend",
    "pg_description",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_index",
    "pg_indexes",
    "pg_inherits",
    "pg_language",
    "pg_matviews",
    "pg_opclass",
    "pg_operator",
    "pg_partitioned_table",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_range",
    "pg_rewrite",
    "pg_seclabel",
    "pg_sequence",
    "pg_shdescription",
    "pg_statistic_ext",
    "pg_subscription",
    "pg_trigger",
];

/// Columns of catalogs with lists that are not kept, and so are always null.
const NULL_LISTS: [&str; 6] = [
    "attacl",
    "attoptions",
    "datacl",
    "nspacl",
    "relacl",
    "reloptions",
];

/// Functions that give a row where there is none.
const AGGREGATES: [&str; 13] = [
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
    "string_agg",
    "sum",
];

/// Rewrites a query.
pub(super) fn rewrite_catalogs(ast: &mut Ast) {
    // Each of them ends by itself.
    let _ = VisitMut::visit(ast, &mut Spelling);
    let _ = VisitMut::visit(ast, &mut Emptiness);
}

/// Spells names in the one way that the planner knows.
struct Spelling;

impl VisitorMut for Spelling {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if let [ObjectNamePart::Identifier(name)] = &relation.0[..] {
            let name = name.value.to_ascii_lowercase();
            if CATALOGS.contains(&name.as_str()) || EMPTY_CATALOGS.contains(&name.as_str()) {
                let schema = ObjectNamePart::Identifier(Ident::new(PG_CATALOG));
                relation.0.insert(0, schema);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => drop_schema(&mut function.name),
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(names) = op
                    && let Some(meant) = names.last().and_then(|name| operator(name))
                {
                    *op = meant;
                }
            }
            Expr::Collate {
                expr: inner,
                collation,
            } if is_default(collation) => *expr = take(inner),
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr: inner,
                data_type,
                ..
            } => {
                if let Some(meant) = cast_to_catalog_type(inner, data_type) {
                    *expr = meant;
                }
            }
            Expr::AnyOp {
                left,
                compare_op: BinaryOperator::Eq,
                right,
                ..
            } => {
                if let Some(list) = listed(right) {
                    *expr = Expr::InList {
                        expr: Box::new(take(left)),
                        list,
                        negated: false,
                    };
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, null())
}

fn null() -> Expr {
    Expr::value(Value::Null)
}

/// The last part of a name, where the parts before it are the catalog's.
fn catalog_name(name: &ObjectName) -> Option<String> {
    let parts: Option<Vec<&Ident>> = name.0.iter().map(ObjectNamePart::as_ident).collect();
    match &parts?[..] {
        [name] => Some(name.value.to_ascii_lowercase()),
        [schema, name] if schema.value.eq_ignore_ascii_case(PG_CATALOG) => {
            Some(name.value.to_ascii_lowercase())
        }
        _ => None,
    }
}

fn drop_schema(name: &mut ObjectName) {
    if let [ObjectNamePart::Identifier(schema), _] = &name.0[..]
        && schema.value.eq_ignore_ascii_case(PG_CATALOG)
    {
        name.0.remove(0);
    }
}

fn is_default(collation: &ObjectName) -> bool {
    catalog_name(collation).is_some_and(|name| ["default", "c"].contains(&name.as_str()))
}

fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}

/// A cast to a type of the catalogs, as what it means here.
fn cast_to_catalog_type(inner: &mut Expr, data_type: &mut DataType) -> Option<Expr> {
    let name = match data_type {
        DataType::Regclass => "regclass".to_owned(),
        DataType::Custom(name, modifiers) if modifiers.is_empty() => catalog_name(name)?,
        _ => return None,
    };
    match name.as_str() {
        "text" | "name" | "char" | "varchar" | "cstring" => *data_type = DataType::Text,
        "oid" | "xid" | "int8" => *data_type = DataType::BigInt(None),
        "int4" => *data_type = DataType::Integer(None),
        "int2" => *data_type = DataType::SmallInt(None),
        "bool" => *data_type = DataType::Boolean,
        "regclass" => return Some(call("pg_regclass", vec![take(inner)])),
        "regtype" => return Some(call("format_type", vec![take(inner), null()])),
        "regproc" | "regprocedure" | "regnamespace" | "regrole" => {
            *data_type = DataType::Text;
        }
        _ => {}
    }
    None
}

fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let arguments = arguments.into_iter();
    let args = FunctionArgumentList {
        duplicate_treatment: None,
        args: arguments
            .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)))
            .collect(),
        clauses: Vec::new(),
    };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The elements of an array that is written out.
fn listed(array: &mut Expr) -> Option<Vec<Expr>> {
    match array {
        Expr::Nested(inner) => listed(inner),
        Expr::Array(Array { elem, .. }) if !elem.is_empty() => Some(std::mem::take(elem)),
        _ => None,
    }
}

/// Replaces what reads a catalog without rows by what that gives.
struct Emptiness;

impl VisitorMut for Emptiness {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if reads_nothing(select)
            && let Some(columns) = columns_of_nothing(&select.projection)
        {
            select.projection = columns;
            select.distinct = None;
            select.from = Vec::new();
            select.selection = Some(Expr::value(Value::Boolean(false)));
            select.group_by =
                datafusion::sql::sqlparser::ast::GroupByExpr::Expressions(Vec::new(), Vec::new());
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
            Expr::Subquery(query) => {
                if let Some(value) = value_of_catalog(query) {
                    *value = call("max", vec![take(value)]);
                }
            }
            Expr::Exists { subquery, negated } if is_nothing(subquery) => {
                *expr = Expr::value(Value::Boolean(*negated));
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

/// Whether a query is what [`Emptiness`] makes of one without rows.
fn is_nothing(query: &Query) -> bool {
    match query.body.as_ref() {
        SetExpr::Select(select) => {
            select.from.is_empty() && select.selection == Some(Expr::value(Value::Boolean(false)))
        }
        _ => false,
    }
}

/// The one value of a query of a single catalog, which has one row at most where clients expect a
/// value of it. The planner has to see that it has.
fn value_of_catalog(query: &mut Query) -> Option<&mut Expr> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    let [from] = &select.from[..] else {
        return None;
    };
    let TableFactor::Table {
        name, args: None, ..
    } = &from.relation
    else {
        return None;
    };
    let is_catalog = name.0.len() == 2
        && catalog_name(name).is_some_and(|name| CATALOGS.contains(&name.as_str()));
    if !is_catalog || !from.joins.is_empty() || query.limit_clause.is_some() {
        return None;
    }
    match &mut select.projection[..] {
        [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }]
            if !has_aggregate(value) =>
        {
            Some(value)
        }
        _ => None,
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

/// Nulls with the names of the columns; none if their number is not known, or if they would have a row
/// all the same.
fn columns_of_nothing(projection: &[SelectItem]) -> Option<Vec<SelectItem>> {
    let column = |item: &SelectItem| {
        let (expr, alias) = match item {
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
            SelectItem::UnnamedExpr(expr) => (expr, name_of(expr)),
            _ => return None,
        };
        if has_aggregate(expr) {
            return None;
        }
        Some(SelectItem::ExprWithAlias {
            expr: null(),
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

/// Whether an expression aggregates, outside of queries within it.
fn has_aggregate(expr: &Expr) -> bool {
    #[derive(Default)]
    struct Search {
        depth: usize,
    }
    impl Visitor for Search {
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
                Expr::Function(function) if self.depth == 0 => match catalog_name(&function.name) {
                    Some(name) if AGGREGATES.contains(&name.as_str()) => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                },
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Search::default()).is_break()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn rewritten(sql: &str) -> String {
        let mut parsed = Parser::parse_sql(&GenericDialect {}, sql).expect(sql);
        rewrite_catalogs(&mut parsed[0]);
        parsed[0].to_string()
    }

    #[test]
    fn names_are_spelled_in_one_way() {
        for (sql, expected) in [
            (
                "SELECT pg_catalog.f(c.oid) FROM pg_class c WHERE a OPERATOR(pg_catalog.~) 'x' COLLATE pg_catalog.default",
                "SELECT f(c.oid) FROM pg_catalog.pg_class c WHERE a ~ 'x'",
            ),
            (
                "SELECT a::pg_catalog.regtype::pg_catalog.text FROM t",
                "SELECT format_type(a, NULL)::TEXT FROM t",
            ),
            (
                "SELECT a FROM t WHERE a = ANY (ARRAY['r', 'p'])",
                "SELECT a FROM t WHERE a IN ('r', 'p')",
            ),
            (
                "SELECT f(x.a) FROM other.f x",
                "SELECT f(x.a) FROM other.f x",
            ),
        ] {
            let rewritten = rewritten(sql).replace(" AS c ", " c ");
            assert_eq!(rewritten, expected, "{sql}");
        }
    }

    #[test]
    fn catalogs_without_rows_are_not_read() {
        for (sql, expected) in [
            (
                "SELECT polname, g(x) AS y FROM pg_catalog.pg_policy p, t WHERE f(1) ORDER BY h(2)",
                "SELECT NULL AS polname, NULL AS y WHERE false",
            ),
            (
                "SELECT (SELECT d.adbin FROM pg_attrdef d WHERE d.a = t.a), NOT EXISTS(SELECT 1 FROM pg_index) FROM t",
                "SELECT NULL, true FROM t",
            ),
            (
                "SELECT (SELECT t.typname FROM pg_type t WHERE t.oid = a.b) FROM a",
                "SELECT (SELECT max(t.typname) FROM pg_catalog.pg_type t WHERE t.oid = a.b) FROM a",
            ),
            (
                "SELECT ARRAY(SELECT b.c FROM pg_auth_members m JOIN b ON true) FROM t",
                "SELECT '{}' FROM t",
            ),
            (
                "SELECT array(SELECT 'a' || x FROM pg_catalog.unnest(c.reloptions) x) FROM t",
                "SELECT '{}' FROM t",
            ),
            (
                "SELECT count(*) FROM pg_catalog.pg_index",
                "SELECT count(*) FROM pg_catalog.pg_index",
            ),
            (
                "SELECT a FROM t LEFT JOIN pg_catalog.pg_index i ON true",
                "SELECT a FROM t LEFT JOIN pg_catalog.pg_index i ON true",
            ),
        ] {
            let rewritten = rewritten(sql).replace(" AS i ", " i ");
            assert_eq!(rewritten, expected, "{sql}");
        }
    }
}
