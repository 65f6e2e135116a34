//! Keys of a join as numbers of 64 bits.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::ScalarBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::error::Result;
use nearfar_kernels::Selection;

/// Decimals of so many digits fit 64 bits.
const DECIMAL_DIGITS_MAX: u8 = 18;

/// Whether values of a type are told apart by 64 bits.
pub fn is_key_type(data_type: &DataType) -> bool {
    use DataType as T;
    match data_type {
        T::Decimal128(digits, _) => *digits <= DECIMAL_DIGITS_MAX,
        T::Date32 | T::Date64 | T::Timestamp(..) | T::Time32(_) | T::Time64(_) => true,
        T::Decimal32(..) | T::Decimal64(..) => true,
        other => other.is_integer(),
    }
}

/// The keys of some rows.
#[derive(Debug)]
pub struct Keys {
    values: Values,
    /// The rows that have a key, where some have none.
    valid: Option<Selection>,
}

#[derive(Debug)]
enum Values {
    Narrow(ScalarBuffer<i32>),
    Wide(ScalarBuffer<i64>),
}

/// Runs `$body` with the keys as `$values`, a slice of one type or the other.
macro_rules! with_values {
    ($keys:expr, |$values:ident, $valid:ident| $body:expr) => {{
        let (values, $valid) = $keys.parts();
        match values {
            $crate::operators::key_join::keys::Slice::Narrow($values) => $body,
            $crate::operators::key_join::keys::Slice::Wide($values) => $body,
        }
    }};
}
pub(super) use with_values;

/// Keys as a slice.
#[derive(Clone, Copy)]
pub enum Slice<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
}

impl Keys {
    /// The values of a column whose type [is one of keys](is_key_type).
    fn of_column(column: &ArrayRef) -> Result<Self> {
        Ok(Self {
            values: values(column)?,
            valid: valid(column),
        })
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Narrow(values) => values.len(),
            Values::Wide(values) => values.len(),
        }
    }

    /// The values, and the rows that have one.
    pub fn parts(&self) -> (Slice<'_>, Option<&Selection>) {
        let values = match &self.values {
            Values::Narrow(values) => Slice::Narrow(values),
            Values::Wide(values) => Slice::Wide(values),
        };
        (values, self.valid.as_ref())
    }

    fn has(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid.contains(row))
    }

    fn value(&self, row: usize) -> i64 {
        match &self.values {
            Values::Narrow(values) => i64::from(values[row]),
            Values::Wide(values) => values[row],
        }
    }

    /// The lowest and the highest value; none of no values.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        with_values!(self, |values, valid| bounds(values, valid))
    }

    /// Rows with the lowest and with the highest value, where values are in the order of numbers.
    pub fn bounding_rows(&self) -> Option<(usize, usize)> {
        let (low, high) = self.bounds()?;
        let row_of =
            |value| (0..self.len()).find(|row| self.has(*row) && self.value(*row) == value);
        Some((row_of(low)?, row_of(high)?))
    }
}

fn bounds<K: Copy + Ord + Into<i64>>(
    values: &[K],
    valid: Option<&Selection>,
) -> Option<(i64, i64)> {
    let ends = |(low, high): (K, K), value: K| (low.min(value), high.max(value));
    let (low, high) = match valid {
        None => {
            let first = *values.first()?;
            values.iter().copied().fold((first, first), ends)
        }
        Some(valid) => {
            let mut rows = valid.rows().map(|row| values[row]);
            let first = rows.next()?;
            rows.fold((first, first), ends)
        }
    };
    Some((low.into(), high.into()))
}

/// The values of a column, those of nulls unspecified. Unsigned ones of 64 bits are taken for signed ones: as many
/// are equal, but their order is another one.
fn values(column: &ArrayRef) -> Result<Values> {
    let data_type = column.data_type();
    if matches!(data_type, DataType::Decimal128(..)) {
        let decimals = column.as_primitive::<Decimal128Type>().values();
        let narrowed = decimals.iter().map(|value| *value as i64);
        return Ok(Values::Wide(narrowed.collect()));
    }
    let buffer = |column: &ArrayRef| {
        let data = column.to_data();
        (data.buffers()[0].clone(), data.offset(), data.len())
    };
    Ok(match data_type.primitive_width() {
        Some(4) if *data_type != DataType::UInt32 => {
            let (bytes, offset, len) = buffer(column);
            Values::Narrow(ScalarBuffer::new(bytes, offset, len))
        }
        Some(8) => {
            let (bytes, offset, len) = buffer(column);
            Values::Wide(ScalarBuffer::new(bytes, offset, len))
        }
        _ => {
            let wide = cast(column, &DataType::Int64)?;
            Values::Wide(wide.as_primitive::<Int64Type>().values().clone())
        }
    })
}

fn valid(column: &ArrayRef) -> Option<Selection> {
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0)?;
    let mut valid = Selection::all(column.len());
    valid.keep(nulls.inner().bit_chunks().iter_padded());
    Some(valid)
}

/// How the columns of a key are one number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Packing {
    /// None for a key of one column, which is its number.
    columns: Vec<PackedColumn>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PackedColumn {
    low: i64,
    high: i64,
    /// What a step of the value is in the number.
    stride: u64,
}

impl Packing {
    /// How keys of one column are packed: not at all.
    pub const ONE: Self = Self {
        columns: Vec::new(),
    };

    /// A packing for the keys of `sides`, each with its columns; none if the ranges of the columns are together too
    /// large for 63 bits.
    pub fn of<'a>(sides: impl Iterator<Item = &'a [ArrayRef]>) -> Result<Option<Self>> {
        let mut bounds: Vec<Option<(i64, i64)>> = Vec::new();
        for columns in sides {
            if columns.len() == 1 {
                return Ok(Some(Self::ONE));
            }
            bounds.resize(columns.len(), None);
            for (bounds, column) in bounds.iter_mut().zip(columns) {
                let (low, high) = match (*bounds, Keys::of_column(column)?.bounds()) {
                    (Some((low, high)), Some((a, b))) => (low.min(a), high.max(b)),
                    (Some(known), None) | (None, Some(known)) => known,
                    (None, None) => continue,
                };
                *bounds = Some((low, high));
            }
        }
        let mut stride = 1u64;
        let mut columns = Vec::with_capacity(bounds.len());
        for bounds in bounds {
            // Of a column without values no row has a key.
            let (low, high) = bounds.unwrap_or((0, -1));
            columns.push(PackedColumn { low, high, stride });
            let values = i128::from(high) - i128::from(low) + 1;
            let next = i128::from(stride) * values.max(1);
            if next > i128::from(i64::MAX) {
                return Ok(None);
            }
            stride = next as u64;
        }
        Ok(Some(Self { columns }))
    }

    /// The keys of rows with these `columns`. Rows with a null have none, and neither have those that no row of the
    /// sides [the packing is of](Self::of) can be equal to.
    pub fn keys(&self, columns: &[ArrayRef]) -> Result<Keys> {
        if let [column] = columns {
            return Keys::of_column(column);
        }
        let rows = columns.first().map_or(0, |column| column.len());
        let mut packed = vec![0u64; rows];
        let mut valid = Selection::all(rows);
        for (packing, column) in self.columns.iter().zip(columns) {
            let keys = Keys::of_column(column)?;
            let mut words = vec![0u64; rows.div_ceil(64)];
            for (row, packed) in packed.iter_mut().enumerate() {
                let value = keys.value(row);
                let fits = (packing.low..=packing.high).contains(&value) && keys.has(row);
                words[row / 64] |= u64::from(fits) << (row % 64);
                let steps = (value as u64).wrapping_sub(packing.low as u64);
                *packed = packed.wrapping_add(steps.wrapping_mul(packing.stride));
            }
            valid.keep(words);
        }
        let values: Vec<i64> = packed.into_iter().map(|packed| packed as i64).collect();
        Ok(Keys {
            values: Values::Wide(values.into()),
            valid: Some(valid),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Date32Array, Decimal128Array, Int16Array, Int64Array, UInt32Array};
    use std::sync::Arc;

    fn listed(keys: &Keys) -> Vec<Option<i64>> {
        let rows = 0..keys.len();
        rows.map(|row| keys.has(row).then(|| keys.value(row)))
            .collect()
    }

    #[test]
    fn values_of_all_types_are_told_apart() {
        let decimals = Decimal128Array::from(vec![Some(7), None, Some(-7)]);
        let decimals = decimals.with_precision_and_scale(18, 2).expect("18 digits");
        let columns: [ArrayRef; 4] = [
            Arc::new(Int16Array::from(vec![Some(7), None, Some(-7)])),
            Arc::new(Date32Array::from(vec![Some(7), None, Some(-7)])),
            Arc::new(Int64Array::from(vec![Some(7), None, Some(-7)])),
            Arc::new(decimals),
        ];
        for column in columns {
            assert!(is_key_type(column.data_type()), "{}", column.data_type());
            let sliced = column.slice(1, 2);
            let keys = Packing::ONE.keys(&[column]).expect("keys");
            assert_eq!(listed(&keys), [Some(7), None, Some(-7)]);
            let keys = Packing::ONE.keys(&[sliced]).expect("keys");
            assert_eq!(listed(&keys), [None, Some(-7)]);
        }
        let unsigned: ArrayRef = Arc::new(UInt32Array::from(vec![u32::MAX, 0]));
        let keys = Packing::ONE.keys(&[unsigned]).expect("keys");
        assert_eq!(listed(&keys), [Some(u32::MAX.into()), Some(0)]);
        assert_eq!(keys.bounding_rows(), Some((1, 0)));
        assert!(!is_key_type(&DataType::Float64) && !is_key_type(&DataType::Utf8View));
        assert!(!is_key_type(&DataType::Decimal128(19, 2)));
    }

    #[test]
    fn several_columns_are_one_number_where_they_fit() {
        let pair = |a: Vec<Option<i64>>, b: Vec<Option<i64>>| -> [ArrayRef; 2] {
            [Arc::new(Int64Array::from(a)), Arc::new(Int64Array::from(b))]
        };
        let build = pair(
            vec![Some(-5), Some(9), None, Some(0)],
            vec![Some(100), Some(101), Some(100), None],
        );
        let packing = Packing::of([&build[..]].into_iter())
            .expect("bounds")
            .expect("a packing");
        let keys = listed(&packing.keys(&build).expect("keys"));
        assert!(keys[0].is_some() && keys[1].is_some() && keys[0] != keys[1]);
        assert_eq!(keys[2..], [None, None]);
        // Of 15 values of the first column the second one is a step of 15: neighbours must not be taken for others.
        let probed = pair(
            vec![Some(10), Some(-5), Some(9)],
            vec![Some(100), Some(100), Some(102)],
        );
        let found = listed(&packing.keys(&probed).expect("keys"));
        assert_eq!(found, [None, keys[0], None]);
        let wide = pair(vec![Some(i64::MIN), Some(i64::MAX)], vec![Some(0), Some(1)]);
        assert_eq!(Packing::of([&wide[..]].into_iter()).expect("bounds"), None);
        let empty = pair(vec![None], vec![Some(1)]);
        let packing = Packing::of([&empty[..]].into_iter())
            .expect("bounds")
            .expect("a packing");
        assert_eq!(listed(&packing.keys(&empty).expect("keys")), [None]);
    }
}
