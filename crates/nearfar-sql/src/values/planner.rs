//! What operators and functions mean where DataFusion means something else, decided when a statement
//! is planned: the types of its columns follow from it.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawWindowExpr,
};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{
    AggregateUDF, BinaryExpr, Cast, Expr, ExprSchemable, Operator, WindowFunctionDefinition,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

use super::count::count;
use super::decimal::{AVERAGE, MULTIPLY, PRODUCT_SCALE_MAX, scale_of};
use super::declared;
use super::extract::EXTRACT;
use super::frames;
use super::interval::{self, LENGTH};
use super::math::POWER;
use super::sum::sum;

/// Plans expressions as PostgreSQL types them.
#[derive(Debug)]
pub struct ValuePlanner {
    sum: Arc<AggregateUDF>,
    count: Arc<AggregateUDF>,
}

impl Default for ValuePlanner {
    fn default() -> Self {
        Self {
            sum: Arc::new(sum()),
            count: Arc::new(count()),
        }
    }
}

impl ExprPlanner for ValuePlanner {
    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = raw;
        if matches!(op, BinaryOperator::PGExp) {
            let power = POWER.udf().call(vec![left, right]);
            return Ok(PlannerResult::Planned(power));
        }
        let Some(operator) = operator(&op) else {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        };
        let types = type_of(&left, schema).zip(type_of(&right, schema));
        let Some(types) = types else {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        };
        let (left, right, types) = as_doubles(left, right, types, operator);
        let (left, right) = match operator.is_numerical_operators() {
            true => (left, right),
            false => declared::compared(left, right, schema),
        };
        Ok(match meant(operator, &left, &right, &types) {
            Some(expr) => PlannerResult::Planned(expr),
            None => PlannerResult::Original(RawBinaryExpr { op, left, right }),
        })
    }

    fn plan_extract(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(EXTRACT.udf().call(arguments)))
    }

    fn plan_aggregate(&self, raw: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        if raw.func.name() != "avg" || raw.args.len() != 1 || is_float(&raw.args) {
            return Ok(PlannerResult::Original(raw));
        }
        let of = |func: &Arc<AggregateUDF>| {
            Expr::AggregateFunction(AggregateFunction {
                func: Arc::clone(func),
                params: AggregateFunctionParams {
                    args: raw.args.clone(),
                    distinct: raw.distinct,
                    filter: raw.filter.clone(),
                    order_by: raw.order_by.clone(),
                    null_treatment: raw.null_treatment,
                },
            })
        };
        Ok(PlannerResult::Planned(average(
            &of(&raw.func),
            of(&self.sum),
            of(&self.count),
        )))
    }

    fn plan_window(&self, mut raw: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        let takes_all = raw.filter.is_none();
        let of_frames = |function: &Arc<AggregateUDF>| {
            let known = frames::of_frames(function, takes_all);
            WindowFunctionDefinition::AggregateUDF(known.unwrap_or_else(|| Arc::clone(function)))
        };
        if let WindowFunctionDefinition::AggregateUDF(function) = &raw.func_def {
            raw.func_def = of_frames(function);
        }
        if raw.func_def.name() != "avg" || raw.args.len() != 1 || is_float(&raw.args) {
            return Ok(PlannerResult::Original(raw));
        }
        let of = |fun: WindowFunctionDefinition| {
            Expr::from(WindowFunction {
                fun,
                params: WindowFunctionParams {
                    args: raw.args.clone(),
                    partition_by: raw.partition_by.clone(),
                    order_by: raw.order_by.clone(),
                    window_frame: raw.window_frame.clone(),
                    filter: raw.filter.clone(),
                    null_treatment: raw.null_treatment,
                    distinct: raw.distinct,
                },
            })
        };
        Ok(PlannerResult::Planned(average(
            &of(raw.func_def.clone()),
            of(of_frames(&self.sum)),
            of(of_frames(&self.count)),
        )))
    }
}

/// Whether values are cast to floats, whose average needs no parts: these would have the names of those of
/// what is cast.
fn is_float(arguments: &[Expr]) -> bool {
    matches!(arguments, [Expr::Cast(cast)]
        if matches!(cast.field.data_type(), DataType::Float32 | DataType::Float64))
}

/// An average by its parts, under its name.
fn average(named: &Expr, sum: Expr, count: Expr) -> Expr {
    let name = named.schema_name().to_string();
    AVERAGE.udf().call(vec![sum, count]).alias(name)
}

/// The operators whose meaning depends on the types of their operands.
fn operator(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Modulo,
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
}

fn meant(
    operator: Operator,
    left: &Expr,
    right: &Expr,
    (left_type, right_type): &(DataType, DataType),
) -> Option<Expr> {
    let binary = |left: Expr, right: Expr| {
        Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
    };
    let is_date = |kind: &DataType| matches!(kind, DataType::Date32);
    let is_interval = |kind: &DataType| matches!(kind, DataType::Interval(_));
    let is_timestamp = |kind: &DataType| matches!(kind, DataType::Timestamp(..));
    let both = || (left.clone(), right.clone());
    match operator {
        Operator::Minus if is_date(left_type) && is_date(right_type) => {
            Some(cast(binary(left.clone(), right.clone()), DataType::Int32))
        }
        Operator::Plus | Operator::Minus if is_date(left_type) && right_type.is_integer() => {
            let days = cast(left.clone(), DataType::Int32);
            let added = cast(right.clone(), DataType::Int32);
            Some(cast(binary(days, added), DataType::Date32))
        }
        Operator::Plus if left_type.is_integer() && is_date(right_type) => {
            let days = cast(right.clone(), DataType::Int32);
            let added = cast(left.clone(), DataType::Int32);
            Some(cast(binary(added, days), DataType::Date32))
        }
        Operator::Minus if is_timestamp(left_type) && is_timestamp(right_type) => {
            let (left, right) = both();
            Some(interval::BETWEEN.udf().call(vec![left, right]))
        }
        Operator::Plus | Operator::Minus if is_date(left_type) && is_interval(right_type) => {
            Some(moved(left, operator, right))
        }
        Operator::Plus if is_interval(left_type) && is_date(right_type) => {
            Some(moved(right, operator, left))
        }
        Operator::Multiply if is_interval(left_type) && right_type.is_numeric() => {
            let (left, right) = both();
            Some(interval::MULTIPLY.udf().call(vec![left, right]))
        }
        Operator::Multiply if left_type.is_numeric() && is_interval(right_type) => {
            let (left, right) = both();
            Some(interval::MULTIPLY.udf().call(vec![right, left]))
        }
        Operator::Divide if is_interval(left_type) && right_type.is_numeric() => {
            let (left, right) = both();
            Some(interval::DIVIDE.udf().call(vec![left, right]))
        }
        Operator::Multiply
            if scale_of(left_type).saturating_add(scale_of(right_type)) > PRODUCT_SCALE_MAX =>
        {
            let (left, right) = both();
            Some(MULTIPLY.udf().call(vec![left, right]))
        }
        _ if !operator.is_numerical_operators() && is_date(left_type) => {
            Some(binary(left.clone(), moved_date(right)?.clone()))
        }
        _ if !operator.is_numerical_operators() && is_date(right_type) => {
            Some(binary(moved_date(left)?.clone(), right.clone()))
        }
        _ if !operator.is_numerical_operators()
            && (is_interval(left_type) || is_interval(right_type)) =>
        {
            let length = |value: &Expr| LENGTH.udf().call(vec![value.clone()]);
            Some(binary(length(left), length(right)))
        }
        _ => None,
    }
}

/// A date and an interval, which give a timestamp.
fn moved(date: &Expr, operator: Operator, interval: &Expr) -> Expr {
    let timestamp = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let binary = |date: Expr| {
        let (left, right) = (Box::new(date), Box::new(interval.clone()));
        Expr::BinaryExpr(BinaryExpr::new(left, operator, right))
    };
    match interval {
        // A whole number of days is added to the date, which filters on dates can be compared with.
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _)
            if value.nanoseconds == 0 =>
        {
            cast(binary(date.clone()), timestamp)
        }
        _ => binary(cast(date.clone(), timestamp)),
    }
}

/// The date that [`moved`] made a timestamp of.
fn moved_date(expr: &Expr) -> Option<&Expr> {
    let Expr::Cast(cast) = expr else {
        return None;
    };
    let is_moved = matches!(cast.expr.as_ref(), Expr::BinaryExpr(BinaryExpr { right, .. })
        if matches!(right.as_ref(), Expr::Literal(ScalarValue::IntervalMonthDayNano(_), _)));
    let is_timestamp = matches!(
        cast.field.data_type(),
        DataType::Timestamp(TimeUnit::Nanosecond, None)
    );
    (is_moved && is_timestamp).then(|| cast.expr.as_ref())
}

fn cast(value: Expr, to: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(value), to))
}

/// The type of an expression: of a choice, that of all it chooses from.
pub(super) fn type_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    let Expr::Case(case) = expr else {
        return expr.get_type(schema).ok();
    };
    let values = case.when_then_expr.iter().map(|(_, then)| then);
    let types = values
        .chain(&case.else_expr)
        .map(|value| type_of(value, schema));
    let types: Option<Vec<DataType>> = types.collect();
    let types = types?;
    let is_float = |kind: &DataType| matches!(kind, DataType::Float32 | DataType::Float64);
    match types.iter().any(is_float) && types.iter().any(DataType::is_decimal) {
        true => Some(DataType::Float64),
        false => type_union_resolution(&types),
    }
}

/// Operands of which one is a float and the other is no float of its size are doubles.
fn as_doubles(
    left: Expr,
    right: Expr,
    types: (DataType, DataType),
    operator: Operator,
) -> (Expr, Expr, (DataType, DataType)) {
    use DataType::{Float32, Float64};
    let is_widened = |own: &DataType, other: &DataType| match (own, other) {
        (own, Float32 | Float64) if own.is_decimal() => true,
        (Float32, other) if other.is_decimal() => true,
        (Float32, other) => operator.is_numerical_operators() && other.is_integer(),
        _ => false,
    };
    let (widen_left, widen_right) = (
        is_widened(&types.0, &types.1),
        is_widened(&types.1, &types.0),
    );
    let widened = |expr: Expr, kind: DataType, is_widened: bool| match is_widened {
        true => (cast(expr, Float64), Float64),
        false => (expr, kind),
    };
    let (left, left_type) = widened(left, types.0, widen_left);
    let (right, right_type) = widened(right, types.1, widen_right);
    (left, right, (left_type, right_type))
}
