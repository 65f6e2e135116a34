//! `min` and `max` of floating-point numbers by groups, among which NaN is the greatest, as where they are compared.
//!
//! DataFusion begins each group with the largest or smallest finite number, which a group of infinities then has, and
//! takes NaN for smaller and larger than all.

use arrow::array::ArrowPrimitiveType;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{AggregateUDF, AggregateUDFImpl, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;
use std::sync::Arc;

use super::as_inner::{as_inner, told_as_inner};

/// The aggregate functions.
pub fn extremes() -> [AggregateUDF; 2] {
    [(min_udaf(), End::Least), (max_udaf(), End::Greatest)]
        .map(|(inner, end)| AggregateUDF::from(Extreme { inner, end }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum End {
    Least,
    Greatest,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    /// DataFusion's, which does all else.
    inner: Arc<AggregateUDF>,
    end: End,
}

/// Floating-point numbers of one width.
macro_rules! of_groups {
    ($kind:ty, $end:expr, $data_type:expr) => {{
        type Native = <$kind as ArrowPrimitiveType>::Native;
        match $end {
            End::Least => Box::new(
                PrimitiveGroupsAccumulator::<$kind, _>::new($data_type, |least, value| {
                    if value < *least || least.is_nan() {
                        *least = value;
                    }
                })
                .with_starting_value(Native::NAN),
            ),
            End::Greatest => Box::new(
                PrimitiveGroupsAccumulator::<$kind, _>::new($data_type, |greatest, value| {
                    if value > *greatest || value.is_nan() {
                        *greatest = value;
                    }
                })
                .with_starting_value(Native::NEG_INFINITY),
            ),
        }
    }};
}

impl AggregateUDFImpl for Extreme {
    as_inner!();
    told_as_inner!();

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let data_type = arguments.return_field.data_type();
        Ok(match data_type {
            DataType::Float32 => of_groups!(Float32Type, self.end, data_type),
            DataType::Float64 => of_groups!(Float64Type, self.end, data_type),
            _ => self.inner.create_groups_accumulator(arguments)?,
        })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }
}
