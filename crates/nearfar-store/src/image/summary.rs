//! What is known of all values of a column, and the sketches that numbers of distinct values come from.

use super::codec::{Decoder, Encoder};
use super::error::ImageError;
use super::frame::{open, seal};
use crate::table::{ColumnSketches, ColumnSummary, DistinctSketch, Order, TableSummary};

const MAGIC: &[u8; 8] = b"NFARSKET";
const SKETCH: &str = "a sketch of distinct values";
const SUMMARY: &str = "the summary of a table";

/// Writes the sketches of a segment's columns.
pub fn encode_sketches(sketches: &[Option<DistinctSketch>]) -> Vec<u8> {
    seal(MAGIC, |out| {
        out.list(sketches.iter(), |out, sketch| {
            out.option(sketch.as_ref(), encode_sketch);
        });
    })
}

/// Reads the sketches of a segment's columns.
///
/// # Errors
/// [`ImageError`].
pub fn decode_sketches(bytes: &[u8]) -> Result<ColumnSketches, ImageError> {
    let mut bytes = open(MAGIC, "sketches", bytes)?;
    let sketches = bytes.list(SKETCH, |bytes| bytes.option(SKETCH, read_sketch))?;
    bytes.finish("the end of sketches")?;
    Ok(sketches)
}

fn encode_sketch(out: &mut Encoder, sketch: &DistinctSketch) {
    let (hashes, limit) = sketch.parts();
    out.option(limit, Encoder::u64);
    out.words(&hashes);
}

fn read_sketch(bytes: &mut Decoder<'_>) -> Result<DistinctSketch, ImageError> {
    let limit = bytes.option(SKETCH, |bytes| bytes.u64(SKETCH))?;
    Ok(DistinctSketch::of_parts(bytes.words(SKETCH)?, limit))
}

/// Writes what is known of a table's main storage.
pub(super) fn encode_summary(out: &mut Encoder, summary: &TableSummary) {
    out.count(summary.rows);
    out.list(summary.columns.iter(), |out, column| {
        encode_bounds(out, column.bounds, column.string_bounds.as_ref());
        out.count(column.null_count);
        out.count(column.distinct);
        out.flag(column.distinct_exact);
        encode_order(out, column.order);
        out.option(column.sketch.as_ref(), encode_sketch);
    });
}

/// Reads what is known of the main storage of a table of so many columns.
pub(super) fn read_summary(
    bytes: &mut Decoder<'_>,
    columns: usize,
) -> Result<TableSummary, ImageError> {
    let rows = bytes.count(SUMMARY)?;
    let all = bytes.list(SUMMARY, |bytes| {
        let (bounds, string_bounds) = read_bounds(bytes, SUMMARY)?;
        Ok(ColumnSummary {
            bounds,
            string_bounds,
            null_count: bytes.count(SUMMARY)?,
            distinct: bytes.count(SUMMARY)?,
            distinct_exact: bytes.flag(SUMMARY)?,
            order: read_order(bytes, SUMMARY)?,
            sketch: bytes.option(SKETCH, read_sketch)?,
        })
    })?;
    match all.len() == columns {
        true => Ok(TableSummary {
            rows,
            is_exact: true,
            columns: all,
        }),
        false => Err(ImageError::Invalid { what: SUMMARY }),
    }
}

/// Smallest and largest value, as integers or as strings.
type Bounds = (Option<(i128, i128)>, Option<(String, String)>);

pub(super) fn encode_bounds(
    out: &mut Encoder,
    bounds: Option<(i128, i128)>,
    string_bounds: Option<&(String, String)>,
) {
    out.option(bounds, |out, (low, high)| {
        out.i128(low);
        out.i128(high);
    });
    out.option(string_bounds, |out, (low, high)| {
        out.text(low);
        out.text(high);
    });
}

pub(super) fn read_bounds(
    bytes: &mut Decoder<'_>,
    what: &'static str,
) -> Result<Bounds, ImageError> {
    Ok((
        bytes.option(what, |bytes| Ok((bytes.i128(what)?, bytes.i128(what)?)))?,
        bytes.option(what, |bytes| Ok((bytes.text(what)?, bytes.text(what)?)))?,
    ))
}

pub(super) fn encode_order(out: &mut Encoder, order: Order) {
    out.u8(match order {
        Order::Unordered => 0,
        Order::Ascending => 1,
        Order::Rising => 2,
    });
}

pub(super) fn read_order(bytes: &mut Decoder<'_>, what: &'static str) -> Result<Order, ImageError> {
    match bytes.u8(what)? {
        0 => Ok(Order::Unordered),
        1 => Ok(Order::Ascending),
        2 => Ok(Order::Rising),
        _ => Err(ImageError::Invalid { what }),
    }
}
