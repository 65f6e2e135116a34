//! Real numbers have one zero.
//!
//! Zero and negative zero are equal in SQL. Hash tables, sorted rows and Arrow's comparisons tell them apart, so
//! that neither tables keep negative zeros nor are they computed.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use std::sync::Arc;

/// An array in which no zero of real numbers is negative: the same one, unless there is one.
pub fn with_one_zero(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let is_negative_zero = |value: &f32| value.to_bits() == (-0.0f32).to_bits();
            replaced::<Float32Type>(array, is_negative_zero, |value| value + 0.0)
        }
        DataType::Float64 => {
            let is_negative_zero = |value: &f64| value.to_bits() == (-0.0f64).to_bits();
            replaced::<Float64Type>(array, is_negative_zero, |value| value + 0.0)
        }
        _ => array,
    }
}

fn replaced<T: ArrowPrimitiveType>(
    array: ArrayRef,
    is_negative_zero: fn(&T::Native) -> bool,
    positive: fn(T::Native) -> T::Native,
) -> ArrayRef {
    let values: &PrimitiveArray<T> = array.as_primitive();
    match values.values().iter().any(is_negative_zero) {
        true => Arc::new(values.unary::<_, T>(positive)),
        false => array,
    }
}

/// The same of all columns of a batch.
pub(crate) fn batch_with_one_zero(batch: RecordBatch) -> RecordBatch {
    let is_real = |array: &ArrayRef| array.data_type().is_floating();
    if !batch.columns().iter().any(is_real) {
        return batch;
    }
    let columns = batch.columns().iter().cloned().map(with_one_zero);
    RecordBatch::try_new(batch.schema(), columns.collect()).unwrap_or(batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float32Array, Float64Array, Int64Array};

    #[test]
    fn negative_zeros_become_zeros_and_nothing_else_changes() {
        let given = [Some(-0.0), None, Some(0.0), Some(-1.5), Some(f64::NAN)];
        let wide: ArrayRef = Arc::new(Float64Array::from(given.to_vec()));
        let values = with_one_zero(wide);
        let values = values.as_primitive::<Float64Type>();
        assert!(values.value(0).is_sign_positive() && values.is_null(1));
        assert_eq!(values.value(3), -1.5);
        assert!(values.value(4).is_nan());
        let narrow: ArrayRef = Arc::new(Float32Array::from(vec![-0.0]));
        let narrow = with_one_zero(narrow);
        assert!(
            narrow
                .as_primitive::<Float32Type>()
                .value(0)
                .is_sign_positive()
        );
        for same in [
            Arc::new(Float64Array::from(vec![0.0, -1.0])) as ArrayRef,
            Arc::new(Int64Array::from(vec![0, -1])),
        ] {
            assert!(Arc::ptr_eq(&with_one_zero(Arc::clone(&same)), &same));
        }
    }
}
