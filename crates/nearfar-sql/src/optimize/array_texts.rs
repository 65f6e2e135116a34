//! Texts of arrays, such as `'{1,2}'`, where a column or a cast wants an array.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use crate::sql::array_elements;
use crate::values::has_expr;

/// Reads texts that are cast to arrays of one dimension; the library makes an array of the text.
#[derive(Debug, Default)]
pub struct ReadArrayTexts;

impl AnalyzerRule for ReadArrayTexts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|node| {
            if !has_expr(&node, is_concerned)? {
                return Ok(Transformed::no(node));
            }
            node.map_expressions(|expr| expr.transform_up(read))
        });
        rewritten.data()
    }

    fn name(&self) -> &str {
        "read_array_texts"
    }
}

fn is_concerned(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(cast) if matches!(cast.field.data_type(), DataType::List(_)))
}

fn read(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::Cast(cast) = &expr else {
        return Ok(Transformed::no(expr));
    };
    let (DataType::List(element), Expr::Literal(text, _)) =
        (cast.field.data_type(), cast.expr.as_ref())
    else {
        return Ok(Transformed::no(expr));
    };
    let Some(elements) = text.try_as_str().flatten().and_then(array_elements) else {
        return Ok(Transformed::no(expr));
    };
    if element.data_type().is_nested() {
        return Ok(Transformed::no(expr));
    }
    let values = elements.into_iter();
    let values = values.map(|value| ScalarValue::Utf8(value).cast_to(element.data_type()));
    let values = values.collect::<Result<Vec<_>>>()?;
    let list = ScalarValue::new_list_nullable(&values, element.data_type());
    let name = expr.schema_name().to_string();
    let list = Expr::Literal(ScalarValue::List(list), None).alias(name);
    Ok(Transformed::yes(list))
}
