//! Comparisons of several values as one row.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select, Value,
};

use super::quantified::case;
use super::template::{column, joined, negated as not, null, over};
use crate::sql::SqlError;

/// Rewrites an expression, if it compares rows.
///
/// # Errors
/// Rows of different lengths.
pub(super) fn rewrite(expr: &mut Expr) -> Result<(), SqlError> {
    let rewritten = match expr {
        Expr::BinaryOp { left, op, right } => match (row(left), row(right)) {
            (Some(left), Some(right)) => compared(left, op, right)?,
            _ => None,
        },
        Expr::IsDistinctFrom(left, right) => distinct(
            row(left),
            row(right),
            Expr::IsDistinctFrom,
            &BinaryOperator::Or,
        )?,
        Expr::IsNotDistinctFrom(left, right) => distinct(
            row(left),
            row(right),
            Expr::IsNotDistinctFrom,
            &BinaryOperator::And,
        )?,
        Expr::InList {
            expr: left,
            list,
            negated,
        } => match row(left) {
            Some(left) => in_list(&left, list, *negated)?,
            None => None,
        },
        Expr::InSubquery {
            expr: left,
            subquery,
            negated,
        } => match row(left) {
            Some(left) => Some(in_query(&left, subquery, *negated)?),
            None => None,
        },
        _ => None,
    };
    if let Some(rewritten) = rewritten {
        *expr = rewritten;
    }
    Ok(())
}

/// Has a condition that rows must fulfil say only of a query's rows whether there is one that is the
/// same, which is all that counts there.
pub(super) fn simplify_condition(select: &mut Select) {
    if let Some(condition) = &mut select.selection {
        simplify(condition);
    }
}

fn simplify(condition: &mut Expr) {
    match condition {
        Expr::Nested(inner) => simplify(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            simplify(left);
            simplify(right);
        }
        Expr::InSubquery {
            expr,
            subquery,
            negated: false,
        } => {
            if let Some(left) = row(expr)
                && let Ok(exists) = exists(&left, subquery, |equal| equal)
            {
                *condition = exists;
            }
        }
        _ => {}
    }
}

/// The values of a row of at least two, or of one that is called so.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => row(inner),
        Expr::Tuple(values) => Some(values.clone()),
        Expr::Function(function) => {
            let name = function.name.0.last()?.as_ident()?;
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let values = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            });
            match name.value.eq_ignore_ascii_case("row") {
                true => values.collect(),
                false => None,
            }
        }
        _ => None,
    }
}

/// Pairs of values.
fn pairs(left: Vec<Expr>, right: Vec<Expr>) -> Result<Vec<(Expr, Expr)>, SqlError> {
    if left.len() != right.len() || left.is_empty() {
        return Err(SqlError::Syntax {
            message: "rows that are compared must have the same number of values".to_owned(),
        });
    }
    Ok(left.into_iter().zip(right).collect())
}

fn binary(left: Expr, op: &BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    }
}

/// A comparison: equal in all values, or decided by the first that differ.
fn compared(
    left: Vec<Expr>,
    op: &BinaryOperator,
    right: Vec<Expr>,
) -> Result<Option<Expr>, SqlError> {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    let all = |op: &BinaryOperator, by: &BinaryOperator| -> Result<Option<Expr>, SqlError> {
        let pairs = pairs(left.clone(), right.clone())?.into_iter();
        let each = pairs.map(|(left, right)| binary(left, op, right));
        Ok(Some(joined(each.collect(), by)))
    };
    let strict = match op {
        Eq => return all(&Eq, &And),
        NotEq => return all(&NotEq, &Or),
        Lt | LtEq => Lt,
        Gt | GtEq => Gt,
        _ => return Ok(None),
    };
    let mut pairs = pairs(left.clone(), right.clone())?;
    let last = pairs.pop();
    let mut decided = last.map(|(left, right)| binary(left, op, right));
    for (left, right) in pairs.into_iter().rev() {
        let differs = binary(left.clone(), &strict, right.clone());
        decided = decided.map(|rest| {
            let same = joined(vec![binary(left, &Eq, right), rest], &And);
            joined(vec![differs, same], &Or)
        });
    }
    Ok(decided)
}

fn distinct(
    left: Option<Vec<Expr>>,
    right: Option<Vec<Expr>>,
    form: fn(Box<Expr>, Box<Expr>) -> Expr,
    by: &BinaryOperator,
) -> Result<Option<Expr>, SqlError> {
    let (Some(left), Some(right)) = (left, right) else {
        return Ok(None);
    };
    let pairs = pairs(left, right)?.into_iter();
    let each = pairs.map(|(left, right)| form(Box::new(left), Box::new(right)));
    Ok(Some(joined(each.collect(), by)))
}

fn in_list(left: &[Expr], list: &[Expr], negated: bool) -> Result<Option<Expr>, SqlError> {
    let mut each = Vec::with_capacity(list.len());
    for listed in list {
        let Some(right) = row(listed) else {
            return Ok(None);
        };
        each.extend(compared(left.to_vec(), &BinaryOperator::Eq, right)?);
    }
    let any = joined(each, &BinaryOperator::Or);
    Ok(Some(if negated { not(any) } else { any }))
}

/// Null unless a row is equal or all differ for sure.
fn in_query(left: &[Expr], query: &Query, negated: bool) -> Result<Expr, SqlError> {
    let truth = |is: bool| Expr::value(Value::Boolean(is));
    let is_equal = exists(left, query, |equal| equal)?;
    let is_unknown = exists(left, query, |equal| Expr::IsNull(Box::new(equal)))?;
    let any = case(
        vec![(is_equal, truth(true)), (is_unknown, null())],
        truth(false),
    );
    Ok(if negated { not(any) } else { any })
}

/// Whether the query has a row for which what `of` makes of the equality is true.
fn exists(left: &[Expr], query: &Query, of: impl Fn(Expr) -> Expr) -> Result<Expr, SqlError> {
    let columns = (0..left.len()).map(column).collect();
    let equal = compared(left.to_vec(), &BinaryOperator::Eq, columns)?;
    let one = Expr::value(Value::Number("1".to_owned(), false));
    Ok(Expr::Exists {
        subquery: Box::new(over(query.clone(), left.len(), one, equal.map(of))?),
        negated: false,
    })
}
