//! Aggregates over the rows up to each of them.

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, NullBufferBuilder,
    PrimitiveArray, downcast_primitive_array,
};
use datafusion::common::internal_err;
use datafusion::error::Result;
use std::sync::Arc;

use super::edges::Runs;
use super::functions::Combine;

/// Of each row, what results over single rows are together from the beginning of its partition on. `before` is that of the
/// row before the first one, which counts where the first partition goes on.
///
/// # Errors
/// Results that are not of a fixed width.
pub fn running(
    results: &ArrayRef,
    partitions: &Runs,
    before: Option<&ArrayRef>,
    combine: Combine,
) -> Result<ArrayRef> {
    let before = before.filter(|_| partitions.goes_on);
    downcast_primitive_array!(
        results => {
            let running = combined(results, partitions, before, combine);
            Ok(Arc::new(running.with_data_type(results.data_type().clone())))
        }
        other => internal_err!("{other} is not of a fixed width"),
    )
}

fn combined<T: ArrowPrimitiveType>(
    results: &PrimitiveArray<T>,
    partitions: &Runs,
    before: Option<&ArrayRef>,
    combine: Combine,
) -> PrimitiveArray<T> {
    let both = |one: T::Native, other: T::Native| match combine {
        Combine::Add => one.add_wrapping(other),
        Combine::Least if other.is_lt(one) => other,
        Combine::Greatest if other.is_gt(one) => other,
        Combine::Least | Combine::Greatest => one,
    };
    let mut values = Vec::with_capacity(results.len());
    let mut valid = NullBufferBuilder::new(results.len());
    let before = before.map(|before| before.as_primitive::<T>());
    let mut so_far = before.and_then(|before| before.iter().next().flatten());
    for partition in &partitions.ranges {
        for row in partition.clone() {
            if results.is_valid(row) {
                let value = results.value(row);
                so_far = Some(so_far.map_or(value, |so_far| both(so_far, value)));
            }
            values.push(so_far.unwrap_or_default());
            valid.append(so_far.is_some());
        }
        so_far = None;
    }
    PrimitiveArray::new(values.into(), valid.finish())
}
