//! A value under a name that tells its type.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::sync::Arc;

/// The name of the function.
pub const TYPED: &str = "nearfar_typed";

/// A function of a value and the name of a type, which gives the value.
///
/// DataFusion names a cast as it names what is cast, and refuses an operator of which two columns have one
/// name. The optimizer leaves the function out, when columns have their names.
pub fn typed() -> ScalarUDF {
    ScalarUDF::from(Typed {
        signature: Signature::any(2, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Typed {
    signature: Signature,
}

impl ScalarUDFImpl for Typed {
    fn name(&self) -> &str {
        TYPED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&arguments.arg_fields[0]))
    }

    fn simplify(&self, mut args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Simplified(args.swap_remove(0)))
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(arguments.args.swap_remove(0))
    }
}
