//! What clients of PostgreSQL write about its system catalogs, as DataFusion's planner takes it.
//!
//! Names of `pg_catalog` are spelled in full for tables and in short for functions and operators, and
//! types of the catalogs become those that stand for them. A part of a query that reads a catalog of
//! things that Nearfar has none of gives no rows whatever else it says, and is planned as that.

mod emptiness;
mod meaning;
mod spelling;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, SelectItem, SetExpr, Statement as Ast, Value, VisitMut,
};

pub(super) use meaning::length_of;
pub(super) use spelling::spell_type;

/// The schema of PostgreSQL's system catalogs.
pub const PG_CATALOG: &str = "pg_catalog";

/// The system catalogs that have rows.
pub const CATALOGS: [&str; 20] = [
    "pg_am",
    "pg_attrdef",
    "pg_attribute",
    "pg_authid",
    "pg_class",
    "pg_constraint",
    "pg_database",
    "pg_depend",
    "pg_extension",
    "pg_index",
    "pg_indexes",
    "pg_namespace",
    "pg_roles",
    "pg_sequence",
    "pg_settings",
    "pg_tables",
    "pg_tablespace",
    "pg_type",
    "pg_user",
    "pg_views",
];

/// The system catalogs of what Nearfar has not.
const EMPTY_CATALOGS: [&str; 47] = [
    "pg_aggregate",
    "pg_amop",
    "pg_amproc",
    "pg_auth_members",
    "pg_cast",
    "pg_collation",
    "pg_conversion",
    "pg_db_role_setting",
    "pg_default_acl",
    "pg_description",
    "pg_enum",
    "pg_event_trigger",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_inherits",
    "pg_init_privs",
    "pg_language",
    "pg_largeobject",
    "pg_largeobject_metadata",
    "pg_matviews",
    "pg_opclass",
    "pg_operator",
    "pg_opfamily",
    "pg_partitioned_table",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_range",
    "pg_rewrite",
    "pg_seclabel",
    "pg_seclabels",
    "pg_shdescription",
    "pg_shseclabel",
    "pg_statistic_ext",
    "pg_subscription",
    "pg_transform",
    "pg_trigger",
    "pg_ts_config",
    "pg_ts_config_map",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_user_mapping",
    "pg_user_mappings",
];

/// Whether PostgreSQL has a system catalog of this name, with rows here or without.
pub fn is_catalog(name: &str) -> bool {
    CATALOGS.contains(&name) || EMPTY_CATALOGS.contains(&name)
}

/// Rewrites a query.
pub(in crate::sql) fn rewrite_catalogs(ast: &mut Ast) {
    // Each of them ends by itself.
    let _ = VisitMut::visit(ast, &mut spelling::Spelling);
    let _ = VisitMut::visit(ast, &mut meaning::Meaning);
    let _ = VisitMut::visit(ast, &mut emptiness::Emptiness);
    name_classes(ast);
}

/// Shows the names of tables where a query gives their identifiers.
fn name_classes(ast: &mut Ast) {
    let Ast::Query(query) = ast else { return };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                if let Some(name) = spelling::name_class(expr) {
                    let (expr, alias) = (take(expr), Ident::new(name));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
            SelectItem::ExprWithAlias { expr, .. } => {
                spelling::name_class(expr);
            }
            _ => {}
        }
    }
}

pub(in crate::sql) fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, null())
}

pub(in crate::sql) fn null() -> Expr {
    Expr::value(Value::Null)
}

/// The last part of a name, where the parts before it are the catalog's.
pub(in crate::sql) fn catalog_name(name: &ObjectName) -> Option<String> {
    let parts: Option<Vec<&Ident>> = name.0.iter().map(ObjectNamePart::as_ident).collect();
    match &parts?[..] {
        [name] => Some(name.value.to_ascii_lowercase()),
        [schema, name] if schema.value.eq_ignore_ascii_case(PG_CATALOG) => {
            Some(name.value.to_ascii_lowercase())
        }
        _ => None,
    }
}

pub(in crate::sql) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
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
                "SELECT t.typsend <> 0, typinput = 'pg_catalog.array_in'::regproc, typreceive::oid FROM u t",
                "SELECT t.typsend <> '-', typinput = 'array_in'::TEXT, pg_regproc(typreceive) FROM u t",
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
            let rewritten = rewritten.replace("u AS t", "u t");
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
                "SELECT (SELECT d.x FROM pg_description d WHERE d.a = t.a), NOT EXISTS(SELECT 1 FROM pg_policy) FROM t",
                "SELECT NULL, true FROM t",
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
                "SELECT count(*), count(x) AS y FROM pg_policy WHERE a = (SELECT oid FROM pg_database)",
                "SELECT 0 AS count, 0 AS y",
            ),
            (
                "SELECT count(*), count(x) FROM pg_catalog.pg_policy",
                "SELECT 0 AS count, 0 AS \"?column?1\"",
            ),
            (
                "SELECT count(*) OVER () FROM pg_catalog.pg_policy",
                "SELECT count(*) OVER () FROM pg_catalog.pg_policy",
            ),
            (
                "SELECT max(x) FROM pg_catalog.pg_policy",
                "SELECT max(x) FROM pg_catalog.pg_policy",
            ),
            (
                "SELECT a FROM t LEFT JOIN pg_catalog.pg_policy i ON true",
                "SELECT a FROM t LEFT JOIN pg_catalog.pg_policy i ON true",
            ),
        ] {
            let rewritten = rewritten(sql).replace(" AS i ", " i ");
            assert_eq!(rewritten, expected, "{sql}");
        }
    }
}
