//! Columns' names and types.

use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit, UnionFields,
    UnionMode,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::codec::{Decoder, Encoder};
use super::error::ManifestError;
use nearfar_table::segment::DEPTH_MAX;

const WHAT: &str = "the type of a column";

/// Types without parameters; their encoding is their place in this list, which only ever grows.
const PLAIN: [DataType; 27] = [
    DataType::Null,
    DataType::Boolean,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float16,
    DataType::Float32,
    DataType::Float64,
    DataType::Date32,
    DataType::Date64,
    DataType::Time32(TimeUnit::Second),
    DataType::Time32(TimeUnit::Millisecond),
    DataType::Time64(TimeUnit::Microsecond),
    DataType::Time64(TimeUnit::Nanosecond),
    DataType::Interval(IntervalUnit::YearMonth),
    DataType::Interval(IntervalUnit::DayTime),
    DataType::Interval(IntervalUnit::MonthDayNano),
    DataType::Binary,
    DataType::LargeBinary,
    DataType::BinaryView,
    DataType::Utf8View,
    DataType::Utf8,
];

/// The encodings of the other types.
mod tag {
    pub const LARGE_UTF8: u8 = 64;
    pub const TIMESTAMP: u8 = 65;
    pub const DURATION: u8 = 66;
    pub const FIXED_SIZE_BINARY: u8 = 67;
    pub const LIST: u8 = 68;
    pub const LARGE_LIST: u8 = 69;
    pub const LIST_VIEW: u8 = 70;
    pub const LARGE_LIST_VIEW: u8 = 71;
    pub const FIXED_SIZE_LIST: u8 = 72;
    pub const STRUCT: u8 = 73;
    pub const UNION: u8 = 74;
    pub const DICTIONARY: u8 = 75;
    pub const DECIMAL32: u8 = 76;
    pub const DECIMAL64: u8 = 77;
    pub const DECIMAL128: u8 = 78;
    pub const DECIMAL256: u8 = 79;
    pub const MAP: u8 = 80;
    pub const RUN_END_ENCODED: u8 = 81;
}

const UNITS: [TimeUnit; 4] = [
    TimeUnit::Second,
    TimeUnit::Millisecond,
    TimeUnit::Microsecond,
    TimeUnit::Nanosecond,
];

/// Writes a schema.
///
/// # Errors
/// [`ManifestError::Unsupported`].
pub(crate) fn encode_schema(out: &mut Encoder, schema: &Schema) -> Result<(), ManifestError> {
    metadata(out, schema.metadata());
    fields(out, schema.fields())
}

/// Reads a schema.
///
/// # Errors
/// [`ManifestError::Invalid`].
pub fn decode_schema(bytes: &mut Decoder<'_>) -> Result<SchemaRef, ManifestError> {
    let metadata = read_metadata(bytes)?;
    let fields = read_fields(bytes, 0)?;
    Ok(Arc::new(Schema::new_with_metadata(fields, metadata)))
}

fn metadata(out: &mut Encoder, metadata: &HashMap<String, String>) {
    let sorted: BTreeMap<_, _> = metadata.iter().collect();
    out.list(sorted.into_iter(), |out, (key, value)| {
        out.text(key);
        out.text(value);
    });
}

fn read_metadata(bytes: &mut Decoder<'_>) -> Result<HashMap<String, String>, ManifestError> {
    let pairs = bytes.list(WHAT, |bytes| Ok((bytes.text(WHAT)?, bytes.text(WHAT)?)))?;
    Ok(pairs.into_iter().collect())
}

fn fields(out: &mut Encoder, fields: &Fields) -> Result<(), ManifestError> {
    out.count(fields.len());
    fields.iter().try_for_each(|one| field(out, one))
}

fn read_fields(bytes: &mut Decoder<'_>, depth: usize) -> Result<Fields, ManifestError> {
    Ok(bytes.list(WHAT, |bytes| read_field(bytes, depth))?.into())
}

fn field(out: &mut Encoder, field: &Field) -> Result<(), ManifestError> {
    out.text(field.name());
    out.flag(field.is_nullable());
    metadata(out, field.metadata());
    data_type(out, field.data_type())
}

fn read_field(bytes: &mut Decoder<'_>, depth: usize) -> Result<FieldRef, ManifestError> {
    let name = bytes.text("the name of a column")?;
    let nullable = bytes.flag(WHAT)?;
    let metadata = read_metadata(bytes)?;
    let data_type = read_data_type(bytes, depth)?;
    Ok(Arc::new(
        Field::new(name, data_type, nullable).with_metadata(metadata),
    ))
}

fn unit(out: &mut Encoder, unit: TimeUnit) {
    let place = UNITS.iter().position(|known| *known == unit);
    out.u8(place.unwrap_or_default() as u8);
}

fn read_unit(bytes: &mut Decoder<'_>) -> Result<TimeUnit, ManifestError> {
    let place = usize::from(bytes.u8(WHAT)?);
    let invalid = ManifestError::Invalid { what: WHAT };
    UNITS.get(place).copied().ok_or(invalid)
}

fn data_type(out: &mut Encoder, data_type: &DataType) -> Result<(), ManifestError> {
    if let Some(place) = PLAIN.iter().position(|plain| plain == data_type) {
        out.u8(place as u8);
        return Ok(());
    }
    if scalar(out, data_type) {
        return Ok(());
    }
    let nested = |out: &mut Encoder, tag: u8, child: &Field| {
        out.u8(tag);
        field(out, child)
    };
    match data_type {
        DataType::List(child) => return nested(out, tag::LIST, child),
        DataType::LargeList(child) => return nested(out, tag::LARGE_LIST, child),
        DataType::ListView(child) => return nested(out, tag::LIST_VIEW, child),
        DataType::LargeListView(child) => return nested(out, tag::LARGE_LIST_VIEW, child),
        DataType::FixedSizeList(child, size) => {
            out.u8(tag::FIXED_SIZE_LIST);
            out.u32(*size as u32);
            return field(out, child);
        }
        DataType::Struct(children) => {
            out.u8(tag::STRUCT);
            return fields(out, children);
        }
        DataType::Union(children, mode) => {
            out.u8(tag::UNION);
            out.flag(*mode == UnionMode::Dense);
            out.count(children.len());
            for (id, child) in children.iter() {
                out.u8(id as u8);
                field(out, child)?;
            }
        }
        DataType::Dictionary(keys, values) => {
            out.u8(tag::DICTIONARY);
            self::data_type(out, keys)?;
            return self::data_type(out, values);
        }
        DataType::Map(child, is_sorted) => {
            out.u8(tag::MAP);
            out.flag(*is_sorted);
            return field(out, child);
        }
        DataType::RunEndEncoded(ends, values) => {
            nested(out, tag::RUN_END_ENCODED, ends)?;
            return field(out, values);
        }
        other => {
            return Err(ManifestError::Unsupported {
                data_type: other.clone(),
            });
        }
    }
    Ok(())
}

/// Types with parameters and without children; whether it was one of them.
fn scalar(out: &mut Encoder, data_type: &DataType) -> bool {
    let decimal = |out: &mut Encoder, tag: u8, precision: u8, scale: i8| {
        out.raw(&[tag, precision, scale as u8]);
    };
    match data_type {
        DataType::LargeUtf8 => out.u8(tag::LARGE_UTF8),
        DataType::Timestamp(of, zone) => {
            out.u8(tag::TIMESTAMP);
            unit(out, *of);
            out.option(zone.as_deref(), Encoder::text);
        }
        DataType::Duration(of) => {
            out.u8(tag::DURATION);
            unit(out, *of);
        }
        DataType::FixedSizeBinary(size) => {
            out.u8(tag::FIXED_SIZE_BINARY);
            out.u32(*size as u32);
        }
        DataType::Decimal32(p, s) => decimal(out, tag::DECIMAL32, *p, *s),
        DataType::Decimal64(p, s) => decimal(out, tag::DECIMAL64, *p, *s),
        DataType::Decimal128(p, s) => decimal(out, tag::DECIMAL128, *p, *s),
        DataType::Decimal256(p, s) => decimal(out, tag::DECIMAL256, *p, *s),
        _ => return false,
    }
    true
}

fn read_data_type(bytes: &mut Decoder<'_>, depth: usize) -> Result<DataType, ManifestError> {
    let invalid = ManifestError::Invalid { what: WHAT };
    if depth > DEPTH_MAX {
        return Err(invalid);
    }
    let tag = bytes.u8(WHAT)?;
    if let Some(plain) = PLAIN.get(usize::from(tag)) {
        return Ok(plain.clone());
    }
    let size = |bytes: &mut Decoder<'_>| {
        i32::try_from(bytes.u32(WHAT)?).map_err(|_| ManifestError::Invalid { what: WHAT })
    };
    let child = |bytes: &mut Decoder<'_>| read_field(bytes, depth + 1);
    Ok(match tag {
        tag::LARGE_UTF8 => DataType::LargeUtf8,
        tag::TIMESTAMP => {
            let unit = read_unit(bytes)?;
            let zone = bytes.option(WHAT, |bytes| bytes.text(WHAT))?;
            DataType::Timestamp(unit, zone.map(Into::into))
        }
        tag::DURATION => DataType::Duration(read_unit(bytes)?),
        tag::FIXED_SIZE_BINARY => DataType::FixedSizeBinary(size(bytes)?),
        tag::LIST => DataType::List(child(bytes)?),
        tag::LARGE_LIST => DataType::LargeList(child(bytes)?),
        tag::LIST_VIEW => DataType::ListView(child(bytes)?),
        tag::LARGE_LIST_VIEW => DataType::LargeListView(child(bytes)?),
        tag::FIXED_SIZE_LIST => {
            let size = size(bytes)?;
            DataType::FixedSizeList(child(bytes)?, size)
        }
        tag::STRUCT => DataType::Struct(read_fields(bytes, depth + 1)?),
        tag::UNION => read_union(bytes, depth)?,
        tag::DICTIONARY => {
            let keys = read_data_type(bytes, depth + 1)?;
            let values = read_data_type(bytes, depth + 1)?;
            if !keys.is_dictionary_key_type() {
                return Err(invalid);
            }
            DataType::Dictionary(Box::new(keys), Box::new(values))
        }
        tag::DECIMAL32 => DataType::Decimal32(bytes.u8(WHAT)?, bytes.u8(WHAT)? as i8),
        tag::DECIMAL64 => DataType::Decimal64(bytes.u8(WHAT)?, bytes.u8(WHAT)? as i8),
        tag::DECIMAL128 => DataType::Decimal128(bytes.u8(WHAT)?, bytes.u8(WHAT)? as i8),
        tag::DECIMAL256 => DataType::Decimal256(bytes.u8(WHAT)?, bytes.u8(WHAT)? as i8),
        tag::MAP => {
            let is_sorted = bytes.flag(WHAT)?;
            DataType::Map(child(bytes)?, is_sorted)
        }
        tag::RUN_END_ENCODED => DataType::RunEndEncoded(child(bytes)?, child(bytes)?),
        _ => return Err(invalid),
    })
}

fn read_union(bytes: &mut Decoder<'_>, depth: usize) -> Result<DataType, ManifestError> {
    let mode = match bytes.flag(WHAT)? {
        true => UnionMode::Dense,
        false => UnionMode::Sparse,
    };
    let children = bytes.list(WHAT, |bytes| {
        Ok((bytes.u8(WHAT)? as i8, read_field(bytes, depth + 1)?))
    })?;
    let (ids, fields): (Vec<i8>, Vec<FieldRef>) = children.into_iter().unzip();
    let fields = UnionFields::try_new(ids, fields);
    let fields = fields.map_err(|_| ManifestError::Invalid { what: WHAT })?;
    Ok(DataType::Union(fields, mode))
}
