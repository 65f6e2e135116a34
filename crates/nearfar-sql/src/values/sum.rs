//! `sum` with PostgreSQL's types: of `smallint` and `integer` a `bigint`, of `bigint` a `numeric`, so
//! that no sum goes around.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, FieldRef};
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use super::decimal::exact;
use super::error::ValueError;
use super::few_groups::{FewGroups, Made};

/// Decimals of so many digits can't be added up to more than 128 bits by any number of rows.
const SAFE_PRECISION: u8 = 26;

/// The aggregate function.
pub fn sum() -> AggregateUDF {
    exact_sum(Addends::Values)
}

/// The aggregate function that adds sums that `sum` has given, and has their type.
pub fn sum_of_sums() -> AggregateUDF {
    exact_sum(Addends::Sums)
}

fn exact_sum(addends: Addends) -> AggregateUDF {
    AggregateUDF::from(ExactSum {
        inner: Sum::new(),
        signature: Signature::user_defined(Volatility::Immutable),
        addends,
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Addends {
    Values,
    Sums,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactSum {
    inner: Sum,
    signature: Signature,
    addends: Addends,
}

/// The type that sums of a type are made in.
fn summed_as(given: &DataType) -> DataType {
    match given {
        DataType::Int32 => DataType::Int64,
        other => other.clone(),
    }
}

impl AggregateUDFImpl for ExactSum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [given] = types else {
            return datafusion::common::plan_err!("sum takes one argument");
        };
        if self.addends == Addends::Sums {
            return Ok(types.to_vec());
        }
        Ok(vec![match given {
            DataType::Int8 | DataType::Int16 | DataType::Int32 => DataType::Int32,
            DataType::UInt8 | DataType::UInt16 => DataType::Int32,
            DataType::Int64 | DataType::UInt32 | DataType::UInt64 => {
                exact(given).unwrap_or_else(|| given.clone())
            }
            DataType::Float16 | DataType::Float32 => DataType::Float64,
            DataType::Dictionary(_, value) => return self.coerce_types(&[value.as_ref().clone()]),
            DataType::Null => DataType::Float64,
            other
                if other.is_numeric()
                    || matches!(other, DataType::Duration(_) | DataType::Interval(_)) =>
            {
                other.clone()
            }
            other => {
                return datafusion::common::plan_err!("sum is not known of {other}");
            }
        }])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if let (Addends::Sums, [sum]) = (&self.addends, types) {
            return Ok(sum.clone());
        }
        let types: Vec<DataType> = types.iter().map(summed_as).collect();
        self.inner.return_type(&types)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let care = Care::of(&arguments);
        let inner = self.inner.accumulator(arguments)?;
        Ok(wrapped(inner, care))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let care = Care::of(&arguments);
        let is_distinct = arguments.is_distinct;
        let mut inner = self.inner.create_groups_accumulator(arguments)?;
        if !is_distinct {
            inner = Box::new(FewGroups::new(inner, Made::Sum));
        }
        Ok(match care {
            Some(care) => Box::new(CarefulGroups { inner, care }),
            None => inner,
        })
    }

    fn create_sliding_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let care = Care::of(&arguments);
        let inner = self.inner.create_sliding_accumulator(arguments)?;
        Ok(wrapped(inner, care))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// What has to be seen to before values are added.
#[derive(Debug, Clone)]
enum Care {
    /// They are cast.
    Cast(DataType),
    /// Their sum has to stay within 128 bits, where DataFusion would let it go around.
    Bound(Bound),
}

/// The most that a sum can have become.
#[derive(Debug, Clone, Copy, Default)]
struct Bound {
    /// All bits that were set in the magnitude of any value.
    bits: u128,
    rows: u64,
}

impl Bound {
    /// Counts values in.
    ///
    /// # Errors
    /// [`ValueError::OutOfRange`] where their sum may be too large.
    fn add(&mut self, values: &ArrayRef) -> Result<(), ValueError> {
        let Some(values) = values.as_primitive_opt::<Decimal128Type>() else {
            return Ok(());
        };
        let magnitude = |value: i128| (value ^ (value >> 127)).cast_unsigned();
        let bits = match values.null_count() {
            0 => values
                .values()
                .iter()
                .fold(0, |bits, value| bits | magnitude(*value)),
            _ => values
                .iter()
                .flatten()
                .fold(0, |bits, value| bits | magnitude(value)),
        };
        self.bits |= bits;
        self.rows += values.len() as u64;
        let bits =
            (u128::BITS - self.bits.leading_zeros()) + (u64::BITS - self.rows.leading_zeros());
        match bits < u128::BITS - 1 {
            true => Ok(()),
            false => Err(ValueError::out_of_range("sum of numeric values")),
        }
    }
}

impl Care {
    fn of(arguments: &AccumulatorArgs<'_>) -> Option<Self> {
        let given = arguments.expr_fields.first()?.data_type();
        match given {
            DataType::Decimal128(precision, _) if *precision > SAFE_PRECISION => {
                Some(Self::Bound(Bound::default()))
            }
            given => {
                let target = summed_as(given);
                (target != *given).then_some(Self::Cast(target))
            }
        }
    }

    /// Values as they are added.
    fn prepared(&mut self, values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        if let Self::Bound(bound) = self {
            values.iter().try_for_each(|values| bound.add(values))?;
        }
        self.cast(values)
    }

    fn cast(&self, values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        match self {
            Self::Cast(target) => {
                let values = values.iter().map(|values| cast(values, target));
                Ok(values.collect::<Result<_, _>>()?)
            }
            Self::Bound(_) => Ok(values.to_vec()),
        }
    }

    /// Counts sums in that others have made.
    fn merged(&mut self, states: &[ArrayRef]) -> Result<()> {
        if let Self::Bound(bound) = self {
            states.iter().try_for_each(|states| bound.add(states))?;
        }
        Ok(())
    }
}

fn wrapped(inner: Box<dyn Accumulator>, care: Option<Care>) -> Box<dyn Accumulator> {
    match care {
        Some(care) => Box::new(Careful { inner, care }),
        None => inner,
    }
}

#[derive(Debug)]
struct Careful {
    inner: Box<dyn Accumulator>,
    care: Care,
}

impl Accumulator for Careful {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&self.care.prepared(values)?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.care.merged(states)?;
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(&self.care.cast(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

struct CarefulGroups {
    inner: Box<dyn GroupsAccumulator>,
    care: Care,
}

impl GroupsAccumulator for CarefulGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        let values = self.care.prepared(values)?;
        self.inner.update_batch(&values, groups, filter, count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.inner.evaluate(emit)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.care.merged(values)?;
        self.inner.merge_batch(values, groups, count)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner
            .convert_to_state(&self.care.cast(values)?, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Decimal128Array;
    use std::sync::Arc;

    #[test]
    fn sums_that_may_go_around_are_refused() {
        let add = |bound: &mut Bound, values: Vec<i128>| {
            let values: ArrayRef = Arc::new(Decimal128Array::from(values));
            bound.add(&values)
        };
        let mut bound = Bound::default();
        assert!(add(&mut bound, vec![10_i128.pow(30), -10_i128.pow(30)]).is_ok());
        assert!(add(&mut bound, vec![i128::MAX / 2]).is_err());
        let mut negative = Bound::default();
        assert!(add(&mut negative, vec![-(10_i128.pow(38) - 1); 2]).is_err());
    }
}
