//! Subqueries that stand for a value.

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Column;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};

use super::dependent::{Dependent, domain};
use crate::datafusion_names::SEVERAL_ROWS;
use crate::error::{EngineError, SqlError};

/// The query around, joined with the subquery, and the value of it.
pub(super) fn join(
    input: &LogicalPlan,
    subquery: &LogicalPlan,
) -> Result<Option<(LogicalPlan, Expr)>> {
    let Some(domain) = domain(input, subquery)? else {
        return Ok(None);
    };
    let Some(Dependent { plan, keys }) = domain.unnest(subquery)? else {
        return Ok(None);
    };
    let value = Expr::Column(Column::from(subquery.schema().qualified_field(0)));
    let rows = LogicalPlanBuilder::from(plan);
    let keys = keys.into_iter().map(Expr::Column);
    if is_one_row(subquery) {
        let columns = domain.named(keys).chain([value.alias(VALUE)]);
        let plan = rows.project(columns)?.build()?;
        return domain.join(input, plan, |column| column(VALUE)).map(Some);
    }
    let first = first_value_udaf().call(vec![value]).alias(VALUE);
    let rows = rows.aggregate(keys.clone(), vec![first, count(lit(1_i64)).alias(ROWS)])?;
    let values = [VALUE, ROWS].map(|name| Expr::Column(Column::new_unqualified(name)));
    let columns = domain.named(keys).chain(values);
    let plan = rows.project(columns)?.build()?;
    let check = ScalarUDF::from(Single::default());
    let single = |column: &dyn Fn(&str) -> Expr| check.call(vec![column(VALUE), column(ROWS)]);
    domain.join(input, plan, single).map(Some)
}

const VALUE: &str = "__value";
const ROWS: &str = "__rows";

/// Whether a plan gives one row for everything that it refers to.
fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// A value, of which the number of its rows must be one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Single {
    signature: Signature,
}

impl Default for Single {
    fn default() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

/// The function that gives its first argument, and refuses a second above one.
pub fn single_row() -> ScalarUDF {
    ScalarUDF::from(Single::default())
}

impl ScalarUDFImpl for Single {
    fn name(&self) -> &str {
        "__single_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, rows] = &args.args[..] else {
            return Err(DataFusionError::Internal("two arguments".to_owned()));
        };
        let counts = rows.to_array(args.number_rows)?;
        let counts = counts.as_primitive_opt::<Int64Type>();
        if counts.is_some_and(|counts| counts.iter().flatten().any(|rows| rows > 1)) {
            return Err(EngineError::from(SqlError::SeveralRows).into());
        }
        Ok(value.clone())
    }
}

/// Whether an error is DataFusion's own about such a subquery that gave several rows.
pub fn is_of_several_rows(error: &DataFusionError) -> bool {
    // Nothing but its words tells it.
    matches!(error.find_root(), DataFusionError::Execution(message)
        if message.starts_with(SEVERAL_ROWS))
}
