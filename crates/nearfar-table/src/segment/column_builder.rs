//! A column of a segment while its rows come.

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use std::mem;

use super::column::ColumnSegment;
use super::dictionary::Dictionary;
use super::encode::{Target, encode_dictionary, encode_narrow, encode_strings};
use super::narrow::{self, NarrowValues};
use super::plain::encode_plain;
use crate::error::TableError;

/// The values of a column, array by array, until they are encoded into a segment.
///
/// They wait in about the memory that the segment will take: integers as codes from the least of their array on, texts as
/// codes of a dictionary while few of them are distinct, and back to back otherwise. What is not stored as codes or texts
/// waits in the arrays that it came in.
#[derive(Debug)]
pub struct ColumnBuilder {
    data_type: DataType,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Narrow(Vec<NarrowValues>),
    Dictionary(Dictionary),
    Texts(Texts),
    Plain(Vec<ArrayRef>),
}

/// Texts, back to back array by array, which four-byte offsets reach.
#[derive(Debug, Default)]
pub(super) struct Texts {
    arrays: Vec<StringArray>,
    bytes: usize,
}

impl Texts {
    /// Adds those of `array`, of string views. Whether offsets reach all: else none of them is added.
    fn push(&mut self, array: &ArrayRef) -> Result<bool, TableError> {
        let texts = array.as_string_view().iter().flatten();
        let bytes = self.bytes + texts.map(str::len).sum::<usize>();
        if i32::try_from(bytes).is_err() {
            return Ok(false);
        }
        let texts = cast(array, &DataType::Utf8)?;
        self.arrays.push(texts.as_string().clone());
        self.bytes = bytes;
        Ok(true)
    }

    /// Array by array.
    pub(super) fn arrays(&self) -> &[StringArray] {
        &self.arrays
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn views(&self) -> Result<Vec<ArrayRef>, TableError> {
        let arrays = self.arrays.iter();
        let views = arrays.map(|texts| Ok(cast(texts, &DataType::Utf8View)?));
        views.collect()
    }
}

impl ColumnBuilder {
    /// A column of this type without values.
    pub fn new(data_type: &DataType) -> Self {
        let values = match data_type {
            integers if narrow::is_integer_like(integers) => Values::Narrow(Vec::new()),
            DataType::Utf8View => Values::Dictionary(Dictionary::default()),
            _ => Values::Plain(Vec::new()),
        };
        Self {
            data_type: data_type.clone(),
            values,
        }
    }

    /// The texts of a dictionary that is given up.
    fn of_texts(dictionary: Dictionary) -> Result<Self, TableError> {
        let mut column = Self {
            data_type: DataType::Utf8View,
            values: Values::Texts(Texts::default()),
        };
        for texts in dictionary.into_arrays()? {
            column.push(&texts)?;
        }
        Ok(column)
    }

    /// Adds the values of `array`, which is of the column's type.
    ///
    /// # Errors
    /// What Arrow's kernels report. The column is of no use then.
    pub fn push(&mut self, array: &ArrayRef) -> Result<(), TableError> {
        match &mut self.values {
            Values::Narrow(held) => match NarrowValues::of(array, &self.data_type) {
                Some(values) => held.push(values),
                None => self.values = Values::Plain(arrays_of(held, &self.data_type)),
            },
            Values::Dictionary(dictionary) => {
                let pays = dictionary.push(array);
                if !pays {
                    *self = Self::of_texts(mem::take(dictionary))?;
                }
            }
            _ => {}
        }
        if let Values::Texts(texts) = &mut self.values
            && !texts.push(array)?
        {
            self.values = Values::Plain(texts.views()?);
        }
        if let Values::Plain(arrays) = &mut self.values {
            arrays.push(array.clone());
        }
        Ok(())
    }

    /// The segment of all values, in memory of `target`.
    ///
    /// # Errors
    /// Whatever refuses the memory: budget, a node without room, misplaced pages.
    pub fn finish(self, target: Target<'_>) -> Result<ColumnSegment, TableError> {
        match self.values {
            Values::Narrow(held) => match narrow::bounds(&held) {
                Some((low, largest)) => encode_narrow(&held, (low, largest), target),
                None => encode_plain(&arrays_of(&held, &self.data_type), target),
            },
            Values::Dictionary(dictionary) if dictionary.is_worth_it() => {
                encode_dictionary(&dictionary.sorted(), target)
            }
            Values::Dictionary(dictionary) => Self::of_texts(dictionary)?.finish(target),
            Values::Texts(texts) => encode_strings(&texts, target),
            Values::Plain(arrays) => encode_plain(&arrays, target),
        }
    }
}

fn arrays_of(held: &[NarrowValues], data_type: &DataType) -> Vec<ArrayRef> {
    held.iter()
        .map(|values| values.to_array(data_type))
        .collect()
}

/// A copy of the nulls of an array, if it has any: its own bits may be part of a buffer that has much else.
pub(super) fn nulls_of(array: &dyn Array) -> Option<NullBuffer> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0)?;
    let mut bits = BooleanBufferBuilder::new(nulls.len());
    bits.append_buffer(nulls.inner());
    Some(NullBuffer::new(bits.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{EncodingKind, RowSet};
    use crate::tier_models::TierModels;
    use arrow::array::{Decimal128Array, Float64Array, Int64Array, StringViewArray};
    use arrow::compute::concat;
    use nearfar_memory::{Budgets, MemorySystem, Placement, RegionOptions, TierId};
    use nearfar_topology::Topology;
    use std::sync::Arc;

    /// The segment of these arrays, which have to be what is read of it.
    fn built(arrays: &[ArrayRef]) -> EncodingKind {
        let topology = Topology::this_machine().expect("this machine's topology");
        let system = MemorySystem::new(&topology, &Budgets::new()).expect("a system");
        let target = Target {
            system: &system,
            placement: &Placement::Bind(TierId::NEAR),
            options: RegionOptions::default(),
            pool: None,
            shelf: None,
            models: &TierModels::default(),
        };
        let data_type = arrays[0].data_type();
        let mut column = ColumnBuilder::new(data_type);
        for array in arrays {
            column.push(array).expect("held");
        }
        let segment = column.finish(target).expect("encoded");
        let parts: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        let all = concat(&parts).expect("one array");
        let rows = RowSet::Run {
            start: 0,
            len: all.len(),
        };
        let read = segment.read(rows, data_type).expect("read");
        assert_eq!(&read, &all);
        segment.encoding_kind()
    }

    fn integers(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
        Arc::new(values.into_iter().collect::<Int64Array>())
    }

    fn texts(values: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
        Arc::new(values.into_iter().collect::<StringViewArray>())
    }

    #[test]
    fn integers_of_arrays_far_apart_have_one_base() {
        let near = integers((0..300).map(|value| (value % 7 > 0).then_some(value - 100)));
        let wide = integers([Some(1 << 40), None, Some((1 << 40) + 70_000)]);
        let nulls = integers([None, None]);
        let kinds = [
            built(&[near.clone(), nulls.clone(), wide.clone()]),
            built(&[wide, near.slice(3, 20)]),
            built(&[nulls]),
            built(&[integers([])]),
            built(&[integers([Some(i64::MIN)]), integers([Some(i64::MAX)])]),
        ];
        assert_eq!(kinds, [EncodingKind::Narrow; 5]);
    }

    #[test]
    fn integers_that_span_more_than_codes_hold_stay_as_they_came() {
        let decimals = |values: &[i128]| -> ArrayRef {
            let values = values.iter().map(|value| (*value != 7).then_some(*value));
            let values = values.collect::<Decimal128Array>();
            Arc::new(values.with_precision_and_scale(38, 2).expect("38 digits"))
        };
        let (low, high) = (decimals(&[1, 7, 500]), decimals(&[1 << 70, 7]));
        let both = decimals(&[-1, 1 << 66]);
        let kinds = [
            built(&[low.clone(), high.clone()]),
            built(&[low.clone(), both, low.clone()]),
        ];
        assert_eq!(kinds, [EncodingKind::Plain; 2]);
        assert_eq!(built(&[high]), EncodingKind::Narrow);
    }

    #[test]
    fn texts_lose_their_dictionary_in_the_middle() {
        let few = |rows: usize| {
            texts((0..rows).map(|row| (row % 5 > 0).then(|| format!("number {}, or so", row % 9))))
        };
        let distinct = || texts((0..9000).map(|row| (row % 3 > 0).then(|| format!("row {row}"))));
        assert_eq!(built(&[few(9000), few(100)]), EncodingKind::Dictionary);
        let kinds = [
            built(&[few(9000), distinct(), few(9)]),
            built(&[few(5).slice(1, 3), distinct().slice(10, 5000)]),
            built(&[few(4)]),
        ];
        assert_eq!(kinds, [EncodingKind::Strings; 3]);
    }

    #[test]
    fn other_types_stay_as_they_came() {
        let floats = |values: [Option<f64>; 3]| -> ArrayRef {
            Arc::new(values.into_iter().collect::<Float64Array>())
        };
        let arrays = [
            floats([Some(0.5), None, Some(f64::NAN)]).slice(1, 2),
            floats([Some(2.0); 3]),
        ];
        assert_eq!(built(&arrays[1..]), EncodingKind::Plain);
    }
}
