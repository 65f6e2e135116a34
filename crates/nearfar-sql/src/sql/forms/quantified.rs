//! Comparisons with all or any of the values of a query.
//!
//! The planner resolves the columns of such a comparison within the query. The least and the greatest of
//! the values decide as well, and need no comparison of each row with each other.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{BinaryOperator, CaseWhen, Expr, Query, Value};

use super::template::{call, column, joined, negated, null, over, take};
use crate::sql::SqlError;

/// Rewrites an expression, if it is such a comparison.
///
/// # Errors
/// As of [`over`].
pub(super) fn rewrite(expr: &mut Expr) -> Result<(), SqlError> {
    let (left, op, right, is_all) = match expr {
        Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        } => (left, compare_op.clone(), right, false),
        Expr::AllOp {
            left,
            compare_op,
            right,
        } => (left, compare_op.clone(), right, true),
        _ => return Ok(()),
    };
    let Expr::Subquery(query) = right.as_mut() else {
        return Ok(());
    };
    // ALL is that there is none of the opposite.
    let op = if is_all { opposite(&op) } else { Some(op) };
    let Some(op) = op else { return Ok(()) };
    let any = match op {
        BinaryOperator::Eq => Expr::InSubquery {
            expr: Box::new(take(left)),
            subquery: query.clone(),
            negated: is_all,
        },
        BinaryOperator::Lt
        | BinaryOperator::LtEq
        | BinaryOperator::Gt
        | BinaryOperator::GtEq
        | BinaryOperator::NotEq => {
            let any = any_of(left, &op, query)?;
            if is_all { negated(any) } else { any }
        }
        _ => return Ok(()),
    };
    *expr = any;
    Ok(())
}

fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        _ => return None,
    })
}

/// True if the comparison is true for a value of the query; else null if the left side or a value is
/// null, unless there is no value; else false.
fn any_of(left: &Expr, op: &BinaryOperator, query: &Query) -> Result<Expr, SqlError> {
    let aggregate = |name: &str| -> Result<Expr, SqlError> {
        let value = call(name, vec![column(0)]);
        Ok(Expr::Subquery(Box::new(over(
            query.clone(),
            1,
            value,
            None,
        )?)))
    };
    let compared = |name: &str| -> Result<Expr, SqlError> {
        Ok(binary(left.clone(), op.clone(), aggregate(name)?))
    };
    let is_true = match op {
        BinaryOperator::Lt | BinaryOperator::LtEq => compared("max")?,
        BinaryOperator::Gt | BinaryOperator::GtEq => compared("min")?,
        _ => joined(
            vec![compared("min")?, compared("max")?],
            &BinaryOperator::Or,
        ),
    };
    let rows = call("count", vec![Expr::value(number(1))]);
    let nulls = binary(
        rows.clone(),
        BinaryOperator::Minus,
        call("count", vec![column(0)]),
    );
    let count = |of: Expr| -> Result<Expr, SqlError> {
        Ok(Expr::Subquery(Box::new(over(query.clone(), 1, of, None)?)))
    };
    let zero = || Expr::value(number(0));
    let is_empty = binary(count(rows)?, BinaryOperator::Eq, zero());
    let has_null = joined(
        vec![
            Expr::IsNull(Box::new(left.clone())),
            binary(count(nulls)?, BinaryOperator::Gt, zero()),
        ],
        &BinaryOperator::Or,
    );
    let truth = |is: bool| Expr::value(Value::Boolean(is));
    Ok(case(
        vec![
            (is_true, truth(true)),
            (is_empty, truth(false)),
            (has_null, null()),
        ],
        truth(false),
    ))
}

fn number(value: u8) -> Value {
    Value::Number(value.to_string(), false)
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }))
}

/// `CASE WHEN … THEN … ELSE … END`.
pub(super) fn case(conditions: Vec<(Expr, Expr)>, otherwise: Expr) -> Expr {
    let conditions = conditions.into_iter();
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: conditions
            .map(|(condition, result)| CaseWhen { condition, result })
            .collect(),
        else_result: Some(Box::new(otherwise)),
    }
}
