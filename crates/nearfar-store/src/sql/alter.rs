//! `ALTER TABLE … SET TABLESPACE`, which sqlparser does not read.

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, SqlOption, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::script::DIALECT;
use super::statement::{expect_end, syntax};

/// Where something is to be put, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `TABLESPACE name`.
    Tablespace(String),
    /// `placement = 'text'`.
    Placement(String),
}

/// `ALTER TABLE`.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterTable {
    /// Whether a table that is not there is no error.
    pub if_exists: bool,
    /// The table.
    pub table: ObjectName,
    /// What moves where: all columns, or those named.
    pub moves: Vec<MovedColumn>,
}

/// One clause of an `ALTER TABLE`.
#[derive(Debug, Clone, PartialEq)]
pub struct MovedColumn {
    /// The column; all of them where none is named.
    pub column: Option<Ident>,
    /// Where it goes.
    pub place: Place,
}

pub(super) fn parse_alter(tokens: Vec<TokenWithSpan>) -> Result<AlterTable, SqlError> {
    let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(tokens);
    parser
        .expect_keywords(&[Keyword::ALTER, Keyword::TABLE])
        .map_err(syntax)?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let table = parser.parse_object_name(false).map_err(syntax)?;
    let mut moves = vec![parse_move(&mut parser)?];
    while parser.consume_token(&Token::Comma) {
        moves.push(parse_move(&mut parser)?);
    }
    expect_end(&mut parser)?;
    Ok(AlterTable {
        if_exists,
        table,
        moves,
    })
}

/// `[ALTER [COLUMN] name] SET TABLESPACE name` or `… SET (placement = 'text')`.
fn parse_move(parser: &mut Parser<'_>) -> Result<MovedColumn, SqlError> {
    let column = if parser.parse_keyword(Keyword::ALTER) {
        let _optional = parser.parse_keyword(Keyword::COLUMN);
        Some(parser.parse_identifier().map_err(syntax)?)
    } else {
        None
    };
    let begin = parser.peek_token();
    let unsupported = || {
        SqlError::unsupported(
            format!("ALTER TABLE … {begin}"),
            "tables and columns can be moved with SET TABLESPACE name or SET (placement = '…')",
        )
    };
    if parser.parse_keywords(&[Keyword::SET, Keyword::TABLESPACE]) {
        return Ok(MovedColumn {
            column,
            place: Place::Tablespace(parse_name(parser)?),
        });
    }
    let options = parser.parse_options(Keyword::SET).map_err(syntax)?;
    let place = place_of_options(&options)?.ok_or_else(unsupported)?;
    Ok(MovedColumn { column, place })
}

/// The name of a tablespace: an identifier or a string.
fn parse_name(parser: &mut Parser<'_>) -> Result<String, SqlError> {
    let next = parser.next_token();
    match next.token {
        Token::Word(word) if word.quote_style.is_none() => Ok(word.value.to_lowercase()),
        Token::Word(word) => Ok(word.value),
        Token::SingleQuotedString(name) => Ok(name),
        _ => parser
            .expected("the name of a tablespace", next)
            .map_err(syntax),
    }
}

/// The place that a parenthesised list of options names.
pub(super) fn place_of_options(options: &[SqlOption]) -> Result<Option<Place>, SqlError> {
    let mut place = None;
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(SqlError::UnknownOption {
                name: option.to_string(),
            });
        };
        if !key.value.eq_ignore_ascii_case("placement") {
            return Err(SqlError::UnknownOption {
                name: key.value.clone(),
            });
        }
        let text = match value {
            Expr::Identifier(name) => name.value.clone(),
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) => text.clone(),
                other => other.to_string(),
            },
            other => other.to_string(),
        };
        place = Some(Place::Placement(text));
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::super::{StatementKind, statements};
    use super::*;

    fn alter(sql: &str) -> Result<AlterTable, SqlError> {
        let mut statements = statements(sql)?;
        match statements.remove(0).kind() {
            StatementKind::Alter(alter) => Ok(alter.clone()),
            other => panic!("{sql} was read as {other:?}"),
        }
    }

    fn tablespace(name: &str) -> Place {
        Place::Tablespace(name.to_owned())
    }

    #[test]
    fn tables_and_columns_move() {
        let table = alter("alter table if exists s.t set tablespace FAR").expect("table");
        assert!(table.if_exists);
        assert_eq!(table.table.to_string(), "s.t");
        assert_eq!(
            table.moves,
            [MovedColumn {
                column: None,
                place: tablespace("far")
            }]
        );
        let columns = alter(
            "ALTER TABLE t -- ;\n ALTER COLUMN a SET TABLESPACE 'far', alter \"B c\" set tablespace near",
        )
        .expect("columns");
        let moves: Vec<_> = columns
            .moves
            .iter()
            .map(|m| (m.column.clone(), &m.place))
            .collect();
        assert_eq!(moves[0], (Some(Ident::new("a")), &tablespace("far")));
        assert_eq!(
            moves[1],
            (Some(Ident::with_quote('"', "B c")), &tablespace("near"))
        );
        let placed = alter("alter table t set (placement = 'interleave:2:1')").expect("placement");
        assert_eq!(
            placed.moves[0].place,
            Place::Placement("interleave:2:1".to_owned())
        );
    }

    #[test]
    fn other_alterations_are_not_supported() {
        for sql in [
            "alter table t add column c int",
            "alter table t rename to u",
            "alter table t alter column c type int",
        ] {
            let error = alter(sql).expect_err(sql);
            assert!(matches!(error, SqlError::Unsupported { .. }), "{error}");
        }
        for sql in [
            "alter table t set tablespace",
            "alter table t set tablespace far far",
        ] {
            assert!(matches!(alter(sql), Err(SqlError::Syntax { .. })), "{sql}");
        }
        let error = alter("alter table t set (fillfactor = 70)").expect_err("option");
        assert_eq!(
            error,
            SqlError::UnknownOption {
                name: "fillfactor".to_owned()
            }
        );
    }
}
