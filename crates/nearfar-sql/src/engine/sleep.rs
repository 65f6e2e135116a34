//! `pg_sleep`.

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use async_trait::async_trait;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use std::time::Duration;

/// Waits so many seconds for each row, and keeps no thread meanwhile. A statement that is given up waits no longer.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sleep {
    signature: Signature,
}

/// The function.
pub(super) fn sleep_function() -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Volatile);
    AsyncScalarUDF::new(Arc::new(Sleep { signature })).into_scalar_udf()
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &'static str {
        "pg_sleep"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let message = "pg_sleep is not called without a wait".to_owned();
        Err(DataFusionError::Internal(message))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|value| value.to_array(rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let seconds = cast(&arrays[0], &DataType::Float64)?;
        let mut waited = Vec::with_capacity(rows);
        for seconds in seconds.as_primitive::<Float64Type>() {
            // Nothing is waited for where there is no number, or it is negative; and forever where it is too large.
            if let Some(seconds) = seconds.filter(|seconds| *seconds > 0.0) {
                let wait = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
                tokio::time::sleep(wait).await;
            }
            waited.push(seconds.map(|_| ""));
        }
        Ok(ColumnarValue::Array(Arc::new(StringArray::from(waited))))
    }
}
