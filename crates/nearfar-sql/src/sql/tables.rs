//! Statements that do one thing to several tables: `DROP TABLE a, b`, `TRUNCATE a, b`, `VACUUM`, `ANALYZE`.

use datafusion::sql::sqlparser::ast::{
    CascadeOption, ObjectName, ObjectType, Statement as Ast, TruncateIdentityOption,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::script::DIALECT;
use super::statement::{expect_end, syntax};

/// What is done to tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TablesVerb {
    /// They are dropped.
    Drop {
        /// Whether those that there are not are passed over.
        if_exists: bool,
        /// Whether foreign keys that lead to them go too.
        is_cascade: bool,
    },
    /// Their rows are deleted.
    Truncate {
        /// Whether those of tables that refer to them go too.
        is_cascade: bool,
        /// Whether sequences of their columns begin again.
        restarts: bool,
    },
    /// What was written to them is merged.
    Vacuum,
    /// Nothing: what is known of tables is known as they are written.
    Analyze,
}

/// A statement about several tables; where none is named, about all.
#[derive(Debug, Clone, PartialEq)]
pub struct TablesCommand {
    pub verb: TablesVerb,
    pub tables: Vec<ObjectName>,
}

/// The command that `ast` is, if it names several tables to drop or truncate, or says more than a name.
///
/// # Errors
/// A clause that is not supported.
pub(super) fn tables_command(ast: &Ast) -> Result<Option<TablesCommand>, SqlError> {
    match ast {
        Ast::Drop {
            object_type: ObjectType::Table,
            if_exists,
            names,
            cascade,
            temporary: false,
            ..
        } if names.len() > 1 || *cascade => Ok(Some(TablesCommand {
            verb: TablesVerb::Drop {
                if_exists: *if_exists,
                is_cascade: *cascade,
            },
            tables: names.clone(),
        })),
        Ast::Truncate(truncate) => {
            let is_cascade = matches!(truncate.cascade, Some(CascadeOption::Cascade));
            let restarts = matches!(truncate.identity, Some(TruncateIdentityOption::Restart));
            if truncate.table_names.len() < 2 && !is_cascade && !restarts {
                return Ok(None);
            }
            let is_other = truncate.partitions.is_some() || truncate.on_cluster.is_some();
            if is_other || truncate.if_exists {
                return Err(SqlError::unsupported(
                    ast.to_string(),
                    "use TRUNCATE with the names of tables",
                ));
            }
            let tables = truncate.table_names.iter().map(|table| table.name.clone());
            Ok(Some(TablesCommand {
                verb: TablesVerb::Truncate {
                    is_cascade,
                    restarts,
                },
                tables: tables.collect(),
            }))
        }
        _ => Ok(None),
    }
}

/// Reads `VACUUM` or `ANALYZE`. What else they say is about how PostgreSQL does it.
///
/// # Errors
/// Options that there are not; anything but names of tables behind them.
pub(super) fn parse_maintenance(tokens: Vec<TokenWithSpan>) -> Result<TablesCommand, SqlError> {
    let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(tokens);
    let verb = match parser.parse_keyword(Keyword::VACUUM) {
        true => TablesVerb::Vacuum,
        false => {
            parser.next_token();
            TablesVerb::Analyze
        }
    };
    if parser.consume_token(&Token::LParen) {
        while parser.next_token().token != Token::RParen {
            if parser.peek_token().token == Token::EOF {
                return parser
                    .expected("a closing parenthesis", parser.peek_token())
                    .map_err(syntax);
            }
        }
    }
    while is_option(&parser.peek_token().token) {
        parser.next_token();
    }
    let mut tables = Vec::new();
    if !matches!(parser.peek_token().token, Token::EOF | Token::SemiColon) {
        tables = parser
            .parse_comma_separated(|parser| {
                let table = parser.parse_object_name(false)?;
                // Columns, of which the same is known anyway.
                if parser.peek_token().token == Token::LParen {
                    parser.parse_parenthesized_column_list(
                        datafusion::sql::sqlparser::parser::IsOptional::Optional,
                        false,
                    )?;
                }
                Ok(table)
            })
            .map_err(syntax)?;
    }
    expect_end(&mut parser)?;
    Ok(TablesCommand { verb, tables })
}

fn is_option(token: &Token) -> bool {
    let options = ["FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"];
    matches!(token, Token::Word(word) if word.quote_style.is_none()
        && options.iter().any(|option| word.value.eq_ignore_ascii_case(option)))
}

#[cfg(test)]
mod tests {
    use super::super::statement::{StatementKind, statements};
    use super::*;

    fn command(sql: &str) -> Option<(TablesVerb, String)> {
        match statements(sql).expect(sql).remove(0).kind() {
            StatementKind::Tables(command) => {
                let names = command.tables.iter().map(ToString::to_string);
                Some((command.verb, names.collect::<Vec<_>>().join(" ")))
            }
            _ => None,
        }
    }

    #[test]
    fn several_tables_are_read() {
        let drop = |if_exists| TablesVerb::Drop {
            if_exists,
            is_cascade: false,
        };
        let cascade = TablesVerb::Drop {
            if_exists: false,
            is_cascade: true,
        };
        let truncate = |is_cascade, restarts| TablesVerb::Truncate {
            is_cascade,
            restarts,
        };
        for (sql, verb, names) in [
            ("drop table if exists a, b.c", drop(true), "a b.c"),
            ("DROP TABLE a, \"B\" RESTRICT", drop(false), "a \"B\""),
            ("drop table a cascade", cascade, "a"),
            ("truncate a, b", truncate(false, false), "a b"),
            (
                "TRUNCATE TABLE a, b RESTRICT",
                truncate(false, false),
                "a b",
            ),
            ("TRUNCATE a RESTART IDENTITY", truncate(false, true), "a"),
            (
                "TRUNCATE a, b RESTART IDENTITY CASCADE",
                truncate(true, true),
                "a b",
            ),
            (
                "TRUNCATE a CONTINUE IDENTITY CASCADE",
                truncate(true, false),
                "a",
            ),
            ("vacuum", TablesVerb::Vacuum, ""),
            ("VACUUM ANALYZE a", TablesVerb::Vacuum, "a"),
            ("vacuum full verbose a, b", TablesVerb::Vacuum, "a b"),
            ("VACUUM (ANALYZE, FREEZE false) a", TablesVerb::Vacuum, "a"),
            ("ANALYZE", TablesVerb::Analyze, ""),
            ("analyze verbose a (x, y), b", TablesVerb::Analyze, "a b"),
            ("ANALYSE a", TablesVerb::Analyze, "a"),
        ] {
            assert_eq!(command(sql), Some((verb, names.to_owned())), "{sql}");
        }
        assert_eq!(command("DROP TABLE a"), None);
        for sql in ["VACUUM 1", "VACUUM (ANALYZE", "ANALYZE a b"] {
            assert!(statements(sql).is_err(), "{sql}");
        }
    }
}
