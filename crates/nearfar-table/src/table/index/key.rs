//! Keys of rows, as bytes whose order is that of the rows.

use arrow::array::{Array, ArrayRef};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::row::{RowConverter, Rows, SortField};
use arrow::util::display::array_value_to_string;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::definition::IndexColumn;
use super::fixed::{FixedKeys, OneKey};
use super::range::{KeyBound, KeyRange};
use crate::error::TableError;
use crate::segment::RowSet;
use crate::table::row_ids::RowId;
use crate::table::snapshot::Part;

/// More bytes than this no key has.
pub const KEY_BYTES_MAX: usize = 2048;

/// Makes keys of values: arrow's row format, which compares byte by byte as rows compare value by
/// value, and in which no key is the beginning of another.
#[derive(Debug)]
pub struct KeyEncoder {
    schema: SchemaRef,
    columns: Vec<IndexColumn>,
    converter: RowConverter,
    /// Whether all columns have a fixed width.
    is_fixed: bool,
    /// Converters of the first column, of the first two, and so on, without that of all.
    of_first: Vec<RowConverter>,
}

/// The keys of some rows, in their order.
#[derive(Debug)]
pub struct Keys {
    bytes: KeyBytes,
    has_null: Vec<bool>,
}

#[derive(Debug)]
enum KeyBytes {
    Fixed(FixedKeys),
    Rows(Rows),
}

impl KeyBytes {
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let (fixed, rows) = match self {
            Self::Fixed(keys) => (Some(keys.iter()), None),
            Self::Rows(rows) => (None, Some(rows.iter().map(|row| row.data()))),
        };
        let fixed = fixed.into_iter().flatten();
        fixed.chain(rows.into_iter().flatten())
    }
}

impl Keys {
    /// The key of each row, and whether it has a null.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], bool)> {
        self.bytes.iter().zip(self.has_null.iter().copied())
    }

    /// A number of each key of an index that has no null, of which different keys seldom have the same.
    pub fn numbers(&self, index: &str) -> Vec<u64> {
        let keys = self.iter().filter(|(_, has_null)| !has_null);
        let number = |(key, _): (&[u8], bool)| {
            let mut hasher = DefaultHasher::new();
            (index, key).hash(&mut hasher);
            hasher.finish()
        };
        keys.map(number).collect()
    }
}

fn sort_field(schema: &Schema, column: &IndexColumn) -> SortField {
    let options = SortOptions {
        descending: column.is_descending,
        nulls_first: column.nulls_first,
    };
    SortField::new_with_options(schema.field(column.column).data_type().clone(), options)
}

/// Whether each row of values has a null.
fn with_nulls(values: &[ArrayRef]) -> Vec<bool> {
    let mut has_null = vec![false; values.first().map_or(0, |values| values.len())];
    for nulls in values.iter().filter_map(|values| values.logical_nulls()) {
        let flags = has_null.iter_mut().zip(nulls.iter());
        flags.for_each(|(flag, is_valid)| *flag |= !is_valid);
    }
    has_null
}

impl KeyEncoder {
    /// Keys of `columns` of tables of `schema`.
    ///
    /// # Errors
    /// A type that has no order.
    pub fn new(schema: &SchemaRef, columns: &[IndexColumn]) -> Result<Self, TableError> {
        let converter = |columns: &[IndexColumn]| {
            let fields = columns.iter().map(|column| sort_field(schema, column));
            RowConverter::new(fields.collect())
        };
        let of_first = (1..columns.len()).map(|count| converter(&columns[..count]));
        Ok(Self {
            is_fixed: OneKey::takes(columns.iter().map(|it| schema.field(it.column).data_type())),
            schema: Arc::clone(schema),
            columns: columns.to_vec(),
            converter: converter(columns)?,
            of_first: of_first.collect::<Result<_, _>>()?,
        })
    }

    /// The keys of rows whose key columns, in the order of the index, have these values.
    ///
    /// # Errors
    /// Values of other types than the columns'.
    pub fn keys(&self, values: &[ArrayRef]) -> Result<Keys, TableError> {
        Ok(Keys {
            bytes: self.encoded(values)?,
            has_null: with_nulls(values),
        })
    }

    /// The bytes that keys begin with whose first columns have these values, row by row: whole keys where there are
    /// values for all columns.
    fn encoded(&self, values: &[ArrayRef]) -> Result<KeyBytes, TableError> {
        if let Some(keys) = self.fixed(values) {
            return Ok(KeyBytes::Fixed(keys));
        }
        let converter = match values.len() == self.columns.len() {
            true => Some(&self.converter),
            false => values
                .len()
                .checked_sub(1)
                .and_then(|at| self.of_first.get(at)),
        };
        let converter = converter.ok_or_else(|| TableError::Internal {
            message: "values of none of an index's columns, or of more than it has".to_owned(),
        })?;
        Ok(KeyBytes::Rows(converter.convert_columns(values)?))
    }

    /// The keys of values of the first columns, if all of these have a fixed width.
    fn fixed(&self, values: &[ArrayRef]) -> Option<FixedKeys> {
        let fields = self.schema.fields();
        let mut columns = values.iter().zip(&self.columns);
        let are_of_columns = values.len() <= self.columns.len()
            && columns
                .all(|(values, column)| values.data_type() == fields[column.column].data_type());
        are_of_columns
            .then(|| FixedKeys::of(values, &self.columns))
            .flatten()
    }

    /// The keys whose first columns have these values, one of each, and whose next column is between the
    /// two of `bounds`, ascending as values are, where these are given.
    ///
    /// # Errors
    /// Values of other types than the columns', or more than there are columns.
    pub fn range(
        &self,
        values: &[ArrayRef],
        (lower, upper): (KeyBound, KeyBound),
    ) -> Result<KeyRange, TableError> {
        let prefix = self.prefix(values)?;
        let next = self.columns.get(values.len());
        let is_descending = next.is_some_and(|column| column.is_descending);
        let (first, last) = match is_descending {
            true => (upper, lower),
            false => (lower, upper),
        };
        let end = |bound: Option<ArrayRef>| {
            let with_bound = bound.map(|bound| [values, &[bound]].concat());
            with_bound.map(|values| self.prefix(&values)).transpose()
        };
        Ok(KeyRange {
            from: end(first)?,
            to: end(last)?,
            prefix,
            is_whole_key: values.len() == self.columns.len(),
            has_null: values.iter().any(|value| value.is_null(0)),
        })
    }

    /// The keys whose first columns, all integers or dates, have these values. None where one is not given, and where a
    /// column is of another type or has no such value.
    pub fn range_of_integers(
        &self,
        values: impl Iterator<Item = Option<i128>>,
    ) -> Option<KeyRange> {
        let (mut key, mut count) = (OneKey::new(), 0);
        for value in values {
            let column = *self.columns.get(count)?;
            let kind = self.schema.field(column.column).data_type();
            let is_integer = kind.is_integer() || *kind == DataType::Date32;
            key.push_integer((kind, column), value.filter(|_| is_integer)?)?;
            count += 1;
        }
        Some(KeyRange {
            prefix: key.as_bytes().into(),
            from: None,
            to: None,
            is_whole_key: count == self.columns.len(),
            has_null: false,
        })
    }

    /// The bytes that all keys begin with whose first columns have these values, one of each; a whole key
    /// where there are values for all columns.
    fn prefix(&self, values: &[ArrayRef]) -> Result<Box<[u8]>, TableError> {
        if values.is_empty() {
            return Ok(Box::default());
        }
        let keys = self.encoded(values)?;
        Ok(keys.iter().next().unwrap_or_default().into())
    }

    /// For each row of values of the first columns, the keys whose first columns have them. None for a row with a null,
    /// which no value equals.
    ///
    /// # Errors
    /// As [`Self::range`]; no values.
    pub fn ranges(&self, values: &[ArrayRef]) -> Result<Vec<Option<KeyRange>>, TableError> {
        let is_whole_key = values.len() == self.columns.len();
        let keys = self.encoded(values)?;
        let ranges = keys.iter().zip(with_nulls(values));
        let ranges = ranges.map(|(prefix, has_null)| {
            (!has_null).then(|| KeyRange {
                from: None,
                to: None,
                prefix: prefix.into(),
                is_whole_key,
                has_null: false,
            })
        });
        Ok(ranges.collect())
    }

    /// The key of a row of a part. None where it is to be made of arrays.
    ///
    /// # Errors
    /// Columns that can't be brought to memory.
    pub(crate) fn key_at(&self, part: &Part, row: usize) -> Result<Option<OneKey>, TableError> {
        if !self.is_fixed {
            return Ok(None);
        }
        let mut key = OneKey::new();
        for column in &self.columns {
            let kind = self.schema.field(column.column).data_type();
            let value = part.segment.fixed_value(column.column, row)?;
            if key.push_bits((kind, *column), value).is_none() {
                return Ok(None);
            }
        }
        Ok(Some(key))
    }

    /// The keys and identities of `rows` of a part.
    ///
    /// # Errors
    /// Columns that can't be brought to memory.
    pub fn keys_of(&self, part: &Part, rows: RowSet<'_>) -> Result<(Keys, Vec<RowId>), TableError> {
        let values = self.columns.iter().map(|column| {
            let data_type = self.schema.field(column.column).data_type();
            part.values(column.column, data_type, rows)
        });
        let values = values.collect::<Result<Vec<ArrayRef>, TableError>>()?;
        Ok((self.keys(&values)?, part.ids.ids(rows)))
    }

    /// A key as errors show it: `(a, b)=(1, x)`.
    pub fn shown(&self, key: &[u8]) -> String {
        let names = self.columns.iter();
        let names = names.map(|column| self.schema.field(column.column).name().as_str());
        let names: Vec<&str> = names.collect();
        let parser = self.converter.parser();
        let values = self.converter.convert_rows([parser.parse(key)]);
        let values = values.unwrap_or_default().into_iter();
        let values = values.map(|value| match value.is_null(0) {
            true => "null".to_owned(),
            false => array_value_to_string(&value, 0).unwrap_or_default(),
        });
        let values: Vec<String> = values.collect();
        format!("({})=({})", names.join(", "), values.join(", "))
    }
}
