//! A script, cut into statements by its tokens: quotes and comments are the tokenizer's business.

use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use super::SqlError;
use super::dialect::NearfarDialect;

/// The SQL dialect that is read.
pub(super) static DIALECT: NearfarDialect = NearfarDialect;

/// How far a user who types a statement has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Nothing but white space and comments.
    Empty,
    /// A statement without its semicolon, or a quote or comment that is still open.
    Incomplete,
    /// Statements, each ended by a semicolon.
    Complete,
}

impl Completeness {
    /// Whether `sql` can be run as it is or needs another line.
    pub fn of(sql: &str) -> Self {
        let Ok(tokens) = Tokenizer::new(&DIALECT, sql).tokenize() else {
            // Text that can't be read for another reason is an error, which running it will tell.
            let closed = [";'", ";\"", ";*/"].iter().any(|end| {
                let closed = format!("{sql}{end}");
                Tokenizer::new(&DIALECT, &closed).tokenize().is_ok()
            });
            return if closed {
                Self::Incomplete
            } else {
                Self::Complete
            };
        };
        match tokens.iter().rfind(|token| !is_space(token)) {
            None => Self::Empty,
            Some(Token::SemiColon) => Self::Complete,
            Some(_) => Self::Incomplete,
        }
    }
}

/// The tokens of one statement, without its semicolon, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub text: String,
    pub tokens: Vec<TokenWithSpan>,
}

/// Cuts a script at its semicolons. Pieces of nothing but space and comments are left out.
pub(super) fn pieces(sql: &str) -> Result<Vec<Piece>, SqlError> {
    let tokens = Tokenizer::new(&DIALECT, sql)
        .tokenize_with_location()
        .map_err(|error| SqlError::Syntax {
            message: error.to_string(),
        })?;
    let offsets = Offsets::of(sql);
    let mut pieces = Vec::new();
    let mut current = Vec::new();
    for token in tokens {
        match token.token {
            Token::SemiColon => pieces.extend(piece(sql, &offsets, std::mem::take(&mut current))),
            _ => current.push(question(token)),
        }
    }
    pieces.extend(piece(sql, &offsets, current));
    Ok(pieces)
}

/// The piece that tokens are, if they are more than space.
fn piece(sql: &str, offsets: &Offsets<'_>, tokens: Vec<TokenWithSpan>) -> Option<Piece> {
    let first = tokens.iter().find(|token| !is_space(&token.token))?;
    let last = tokens.iter().rfind(|token| !is_space(&token.token))?;
    let text = sql.get(offsets.at(first.span.start)..offsets.at(last.span.end))?;
    Some(Piece {
        text: text.to_owned(),
        tokens,
    })
}

/// Parameters have numbers: a question mark alone is an operator.
fn question(mut token: TokenWithSpan) -> TokenWithSpan {
    if matches!(&token.token, Token::Placeholder(name) if name == "?") {
        token.token = Token::Question;
    }
    token
}

pub(super) fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_) | Token::EOF)
}

/// Where every line of a text begins, to find bytes by line and column.
struct Offsets<'a> {
    sql: &'a str,
    lines: Vec<usize>,
}

impl<'a> Offsets<'a> {
    fn of(sql: &'a str) -> Self {
        let ends = sql.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            sql,
            lines: std::iter::once(0).chain(ends).collect(),
        }
    }

    /// The byte at a location, whose line and column (in characters) begin at 1.
    fn at(&self, location: Location) -> usize {
        let line = (location.line as usize).saturating_sub(1);
        let Some(start) = self.lines.get(line) else {
            return self.sql.len();
        };
        let column = (location.column as usize).saturating_sub(1);
        let rest = &self.sql[*start..];
        rest.char_indices()
            .nth(column)
            .map_or(self.sql.len(), |(at, _)| start + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(sql: &str) -> Vec<String> {
        pieces(sql)
            .expect(sql)
            .into_iter()
            .map(|piece| piece.text)
            .collect()
    }

    #[test]
    fn quotes_and_comments_hide_semicolons() {
        let sql = "select ';' as \"a;b\"; -- no; cut\n select 'é;''' /* ; */ , 2 ;; \n-- end";
        assert_eq!(
            texts(sql),
            ["select ';' as \"a;b\"", "select 'é;''' /* ; */ , 2"]
        );
        assert_eq!(texts("select\n  1\n"), ["select\n  1"]);
        assert!(texts(" ; -- nothing").is_empty());
    }

    #[test]
    fn open_quotes_are_errors() {
        let error = pieces("select 'a; select 1")
            .expect_err("open quote")
            .to_string();
        assert!(error.contains("Line: 1, Column: 8"), "{error}");
    }

    #[test]
    fn completeness_is_a_semicolon_outside_of_quotes_and_comments() {
        let of = Completeness::of;
        for sql in ["", " \n", "-- select 1;", "/* ; */"] {
            assert_eq!(of(sql), Completeness::Empty, "{sql}");
        }
        for sql in [
            "select 1",
            "select ';",
            "select \";",
            "select 1 /* ;",
            "select 1 -- ;",
        ] {
            assert_eq!(of(sql), Completeness::Incomplete, "{sql}");
        }
        for sql in ["select 1;", "select 1; -- done", "select ';';\n"] {
            assert_eq!(of(sql), Completeness::Complete, "{sql}");
        }
    }

    /// Parts of statements, with what could be taken for their end.
    fn part() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "select 1",
            "';'",
            "'it''s; so'",
            "\"a;\"\"b\"",
            "/* ; */",
            "-- ; \n",
            "é",
            "\n\t",
            "(1, 2)",
            "E'\\n'",
        ])
    }

    proptest! {
        #[test]
        fn scripts_are_cut_where_they_were_joined(
            statements in prop::collection::vec(prop::collection::vec(part(), 0..6), 0..6)
        ) {
            let texts: Vec<String> =
                statements.iter().map(|parts| format!("select {}", parts.join(" "))).collect();
            let script = texts.iter().map(|text| format!("{text}\n;")).collect::<String>();
            let pieces = pieces(&script).expect("a script");
            prop_assert_eq!(pieces.len(), texts.len());
            for (piece, text) in pieces.iter().zip(&texts) {
                prop_assert!(text.starts_with(&piece.text), "{:?} of {text:?}", piece.text);
                let tokens = |sql: &str| -> Vec<Token> {
                    let all = Tokenizer::new(&DIALECT, sql).tokenize().expect("tokens");
                    all.into_iter().filter(|token| !is_space(token)).collect()
                };
                prop_assert_eq!(tokens(&piece.text), tokens(text));
            }
            let expected = match texts.is_empty() {
                true => Completeness::Empty,
                false => Completeness::Complete,
            };
            prop_assert_eq!(Completeness::of(&script), expected);
        }
    }
}
