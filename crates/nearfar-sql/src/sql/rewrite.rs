//! Syntax trees as DataFusion's planner takes them, and what had to be taken out.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, CreateTableOptions, Ident, SqlOption, Statement as Ast,
};

use super::SqlError;
use super::alter::{ColumnOptions, column_options};
use super::constraints::take_constraints;
use super::defaults::take_defaults;
use super::forms::rewrite_forms;
use super::indexes::take_keys;
use super::postgres::{length_of, rewrite_catalogs, spell_type};
use super::sequences::{name_sequences, take_numbered};
use super::statement::CreateClauses;
use crate::settings::{Place, is_own_setting};
use crate::values::Declared;

/// The query behind `SHOW TABLESPACES`.
const SHOW_TABLESPACES: &str = "SELECT name, kind, capacity_bytes, budget_bytes, free_bytes, \
     modelled FROM nearfar.nearfar.tiers ORDER BY tier";

/// Takes out of `statement` what DataFusion's planner does not know, and spells the names of
/// Nearfar's settings in full where they are shown.
///
/// # Errors
/// A statement that is known not to be supported.
pub(super) fn rewrite(statement: DfStatement) -> Result<(DfStatement, CreateClauses), SqlError> {
    let mut clauses = CreateClauses::default();
    let statement = match statement {
        DfStatement::Statement(ast) => {
            let ast = *ast;
            if is_show_tablespaces(&ast) {
                return Ok((parse_query(SHOW_TABLESPACES)?, clauses));
            }
            DfStatement::Statement(Box::new(rewrite_ast(ast, &mut clauses)?))
        }
        DfStatement::CreateExternalTable(create) if create.temporary => {
            return Err(SqlError::unsupported(
                "CREATE TEMPORARY EXTERNAL TABLE",
                "a table on files takes no memory; leave TEMPORARY out",
            ));
        }
        DfStatement::Explain(mut explain) => {
            let (inner, _) = rewrite(*explain.statement)?;
            explain.statement = Box::new(inner);
            DfStatement::Explain(explain)
        }
        other => other,
    };
    Ok((statement, clauses))
}

/// The statement of a text of our own.
pub(super) fn parse_query(sql: &str) -> Result<DfStatement, SqlError> {
    let mut parsed =
        datafusion::sql::parser::DFParser::parse_sql(sql).map_err(|error| SqlError::Syntax {
            message: error.to_string(),
        })?;
    parsed.pop_front().ok_or_else(|| SqlError::Syntax {
        message: sql.to_owned(),
    })
}

fn is_show_tablespaces(ast: &Ast) -> bool {
    matches!(ast, Ast::ShowVariable { variable }
        if matches!(&variable[..], [name] if name.value.eq_ignore_ascii_case("tablespaces")))
}

fn rewrite_ast(mut ast: Ast, clauses: &mut CreateClauses) -> Result<Ast, SqlError> {
    if let Ast::CreateTable(create) = &mut ast {
        let columns = create.columns.iter_mut();
        columns.for_each(|column| spell_type(&mut column.data_type));
        clauses.numbered = take_numbered(create)?;
        clauses.defaults = take_defaults(create);
    }
    name_sequences(&mut ast);
    rewrite_catalogs(&mut ast);
    rewrite_forms(&mut ast)?;
    match ast {
        Ast::CreateTable(create) => Ok(Ast::CreateTable(take_clauses(create, clauses)?)),
        Ast::CreateView(mut view) => {
            clauses.temporary = std::mem::take(&mut view.temporary);
            Ok(Ast::CreateView(view))
        }
        Ast::ShowVariable { variable } => Ok(Ast::ShowVariable {
            variable: in_full_idents(variable),
        }),
        Ast::CreateDatabase { .. } => Err(SqlError::unsupported(
            "CREATE DATABASE",
            "use CREATE SCHEMA",
        )),
        other => Ok(other),
    }
}

fn take_clauses(
    mut create: CreateTable,
    clauses: &mut CreateClauses,
) -> Result<CreateTable, SqlError> {
    clauses.temporary = std::mem::take(&mut create.temporary);
    clauses.declared = declared(&create.columns)?;
    clauses.keys = take_keys(&mut create)?;
    if create.query.is_none() {
        clauses.constraints = take_constraints(&mut create)?;
    }
    clauses.options = match std::mem::take(&mut create.table_options) {
        CreateTableOptions::None => ColumnOptions::default(),
        CreateTableOptions::With(options) => column_options(&options)?,
        CreateTableOptions::Plain(options) => match &options[..] {
            [SqlOption::TableSpace(tablespace)] if tablespace.storage.is_none() => ColumnOptions {
                place: Some(Place::Tablespace(tablespace.name.to_lowercase())),
                preload: None,
            },
            [first, ..] => {
                return Err(SqlError::UnknownOption {
                    name: first.to_string(),
                });
            }
            [] => ColumnOptions::default(),
        },
        other => {
            return Err(SqlError::UnknownOption {
                name: other.to_string(),
            });
        }
    };
    // The planner gives the columns of a query the nulls of the query, whatever is declared.
    let from_query = create.query.is_some();
    let constraint = create
        .constraints
        .first()
        .map(ToString::to_string)
        .or_else(|| {
            if let Some(numbered) = clauses.numbered.first().filter(|_| from_query) {
                return Some(format!("{} of a sequence", numbered.column));
            }
            let of_query = clauses.defaults.first().filter(|_| from_query);
            if let Some((column, value)) = of_query {
                return Some(format!("{column} DEFAULT {value}"));
            }
            let mut options = create.columns.iter().flat_map(|column| &column.options);
            let other = options.find(|option| match option.option {
                ColumnOption::Null => false,
                ColumnOption::NotNull => from_query,
                _ => true,
            });
            other.map(|option| option.option.to_string())
        });
    match constraint {
        Some(constraint) => Err(SqlError::unsupported(
            format!("`{constraint}` in CREATE TABLE"),
            "of constraints, a table in memory can have PRIMARY KEY, UNIQUE, NOT NULL, CHECK and FOREIGN KEY, \
             which one that is made from a query can not, nor DEFAULT; leave it out",
        )),
        None => Ok(create),
    }
}

/// The columns whose texts have a declared length.
fn declared(columns: &[ColumnDef]) -> Result<Vec<(String, Declared)>, SqlError> {
    let declared = columns.iter().filter_map(|column| {
        let (function, length) = length_of(&column.data_type)?;
        Some((column, function, length))
    });
    let one = |(column, function, length): (&ColumnDef, &str, u64)| {
        let possible = u32::try_from(length).ok();
        let length = possible
            .filter(|length| Declared::is_possible((*length).into()))
            .ok_or_else(|| SqlError::SettingValue {
                name: column.name.value.clone(),
                value: column.data_type.to_string(),
                allowed: "a length is a number from 1 to 10485760".to_owned(),
            })?;
        let declared = match function {
            "bpchar" => Declared::Char(length),
            _ => Declared::Varchar(length),
        };
        let name = match column.name.quote_style {
            Some(_) => column.name.value.clone(),
            None => column.name.value.to_ascii_lowercase(),
        };
        Ok((name, declared))
    };
    declared.map(one).collect()
}

/// The full name of a setting of Nearfar, which may be written without its namespace.
fn in_full_idents(idents: Vec<Ident>) -> Vec<Ident> {
    let parts: Vec<String> = idents
        .iter()
        .map(|ident| ident.value.to_lowercase())
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts[..] {
        [name] if is_own_setting(name) => {
            vec![Ident::new("nearfar"), Ident::new(name)]
        }
        _ => idents,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{StatementKind, statements};
    use super::*;

    fn rewritten(sql: &str) -> Result<(String, CreateClauses), SqlError> {
        match statements(sql)?.remove(0).kind() {
            StatementKind::DataFusion {
                statement, create, ..
            } => Ok((statement.to_string(), create.clone())),
            other => panic!("{sql} was read as {other:?}"),
        }
    }

    #[test]
    fn clauses_are_taken_out_of_create_table() {
        let (sql, clauses) =
            rewritten("create temp table t tablespace FAR as select 'tablespace near' x")
                .expect("ctas");
        assert_eq!(sql, "CREATE TABLE t AS SELECT 'tablespace near' AS x");
        assert!(clauses.temporary);
        assert_eq!(
            clauses.options.place,
            Some(Place::Tablespace("far".to_owned()))
        );
        let (sql, clauses) = rewritten(
            "create or replace table t (a int not null) with (placement = 'interleave:1:1')",
        )
        .expect("columns");
        assert_eq!(sql, "CREATE OR REPLACE TABLE t (a INT NOT NULL)");
        let place = Some(Place::Placement("interleave:1:1".to_owned()));
        assert_eq!(
            clauses,
            CreateClauses {
                keys: Vec::new(),
                constraints: Vec::new(),
                defaults: Vec::new(),
                numbered: Vec::new(),
                temporary: false,
                options: ColumnOptions {
                    place,
                    preload: None
                },
                declared: Vec::new(),
            }
        );
    }

    #[test]
    fn settings_are_shown_by_their_full_names() {
        let of = |sql| rewritten(sql).expect(sql).0;
        assert_eq!(
            of("SHOW Default_Tablespace"),
            "SHOW nearfar default_tablespace"
        );
    }

    #[test]
    fn unsupported_statements_are_named() {
        for sql in [
            "create table t (a int default 1) as select 2",
            "create table t (a int check (a > 1)) as select 2",
            "create table t (a int check (a > 1) not enforced)",
            "create table t (a int primary key deferrable)",
            "create table t (a int, unique nulls not distinct (a))",
        ] {
            let error = rewritten(sql).expect_err(sql);
            assert!(
                matches!(error, SqlError::Unsupported { .. }),
                "{sql}: {error}"
            );
        }
        let keyed = rewritten("create table t (a int, b int unique, primary key (a))");
        let (text, clauses) = keyed.expect("keys");
        assert_eq!(text, "CREATE TABLE t (a INT NOT NULL, b INT)");
        assert_eq!(clauses.keys.len(), 2);
        assert!(matches!(
            rewritten("create table t (a int) engine = InnoDB"),
            Err(SqlError::UnknownOption { .. })
        ));
    }
}
