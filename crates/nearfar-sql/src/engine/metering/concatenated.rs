//! The operator `||`.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::utils::take_function_args;
use datafusion::error::Result;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use std::sync::{Arc, LazyLock};

use super::functions::together;
use super::guarded::rows_of;
use super::scope::charge;

/// The operator as a function that asks for the memory of its result.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Concatenated {
    signature: Signature,
}

impl Concatenated {
    /// The one that there is.
    pub fn function() -> Arc<ScalarUDF> {
        static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
            let signature = Signature::user_defined(Volatility::Immutable);
            Arc::new(ScalarUDF::from(Concatenated { signature }))
        });
        Arc::clone(&FUNCTION)
    }
}

impl ScalarUDFImpl for Concatenated {
    fn name(&self) -> &'static str {
        "||"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = take_function_args(self.name(), arg_types)?;
        let coercer = BinaryTypeCoercer::new(left, &Operator::StringConcat, right);
        let (left, right) = coercer.get_input_types()?;
        Ok(vec![left, right])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let [left, right] = take_function_args(self.name(), arg_types)?;
        BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_result_type()
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, kept) = rows_of(&args);
        let bytes = together(&args.args, rows);
        let _taken = charge(&args.config_options, self.name(), bytes, kept)?;
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        let mut operand = |value: ColumnarValue| -> Arc<dyn PhysicalExpr> {
            match value {
                ColumnarValue::Scalar(scalar) => Arc::new(Literal::new(scalar)),
                ColumnarValue::Array(array) => {
                    let at = columns.len();
                    let name = at.to_string();
                    fields.push(Field::new(&name, array.data_type().clone(), true));
                    columns.push(array);
                    Arc::new(Column::new(&name, at))
                }
            }
        };
        let [left, right] = take_function_args(self.name(), args.args)?;
        let (left, right) = (operand(left), operand(right));
        let options = RecordBatchOptions::new().with_row_count(Some(args.number_rows));
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        BinaryExpr::new(left, Operator::StringConcat, right).evaluate(&batch)
    }
}
