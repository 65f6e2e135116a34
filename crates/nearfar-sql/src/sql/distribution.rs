//! `DISTRIBUTED BY (columns)` and `REPLICATED` behind `CREATE TABLE`: where a table's rows are in a cluster.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::script::{DIALECT, is_space};
use super::statement::{expect_end, normalised, syntax};

/// Where the rows of a table are in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distributed {
    /// Each on one worker, which the values of these columns tell.
    By(Vec<String>),
    /// All on every worker.
    Replicated,
}

/// Takes the clause out of the tokens of a `CREATE TABLE`, at whose end it stands.
///
/// # Errors
/// A clause that names no columns, or has something behind it.
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
    expect_end(&mut parser)?;
    Ok(Some(Distributed::By(
        columns.iter().map(normalised).collect(),
    )))
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
        let by = |columns: &[&str]| {
            let columns = columns.iter().map(|column| (*column).to_owned());
            Some(Distributed::By(columns.collect()))
        };
        for (sql, expected) in [
            ("CREATE TABLE t (a INT) DISTRIBUTED BY (a)", by(&["a"])),
            (
                "create table t (a int, \"B\" int) distributed by (A, \"B\")",
                by(&["a", "B"]),
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
            "CREATE TABLE t (a INT) REPLICATED now",
        ] {
            assert!(statements(sql).is_err(), "{sql}");
        }
    }
}
