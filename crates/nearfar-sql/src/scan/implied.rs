//! Filters of one column that follow from filters of several.
//!
//! Of `(a = 1 AND b = 'x') OR (a = 2 AND b = 'y')` follow `a = 1 OR a = 2` and `b = 'x' OR b = 'y'`, which can be decided
//! on codes where the whole can't.

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::utils::collect_columns;
use std::sync::Arc;

/// `AND` and `OR` below each other that are looked through.
const DEPTH_MAX: usize = 64;

/// The condition for `column` alone that holds wherever `expr` does.
pub fn of_column(expr: &Arc<dyn PhysicalExpr>, column: usize) -> Option<Arc<dyn PhysicalExpr>> {
    of_column_below(expr, column, DEPTH_MAX)
}

fn of_column_below(
    expr: &Arc<dyn PhysicalExpr>,
    column: usize,
    depth: usize,
) -> Option<Arc<dyn PhysicalExpr>> {
    let deeper = depth.checked_sub(1)?;
    let of_side = |side| of_column_below(side, column, deeper);
    let binary = expr.downcast_ref::<BinaryExpr>();
    let operator = binary.map(|binary| (binary, *binary.op()));
    match operator {
        Some((binary, Operator::And)) => {
            let sides = (of_side(binary.left()), of_side(binary.right()));
            match sides {
                (Some(left), Some(right)) => Some(both(left, Operator::And, right)),
                (left, right) => left.or(right),
            }
        }
        Some((binary, Operator::Or)) => {
            let (left, right) = (of_side(binary.left())?, of_side(binary.right())?);
            Some(both(left, Operator::Or, right))
        }
        _ => {
            let columns = collect_columns(expr);
            let is_its = columns.len() == 1 && columns.iter().all(|own| own.index() == column);
            is_its.then(|| Arc::clone(expr))
        }
    }
}

fn both(
    left: Arc<dyn PhysicalExpr>,
    operator: Operator,
    right: Arc<dyn PhysicalExpr>,
) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(left, operator, right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::physical_expr::expressions::{Column, lit};

    fn is(column: usize, operator: Operator, value: i64) -> Arc<dyn PhysicalExpr> {
        let name = ["a", "b", "c"][column];
        both(Arc::new(Column::new(name, column)), operator, lit(value))
    }

    fn implied(expr: &Arc<dyn PhysicalExpr>) -> [Option<String>; 3] {
        [0, 1, 2].map(|column| of_column(expr, column).map(|expr| expr.to_string()))
    }

    #[test]
    fn each_alternative_says_something_of_a_column() {
        let first = both(
            is(0, Operator::Eq, 1),
            Operator::And,
            is(1, Operator::Lt, 5),
        );
        let second = both(
            is(1, Operator::Eq, 7),
            Operator::And,
            is(0, Operator::Eq, 2),
        );
        let either = both(Arc::clone(&first), Operator::Or, second);
        let of_a = Some("a@0 = 1 OR a@0 = 2".to_owned());
        let of_b = Some("b@1 < 5 OR b@1 = 7".to_owned());
        assert_eq!(implied(&either), [of_a, of_b, None]);
        // One alternative says nothing of a.
        let other = both(first, Operator::Or, is(1, Operator::Gt, 9));
        let of_b = Some("b@1 < 5 OR b@1 > 9".to_owned());
        assert_eq!(implied(&other), [None, of_b, None]);
    }

    #[test]
    fn what_compares_two_columns_says_nothing_of_one() {
        let compared = both(
            Arc::new(Column::new("a", 0)),
            Operator::Eq,
            Arc::new(Column::new("b", 1)),
        );
        assert_eq!(implied(&compared), [None, None, None]);
    }
}
