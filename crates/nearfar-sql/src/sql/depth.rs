//! How deep a statement is: each step of its plan is a step of recursion, for which stacks end.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::script::is_space;

/// Operators, set operations, joins and parentheses that may stand within each other, of which some count
/// more.
pub(super) const DEPTH_MAX: usize = 1_000;

/// Steps of recursion of the parser, which takes several for each of those. That its own limit is not
/// reached first is all that matters: it grows its stack, as the planner does.
pub(super) const PARSER_STEPS_MAX: usize = 32 * DEPTH_MAX;

/// What a function's parentheses count: types are looked for anew at each of them.
const CALL: usize = 10;

/// What a subquery's parentheses count outside of `FROM`: checks of it double with each of them.
const SUBQUERY: usize = 80;

/// What a subquery's parentheses count in `FROM`: no other form takes as much stack.
const DERIVED_TABLE: usize = 3;

/// What stands between two parentheses.
#[derive(Default)]
struct Level {
    /// What the parentheses count themselves.
    own: usize,
    /// Operators since the last comma: each takes what is left of it.
    chain: usize,
    /// Whether commas join tables.
    in_from: bool,
}

/// Refuses a statement that is deeper than stacks are sure to hold. Counts from tokens and never less
/// than there is.
///
/// # Errors
/// A statement that is too deep.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut levels = vec![Level::default()];
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        let Some(level) = levels.last_mut() else {
            break;
        };
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                let own = cost(&tokens[..at], &tokens[at + 1..], level.in_from);
                levels.push(Level {
                    own,
                    ..Level::default()
                });
                depth += own;
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                // One that closes nothing is the parser's business.
                if levels.len() > 1 {
                    depth -= levels.pop().map_or(0, |closed| closed.chain + closed.own);
                }
            }
            Token::Comma if !level.in_from => {
                depth -= level.chain;
                level.chain = 0;
            }
            Token::Word(word) => match word.keyword {
                Keyword::FROM => level.in_from = true,
                Keyword::SELECT | Keyword::WHERE | Keyword::GROUP | Keyword::ORDER => {
                    level.in_from = false;
                }
                Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::CASE
                | Keyword::JOIN
                | Keyword::UNION
                | Keyword::INTERSECT
                | Keyword::EXCEPT
                | Keyword::IS
                | Keyword::LIKE
                | Keyword::COLLATE => deepen(level, &mut depth),
                _ => {}
            },
            Token::Whitespace(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Placeholder(_)
            | Token::Period
            | Token::EOF => {}
            _ => deepen(level, &mut depth),
        }
        if depth > DEPTH_MAX {
            return Err(SqlError::TooDeep { limit: DEPTH_MAX });
        }
    }
    Ok(())
}

/// What parentheses count, by what stands before them and within them.
fn cost(before: &[TokenWithSpan], within: &[TokenWithSpan], in_from: bool) -> usize {
    let keyword = |token: Option<&TokenWithSpan>| match token.map(|token| &token.token) {
        Some(Token::Word(word)) => Some(word.keyword),
        _ => None,
    };
    let next = within.iter().find(|token| !is_space(&token.token));
    let is_query = matches!(keyword(next), Some(Keyword::SELECT | Keyword::WITH));
    match (is_query, in_from) {
        (true, true) => return DERIVED_TABLE,
        (true, false) => return SUBQUERY,
        (false, true) => return 1,
        (false, false) => {}
    }
    match keyword(before.iter().rfind(|token| !is_space(&token.token))) {
        None
        | Some(
            Keyword::AND
            | Keyword::OR
            | Keyword::NOT
            | Keyword::IN
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE
            | Keyword::SELECT
            | Keyword::WHERE
            | Keyword::VALUES,
        ) => 1,
        Some(_) => CALL,
    }
}

fn deepen(level: &mut Level, depth: &mut usize) {
    level.chain += 1;
    *depth += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::script::pieces;
    use proptest::prelude::*;

    fn check_all(sql: &str) -> Result<(), SqlError> {
        let pieces = pieces(sql)?;
        pieces.iter().try_for_each(|piece| check(&piece.tokens))
    }

    #[test]
    fn long_statements_are_not_deep() {
        let values = "(-1, 'x', 2.5 + 1), ".repeat(10_000);
        assert_eq!(
            check_all(&format!("INSERT INTO t VALUES {values} (1)")),
            Ok(())
        );
        assert_eq!(check_all(&"SELECT 1 + 1; ".repeat(10_000)), Ok(()));
        let within = format!("SELECT {}1", "abs(".repeat(90));
        assert_eq!(check_all(&within), Ok(()));
        let sums = vec!["f(a + b) * 2"; 5_000].join(", ");
        assert_eq!(check_all(&format!("SELECT {sums} FROM t")), Ok(()));
    }

    #[test]
    fn deep_statements_are_refused() {
        for deep in [
            " + 1".repeat(1_100),
            " OR a".repeat(1_100),
            " FROM t".to_owned() + &", t".repeat(1_100),
            "(".repeat(1_100),
            " UNION SELECT 1".repeat(1_100),
            "::int".repeat(1_100),
            " + abs(1".repeat(110),
            " + (SELECT 1".repeat(14),
            " FROM (SELECT 1".repeat(340),
        ] {
            let refused = check_all(&format!("SELECT 1{deep}"));
            assert_eq!(
                refused,
                Err(SqlError::TooDeep { limit: DEPTH_MAX }),
                "{}",
                &deep[..20]
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(sql in "[()\\[\\], a+;'-]{0,60}") {
            let _ = check_all(&sql);
        }
    }
}
