//! `DISTRIBUTED BY (columns) [COPIES n]` and `REPLICATED` behind `CREATE TABLE`: where a table's rows are in a cluster.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::script::{DIALECT, is_space};
use super::statement::{expect_end, normalised, syntax};

/// Where the rows of a table are in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distributed {
    /// Each where the values of some columns tell.
    By {
        /// The columns.
        columns: Vec<String>,
        /// On how many workers each row is, at least one.
        copies: usize,
    },
    /// All on every worker.
    Replicated,
}

/// Takes the clause out of the tokens of a `CREATE TABLE`, at whose end it stands.
///
/// # Errors
/// A clause that names no columns, asks for no copy or for a number that is none, or has something behind it.
pub(super) fn take_distribution(
    tokens: &mut Vec<TokenWithSpan>,
) -> Result<Option<Distributed>, SqlError> {
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    };
    let mut depth = 0_i32;
    let mut begin = None;
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ if depth == 0 && ["distributed", "replicated"].contains(&word(token).as_str()) => {
                begin = Some(at);
            }
            _ => {}
        }
    }
    // A table of that name has something behind it.
    let Some(begin) =
        begin.filter(|at| tokens[..*at].iter().filter(|t| !is_space(&t.token)).count() > 2)
    else {
        return Ok(None);
    };
    let clause = tokens.split_off(begin);
    if word(&clause[0]) == "replicated" {
        let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(clause);
        parser.next_token();
        expect_end(&mut parser)?;
        return Ok(Some(Distributed::Replicated));
    }
    let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(clause);
    parser.next_token();
    parser.expect_keyword(Keyword::BY).map_err(syntax)?;
    let columns = parser
        .parse_parenthesized_column_list(
            datafusion::sql::sqlparser::parser::IsOptional::Mandatory,
            false,
        )
        .map_err(syntax)?;
    let copies = copies(&mut parser)?;
    expect_end(&mut parser)?;
    Ok(Some(Distributed::By {
        columns: columns.iter().map(normalised).collect(),
        copies,
    }))
}

/// What stands behind `COPIES`, or one.
fn copies(parser: &mut Parser<'_>) -> Result<usize, SqlError> {
    let is_word = match &parser.peek_token_ref().token {
        Token::Word(word) => word.value.eq_ignore_ascii_case("copies"),
        _ => false,
    };
    if !is_word {
        return Ok(1);
    }
    parser.next_token();
    let copies = parser.parse_literal_uint().map_err(syntax)?;
    match usize::try_from(copies) {
        Ok(copies) if copies > 0 => Ok(copies),
        _ => Err(syntax(ParserError::ParserError(format!(
            "COPIES {copies}: each row is on one node at least"
        )))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::statement::statements;
    use super::*;

    fn distribution(sql: &str) -> Option<Distributed> {
        let statements = statements(sql).expect(sql);
        statements[0].distribution().cloned()
    }

    #[test]
    fn the_clause_is_read_and_taken_out() {
        let by_copies = |columns: &[&str], copies| {
            let columns = columns.iter().map(|column| (*column).to_owned());
            let columns = columns.collect();
            Some(Distributed::By { columns, copies })
        };
        let by = |columns: &[&str]| by_copies(columns, 1);
        for (sql, expected) in [
            ("CREATE TABLE t (a INT) DISTRIBUTED BY (a)", by(&["a"])),
            (
                "create table t (a int, \"B\" int) distributed by (A, \"B\")",
                by(&["a", "B"]),
            ),
            (
                "CREATE TABLE t (a INT) DISTRIBUTED BY (a) copies 2",
                by_copies(&["a"], 2),
            ),
            (
                "CREATE TABLE t (a INT) REPLICATED",
                Some(Distributed::Replicated),
            ),
            ("CREATE TABLE replicated (a INT)", None),
            ("CREATE TABLE t (distributed INT)", None),
            ("SELECT 1 AS replicated", None),
        ] {
            assert_eq!(distribution(sql), expected, "{sql}");
        }
        for sql in [
            "CREATE TABLE t (a INT) DISTRIBUTED",
            "CREATE TABLE t (a INT) DISTRIBUTED BY ()",
            "CREATE TABLE t (a INT) DISTRIBUTED BY (a) COPIES",
            "CREATE TABLE t (a INT) DISTRIBUTED BY (a) COPIES 0",
            "CREATE TABLE t (a INT) DISTRIBUTED BY (a) COPIES -1",
            "CREATE TABLE t (a INT) REPLICATED now",
        ] {
            assert!(statements(sql).is_err(), "{sql}");
        }
    }
}
