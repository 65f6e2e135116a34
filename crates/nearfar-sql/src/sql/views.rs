//! What views were made with.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectNamePart, Query, Statement as Ast, visit_relations,
};
use std::ops::ControlFlow;

use super::rewrite::parse_query;
use super::statement::normalised;

/// The query of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewQuery {
    /// Its text.
    pub sql: String,
    /// The names that it reads, each with its schema if that is said.
    pub reads: Vec<(Option<String>, String)>,
}

/// The query of the view that a `CREATE VIEW` makes; none of another statement.
pub fn view_query(statement: &str) -> Option<ViewQuery> {
    let DfStatement::Statement(ast) = parse_query(statement).ok()? else {
        return None;
    };
    let Ast::CreateView(view) = *ast else {
        return None;
    };
    let reads = relations(&view.query);
    let columns: Vec<String> = view
        .columns
        .iter()
        .map(|one| one.name.to_string())
        .collect();
    let sql = match columns.is_empty() {
        true => view.query.to_string(),
        false => {
            let columns = columns.join(", ");
            format!("SELECT * FROM ({}) AS q ({columns})", view.query)
        }
    };
    Some(ViewQuery { sql, reads })
}

fn relations(query: &Query) -> Vec<(Option<String>, String)> {
    let mut reads = Vec::new();
    let _ = visit_relations(query, |name| {
        let parts: Option<Vec<&Ident>> = name.0.iter().map(ObjectNamePart::as_ident).collect();
        match parts.as_deref() {
            Some([name]) => reads.push((None, normalised(name))),
            Some([.., schema, name]) => reads.push((Some(normalised(schema)), normalised(name))),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    reads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_taken_out_of_their_statements() {
        let of = |sql: &str| view_query(sql).expect(sql);
        let plain = of("CREATE VIEW v AS SELECT a FROM t JOIN \"S\".U ON true");
        assert_eq!(plain.sql, "SELECT a FROM t JOIN \"S\".U ON true");
        let names = |schema: Option<&str>, name: &str| (schema.map(str::to_owned), name.to_owned());
        assert_eq!(plain.reads, [names(None, "t"), names(Some("S"), "u")]);
        let named = of("CREATE OR REPLACE VIEW v (x, y) AS SELECT 1, 2");
        assert_eq!(named.sql, "SELECT * FROM (SELECT 1, 2) AS q (x, y)");
        assert_eq!(view_query("SELECT 1"), None);
    }
}
