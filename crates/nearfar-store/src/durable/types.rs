//! Schemas and placements as bytes.

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, Schema, SchemaRef, TimeUnit};
use nearfar_memory::{MemorySystem, Placement, TierId};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::codec::{DecodeError, Reader, Writer};
use crate::placement::ColumnPlacements;

/// Lists within lists are read up to this depth.
const DEPTH_MAX: usize = 32;

/// Types without parameters, by their number in the log.
const SIMPLE: [DataType; 24] = [
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
    DataType::Binary,
    DataType::LargeBinary,
    DataType::BinaryView,
    DataType::Utf8,
    DataType::LargeUtf8,
    DataType::Utf8View,
    DataType::Interval(IntervalUnit::YearMonth),
    DataType::Interval(IntervalUnit::DayTime),
    DataType::Interval(IntervalUnit::MonthDayNano),
];

const UNITS: [TimeUnit; 4] = [
    TimeUnit::Second,
    TimeUnit::Millisecond,
    TimeUnit::Microsecond,
    TimeUnit::Nanosecond,
];

mod tag {
    pub const TIMESTAMP: u8 = 32;
    pub const TIME32: u8 = 33;
    pub const TIME64: u8 = 34;
    pub const DURATION: u8 = 35;
    pub const FIXED_SIZE_BINARY: u8 = 36;
    pub const DECIMAL32: u8 = 37;
    pub const DECIMAL64: u8 = 38;
    pub const DECIMAL128: u8 = 39;
    pub const DECIMAL256: u8 = 40;
    pub const LIST: u8 = 41;
    pub const LARGE_LIST: u8 = 42;
    pub const FIXED_SIZE_LIST: u8 = 43;
    pub const STRUCT: u8 = 44;
    pub const MAP: u8 = 45;
}

/// A column's type that the log has no form for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnsupportedType(pub DataType);

pub(super) fn write_schema(out: &mut Writer, schema: &Schema) -> Result<(), UnsupportedType> {
    out.count(schema.fields().len());
    schema
        .fields()
        .iter()
        .try_for_each(|field| write_field(out, field))
}

pub(super) fn read_schema(input: &mut Reader<'_>) -> Result<SchemaRef, DecodeError> {
    let fields = read_fields(input, 0)?;
    Ok(Arc::new(Schema::new(fields)))
}

fn read_fields(input: &mut Reader<'_>, depth: usize) -> Result<Vec<FieldRef>, DecodeError> {
    let count = input.count(6, "a number of columns")?;
    (0..count).map(|_| read_field(input, depth)).collect()
}

fn write_field(out: &mut Writer, field: &Field) -> Result<(), UnsupportedType> {
    out.text(field.name());
    out.flag(field.is_nullable());
    write_type(out, field.data_type())
}

fn read_field(input: &mut Reader<'_>, depth: usize) -> Result<FieldRef, DecodeError> {
    if depth > DEPTH_MAX {
        return Err(input.error("a type of such depth"));
    }
    let name = input.text("a column's name")?;
    let is_nullable = input.flag("whether a column has nulls")?;
    let data_type = read_type(input, depth)?;
    Ok(Arc::new(Field::new(name, data_type, is_nullable)))
}

fn write_type(out: &mut Writer, data_type: &DataType) -> Result<(), UnsupportedType> {
    if let Some(number) = SIMPLE.iter().position(|simple| simple == data_type) {
        out.u8(number as u8);
        return Ok(());
    }
    let mut decimal = |tag, precision: u8, scale: i8| {
        out.u8(tag);
        out.u8(precision);
        out.u8(scale as u8);
    };
    match data_type {
        DataType::Decimal32(precision, scale) => decimal(tag::DECIMAL32, *precision, *scale),
        DataType::Decimal64(precision, scale) => decimal(tag::DECIMAL64, *precision, *scale),
        DataType::Decimal128(precision, scale) => decimal(tag::DECIMAL128, *precision, *scale),
        DataType::Decimal256(precision, scale) => decimal(tag::DECIMAL256, *precision, *scale),
        DataType::Timestamp(unit, zone) => {
            write_unit(out, tag::TIMESTAMP, *unit);
            out.flag(zone.is_some());
            if let Some(zone) = zone {
                out.text(zone);
            }
        }
        DataType::Time32(unit) => write_unit(out, tag::TIME32, *unit),
        DataType::Time64(unit) => write_unit(out, tag::TIME64, *unit),
        DataType::Duration(unit) => write_unit(out, tag::DURATION, *unit),
        DataType::FixedSizeBinary(bytes) => {
            out.u8(tag::FIXED_SIZE_BINARY);
            out.u32(*bytes as u32);
        }
        DataType::List(field) => return write_nested(out, tag::LIST, field),
        DataType::LargeList(field) => return write_nested(out, tag::LARGE_LIST, field),
        DataType::FixedSizeList(field, len) => {
            write_nested(out, tag::FIXED_SIZE_LIST, field)?;
            out.u32(*len as u32);
        }
        DataType::Struct(fields) => {
            out.u8(tag::STRUCT);
            out.count(fields.len());
            return fields.iter().try_for_each(|field| write_field(out, field));
        }
        DataType::Map(field, is_sorted) => {
            write_nested(out, tag::MAP, field)?;
            out.flag(*is_sorted);
        }
        other => return Err(UnsupportedType(other.clone())),
    }
    Ok(())
}

fn write_nested(out: &mut Writer, tag: u8, field: &Field) -> Result<(), UnsupportedType> {
    out.u8(tag);
    write_field(out, field)
}

fn write_unit(out: &mut Writer, tag: u8, unit: TimeUnit) {
    out.u8(tag);
    let number = UNITS.iter().position(|known| *known == unit);
    out.u8(number.unwrap_or_default() as u8);
}

fn read_unit(input: &mut Reader<'_>) -> Result<TimeUnit, DecodeError> {
    let number = input.u8("a unit of time")?;
    let unit = UNITS.get(usize::from(number)).copied();
    unit.ok_or_else(|| input.error("a unit of time"))
}

fn read_type(input: &mut Reader<'_>, depth: usize) -> Result<DataType, DecodeError> {
    let tag = input.u8("a type")?;
    if let Some(simple) = SIMPLE.get(usize::from(tag)) {
        return Ok(simple.clone());
    }
    let length = |input: &mut Reader<'_>| {
        let length = input.u32("the length of a type")?;
        i32::try_from(length).map_err(|_| input.error("the length of a type"))
    };
    Ok(match tag {
        tag::DECIMAL32 | tag::DECIMAL64 | tag::DECIMAL128 | tag::DECIMAL256 => {
            let precision = input.u8("a decimal's precision")?;
            let scale = input.u8("a decimal's scale")? as i8;
            match tag {
                tag::DECIMAL32 => DataType::Decimal32(precision, scale),
                tag::DECIMAL64 => DataType::Decimal64(precision, scale),
                tag::DECIMAL128 => DataType::Decimal128(precision, scale),
                _ => DataType::Decimal256(precision, scale),
            }
        }
        tag::TIMESTAMP => {
            let unit = read_unit(input)?;
            let has_zone = input.flag("whether there is a time zone")?;
            let zone = has_zone.then(|| input.text("a time zone")).transpose()?;
            DataType::Timestamp(unit, zone.map(Arc::from))
        }
        tag::TIME32 => DataType::Time32(read_unit(input)?),
        tag::TIME64 => DataType::Time64(read_unit(input)?),
        tag::DURATION => DataType::Duration(read_unit(input)?),
        tag::FIXED_SIZE_BINARY => DataType::FixedSizeBinary(length(input)?),
        tag::LIST => DataType::List(read_field(input, depth + 1)?),
        tag::LARGE_LIST => DataType::LargeList(read_field(input, depth + 1)?),
        tag::FIXED_SIZE_LIST => {
            let field = read_field(input, depth + 1)?;
            DataType::FixedSizeList(field, length(input)?)
        }
        tag::STRUCT => DataType::Struct(read_fields(input, depth + 1)?.into()),
        tag::MAP => {
            let field = read_field(input, depth + 1)?;
            DataType::Map(field, input.flag("whether a map is sorted")?)
        }
        _ => return Err(input.error("a type")),
    })
}

/// The placement of a table's columns, whose tiers have names: their numbers are a machine's own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NamedPlacements {
    pub default: NamedPlacement,
    pub columns: Vec<(String, NamedPlacement)>,
}

/// A [`Placement`] whose tiers have names.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NamedPlacement {
    Bind(String),
    Interleave(Vec<String>),
    Weighted(Vec<(String, u32)>),
    Split {
        first: String,
        first_share: f64,
        rest: String,
    },
}

impl NamedPlacements {
    pub fn of(placements: &ColumnPlacements, system: &MemorySystem) -> Self {
        let mut columns: Vec<_> = placements
            .columns
            .iter()
            .map(|(column, placement)| (column.clone(), NamedPlacement::of(placement, system)))
            .collect();
        columns.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self {
            default: NamedPlacement::of(&placements.default, system),
            columns,
        }
    }

    /// The same on this machine's tiers; `None` for the name of one that it does not have.
    pub fn resolve(&self, system: &MemorySystem) -> Option<ColumnPlacements> {
        let column = |(column, placement): &(String, NamedPlacement)| {
            Some((column.clone(), placement.resolve(system)?))
        };
        let columns: Option<HashMap<_, _>> = self.columns.iter().map(column).collect();
        Some(ColumnPlacements {
            default: self.default.resolve(system)?,
            columns: columns?,
        })
    }

    pub fn write(&self, out: &mut Writer) {
        self.default.write(out);
        out.count(self.columns.len());
        for (column, placement) in &self.columns {
            out.text(column);
            placement.write(out);
        }
    }

    pub fn read(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let default = NamedPlacement::read(input)?;
        let count = input.count(9, "a number of placements")?;
        let column = |_| Ok((input.text("a column")?, NamedPlacement::read(input)?));
        Ok(Self {
            default,
            columns: (0..count).map(column).collect::<Result<_, DecodeError>>()?,
        })
    }
}

impl NamedPlacement {
    fn of(placement: &Placement, system: &MemorySystem) -> Self {
        let name = |tier: &TierId| system.info(*tier).name.clone();
        match placement {
            Placement::Bind(tier) => Self::Bind(name(tier)),
            Placement::Interleave(tiers) => Self::Interleave(tiers.iter().map(name).collect()),
            Placement::Weighted(runs) => {
                let run = |(tier, pages): &(TierId, NonZeroU32)| (name(tier), pages.get());
                Self::Weighted(runs.iter().map(run).collect())
            }
            Placement::Split {
                first,
                first_share,
                rest,
            } => Self::Split {
                first: name(first),
                first_share: *first_share,
                rest: name(rest),
            },
        }
    }

    fn resolve(&self, system: &MemorySystem) -> Option<Placement> {
        let tier = |name: &String| system.tier(name).ok();
        Some(match self {
            Self::Bind(name) => Placement::Bind(tier(name)?),
            Self::Interleave(names) => {
                Placement::Interleave(names.iter().map(tier).collect::<Option<_>>()?)
            }
            Self::Weighted(runs) => {
                let run =
                    |(name, pages): &(String, u32)| Some((tier(name)?, (*pages).try_into().ok()?));
                Placement::Weighted(runs.iter().map(run).collect::<Option<_>>()?)
            }
            Self::Split {
                first,
                first_share,
                rest,
            } => Placement::Split {
                first: tier(first)?,
                first_share: *first_share,
                rest: tier(rest)?,
            },
        })
    }

    fn write(&self, out: &mut Writer) {
        match self {
            Self::Bind(tier) => {
                out.u8(0);
                out.text(tier);
            }
            Self::Interleave(tiers) => {
                out.u8(1);
                out.count(tiers.len());
                tiers.iter().for_each(|tier| out.text(tier));
            }
            Self::Weighted(runs) => {
                out.u8(2);
                out.count(runs.len());
                for (tier, pages) in runs {
                    out.text(tier);
                    out.u32(*pages);
                }
            }
            Self::Split {
                first,
                first_share,
                rest,
            } => {
                out.u8(3);
                out.text(first);
                out.u64(first_share.to_bits());
                out.text(rest);
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const TIER: &str = "a tier";
        Ok(match input.u8("a placement")? {
            0 => Self::Bind(input.text(TIER)?),
            1 => {
                let count = input.count(4, "a number of tiers")?;
                let tiers = (0..count).map(|_| input.text(TIER));
                Self::Interleave(tiers.collect::<Result<_, _>>()?)
            }
            2 => {
                let count = input.count(8, "a number of tiers")?;
                let run = |_| Ok((input.text(TIER)?, input.u32("a number of pages")?));
                Self::Weighted((0..count).map(run).collect::<Result<_, DecodeError>>()?)
            }
            3 => Self::Split {
                first: input.text(TIER)?,
                first_share: f64::from_bits(input.u64("a share")?),
                rest: input.text(TIER)?,
            },
            _ => return Err(input.error("a placement")),
        })
    }
}
