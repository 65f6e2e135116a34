//! `DECLARE`, `FETCH`, `MOVE` and `CLOSE`.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::script::{DIALECT, Piece, is_space};
use super::statement::{Statement, expect_end, normalised, statement, syntax};

/// A statement about a cursor.
#[derive(Debug, Clone)]
pub enum CursorCommand {
    /// `DECLARE name CURSOR [WITH HOLD] FOR query`.
    Declare {
        /// Its name.
        name: String,
        /// Whether it outlives its transaction.
        is_held: bool,
        /// The query whose rows it gives.
        query: Box<Statement>,
    },
    /// `FETCH` or `MOVE`.
    Fetch {
        /// The cursor.
        name: String,
        /// Which rows.
        rows: FetchedRows,
        /// Whether they are passed over, as `MOVE` does.
        is_move: bool,
    },
    /// `CLOSE name`.
    Close {
        /// The cursor.
        name: String,
    },
    /// `CLOSE ALL`.
    CloseAll,
}

/// Which rows are fetched of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchedRows {
    /// The next ones, so many.
    Next(u64),
    /// All that are left.
    All,
    /// The one so many places farther on.
    Relative(u64),
    /// The one at this place, from 1.
    Absolute(u64),
    /// Some before, or the last one: a cursor goes forward only.
    Backward,
}

/// The command that a statement is, if its first words are those of one.
///
/// # Errors
/// A statement that is wrong, or says what is not supported.
pub(super) fn parse_cursor(piece: &Piece) -> Result<Option<CursorCommand>, SqlError> {
    let mut words = piece.tokens.iter().filter(|token| !is_space(&token.token));
    let Some(Token::Word(first)) = words.next().map(|token| &token.token) else {
        return Ok(None);
    };
    let first = first.value.to_ascii_uppercase();
    if !["DECLARE", "FETCH", "MOVE", "CLOSE"].contains(&first.as_str()) {
        return Ok(None);
    }
    let tokens = piece.tokens.clone();
    let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(tokens);
    parser.next_token();
    match first.as_str() {
        "DECLARE" => declare(&mut parser, piece).map(Some),
        "CLOSE" => {
            let name = parser.parse_identifier().map_err(syntax)?;
            expect_end(&mut parser)?;
            let is_all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
            Ok(Some(match is_all {
                true => CursorCommand::CloseAll,
                false => CursorCommand::Close {
                    name: normalised(&name),
                },
            }))
        }
        _ => {
            let rows = fetched(&mut parser)?;
            let _ = parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::IN]);
            let name = parser.parse_identifier().map_err(syntax)?;
            expect_end(&mut parser)?;
            Ok(Some(CursorCommand::Fetch {
                name: normalised(&name),
                rows,
                is_move: first == "MOVE",
            }))
        }
    }
}

/// A word that is not quoted, in upper case, which is passed over if it is one of `known`.
fn word(parser: &mut Parser<'_>, known: &[&str]) -> Option<String> {
    let Token::Word(word) = parser.peek_token().token else {
        return None;
    };
    let upper = word.value.to_ascii_uppercase();
    let is_known = word.quote_style.is_none() && known.contains(&upper.as_str());
    is_known.then(|| {
        parser.next_token();
        upper
    })
}

fn declare(parser: &mut Parser<'_>, piece: &Piece) -> Result<CursorCommand, SqlError> {
    let name = parser.parse_identifier().map_err(syntax)?;
    let instead = "leave it out: rows are given once, in their order";
    while let Some(option) = word(
        parser,
        &["BINARY", "INSENSITIVE", "ASENSITIVE", "NO", "SCROLL"],
    ) {
        match option.as_str() {
            "NO" if word(parser, &["SCROLL"]).is_some() => {}
            "NO" => return Err(expected(parser, "SCROLL")),
            "BINARY" => return Err(SqlError::unsupported("BINARY CURSOR", instead)),
            "SCROLL" => return Err(SqlError::unsupported("SCROLL CURSOR", instead)),
            _ => {}
        }
    }
    if word(parser, &["CURSOR"]).is_none() {
        return Err(expected(parser, "CURSOR"));
    }
    let is_held = match word(parser, &["WITH", "WITHOUT"]) {
        None => false,
        Some(with) => match word(parser, &["HOLD"]) {
            Some(_) => with == "WITH",
            None => return Err(expected(parser, "HOLD")),
        },
    };
    if word(parser, &["FOR"]).is_none() {
        return Err(expected(parser, "FOR"));
    }
    let mut tokens: Vec<TokenWithSpan> = Vec::new();
    loop {
        let token = parser.next_token_no_skip().cloned();
        match token {
            Some(token) if token.token != Token::EOF => tokens.push(token),
            _ => break,
        }
    }
    let query = statement(Piece {
        text: piece.text.clone(),
        tokens,
    })?;
    if !query.is_query() {
        return Err(SqlError::unsupported(
            "a cursor of anything but a query",
            "use SELECT, VALUES or WITH",
        ));
    }
    Ok(CursorCommand::Declare {
        name: normalised(&name),
        is_held,
        query: Box::new(query),
    })
}

/// The direction of a `FETCH`, up to the name.
fn fetched(parser: &mut Parser<'_>) -> Result<FetchedRows, SqlError> {
    const DIRECTIONS: [&str; 9] = [
        "NEXT", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "ALL", "FORWARD", "BACKWARD",
    ];
    let forward = |count: i64| match u64::try_from(count) {
        Ok(count) => FetchedRows::Next(count),
        Err(_) => FetchedRows::Backward,
    };
    let Some(direction) = word(parser, &DIRECTIONS) else {
        return Ok(number(parser)?.map_or(FetchedRows::Next(1), forward));
    };
    Ok(match direction.as_str() {
        "NEXT" => FetchedRows::Next(1),
        "ALL" => FetchedRows::All,
        "FIRST" => FetchedRows::Absolute(1),
        "FORWARD" if word(parser, &["ALL"]).is_some() => FetchedRows::All,
        "FORWARD" => number(parser)?.map_or(FetchedRows::Next(1), forward),
        "BACKWARD" => {
            if word(parser, &["ALL"]).is_none() {
                number(parser)?;
            }
            FetchedRows::Backward
        }
        "ABSOLUTE" | "RELATIVE" => {
            let Some(count) = number(parser)? else {
                return Err(expected(parser, "a number"));
            };
            match u64::try_from(count) {
                Ok(count) if direction == "ABSOLUTE" => FetchedRows::Absolute(count),
                Ok(0) => FetchedRows::Next(0),
                Ok(count) => FetchedRows::Relative(count),
                Err(_) => FetchedRows::Backward,
            }
        }
        _ => FetchedRows::Backward,
    })
}

/// A number with its sign, if one follows.
fn number(parser: &mut Parser<'_>) -> Result<Option<i64>, SqlError> {
    let is_negative = parser.consume_token(&Token::Minus);
    if !is_negative {
        let _ = parser.consume_token(&Token::Plus);
    }
    let Token::Number(digits, _) = parser.peek_token().token else {
        return match is_negative {
            true => Err(expected(parser, "a number")),
            false => Ok(None),
        };
    };
    let Ok(number) = digits.parse::<i64>() else {
        return Err(expected(parser, "a number of rows"));
    };
    parser.next_token();
    Ok(Some(if is_negative { -number } else { number }))
}

fn expected(parser: &Parser<'_>, what: &str) -> SqlError {
    let found = parser.expected::<Ident>(what, parser.peek_token());
    found.map_or_else(syntax, |_| SqlError::Syntax {
        message: what.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::statement::{StatementKind, statements};
    use super::*;

    fn read(sql: &str) -> CursorCommand {
        match statements(sql).expect(sql).remove(0).kind() {
            StatementKind::Cursor(command) => command.clone(),
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn cursors_are_declared() {
        for (sql, held) in [
            ("DECLARE c CURSOR FOR SELECT 1", false),
            (
                "declare C no scroll cursor with hold for values (1), (2)",
                true,
            ),
            (
                "DECLARE c INSENSITIVE NO SCROLL CURSOR WITHOUT HOLD FOR WITH a AS (SELECT 1) SELECT * FROM a",
                false,
            ),
            (
                "DECLARE c ASENSITIVE CURSOR FOR SELECT a FROM t FOR UPDATE",
                false,
            ),
        ] {
            let CursorCommand::Declare { name, is_held, .. } = read(sql) else {
                panic!("{sql}");
            };
            assert_eq!((name.as_str(), is_held), ("c", held), "{sql}");
        }
        for sql in [
            "DECLARE c CURSOR",
            "DECLARE c FOR SELECT 1",
            "DECLARE c NO CURSOR FOR SELECT 1",
            "DECLARE c SCROLL CURSOR FOR SELECT 1",
            "DECLARE c BINARY CURSOR FOR SELECT 1",
            "DECLARE c CURSOR WITH FOR SELECT 1",
            "DECLARE c CURSOR FOR INSERT INTO t VALUES (1)",
            "DECLARE c CURSOR FOR CHECKPOINT",
            "DECLARE c CURSOR FOR SELECT 1; x",
        ] {
            assert!(statements(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn rows_are_fetched() {
        use FetchedRows as Rows;
        for (sql, expected) in [
            ("FETCH c", Rows::Next(1)),
            ("FETCH NEXT FROM c", Rows::Next(1)),
            ("fetch 5 in c", Rows::Next(5)),
            ("FETCH FORWARD 7 FROM c", Rows::Next(7)),
            ("FETCH FORWARD c", Rows::Next(1)),
            ("FETCH ALL c", Rows::All),
            ("FETCH FORWARD ALL FROM c", Rows::All),
            ("FETCH FIRST c", Rows::Absolute(1)),
            ("FETCH ABSOLUTE 3 c", Rows::Absolute(3)),
            ("FETCH RELATIVE 2 FROM c", Rows::Relative(2)),
            ("FETCH RELATIVE 0 FROM c", Rows::Next(0)),
            ("FETCH -1 c", Rows::Backward),
            ("FETCH PRIOR c", Rows::Backward),
            ("FETCH LAST c", Rows::Backward),
            ("FETCH BACKWARD ALL c", Rows::Backward),
            ("FETCH BACKWARD 2 FROM c", Rows::Backward),
        ] {
            for (word, moves) in [("FETCH", false), ("MOVE", true)] {
                let sql = sql.replacen("FETCH", word, 1).replacen("fetch", word, 1);
                match read(&sql) {
                    CursorCommand::Fetch {
                        name,
                        rows,
                        is_move,
                    } => {
                        assert_eq!(
                            (name.as_str(), rows, is_move),
                            ("c", expected, moves),
                            "{sql}"
                        );
                    }
                    other => panic!("{sql}: {other:?}"),
                }
            }
        }
        assert!(matches!(read("CLOSE \"C\""), CursorCommand::Close { name } if name == "C"));
        assert!(matches!(read("CLOSE ALL"), CursorCommand::CloseAll));
        for sql in [
            "FETCH",
            "FETCH 1",
            "FETCH ABSOLUTE c",
            "CLOSE",
            "CLOSE a b",
            "FETCH - c",
        ] {
            assert!(statements(sql).is_err(), "{sql}");
        }
    }
}
