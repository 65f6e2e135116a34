//! How deep a statement is: each step of its plan is a step of recursion, for which stacks end.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::failure::{Failure, state};

/// Operators, set operations, joins and parentheses that may stand within each other.
const DEPTH_MAX: usize = 1_000;

/// What stands between two parentheses.
#[derive(Default)]
struct Level {
    /// Operators since the last comma: each takes what is left of it.
    chain: usize,
    /// Whether commas join tables.
    in_from: bool,
}

/// Refuses a script with a statement that is deeper than stacks are sure to hold. Counts from tokens
/// and never less than there is.
///
/// # Errors
/// A statement that is too deep. A script that is no SQL is left to the parser.
pub fn check(sql: &str) -> Result<(), Failure> {
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize() else {
        return Ok(());
    };
    let mut levels = vec![Level::default()];
    let mut depth = 0;
    for token in &tokens {
        let Some(level) = levels.last_mut() else {
            break;
        };
        match token {
            Token::SemiColon => {
                levels = vec![Level::default()];
                depth = 0;
            }
            Token::LParen | Token::LBracket | Token::LBrace => {
                levels.push(Level::default());
                depth += 1;
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                // One that closes nothing is the parser's business.
                if levels.len() > 1 {
                    depth -= levels.pop().map_or(0, |closed| closed.chain + 1);
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
            let message = format!(
                "the statement is too complex: more than {DEPTH_MAX} operators, joins or parentheses \
                 within each other"
            );
            return Err(Failure::new(state::STATEMENT_TOO_COMPLEX, message));
        }
    }
    Ok(())
}

fn deepen(level: &mut Level, depth: &mut usize) {
    level.chain += 1;
    *depth += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_statements_are_not_deep() {
        let values = "(-1, 'x', 2.5 + 1), ".repeat(10_000);
        assert_eq!(check(&format!("INSERT INTO t VALUES {values} (1)")), Ok(()));
        assert_eq!(check(&"SELECT 1 + 1; ".repeat(10_000)), Ok(()));
        let sums = vec!["f(a + b) * 2"; 5_000].join(", ");
        assert_eq!(check(&format!("SELECT {sums} FROM t")), Ok(()));
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
        ] {
            let refused = check(&format!("SELECT 1{deep}"));
            assert_eq!(refused.map_err(|f| f.code), Err("54001"), "{}", &deep[..20]);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(sql in "[()\\[\\], a+;'-]{0,60}") {
            let _ = check(&sql);
        }
    }
}
