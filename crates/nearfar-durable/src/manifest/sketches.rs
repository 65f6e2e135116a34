//! The sketches of a segment, which numbers of distinct values come from.

use super::codec::{Decoder, Encoder};
use super::error::ManifestError;
use super::frame::{open, seal};
use nearfar_table::table::{ColumnSketches, DistinctSketch};

const MAGIC: &[u8; 8] = b"NFARSKET";
const SKETCH: &str = "a sketch of distinct values";

/// Writes the sketches of a segment's columns.
pub(crate) fn encode_sketches(sketches: &[Option<DistinctSketch>]) -> Vec<u8> {
    seal(MAGIC, |out| {
        out.list(sketches.iter(), |out, sketch| {
            out.option(sketch.as_ref(), encode_sketch);
        });
    })
}

/// Reads the sketches of a segment's columns.
///
/// # Errors
/// [`ManifestError`].
pub fn decode_sketches(bytes: &[u8]) -> Result<ColumnSketches, ManifestError> {
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

fn read_sketch(bytes: &mut Decoder<'_>) -> Result<DistinctSketch, ManifestError> {
    let limit = bytes.option(SKETCH, |bytes| bytes.u64(SKETCH))?;
    Ok(DistinctSketch::of_parts(bytes.words(SKETCH)?, limit))
}
