//! Clauses that lock rows, which nothing here does.

use datafusion::sql::sqlparser::ast::Query;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::sql::SqlError;
use crate::sql::script::is_space;

/// Refuses a query that asks for its rows to be locked.
///
/// # Errors
/// Such a query.
pub(super) fn check(query: &Query) -> Result<(), SqlError> {
    match query.locks.first() {
        Some(lock) => Err(refusal(&format!("SELECT … {lock}"))),
        None => Ok(()),
    }
}

/// The same for the strengths of locks that the parser does not know.
///
/// # Errors
/// A query that asks for its rows to be locked.
pub(in crate::sql) fn check_tokens(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    const STRENGTHS: [&[Keyword]; 2] = [
        &[Keyword::FOR, Keyword::NO, Keyword::KEY, Keyword::UPDATE],
        &[Keyword::FOR, Keyword::KEY, Keyword::SHARE],
    ];
    // Few statements have the first word of them.
    let is_word = |token: &Token, keyword: Keyword| matches!(token, Token::Word(word) if word.keyword == keyword);
    for (at, _) in tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| is_word(&token.token, Keyword::FOR))
    {
        let rest = || {
            tokens[at..]
                .iter()
                .map(|t| &t.token)
                .filter(|t| !is_space(t))
        };
        for words in STRENGTHS {
            let mut found = rest();
            if words
                .iter()
                .all(|word| found.next().is_some_and(|token| is_word(token, *word)))
            {
                let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                return Err(refusal(&format!("SELECT … {}", words.join(" "))));
            }
        }
    }
    Ok(())
}

fn refusal(statement: &str) -> SqlError {
    SqlError::unsupported(
        statement,
        "rows are not locked; leave it out: a transaction that changes rows which another has changed \
         meanwhile fails (40001), and can be run again",
    )
}
