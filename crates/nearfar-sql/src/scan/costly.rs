//! Expressions that may take long.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, LikeExpr, TryCastExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::sync::Arc;

/// Expressions of more parts than this take long for their number alone.
const PARTS_MAX: usize = 64;

/// Whether evaluating `expr` for one row may take much longer than reading the row: what it does with a
/// value is not bounded by anything but the value, or it has very many parts.
pub fn is_costly(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut parts = 0;
    let mut is_costly = false;
    let visited = expr.apply(|part| {
        parts += 1;
        is_costly |= parts > PARTS_MAX || is_unbounded(part);
        Ok(match is_costly {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    });
    is_costly || visited.is_err()
}

/// Whether what `expr` itself does with a value is not bounded by anything but the value.
fn is_unbounded(expr: &Arc<dyn PhysicalExpr>) -> bool {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return matches!(
            binary.op(),
            Operator::RegexMatch
                | Operator::RegexIMatch
                | Operator::RegexNotMatch
                | Operator::RegexNotIMatch
                | Operator::LikeMatch
                | Operator::ILikeMatch
                | Operator::NotLikeMatch
                | Operator::NotILikeMatch
                | Operator::StringConcat
        );
    }
    let is_cast_to_values_of_any_length = |to: &arrow::datatypes::DataType| !to.is_primitive();
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return is_cast_to_values_of_any_length(cast.cast_type());
    }
    if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
        return is_cast_to_values_of_any_length(cast.cast_type());
    }
    expr.is::<LikeExpr>() || expr.is::<ScalarFunctionExpr>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{Expr, cast, col, lit};
    use datafusion::prelude::SessionContext;

    #[test]
    fn functions_patterns_and_very_long_expressions_are_costly() {
        let fields = vec![
            Field::new("s", DataType::Utf8, true),
            Field::new("k", DataType::Int64, true),
        ];
        let schema = DFSchema::try_from(Schema::new(fields)).expect("a schema");
        let context = SessionContext::new();
        let is_costly = |expr: Expr| {
            let expr = context.create_physical_expr(expr, &schema).expect("typed");
            is_costly(&expr)
        };
        let sum = |parts| (0..parts).fold(col("k"), |sum, part: i64| sum + lit(part) * col("k"));
        for cheap in [
            col("s").eq(lit("a")),
            col("k").gt(lit(1i64)).and(col("s").is_null()),
            cast(col("k"), DataType::Int32),
            sum(10),
        ] {
            assert!(!is_costly(cheap.clone()), "{cheap}");
        }
        for costly in [
            col("s").like(lit("%a%b_")),
            datafusion::functions::expr_fn::upper(col("s")).eq(lit("A")),
            cast(col("k"), DataType::Utf8View).eq(lit("1")),
            sum(100),
        ] {
            assert!(is_costly(costly.clone()), "{costly}");
        }
    }
}
