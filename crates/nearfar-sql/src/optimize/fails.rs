//! Which values can be computed of any row.
//!
//! Below a join, what aggregates take is computed of rows, too, that find no partner: an error in one of these is one that
//! nobody has asked for. And what is left out may be an error that somebody is owed.

use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use super::decimal::{Bounds, arithmetic_bounds, bounds_of};
use super::narrow::column_bounds;
use crate::values::operator_of;

/// Operators that have a value for all others.
const COMPARES: [Operator; 10] = [
    Operator::Eq,
    Operator::NotEq,
    Operator::Lt,
    Operator::LtEq,
    Operator::Gt,
    Operator::GtEq,
    Operator::IsDistinctFrom,
    Operator::IsNotDistinctFrom,
    Operator::And,
    Operator::Or,
];

type Value = Arc<dyn PhysicalExpr>;
type Plan = Arc<dyn ExecutionPlan>;

/// Whether computing `value` fails for no row of `plan`, whichever these may be as far as statistics tell.
pub fn never_fails(value: &Value, plan: &Plan) -> bool {
    let is_safe = match operator(value) {
        Some(Operator::Plus | Operator::Minus | Operator::Multiply) => is_bounded(value, plan),
        Some(Operator::Divide | Operator::Modulo) => {
            let divisor = value.children().last().and_then(|right| constant(right));
            // The smallest integer has no opposite.
            divisor.is_some_and(|divisor| divisor > 0)
        }
        Some(operator) => COMPARES.contains(&operator),
        None => is_known(value, plan),
    };
    is_safe
        && value
            .children()
            .into_iter()
            .all(|part| never_fails(part, plan))
}

/// Whether a value is no more than an operator of columns and constants.
pub fn is_operation(value: &Value) -> bool {
    let is_given = |part: &&Value| part.is::<Column>() || part.is::<Literal>();
    operator(value).is_some() && value.children().iter().all(is_given)
}

fn operator(value: &Value) -> Option<Operator> {
    match value.downcast_ref::<ScalarFunctionExpr>() {
        Some(call) => operator_of(call),
        None => value
            .downcast_ref::<BinaryExpr>()
            .map(|binary| *binary.op()),
    }
}

/// Whether arithmetic stays within its type, by the bounds of columns.
fn is_bounded(value: &Value, plan: &Plan) -> bool {
    let of_column = |column| column_bounds(plan, column);
    match value.data_type(&plan.schema()) {
        Ok(DataType::Decimal128(..)) => bounds_of(value, &plan.schema(), &of_column).is_some(),
        Ok(DataType::Int32) => fits::<i32>(integer_bounds(value, plan)),
        Ok(DataType::Int64) => fits::<i64>(integer_bounds(value, plan)),
        _ => false,
    }
}

fn fits<T: TryFrom<i128>>(bounds: Option<Bounds>) -> bool {
    bounds.is_some_and(|(low, high)| T::try_from(low).is_ok() && T::try_from(high).is_ok())
}

fn integer_bounds(value: &Value, plan: &Plan) -> Option<Bounds> {
    if let Some(column) = value.downcast_ref::<Column>() {
        return column_bounds(plan, column.index());
    }
    if let Some(value) = constant(value) {
        return Some((value, value));
    }
    if let Some(cast) = value.downcast_ref::<CastExpr>() {
        return integer_bounds(cast.expr(), plan);
    }
    let [left, right] = value.children()[..] else {
        return None;
    };
    let (left, right) = (integer_bounds(left, plan)?, integer_bounds(right, plan)?);
    arithmetic_bounds(operator(value)?, left, right)
}

/// The units of an integer or a decimal.
fn constant(value: &Value) -> Option<i128> {
    match value.downcast_ref::<Literal>()?.value() {
        ScalarValue::Int32(value) => value.map(i128::from),
        ScalarValue::Int64(value) => value.map(i128::from),
        ScalarValue::Decimal128(value, ..) => *value,
        _ => None,
    }
}

/// Whether a value, no operator, is of a kind that has one wherever its parts do.
fn is_known(value: &Value, plan: &Plan) -> bool {
    if let Some(cast) = value.downcast_ref::<CastExpr>() {
        let given = cast.expr().data_type(&plan.schema());
        return given.is_ok_and(|given| is_wider(&given, cast.cast_type()));
    }
    value.is::<Column>()
        || value.is::<Literal>()
        || value.is::<IsNullExpr>()
        || value.is::<IsNotNullExpr>()
        || value.is::<NotExpr>()
        || value.is::<CaseExpr>()
        || value.is::<InListExpr>()
        || value.is::<LikeExpr>()
        || is_known_function(value)
}

/// Whether a value is that of a function which has one for all arguments that it can be given.
fn is_known_function(value: &Value) -> bool {
    let Some(call) = value.downcast_ref::<ScalarFunctionExpr>() else {
        return false;
    };
    match (call.name(), call.args()) {
        ("lower" | "upper", [_]) => true,
        // A part from a place on, of so many characters: fewer than none are an error.
        ("substr", [_, numbers @ ..]) => numbers
            .iter()
            .all(|number| constant(number).is_some_and(|number| number >= 0)),
        _ => false,
    }
}

/// Whether a type has all values of another one.
fn is_wider(given: &DataType, wider: &DataType) -> bool {
    let digits = |data_type: &DataType| match data_type {
        DataType::Int32 => Some((10, 0)),
        DataType::Int64 => Some((19, 0)),
        DataType::Decimal128(precision, scale) => {
            Some((i32::from(*precision) - i32::from(*scale), i32::from(*scale)))
        }
        _ => None,
    };
    match (digits(given), wider) {
        (Some(_), DataType::Float64) => true,
        (Some((10, 0)), DataType::Int32 | DataType::Int64) => matches!(given, DataType::Int32),
        (Some((whole, point)), DataType::Decimal128(..)) => {
            digits(wider).is_some_and(|(of_whole, of_point)| whole <= of_whole && point <= of_point)
        }
        _ => given == wider,
    }
}
