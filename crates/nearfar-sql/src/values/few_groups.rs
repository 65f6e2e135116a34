//! Sums and counts of few groups.
//!
//! Who adds one row after the other to its group waits for the row before where that is of the same group, as it mostly is
//! where groups are few: an addition then takes as long as a store and the load behind it. So the rows of a batch are first
//! added up in several copies of each group, by turns, and DataFusion's accumulator is given one value for each group.

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, Int64Array,
    PrimitiveArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use std::sync::Arc;

/// Up to so many groups have copies.
const GROUPS_MAX: usize = u64::BITS as usize;

/// Rows that follow each other go to different copies.
const COPIES: usize = 4;

/// Batches of fewer rows are not worth it.
const ROWS_MIN: usize = 8 * GROUPS_MAX;

/// What is made of the values of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// Their sum, of their own type, where they are decimals of 128 bits or integers of 64.
    Sum,
    /// Their number.
    Count,
}

/// An accumulator that is given the rows of a batch by group where groups are few.
pub struct FewGroups {
    inner: Box<dyn GroupsAccumulator>,
    made: Made,
}

impl FewGroups {
    /// Gives them to `inner`, which makes the same of all values.
    pub fn new(inner: Box<dyn GroupsAccumulator>, made: Made) -> Self {
        Self { inner, made }
    }
}

impl GroupsAccumulator for FewGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        let are_few = count <= GROUPS_MAX && groups.len() >= ROWS_MIN && filter.is_none();
        if let [values] = values
            && are_few
        {
            let all: Vec<usize> = (0..count).collect();
            match self.made {
                Made::Sum => {
                    if let Some(sums) = sums(values, groups, count) {
                        return self.inner.update_batch(&[sums], &all, None, count);
                    }
                }
                Made::Count => {
                    let counts = counts(values, groups, count);
                    return self.inner.merge_batch(&[counts], &all, count);
                }
            }
        }
        self.inner.update_batch(values, groups, filter, count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.inner.evaluate(emit)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.inner.merge_batch(values, groups, count)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

/// The sums of the groups, null where a group has no value. None of values of other types.
fn sums(values: &ArrayRef, groups: &[usize], count: usize) -> Option<ArrayRef> {
    match values.data_type() {
        DataType::Decimal128(..) => Some(sums_of::<Decimal128Type>(values, groups, count)),
        DataType::Int64 => Some(sums_of::<Int64Type>(values, groups, count)),
        _ => None,
    }
}

fn sums_of<T: ArrowPrimitiveType>(values: &ArrayRef, groups: &[usize], count: usize) -> ArrayRef {
    let values = values.as_primitive::<T>();
    let mut copies = [[T::Native::ZERO; GROUPS_MAX]; COPIES];
    // A bit for each group.
    let mut seen = 0_u64;
    let mut add = |copy: usize, group: usize, value: T::Native, is_value: bool| {
        let group = group % GROUPS_MAX;
        let sum = &mut copies[copy][group];
        *sum = sum.add_wrapping(if is_value { value } else { T::Native::ZERO });
        seen |= u64::from(is_value) << group;
    };
    let rows = groups.iter().zip(values.values());
    match nulls_of(values.nulls()) {
        None => rows.enumerate().for_each(|(row, (group, value))| {
            add(row % COPIES, *group, *value, true);
        }),
        Some(nulls) => {
            for ((row, (group, value)), is_value) in rows.enumerate().zip(nulls) {
                add(row % COPIES, *group, *value, is_value);
            }
        }
    }
    let sum = |group: usize| {
        let parts = copies.iter().map(|copy| copy[group]);
        let sum = parts.fold(T::Native::ZERO, |sum, part| sum.add_wrapping(part));
        (seen >> group & 1 == 1).then_some(sum)
    };
    let sums: PrimitiveArray<T> = (0..count).map(sum).collect();
    Arc::new(sums.with_data_type(values.data_type().clone()))
}

/// How many values each of the groups has.
fn counts(values: &ArrayRef, groups: &[usize], count: usize) -> ArrayRef {
    let mut copies = [[0_i64; GROUPS_MAX]; COPIES];
    let rows = groups.iter().enumerate();
    let nulls = values.logical_nulls();
    match nulls_of(nulls.as_ref()) {
        None => rows.for_each(|(row, group)| copies[row % COPIES][group % GROUPS_MAX] += 1),
        Some(nulls) => {
            for ((row, group), is_value) in rows.zip(nulls) {
                copies[row % COPIES][group % GROUPS_MAX] += i64::from(is_value);
            }
        }
    }
    let of_group = |group: usize| copies.iter().map(|copy| copy[group]).sum::<i64>();
    Arc::new((0..count).map(of_group).collect::<Int64Array>())
}

fn nulls_of(nulls: Option<&NullBuffer>) -> Option<&NullBuffer> {
    nulls.filter(|nulls| nulls.null_count() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, StringViewArray};
    use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

    /// Rows of so many groups, of which the last has no value but null.
    fn rows(count: usize, rows: usize) -> (Vec<usize>, Vec<Option<i64>>) {
        let groups: Vec<usize> = (0..rows).map(|row| row * row % 7919 % count).collect();
        let value = |(row, group): (usize, &usize)| {
            let is_null = row % 5 == 3 || group + 1 == count;
            (!is_null).then_some((row as i64 - 300) * 1_000_003)
        };
        let values = groups.iter().enumerate().map(value).collect();
        (groups, values)
    }

    fn expected(groups: &[usize], values: &[Option<i64>], count: usize) -> Vec<Option<i128>> {
        let mut sums = vec![None; count];
        for (group, value) in groups.iter().zip(values) {
            if let Some(value) = value {
                *sums[*group].get_or_insert(0) += i128::from(*value);
            }
        }
        sums
    }

    #[test]
    fn batches_of_few_groups_give_the_sums_of_their_rows() {
        for count in [1, 2, 5, GROUPS_MAX, GROUPS_MAX + 1] {
            for (length, filters) in [(ROWS_MIN - 1, false), (ROWS_MIN + 3, false), (4000, true)] {
                let (groups, values) = rows(count, length);
                let decimals = values.iter().map(|value| value.map(i128::from));
                let decimals: Decimal128Array = decimals.collect();
                let decimals: ArrayRef =
                    Arc::new(decimals.with_precision_and_scale(30, 2).unwrap());
                let data_type = decimals.data_type().clone();
                let inner = PrimitiveGroupsAccumulator::<Decimal128Type, _>::new(
                    &data_type,
                    |sum, value| *sum += value,
                );
                let mut sum = FewGroups::new(Box::new(inner), Made::Sum);
                let filter = filters.then(|| BooleanArray::from(vec![true; length]));
                for _ in 0..2 {
                    let values = [Arc::clone(&decimals)];
                    sum.update_batch(&values, &groups, filter.as_ref(), count)
                        .unwrap();
                }
                let sums = sum.evaluate(EmitTo::All).unwrap();
                assert_eq!(sums.data_type(), &data_type);
                let once = expected(&groups, &values, count);
                let twice: Vec<_> = once.iter().map(|sum| sum.map(|sum| 2 * sum)).collect();
                let sums: Vec<_> = sums.as_primitive::<Decimal128Type>().iter().collect();
                assert_eq!(sums, twice, "{count} groups, {length} rows");
            }
        }
    }

    #[test]
    fn sums_of_integers_and_counts_are_by_group() {
        let count = 9;
        let (groups, values) = rows(count, 2001);
        let integers: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        let sums = sums(&integers, &groups, count).expect("integers");
        let wide = sums.as_primitive::<Int64Type>().iter();
        let wide: Vec<_> = wide.map(|sum| sum.map(i128::from)).collect();
        assert_eq!(wide, expected(&groups, &values, count));
        let ones: Vec<_> = values.iter().map(|value| value.map(|_| 1)).collect();
        let number = |values: &ArrayRef| -> Vec<i64> {
            let counts = counts(values, &groups, count);
            counts.as_primitive::<Int64Type>().values().to_vec()
        };
        let some = expected(&groups, &ones, count);
        let some: Vec<i64> = some.iter().map(|sum| sum.unwrap_or(0) as i64).collect();
        assert_eq!(number(&integers), some);
        let all = expected(&groups, &vec![Some(1); groups.len()], count);
        let all: Vec<i64> = all.iter().map(|sum| sum.unwrap_or(0) as i64).collect();
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a"; groups.len()]));
        assert_eq!(number(&texts), all);
        assert!(super::sums(&texts, &groups, count).is_none());
    }

    #[test]
    fn a_group_that_comes_later_is_null_until_it_has_a_value() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1); 600]));
        let inner =
            PrimitiveGroupsAccumulator::<Int64Type, _>::new(&DataType::Int64, |sum, value| {
                *sum += value;
            });
        let mut sum = FewGroups::new(Box::new(inner), Made::Sum);
        sum.update_batch(&[Arc::clone(&values)], &[0; 600], None, 1)
            .unwrap();
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None; 600]));
        sum.update_batch(&[nulls], &[1; 600], None, 2).unwrap();
        sum.update_batch(&[values], &[2; 600], None, 3).unwrap();
        let sums = sum.evaluate(EmitTo::All).unwrap();
        let sums: Vec<_> = sums.as_primitive::<Int64Type>().iter().collect();
        assert_eq!(sums, [Some(600), None, Some(600)]);
    }
}
