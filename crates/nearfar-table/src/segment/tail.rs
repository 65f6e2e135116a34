//! Rows that were just written, in memory that more rows are appended to.
//!
//! A row is written once: its values go behind those that are there, column by column, and whoever reads
//! the rows before it is not affected. A reader has the first so many rows ([`TailRows`]), as arrays
//! without a copy but for booleans and nulls, whose bits would share bytes with those of later rows.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewArray, BooleanArray, PrimitiveArray,
    StringViewArray, downcast_primitive, downcast_primitive_array, make_view,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, SchemaRef, StringViewType};
use nearfar_memory::AppendArea;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

use super::column::{ColumnSegment, Encoding};
use super::encode::Target;
use super::memory::SegmentMemory;
use super::rows::RowSet;
use super::value::{OneValue, array_of};
use super::zones::Zones;
use crate::error::TableError;

/// Bytes of the view of a text.
const VIEW_BYTES: usize = 16;

/// Bytes of a value of fixed width at most.
const WIDTH_MAX: usize = size_of::<u128>();

/// The longest text that lies in its view, in Arrow's format.
pub(super) const INLINE_BYTES_MAX: usize = 12;

/// Rows that are written one after the other.
#[derive(Debug)]
pub struct Tail {
    columns: Vec<TailColumn>,
    rows_max: usize,
    /// Rows that are written. Held by the one who writes.
    rows: Mutex<usize>,
}

/// The first rows of a [`Tail`]. Cloned cheaply; never changed.
#[derive(Debug, Clone)]
pub struct TailRows {
    tail: Arc<Tail>,
    rows: usize,
}

/// How the values of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A byte each.
    Boolean,
    /// So many bytes each.
    Fixed(usize),
    /// Views, and the bytes of those that are longer than a view.
    Text,
}

impl Kind {
    pub(super) fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Boolean => Some(Self::Boolean),
            DataType::Utf8View | DataType::BinaryView => Some(Self::Text),
            other => {
                let width = other.primitive_width();
                width.filter(|bytes| *bytes <= WIDTH_MAX).map(Self::Fixed)
            }
        }
    }

    pub(super) fn value_bytes(self) -> usize {
        match self {
            Self::Boolean => 1,
            Self::Fixed(bytes) => bytes,
            Self::Text => VIEW_BYTES,
        }
    }
}

#[derive(Debug)]
struct TailColumn {
    data_type: DataType,
    kind: Kind,
    values: Arc<AppendArea>,
    /// The long texts.
    texts: Arc<AppendArea>,
    /// A byte for each row: 1 where it has a value.
    validity: Arc<AppendArea>,
}

/// Rows that are to be written.
#[derive(Debug, Clone, Copy)]
pub enum NewValues<'a> {
    /// An array for each column, of its type.
    Arrays(&'a [ArrayRef]),
    /// Rows of another tail.
    Tail(&'a TailRows),
    /// Rows that are read value by value.
    Each(&'a dyn RowValues),
}

/// Rows of types that a tail [takes](Tail::takes), whose values are read one by one.
pub trait RowValues: fmt::Debug {
    /// How many they are.
    fn rows(&self) -> usize;

    /// The value of a column in a row.
    fn value(&self, column: usize, row: usize) -> OneValue<'_>;
}

impl NewValues<'_> {
    /// How many they are.
    pub fn rows(&self) -> usize {
        match self {
            Self::Arrays(arrays) => arrays.first().map_or(0, |array| array.len()),
            Self::Tail(rows) => rows.rows,
            Self::Each(values) => values.rows(),
        }
    }

    /// Bytes of the long texts of a column.
    pub fn text_bytes(&self, column: usize) -> usize {
        match self {
            Self::Arrays(arrays) => match arrays[column].data_type() {
                DataType::Utf8View => {
                    long_bytes(arrays[column].as_byte_view::<StringViewType>().views())
                }
                DataType::BinaryView => {
                    long_bytes(arrays[column].as_byte_view::<BinaryViewType>().views())
                }
                _ => 0,
            },
            // Those of later rows too.
            Self::Tail(rows) => rows.tail.columns[column].texts.len(),
            Self::Each(values) => {
                let bytes = |row| values.value(column, row).long_bytes();
                (0..values.rows()).map(bytes).sum()
            }
        }
    }
}

fn long_bytes(views: &[u128]) -> usize {
    let lengths = views.iter().map(|view| view_length(*view));
    lengths.filter(|length| *length > INLINE_BYTES_MAX).sum()
}

fn view_length(view: u128) -> usize {
    view as u32 as usize
}

/// Where the bytes of a long text begin, in Arrow's format of a view.
fn view_offset(view: u128) -> usize {
    (view >> 96) as usize
}

/// The view of a long text whose bytes begin at `offset` of the first buffer.
fn view_at(view: u128, offset: usize) -> u128 {
    const LENGTH_AND_PREFIX: u128 = u64::MAX as u128;
    view & LENGTH_AND_PREFIX | (offset as u128) << 96
}

impl Tail {
    /// Whether rows of these types can be written little by little.
    pub fn takes(schema: &SchemaRef) -> bool {
        let mut fields = schema.fields().iter();
        !schema.fields().is_empty() && fields.all(|field| Kind::of(field.data_type()).is_some())
    }

    /// Room for `rows_max` rows of a schema that it [takes](Self::takes), and for as many bytes of long texts
    /// in each column as `text_bytes` says.
    ///
    /// # Errors
    /// A region that the near tier has no room for.
    pub fn new(
        schema: &SchemaRef,
        rows_max: usize,
        text_bytes: impl Fn(usize) -> usize,
        target: Target<'_>,
    ) -> Result<Arc<Self>, TableError> {
        let kinds = schema
            .fields()
            .iter()
            .map(|field| Kind::of(field.data_type()));
        let kinds = kinds.collect::<Option<Vec<Kind>>>();
        let (Some(kinds), Some(shelf)) = (kinds, target.shelf) else {
            return Err(TableError::Internal {
                message: "rows of these types are not written little by little".to_owned(),
            });
        };
        let mut sizes = Vec::with_capacity(3 * kinds.len());
        for (column, kind) in kinds.iter().enumerate() {
            let texts = if *kind == Kind::Text {
                text_bytes(column)
            } else {
                0
            };
            sizes.extend([rows_max * kind.value_bytes(), texts, rows_max]);
        }
        let areas = shelf.areas(target.system, target.options, &sizes)?;
        let mut areas = areas.into_iter().map(Arc::new);
        let mut next = || {
            areas.next().ok_or_else(|| TableError::Internal {
                message: "fewer areas than were asked for".to_owned(),
            })
        };
        let columns = kinds.into_iter().zip(schema.fields()).map(|(kind, field)| {
            Ok(TailColumn {
                data_type: field.data_type().clone(),
                kind,
                values: next()?,
                texts: next()?,
                validity: next()?,
            })
        });
        Ok(Arc::new(Self {
            columns: columns.collect::<Result<_, TableError>>()?,
            rows_max,
            rows: Mutex::new(0),
        }))
    }

    /// Writes `new` behind the first `rows` rows, of the same types. None where others are behind these
    /// already, or the room is not enough, and nothing is written.
    pub fn append(self: &Arc<Self>, rows: usize, new: NewValues<'_>) -> Option<TailRows> {
        let mut written = self.rows.lock();
        let end = rows + new.rows();
        let texts_fit = |(at, column): (usize, &TailColumn)| {
            column.kind != Kind::Text || new.text_bytes(at) <= column.texts.free_bytes()
        };
        if *written != rows
            || end > self.rows_max
            || !self.columns.iter().enumerate().all(texts_fit)
        {
            return None;
        }
        for (at, column) in self.columns.iter().enumerate() {
            match new {
                NewValues::Arrays(arrays) => column.append_array(&arrays[at])?,
                NewValues::Tail(other) => {
                    column.append_column(&other.tail.columns[at], other.rows)?;
                }
                NewValues::Each(values) => {
                    let mut each = (0..values.rows()).map(|row| values.value(at, row));
                    each.try_for_each(|value| column.append_value(value))?;
                }
            }
        }
        *written = end;
        let tail = Arc::clone(self);
        Some(TailRows { tail, rows: end })
    }
}

impl TailColumn {
    /// Writes the values of `array`, which fit.
    fn append_array(&self, array: &ArrayRef) -> Option<()> {
        match self.kind {
            Kind::Boolean => {
                let values = array.as_boolean().values();
                values
                    .iter()
                    .try_for_each(|value| self.values.append(&[u8::from(value)]).map(drop))?;
            }
            Kind::Fixed(_) => self.values.append(primitive_bytes(array)?).map(drop)?,
            Kind::Text if self.data_type == DataType::Utf8View => {
                self.append_texts::<StringViewType>(array)?;
            }
            Kind::Text => self.append_texts::<BinaryViewType>(array)?,
        }
        match array.nulls() {
            None => {
                const VALID: [u8; 64] = [1; 64];
                let mut left = array.len();
                while left > 0 {
                    let rows = left.min(VALID.len());
                    self.validity.append(&VALID[..rows])?;
                    left -= rows;
                }
            }
            Some(nulls) => nulls
                .iter()
                .try_for_each(|is_valid| self.validity.append(&[u8::from(is_valid)]).map(drop))?,
        }
        Some(())
    }

    fn append_texts<T: ByteViewType>(&self, array: &ArrayRef) -> Option<()> {
        let array = array.as_byte_view::<T>();
        for (row, view) in array.views().iter().enumerate() {
            let is_long = view_length(*view) > INLINE_BYTES_MAX;
            let view = match (array.is_null(row), is_long) {
                (true, _) => 0,
                (false, false) => *view,
                (false, true) => {
                    let text: &[u8] = array.value(row).as_ref();
                    view_at(*view, self.texts.append(text)?)
                }
            };
            self.values.append(&view.to_le_bytes())?;
        }
        Some(())
    }

    /// Writes a value, which fits.
    fn append_value(&self, value: OneValue<'_>) -> Option<()> {
        let fixed = match value {
            OneValue::Null => 0,
            OneValue::Fixed(fixed) => fixed,
            OneValue::Bytes(text) => {
                let offset = match text.len() > INLINE_BYTES_MAX {
                    true => self.texts.append(text)?,
                    false => 0,
                };
                make_view(text, 0, offset as u32)
            }
        };
        let bytes = &fixed.to_le_bytes()[..self.kind.value_bytes()];
        self.values.append(bytes)?;
        let is_valid = u8::from(value != OneValue::Null);
        self.validity.append(&[is_valid]).map(drop)
    }

    /// The value of a row.
    fn value(&self, row: usize) -> OneValue<'_> {
        if self.validity.slice(row..row + 1) != [1] {
            return OneValue::Null;
        }
        let width = self.kind.value_bytes();
        let value = self.values.slice(row * width..(row + 1) * width);
        match (self.kind, value.first_chunk::<VIEW_BYTES>()) {
            (Kind::Text, Some(view)) => {
                let view = u128::from_le_bytes(*view);
                let (start, bytes) = (view_offset(view), view_length(view));
                OneValue::Bytes(match bytes > INLINE_BYTES_MAX {
                    true => self.texts.slice(start..start + bytes),
                    false => &value[VIEW_BYTES - INLINE_BYTES_MAX..][..bytes],
                })
            }
            _ => OneValue::of_bytes(value),
        }
    }

    /// Writes the first `rows` values of a column of another tail, which fit.
    fn append_column(&self, other: &Self, rows: usize) -> Option<()> {
        let values = other.values.slice(0..rows * self.kind.value_bytes());
        if self.kind == Kind::Text {
            let (views, _) = values.as_chunks::<VIEW_BYTES>();
            for view in views.iter().copied().map(u128::from_le_bytes) {
                let (start, bytes) = (view_offset(view), view_length(view));
                let view = match bytes > INLINE_BYTES_MAX {
                    true => view_at(
                        view,
                        self.texts.append(other.texts.slice(start..start + bytes))?,
                    ),
                    false => view,
                };
                self.values.append(&view.to_le_bytes())?;
            }
        } else {
            self.values.append(values)?;
        }
        self.validity
            .append(other.validity.slice(0..rows))
            .map(drop)
    }

    fn nulls(&self, rows: usize) -> Option<NullBuffer> {
        let validity = self.validity.slice(0..rows);
        let has_nulls = validity.contains(&0);
        has_nulls
            .then(|| NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| validity[row] == 1)))
    }

    /// The first `rows` values as a column segment.
    fn segment(&self, rows: usize) -> ColumnSegment {
        let memory = SegmentMemory::Appended(self.values.prefix(rows * self.kind.value_bytes()));
        let nulls = self.nulls(rows);
        let buffer = memory.buffer(0..memory.len());
        let texts = self.texts.prefix(self.texts.len());
        let beside = texts.len();
        let texts = (!texts.is_empty()).then(|| texts.buffer(0..texts.len()));
        let values = array_of_bytes(&self.data_type, rows, buffer, (texts, nulls.clone()));
        let column =
            ColumnSegment::new(memory, Encoding::Plain { values }, nulls, Zones::default());
        column.with_bytes_beside(beside)
    }
}

/// `rows` values of a type that a tail takes, as it has them, as an array.
pub(super) fn array_of_bytes(
    data_type: &DataType,
    rows: usize,
    values: Buffer,
    (texts, nulls): (Option<Buffer>, Option<NullBuffer>),
) -> ArrayRef {
    macro_rules! primitive {
        ($kind:ty) => {{
            let array = PrimitiveArray::<$kind>::new(values.into(), nulls);
            Arc::new(array.with_data_type(data_type.clone()))
        }};
    }
    let texts: Vec<Buffer> = texts.into_iter().collect();
    downcast_primitive! {
        data_type => (primitive),
        DataType::Boolean => {
            let bits = BooleanBuffer::collect_bool(rows, |row| values[row] == 1);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        DataType::Utf8View => Arc::new(StringViewArray::new(values.into(), texts, nulls)),
        DataType::BinaryView => Arc::new(BinaryViewArray::new(values.into(), texts, nulls)),
        _ => unreachable!("rows of other types are not taken"),
    }
}

/// The bytes of the values of a primitive array.
pub(super) fn primitive_bytes(array: &ArrayRef) -> Option<&[u8]> {
    fn bytes<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> &[u8] {
        array.values().inner().as_slice()
    }
    downcast_primitive_array! {
        array => Some(bytes(array)),
        _ => None,
    }
}

impl TailRows {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The tail, whose other rows are none of these.
    pub fn tail(&self) -> &Arc<Tail> {
        &self.tail
    }

    /// Bytes of their values, and of the long texts that are there now.
    pub fn bytes(&self) -> u64 {
        let columns = self.tail.columns.iter();
        let bytes = columns.map(|column| {
            (self.rows * (column.kind.value_bytes() + 1) + column.texts.len()) as u64
        });
        bytes.sum()
    }

    /// A copy of the values of a column for some of them.
    pub fn read(&self, column: usize, rows: RowSet<'_>) -> ArrayRef {
        let column = &self.tail.columns[column];
        let value = |row| column.value(row);
        match rows {
            RowSet::Run { start, len } => {
                array_of((start..start + len).map(value), &column.data_type)
            }
            RowSet::Positions(rows) => {
                let rows = rows.iter().map(|row| *row as usize);
                array_of(rows.map(value), &column.data_type)
            }
        }
    }

    /// The value of a column in one of them.
    pub fn value(&self, column: usize, row: usize) -> OneValue<'_> {
        self.tail.columns[column].value(row)
    }

    /// Whether more rows can be written behind them, as far as their number is concerned.
    pub fn is_open(&self) -> bool {
        self.rows < self.tail.rows_max && *self.tail.rows.lock() == self.rows
    }

    /// Their columns.
    pub fn columns(&self) -> impl Iterator<Item = ColumnSegment> + '_ {
        let columns = self.tail.columns.iter();
        columns.map(|column| column.segment(self.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier_models::TierModels;
    use arrow::array::{
        BinaryViewArray, Decimal128Array, Int16Array, RecordBatch, TimestampMicrosecondArray,
    };
    use arrow::compute::concat_batches;
    use arrow::datatypes::{Field, Schema, TimeUnit};
    use nearfar_memory::{
        Budgets, MemorySystem, Placement, RegionOptions, Shelf, TierId, TierSpec,
    };
    use nearfar_topology::TierKind;
    use proptest::prelude::*;

    type Row = (
        Option<bool>,
        Option<i16>,
        Option<i128>,
        Option<String>,
        Option<Vec<u8>>,
    );

    fn schema() -> SchemaRef {
        let kinds = [
            DataType::Boolean,
            DataType::Int16,
            DataType::Decimal128(20, 2),
            DataType::Utf8View,
            DataType::BinaryView,
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ];
        let fields = kinds.into_iter().enumerate();
        let fields = fields.map(|(at, kind)| Field::new(format!("c{at}"), kind, true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn batch(rows: &[Row]) -> RecordBatch {
        let decimals: Decimal128Array = rows.iter().map(|row| row.2).collect();
        let decimals = decimals.with_precision_and_scale(20, 2).expect("in range");
        let texts = rows.iter().map(|row| row.3.as_deref());
        let bytes = rows.iter().map(|row| row.4.as_deref());
        let times: TimestampMicrosecondArray =
            rows.iter().map(|row| row.1.map(i64::from)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| row.0).collect::<BooleanArray>()),
            Arc::new(rows.iter().map(|row| row.1).collect::<Int16Array>()),
            Arc::new(decimals),
            Arc::new(texts.collect::<StringViewArray>()),
            Arc::new(bytes.collect::<BinaryViewArray>()),
            Arc::new(times.with_timezone("UTC")),
        ];
        RecordBatch::try_new(schema(), columns).expect("rows of the schema")
    }

    fn with_target<T>(run: impl FnOnce(Target<'_>) -> T) -> T {
        let near = TierSpec::new("near", TierKind::LocalDram, [0], 1 << 24);
        let system = MemorySystem::from_specs(vec![near], &Budgets::new()).expect("a system");
        run(Target {
            system: &system,
            placement: &Placement::Bind(TierId::NEAR),
            options: RegionOptions::default(),
            pool: None,
            shelf: Some(&Shelf::default()),
            models: &TierModels::default(),
        })
    }

    fn values(rows: &TailRows) -> RecordBatch {
        let columns = rows.columns().enumerate();
        let columns = columns.map(|(at, column)| match column.encoding() {
            Encoding::Plain { values } => {
                let all = RowSet::Run {
                    start: 0,
                    len: rows.rows(),
                };
                assert_eq!(&rows.read(at, all), values);
                Arc::clone(values)
            }
            other => panic!("{other:?} is not plain"),
        });
        RecordBatch::try_new(schema(), columns.collect()).expect("rows of the schema")
    }

    fn row() -> impl Strategy<Value = Row> {
        let text = prop::option::of("[a-zé]{0,30}");
        let bytes = prop::option::of(prop::collection::vec(any::<u8>(), 0..30));
        (
            any::<Option<bool>>(),
            any::<Option<i16>>(),
            prop::option::of(-999..999i128),
            text,
            bytes,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_prefix_stays_what_was_written(
            parts in prop::collection::vec((prop::collection::vec(row(), 1..5), any::<bool>()), 1..20),
        ) {
            const ROWS: usize = 40;
            with_target(|target| {
                let tail = Tail::new(&schema(), ROWS, |_| 200, target).expect("a tail");
                let empty = RecordBatch::new_empty(schema());
                let mut rows = tail.append(0, NewValues::Arrays(empty.columns())).expect("no rows");
                let mut expected = batch(&[]);
                let mut seen = Vec::new();
                for (part, is_by_way) in parts {
                    let new = batch(&part);
                    let other = Tail::new(&schema(), part.len(), |_| 1000, target).expect("a tail");
                    let other = other.append(0, NewValues::Arrays(new.columns())).expect("room");
                    let given = match is_by_way {
                        true => NewValues::Tail(&other),
                        false => NewValues::Arrays(new.columns()),
                    };
                    match tail.append(rows.rows(), given) {
                        Some(longer) => {
                            expected = concat_batches(&schema(), [&expected, &new]).expect("rows");
                            // Rows that others are behind have none appended.
                            prop_assert!(tail.append(rows.rows(), given).is_none());
                            rows = longer;
                        }
                        None => {
                            let texts = [3, 4].map(|column| {
                                tail.columns[column].texts.len() + given.text_bytes(column)
                            });
                            let is_full = expected.num_rows() + part.len() > ROWS;
                            prop_assert!(is_full || texts.iter().any(|bytes| *bytes > 200));
                        }
                    }
                    seen.push((rows.clone(), expected.clone()));
                }
                for (rows, expected) in seen {
                    prop_assert_eq!(values(&rows), expected);
                }
                Ok(())
            })?;
        }
    }

    #[test]
    fn slices_are_written_from_their_first_row() {
        with_target(|target| {
            let long = |at: i16| Some(format!("a text that no view has room for, {at}"));
            let rows: Vec<Row> = (0..100)
                .map(|at| {
                    (
                        Some(at % 2 == 0),
                        (at % 3 > 0).then_some(at),
                        None,
                        long(at),
                        None,
                    )
                })
                .collect();
            let all = batch(&rows);
            let part = all.slice(37, 9);
            let tail = Tail::new(&schema(), 9, |_| 1000, target).expect("a tail");
            let rows = tail
                .append(0, NewValues::Arrays(part.columns()))
                .expect("room");
            assert_eq!(values(&rows), part);
            let picked = rows.read(3, RowSet::Positions(&[8, 2]));
            let expected = [45, 39].map(long);
            assert!(
                picked
                    .as_string_view()
                    .iter()
                    .eq(expected.iter().map(Option::as_deref))
            );
            assert!(rows.bytes() > 9 * 37);
        });
    }

    #[test]
    fn nested_types_are_not_taken() {
        let list = DataType::new_list(DataType::Int8, true);
        let nested = Schema::new(vec![Field::new("l", list, true)]);
        assert!(Tail::takes(&schema()));
        assert!(!Tail::takes(&Arc::new(nested)));
        assert!(!Tail::takes(&Arc::new(Schema::empty())));
    }
}
