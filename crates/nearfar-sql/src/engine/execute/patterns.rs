//! Regular expressions of statements, compiled before the statement runs.
//!
//! The library's functions tell a pattern that can't be compiled, or is too large when it is, in
//! errors of several kinds, some of which are those of bugs.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use regex::Regex;
use std::borrow::Cow;

use crate::error::EngineError;
use crate::sql::SqlError;

/// Functions whose second argument is a pattern, and which of their arguments has its flags.
const FUNCTIONS: [(&str, usize); 5] = [
    ("regexp_count", 3),
    ("regexp_instr", 4),
    ("regexp_like", 2),
    ("regexp_match", 2),
    ("regexp_replace", 3),
];
/// The flag that is none of the pattern: all matches, not the first.
const ALL: char = 'g';

/// Checks the patterns that are written in a statement.
///
/// # Errors
/// [`SqlError::Pattern`].
pub(super) fn check_patterns(plan: &LogicalPlan) -> Result<(), EngineError> {
    let mut found = Ok(());
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|expression| {
                found = pattern_of(expression).map_or(Ok(()), |pattern| check(&pattern));
                Ok(match found {
                    Ok(()) => TreeNodeRecursion::Continue,
                    Err(_) => TreeNodeRecursion::Stop,
                })
            })
        })
    })?;
    Ok(found?)
}

fn check(pattern: &str) -> Result<(), SqlError> {
    match Regex::new(pattern) {
        Ok(_) => Ok(()),
        Err(error) => Err(SqlError::pattern(&error)),
    }
}

/// The pattern that an expression compiles, where it is written in it.
fn pattern_of(expression: &Expr) -> Option<Cow<'_, str>> {
    match expression {
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            let known = FUNCTIONS.iter().find(|(name, _)| *name == func.name());
            let (_, flags) = known?;
            let pattern = literal(args.get(1)?)?;
            let Some(flags) = args.get(*flags) else {
                return Some(pattern.into());
            };
            let flags = literal(flags)?.replace(ALL, "");
            Some(match flags.is_empty() {
                true => pattern.into(),
                false => format!("(?{flags}){pattern}").into(),
            })
        }
        Expr::BinaryExpr(BinaryExpr { op, right, .. }) if is_of_patterns(*op) => {
            literal(right).map(Cow::from)
        }
        Expr::SimilarTo(similar) => literal(&similar.pattern).map(Cow::from),
        _ => None,
    }
}

const fn is_of_patterns(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch
    )
}

fn literal(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        Expr::Cast(cast) => literal(&cast.expr),
        Expr::Alias(alias) => literal(&alias.expr),
        _ => None,
    }
}
