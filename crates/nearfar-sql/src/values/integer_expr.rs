//! Expressions of integers, computed for single rows without arrays.
//!
//! They give what the expressions that they stand for give, or nothing: where a value is null or a result out of its
//! type's range, the expression itself is evaluated, which knows what comes of that.

use arrow::array::{Array, ArrayRef, AsArray, Int16Array, Int32Array, Int64Array};
use arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, CastExpr, Column, Literal};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

use super::arithmetic::operator_of;
use super::checked_expr::CheckedExpr;

/// An expression whose value is an integer.
#[derive(Debug)]
pub struct IntegerExpr {
    node: Node,
    width: Width,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    Int16,
    Int32,
    Int64,
}

impl Width {
    fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Int16 => Some(Self::Int16),
            DataType::Int32 => Some(Self::Int32),
            DataType::Int64 => Some(Self::Int64),
            _ => None,
        }
    }

    /// The value, if the type has it.
    fn checked(self, value: i64) -> Option<i64> {
        let is_in_range = match self {
            Self::Int16 => i16::try_from(value).is_ok(),
            Self::Int32 => i32::try_from(value).is_ok(),
            Self::Int64 => true,
        };
        is_in_range.then_some(value)
    }

    fn array(self, value: i64) -> Option<ArrayRef> {
        Some(match self {
            Self::Int16 => Arc::new(Int16Array::from_value(value.try_into().ok()?, 1)),
            Self::Int32 => Arc::new(Int32Array::from_value(value.try_into().ok()?, 1)),
            Self::Int64 => Arc::new(Int64Array::from_value(value, 1)),
        })
    }
}

/// A part of an expression. Conditions are 1 where they are true, and 0 where they are not.
#[derive(Debug)]
enum Node {
    /// A value that is taken, by its place: columns first, then parameters.
    Taken(usize),
    Constant(i64),
    Arithmetic(Operator, Box<[Node; 2]>, Width),
    Condition(Operator, Box<[Node; 2]>),
    Cast(Box<Node>, Width),
    /// Conditions, what each leads to, and what is left.
    Case(Vec<[Node; 2]>, Box<Node>),
}

/// What expressions take of a single row.
#[derive(Debug, Clone, Copy)]
pub struct OneRow<'a> {
    /// The columns.
    pub columns: &'a [ArrayRef],
    /// The parameters of the statement.
    pub parameters: &'a [ScalarValue],
    /// Which of them are behind the columns.
    pub taken: &'a [(usize, DataType)],
}

impl OneRow<'_> {
    fn value(&self, at: usize) -> Option<i64> {
        match at.checked_sub(self.columns.len()) {
            None => integer_in(&self.columns[at]),
            Some(at) => {
                let (parameter, _) = self.taken.get(at)?;
                integer_of(self.parameters.get(*parameter)?)
            }
        }
    }
}

fn integer_in(values: &ArrayRef) -> Option<i64> {
    if values.len() != 1 || values.is_null(0) {
        return None;
    }
    match values.data_type() {
        DataType::Int16 => Some(values.as_primitive::<Int16Type>().value(0).into()),
        DataType::Int32 => Some(values.as_primitive::<Int32Type>().value(0).into()),
        DataType::Int64 => Some(values.as_primitive::<Int64Type>().value(0)),
        _ => None,
    }
}

fn integer_of(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => *value,
        _ => None,
    }
}

impl IntegerExpr {
    /// `expr` over values of `schema`. None where it is of something else than integers.
    pub fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        let width = Width::of(&expr.data_type(schema).ok()?)?;
        let node = Node::of(expr, schema)?;
        Some(Self { node, width })
    }

    /// Its value for a row, as an array of this. None where the expression itself is to be evaluated.
    pub fn evaluate(&self, row: OneRow<'_>) -> Option<ArrayRef> {
        self.width.array(self.node.value(row)?)
    }
}

impl Node {
    fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        let of = |expr| Self::of(expr, schema);
        let width = |expr: &Arc<dyn PhysicalExpr>| Width::of(&expr.data_type(schema).ok()?);
        if let Some(column) = expr.downcast_ref::<Column>() {
            return width(expr).map(|_| Self::Taken(column.index()));
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return integer_of(literal.value()).map(Self::Constant);
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            width(cast.expr())?;
            let width = Width::of(cast.cast_type())?;
            return Some(Self::Cast(Box::new(of(cast.expr())?), width));
        }
        if let Some(checked) = expr.downcast_ref::<CheckedExpr>() {
            return of(&checked.call);
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            let operator = operator_of(call)?;
            let [left, right] = call.args() else {
                return None;
            };
            let is_known =
                [Operator::Plus, Operator::Minus, Operator::Multiply].contains(&operator);
            let is_of_one = is_known && width(left)? == width(right)?;
            let operands = is_of_one.then(|| Some([of(left)?, of(right)?]))??;
            return Some(Self::Arithmetic(operator, Box::new(operands), width(left)?));
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            let (left, right, operator) = (binary.left(), binary.right(), *binary.op());
            use Operator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
            let is_known = match operator {
                And | Or => true,
                Eq | NotEq | Gt | GtEq | Lt | LtEq => width(left)? == width(right)?,
                _ => false,
            };
            let operands = is_known.then(|| Some([of(left)?, of(right)?]))??;
            return Some(Self::Condition(operator, Box::new(operands)));
        }
        let case = expr.downcast_ref::<CaseExpr>()?;
        if case.expr().is_some() {
            return None;
        }
        let branches = case.when_then_expr().iter();
        let branches = branches.map(|(when, then)| Some([of(when)?, of(then)?]));
        Some(Self::Case(
            branches.collect::<Option<_>>()?,
            Box::new(of(case.else_expr()?)?),
        ))
    }

    fn value(&self, row: OneRow<'_>) -> Option<i64> {
        match self {
            Self::Taken(at) => row.value(*at),
            Self::Constant(value) => Some(*value),
            Self::Cast(of, width) => width.checked(of.value(row)?),
            Self::Arithmetic(operator, operands, width) => {
                let [left, right] = operands.as_ref();
                let (left, right) = (left.value(row)?, right.value(row)?);
                let value = match operator {
                    Operator::Plus => left.checked_add(right),
                    Operator::Minus => left.checked_sub(right),
                    _ => left.checked_mul(right),
                };
                width.checked(value?)
            }
            Self::Condition(operator, operands) => {
                let [left, right] = operands.as_ref();
                let (left, right) = (left.value(row)?, right.value(row)?);
                Some(i64::from(match operator {
                    Operator::And => left == 1 && right == 1,
                    Operator::Or => left == 1 || right == 1,
                    Operator::Eq => left == right,
                    Operator::NotEq => left != right,
                    Operator::Lt => left < right,
                    Operator::LtEq => left <= right,
                    Operator::Gt => left > right,
                    _ => left >= right,
                }))
            }
            Self::Case(branches, left) => {
                for [when, then] in branches {
                    if when.value(row)? == 1 {
                        return then.value(row);
                    }
                }
                left.value(row)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::arithmetic::Checked;
    use crate::values::without_calls;
    use arrow::array::RecordBatch;
    use arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::{binary, case, cast, col, lit};
    use proptest::prelude::*;

    fn schema() -> Schema {
        let field = |name| Field::new(name, DataType::Int32, true);
        Schema::new(vec![
            field("a"),
            field("b"),
            Field::new("p", DataType::Int32, true),
        ])
    }

    fn checked(
        left: Arc<dyn PhysicalExpr>,
        operator: Operator,
        right: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        let call = ScalarFunctionExpr::try_new(
            Arc::new(Checked::udf(operator)),
            vec![left, right],
            &schema(),
            Arc::default(),
        );
        Arc::new(call.expect("a call"))
    }

    /// `CASE WHEN a >= b + p AND a <> 7 THEN a - p ELSE a * b END`, wider, and plus 1.
    fn expr() -> Arc<dyn PhysicalExpr> {
        let schema = schema();
        let (a, b, p) = (
            || col("a", &schema).expect("a"),
            || col("b", &schema).expect("b"),
            || col("p", &schema).expect("p"),
        );
        let sum = checked(b(), Operator::Plus, p());
        let enough = binary(a(), Operator::GtEq, sum, &schema).expect("a comparison");
        let other = binary(a(), Operator::NotEq, lit(7_i32), &schema).expect("a comparison");
        let both = binary(enough, Operator::And, other, &schema).expect("a condition");
        let then = checked(a(), Operator::Minus, p());
        let left = checked(a(), Operator::Multiply, b());
        let case = case(None, vec![(both, then)], Some(left)).expect("a case");
        let wider = cast(case, &schema, DataType::Int64).expect("a cast");
        checked(wider, Operator::Plus, lit(1_i64))
    }

    proptest! {
        #[test]
        fn values_are_those_of_the_expression(
            a in prop::option::of(prop_oneof![-9..9_i32, any::<i32>()]),
            b in prop::option::of(prop_oneof![-9..9_i32, any::<i32>()]),
            p in prop::option::of(prop_oneof![-9..9_i32, any::<i32>()]),
        ) {
            let (expr, schema) = (expr(), schema());
            let expr = without_calls(expr).expect("an expression");
            let quick = IntegerExpr::of(&expr, &schema).expect("an expression of integers");
            let array = |value| Arc::new(Int32Array::from(vec![value])) as ArrayRef;
            let columns = [array(a), array(b)];
            let row = OneRow {
                columns: &columns,
                parameters: &[ScalarValue::Int32(p)],
                taken: &[(0, DataType::Int32)],
            };
            let batch = RecordBatch::try_new(Arc::new(schema), vec![array(a), array(b), array(p)]).expect("a batch");
            let expected = expr.evaluate(&batch);
            match (quick.evaluate(row), expected) {
                (Some(value), Ok(expected)) => {
                    prop_assert_eq!(&value, &expected.into_array(1).expect("an array"));
                }
                (Some(value), Err(error)) => panic!("{value:?}, but {error}"),
                (None, Ok(expected)) => {
                    // A null on the way, which need not be one at the end.
                    prop_assert!([a, b, p].contains(&None), "{expected:?}");
                }
                (None, Err(_)) => {}
            }
        }
    }
}
