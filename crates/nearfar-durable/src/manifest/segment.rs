//! What is known of one segment besides its bytes.

use super::codec::{Decoder, Encoder};
use super::error::ManifestError;
use super::frame::{open, seal};
use nearfar_table::segment::{
    ArrayForm, BufferForm, CodeRange, ColumnForm, DEPTH_MAX, ValuesForm, Zones,
};
use nearfar_table::table::{ColumnFacts, Order};

const MAGIC: &[u8; 8] = b"NFARSEGM";
const FORM: &str = "the form of a column";
const FACTS: &str = "the facts of a column";

/// How the bytes of a segment are to be read.
#[derive(Debug, Clone)]
pub struct SegmentForm {
    /// Rows of the segment.
    pub rows: usize,
    /// Whether its columns share their memory, as those of the delta do.
    pub shares_memory: bool,
    /// Its columns, in the order of the table's schema.
    pub columns: Vec<ColumnEntry>,
}

/// One column of a segment.
#[derive(Debug, Clone)]
pub struct ColumnEntry {
    /// How its bytes are to be read.
    pub form: ColumnForm,
    /// Smallest and largest code of each run of rows.
    pub zones: Zones,
    /// What is known of its values.
    pub facts: ColumnFacts,
    /// Where its bytes begin in the file or extent that has them.
    pub offset: u64,
    /// The checksum of its bytes; 0 where the extent has one.
    pub checksum: u64,
}

/// Writes what is known of a segment.
pub(crate) fn encode_segment(form: &SegmentForm) -> Vec<u8> {
    seal(MAGIC, |out| {
        out.count(form.rows);
        out.flag(form.shares_memory);
        out.list(form.columns.iter(), |out, column| {
            column_form(out, &column.form);
            zones(out, &column.zones);
            facts(out, &column.facts);
            out.u64(column.offset);
            out.u64(column.checksum);
        });
    })
}

/// Reads what is known of a segment.
///
/// # Errors
/// [`ManifestError`].
pub fn decode_segment(bytes: &[u8]) -> Result<SegmentForm, ManifestError> {
    let mut bytes = open(MAGIC, "segment", bytes)?;
    let rows = bytes.count("the rows of a segment")?;
    let shares_memory = bytes.flag(FORM)?;
    let columns = bytes.list(FORM, |bytes| {
        Ok(ColumnEntry {
            form: read_column_form(bytes, rows)?,
            zones: read_zones(bytes)?,
            facts: read_facts(bytes)?,
            offset: bytes.count(FORM)? as u64,
            checksum: bytes.u64(FORM)?,
        })
    })?;
    bytes.finish("the end of a segment")?;
    Ok(SegmentForm {
        rows,
        shares_memory,
        columns,
    })
}

fn column_form(out: &mut Encoder, form: &ColumnForm) {
    out.flag(form.has_nulls);
    match &form.values {
        ValuesForm::Narrow { base, code_bytes } => {
            out.u8(0);
            out.i128(*base);
            out.u8(*code_bytes as u8);
        }
        ValuesForm::Dictionary {
            code_bytes,
            strings,
            data_bytes,
        } => {
            out.u8(1);
            out.u8(*code_bytes as u8);
            out.count(*strings);
            out.count(*data_bytes);
        }
        ValuesForm::Strings { data_bytes } => {
            out.u8(2);
            out.count(*data_bytes);
        }
        ValuesForm::Plain { array, bytes } => {
            out.u8(3);
            out.count(*bytes);
            array_form(out, array);
        }
    }
}

fn read_column_form(bytes: &mut Decoder<'_>, rows: usize) -> Result<ColumnForm, ManifestError> {
    let has_nulls = bytes.flag(FORM)?;
    let values = match bytes.u8(FORM)? {
        0 => ValuesForm::Narrow {
            base: bytes.i128(FORM)?,
            code_bytes: read_code_bytes(bytes)?,
        },
        1 => ValuesForm::Dictionary {
            code_bytes: read_code_bytes(bytes)?,
            strings: bytes.count(FORM)?,
            data_bytes: bytes.count(FORM)?,
        },
        2 => ValuesForm::Strings {
            data_bytes: bytes.count(FORM)?,
        },
        3 => ValuesForm::Plain {
            bytes: bytes.count(FORM)?,
            array: read_array_form(bytes, 0)?,
        },
        _ => return Err(ManifestError::Invalid { what: FORM }),
    };
    Ok(ColumnForm {
        rows,
        has_nulls,
        values,
    })
}

fn read_code_bytes(bytes: &mut Decoder<'_>) -> Result<usize, ManifestError> {
    match bytes.u8(FORM)? {
        width @ (1 | 2 | 4 | 8) => Ok(usize::from(width)),
        _ => Err(ManifestError::Invalid { what: FORM }),
    }
}

fn array_form(out: &mut Encoder, form: &ArrayForm) {
    out.count(form.len);
    out.count(form.offset);
    out.list(form.buffers.iter(), buffer_form);
    out.option(form.nulls.as_ref(), |out, (buffer, offset)| {
        buffer_form(out, buffer);
        out.count(*offset);
    });
    out.list(form.children.iter(), array_form);
}

fn read_array_form(bytes: &mut Decoder<'_>, depth: usize) -> Result<ArrayForm, ManifestError> {
    if depth > DEPTH_MAX {
        return Err(ManifestError::Invalid { what: FORM });
    }
    Ok(ArrayForm {
        len: bytes.count(FORM)?,
        offset: bytes.count(FORM)?,
        buffers: bytes.list(FORM, read_buffer_form)?,
        nulls: bytes.option(FORM, |bytes| {
            Ok((read_buffer_form(bytes)?, bytes.count(FORM)?))
        })?,
        children: bytes.list(FORM, |bytes| read_array_form(bytes, depth + 1))?,
    })
}

fn buffer_form(out: &mut Encoder, form: &BufferForm) {
    match form {
        BufferForm::At(part) => {
            out.u8(0);
            out.count(part.start);
            out.count(part.end);
        }
        BufferForm::Own(bytes) => {
            out.u8(1);
            out.bytes(bytes);
        }
    }
}

fn read_buffer_form(bytes: &mut Decoder<'_>) -> Result<BufferForm, ManifestError> {
    match bytes.u8(FORM)? {
        0 => Ok(BufferForm::At(bytes.count(FORM)?..bytes.count(FORM)?)),
        1 => Ok(BufferForm::Own(bytes.bytes(FORM)?.to_vec())),
        _ => Err(ManifestError::Invalid { what: FORM }),
    }
}

fn zones(out: &mut Encoder, zones: &Zones) {
    out.list(0..zones.len(), |out, zone| {
        let CodeRange { low, high } = zones.bounds(zone);
        out.u64(low);
        out.u64(high);
    });
}

fn read_zones(bytes: &mut Decoder<'_>) -> Result<Zones, ManifestError> {
    const WHAT: &str = "the zones of a column";
    let bounds = bytes.list(WHAT, |bytes| {
        Ok(CodeRange {
            low: bytes.u64(WHAT)?,
            high: bytes.u64(WHAT)?,
        })
    })?;
    Ok(Zones::of_bounds(bounds))
}

fn facts(out: &mut Encoder, facts: &ColumnFacts) {
    out.option(facts.bounds, |out, (low, high)| {
        out.i128(low);
        out.i128(high);
    });
    out.option(facts.string_bounds.as_ref(), |out, (low, high)| {
        out.text(low);
        out.text(high);
    });
    out.count(facts.null_count);
    out.u8(match facts.order {
        Order::Unordered => 0,
        Order::Ascending => 1,
        Order::Rising => 2,
    });
}

fn read_facts(bytes: &mut Decoder<'_>) -> Result<ColumnFacts, ManifestError> {
    Ok(ColumnFacts {
        bounds: bytes.option(FACTS, |bytes| Ok((bytes.i128(FACTS)?, bytes.i128(FACTS)?)))?,
        string_bounds: bytes.option(FACTS, |bytes| Ok((bytes.text(FACTS)?, bytes.text(FACTS)?)))?,
        null_count: bytes.count(FACTS)?,
        order: match bytes.u8(FACTS)? {
            0 => Order::Unordered,
            1 => Order::Ascending,
            2 => Order::Rising,
            _ => return Err(ManifestError::Invalid { what: FACTS }),
        },
    })
}
