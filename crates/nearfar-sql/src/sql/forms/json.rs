//! PostgreSQL's operators of JSON, which is text here.

use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, Value};

use super::template::{call, take};

/// Rewrites an expression, if it has such an operator or names the type.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::Cast { data_type, .. } if matches!(data_type, DataType::JSON | DataType::JSONB) => {
            *data_type = DataType::Text;
        }
        Expr::BinaryOp { left, op, right } => {
            let (function, is_path) = match op {
                BinaryOperator::Arrow => ("json_get_json", false),
                BinaryOperator::LongArrow => ("json_as_text", false),
                BinaryOperator::HashArrow => ("json_get_json", true),
                BinaryOperator::HashLongArrow => ("json_as_text", true),
                BinaryOperator::Question => ("json_contains", false),
                _ => return,
            };
            let mut arguments = vec![take(left)];
            match (is_path, path(right)) {
                (false, _) => arguments.push(take(right)),
                (true, Some(steps)) => arguments.extend(steps),
                (true, None) => {
                    **left = arguments.remove(0);
                    return;
                }
            }
            *expr = call(function, arguments);
        }
        _ => {}
    }
}

/// The steps of a path that is written out, such as `'{a,0}'`.
fn path(expr: &Expr) -> Option<Vec<Expr>> {
    let Expr::Value(value) = expr else {
        return None;
    };
    let Value::SingleQuotedString(text) = &value.value else {
        return None;
    };
    let steps = super::arrays::elements(text)?.into_iter();
    let step = |step: Option<String>| {
        let step = step?;
        Some(Expr::value(match step.parse::<u32>() {
            Ok(number) => Value::Number(number.to_string(), false),
            Err(_) => Value::SingleQuotedString(step),
        }))
    };
    steps.map(step).collect()
}
