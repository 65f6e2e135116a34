//! Functions of SQL, made of what they take, what they give and how they compute it.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;
use nearfar_table::table::with_one_zero;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A function that gives the same for the same arguments.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    pub name: &'static str,
    /// The types that arguments of these types are cast to.
    pub takes: fn(&[DataType]) -> Result<Vec<DataType>>,
    /// What it gives for arguments that have been cast.
    pub gives: fn(&ReturnFieldArgs<'_>) -> Result<FieldRef>,
    /// One value for each row; all arguments have as many rows.
    pub compute: fn(&[ArrayRef], &FieldRef) -> Result<ArrayRef>,
}

impl Function {
    /// As DataFusion knows functions.
    pub fn udf(self) -> ScalarUDF {
        ScalarUDF::from(Defined {
            function: self,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }
}

/// A field without a name for a result.
pub fn result(data_type: DataType) -> Result<FieldRef> {
    Ok(Arc::new(Field::new("result", data_type, true)))
}

#[derive(Debug)]
struct Defined {
    function: Function,
    signature: Signature,
}

impl PartialEq for Defined {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name
    }
}

impl Eq for Defined {}

impl Hash for Defined {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl ScalarUDFImpl for Defined {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let fields: Vec<FieldRef> = types
            .iter()
            .map(|kind| Arc::new(Field::new("", kind.clone(), true)))
            .collect();
        let arguments = ReturnFieldArgs {
            arg_fields: &fields,
            scalar_arguments: &vec![None; fields.len()],
        };
        Ok((self.function.gives)(&arguments)?.data_type().clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        (self.function.gives)(&arguments)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        (self.function.takes)(types)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        compute(arguments, self.function.compute)
    }
}

/// Computes an array of arrays, and a single value of single values. No zero of real numbers is negative.
pub fn compute(
    arguments: ScalarFunctionArgs,
    compute: impl Fn(&[ArrayRef], &FieldRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let is_single = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
    let all_single = arguments.args.iter().all(is_single);
    let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
    let computed = with_one_zero(compute(&arrays, &arguments.return_field)?);
    if all_single && !arrays.is_empty() {
        return Ok(ScalarValue::try_from_array(&computed, 0)?.into());
    }
    Ok(ColumnarValue::Array(computed))
}
