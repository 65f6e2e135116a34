//! Lists behind `IN` that begin with a query in parentheses, such as `x IN ((SELECT 1), 2)`.
//!
//! The parser takes all of such a list for one query. A plus before the first value tells them apart, which
//! is taken out of the syntax tree again.

use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::template::take;
use crate::sql::script::is_space;

/// Puts a plus before the first values of such lists.
pub(in crate::sql) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let firsts = first_queries(tokens);
    if firsts.is_empty() {
        return;
    }
    let mut firsts = firsts.into_iter().peekable();
    let unmarked = std::mem::take(tokens);
    for (at, token) in unmarked.into_iter().enumerate() {
        if firsts.next_if_eq(&at).is_some() {
            tokens.push(TokenWithSpan::new(Token::Plus, token.span));
        }
        tokens.push(token);
    }
}

/// Where the first values of such lists begin, in their order.
fn first_queries(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let mut found = Vec::new();
    // For each parenthesis that is open, its place if it is behind another that is behind IN.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut closed = None;
    let (mut last, mut last_but_one) = (&Token::EOF, &Token::EOF);
    for (at, token) in tokens.iter().enumerate() {
        let token = &token.token;
        if is_space(token) {
            continue;
        }
        match token {
            Token::LParen => {
                let is_first = *last == Token::LParen && is_word(last_but_one, &[Keyword::IN]);
                open.push(is_first.then_some(at));
            }
            Token::RParen => closed = open.pop().flatten(),
            Token::Comma => found.extend(closed.take()),
            _ => {
                let is_query = is_word(token, &[Keyword::SELECT, Keyword::WITH]);
                if *last == Token::LParen
                    && !is_query
                    && let Some(first) = open.last_mut()
                {
                    *first = None;
                }
                closed = None;
            }
        }
        (last_but_one, last) = (last, token);
    }
    found.sort_unstable();
    found
}

fn is_word(token: &Token, keywords: &[Keyword]) -> bool {
    matches!(token, Token::Word(word) if keywords.contains(&word.keyword))
}

/// Takes the plus out of a list.
pub(super) fn unmark(expr: &mut Expr) {
    if let Expr::InList { list, .. } = expr
        && let Some(first) = list.first_mut()
        && let Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr: query,
        } = first
        && matches!(**query, Expr::Subquery(_))
    {
        *first = take(query);
    }
}
