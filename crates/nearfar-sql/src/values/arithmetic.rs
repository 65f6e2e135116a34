//! Arithmetic on integers and floats that refuses what it can't give, instead of going around.
//!
//! No zero that comes of it is negative. Decimals are computed with checks by Arrow's kernels, and so are integers
//! divided. The others are replaced when types are known ([`super::rule`]), by an expression of the same name and
//! type.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Datum, PrimitiveArray};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::scalar::ScalarValue;
use nearfar_table::table::with_one_zero;

use super::decimal::DIVIDE;
use super::error::ValueError;

/// The operator that a call stands for, if it is one of an operator with checks.
pub fn operator_of(call: &ScalarFunctionExpr) -> Option<Operator> {
    if call.fun().name() == DIVIDE.name {
        return Some(Operator::Divide);
    }
    let checked = call.fun().inner().downcast_ref::<Checked>();
    checked.map(Checked::operator)
}

/// An operation on two numbers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Checked {
    operator: Operator,
    signature: Signature,
}

type Kernel = fn(&dyn Datum, &dyn Datum) -> std::result::Result<ArrayRef, ArrowError>;

impl Checked {
    /// `left operator right`, where both are integers or floats of one type.
    pub fn expr(left: Expr, operator: Operator, right: Expr) -> Expr {
        Self::udf(operator).call(vec![left, right])
    }

    /// The function of an operator.
    pub fn udf(operator: Operator) -> ScalarUDF {
        ScalarUDF::from(Self {
            operator,
            signature: Signature::any(2, Volatility::Immutable),
        })
    }

    /// The operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Whether what DataFusion has for an operator on a type does not refuse all it should.
    pub fn replaces(operator: Operator, data_type: &DataType) -> bool {
        match operator {
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                data_type.is_integer() || is_float(data_type)
            }
            Operator::Divide | Operator::Modulo => is_float(data_type),
            _ => false,
        }
    }

    fn kernel(&self) -> Kernel {
        match self.operator {
            Operator::Plus => numeric::add,
            Operator::Minus => numeric::sub,
            Operator::Multiply => numeric::mul,
            Operator::Modulo => numeric::rem,
            _ => numeric::div,
        }
    }
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &'static str {
        "checked"
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(format!(
            "{} {} {}",
            arguments[0], self.operator, arguments[1]
        ))
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let (left, right) = (arguments[0].schema_name(), arguments[1].schema_name());
        Ok(format!("{left} {} {right}", self.operator))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let [left, right] = inputs else {
            return Ok(SortProperties::Unordered);
        };
        Ok(match self.operator {
            Operator::Plus => left.sort_properties.add(&right.sort_properties),
            Operator::Minus => left.sort_properties.sub(&right.sort_properties),
            _ => SortProperties::Unordered,
        })
    }

    /// Nothing is computed beside a null, so that nothing fails there, as in PostgreSQL.
    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let is_null = |arg: &Expr| matches!(arg, Expr::Literal(value, _) if value.is_null());
        Ok(match args.iter().position(is_null) {
            Some(null) => ExprSimplifyResult::Simplified(args[null].clone()),
            None => ExprSimplifyResult::Original(args),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.compute(&arguments.args[0], &arguments.args[1])
    }
}

impl Checked {
    /// The values of the operation, which are of the type of its operands.
    ///
    /// # Errors
    /// [`ValueError`], and those of Arrow's kernels.
    pub(super) fn compute(
        &self,
        left: &ColumnarValue,
        right: &ColumnarValue,
    ) -> Result<ColumnarValue> {
        let value = apply(left, right, self.kernel())?;
        if is_float(&value.data_type()) {
            let arrays =
                ColumnarValue::values_to_arrays(&[left.clone(), right.clone(), value.clone()]);
            if let Some(error) = self.fault(&value, arrays)? {
                return Err(error.into());
            }
        }
        Ok(value)
    }

    /// What is wrong with a result of floats, which have no errors of their own.
    fn fault(
        &self,
        value: &ColumnarValue,
        arrays: Result<Vec<ArrayRef>>,
    ) -> Result<Option<ValueError>> {
        let is_finite = match value {
            ColumnarValue::Array(array) => match array.data_type() {
                DataType::Float32 => all_finite::<Float32Type>(array, f32::is_finite),
                _ => all_finite::<Float64Type>(array, f64::is_finite),
            },
            ColumnarValue::Scalar(ScalarValue::Float64(Some(value))) => value.is_finite(),
            ColumnarValue::Scalar(ScalarValue::Float32(Some(value))) => value.is_finite(),
            ColumnarValue::Scalar(_) => true,
        };
        if is_finite {
            return Ok(None);
        }
        let arrays = arrays?
            .iter()
            .map(|array| arrow::compute::cast(array, &DataType::Float64))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let [left, right, result] = &arrays[..] else {
            return Ok(None);
        };
        let at = |array: &ArrayRef, row| array.as_primitive::<Float64Type>().value(row);
        let faults = (0..result.len()).filter(|row| result.is_valid(*row));
        let mut faults = faults.filter_map(|row| {
            let (left, right, result) = (at(left, row), at(right, row), at(result, row));
            if self.operator == Operator::Divide && right == 0.0 && !left.is_nan() {
                return Some(ValueError::DivisionByZero);
            }
            let has_overflown = result.is_infinite() && left.is_finite() && right.is_finite();
            has_overflown.then(|| ValueError::out_of_range("value"))
        });
        Ok(faults.next())
    }
}

fn all_finite<T: ArrowPrimitiveType>(array: &ArrayRef, is_finite: fn(T::Native) -> bool) -> bool {
    let array: &PrimitiveArray<T> = array.as_primitive();
    array.values().iter().all(|value| is_finite(*value))
}

fn apply(left: &ColumnarValue, right: &ColumnarValue, kernel: Kernel) -> Result<ColumnarValue> {
    use ColumnarValue::{Array, Scalar};
    let array = match (left, right) {
        (Array(left), Array(right)) => kernel(left, right)?,
        (Scalar(left), Array(right)) => kernel(&left.to_scalar()?, right)?,
        (Array(left), Scalar(right)) => kernel(left, &right.to_scalar()?)?,
        (Scalar(left), Scalar(right)) => {
            let value = kernel(&left.to_scalar()?, &right.to_scalar()?)?;
            return Ok(Scalar(ScalarValue::try_from_array(
                &with_one_zero(value),
                0,
            )?));
        }
    };
    Ok(Array(with_one_zero(array)))
}

/// The negative of an integer or a float.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Negated {
    signature: Signature,
}

impl Negated {
    /// `-value`.
    pub fn expr(value: Expr) -> Expr {
        Self::udf().call(vec![value])
    }

    /// The function.
    pub fn udf() -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::from(Self { signature })
    }
}

impl ScalarUDFImpl for Negated {
    fn name(&self) -> &'static str {
        "checked_negative"
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(format!("(- {})", arguments[0]))
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(format!("(- {})", arguments[0].schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        super::function::compute(arguments, |arrays, _| {
            numeric::neg(&arrays[0]).map_err(DataFusionError::from)
        })
    }
}
