//! Arrow IPC, files and streams: schemas, messages, and where their bodies lie.
//!
//! Source: `format/Message.fbs`, `format/File.fbs` and `docs/source/format/Columnar.rst` of Apache
//! Arrow.

use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::{
    Block, Message, MessageHeader, RecordBatch, Schema, root_as_footer, root_as_message,
};

use super::caught::caught_now;
use super::check::Bytes;
use crate::error::Damage;

/// How files begin and end.
const MAGIC: &[u8; 6] = b"ARROW1";
/// The magic at the begin of a file, filled up to a multiple of eight bytes.
const HEAD_BYTES: i128 = 8;
/// The length of the footer, and the magic.
const TAIL_BYTES: i128 = 10;
/// Stands before the length of a message's metadata, but in old files.
const MARKER: [u8; 4] = [0xff; 4];
/// Of the length of a message's metadata.
const PREFIX_BYTES: usize = 4;
/// Rows of a batch; those of columns that need no bytes could be any.
const ROWS_MAX: i64 = i32::MAX as i64;
/// What a byte that is compressed can stand for at most: of LZ4 255, of Zstandard a block of 128 KiB
/// for each four.
const EXPANSION_MAX: i128 = 32 << 10;
/// The length without compression, which begins each compressed buffer.
const LENGTH_BYTES: i64 = 8;

const FOOTER: &str = "the footer";
const METADATA: &str = "the metadata of a message";
const BODY: &str = "the body of a message";
const BUFFER: &str = "a buffer of a batch";
const SCHEMA: &str = "the schema";
const BATCH: &str = "a batch";

/// Checks a file or a stream.
///
/// # Errors
/// [`Damage`].
pub fn check(file: &Bytes) -> Result<(), Damage> {
    let is_file = file.len >= MAGIC.len() as u64 && file.array("the begin", 0)? == *MAGIC;
    match is_file {
        true => check_file(file),
        false => check_stream(file),
    }
}

fn check_file(file: &Bytes) -> Result<(), Damage> {
    let end = i128::from(file.len);
    let tail: [u8; TAIL_BYTES as usize] = file.array("the end", end - TAIL_BYTES)?;
    let [l0, l1, l2, l3, magic @ ..] = tail;
    if magic != *MAGIC {
        return Err(Damage::Magic { place: "end" });
    }
    let footer_bytes = i128::from(i32::from_le_bytes([l0, l1, l2, l3]));
    let footer = file.read(FOOTER, end - TAIL_BYTES - footer_bytes, footer_bytes)?;
    let footer = root_as_footer(&footer).map_err(|error| Damage::malformed(FOOTER, error))?;
    let schema = footer.schema();
    check_schema(schema.ok_or_else(|| Damage::malformed(FOOTER, "there is no schema in it"))?)?;
    // Readers take the schema from there too.
    message_at(file, HEAD_BYTES)?;
    let blocks = [footer.dictionaries(), footer.recordBatches()];
    for block in blocks.into_iter().flatten().flatten() {
        check_block(file, block)?;
    }
    Ok(())
}

/// A message that a footer names.
fn check_block(file: &Bytes, block: &Block) -> Result<(), Damage> {
    let offset = i128::from(block.offset());
    let metadata_bytes = i128::from(block.metaDataLength());
    let metadata = file.read(METADATA, offset, metadata_bytes)?;
    let unmarked = metadata.strip_prefix(&MARKER).unwrap_or(&metadata);
    let message = read_message(unmarked.get(PREFIX_BYTES..).unwrap_or_default())?;
    let body = (offset + metadata_bytes, i128::from(block.bodyLength()));
    check_body(file, &message, body)
}

fn check_stream(file: &Bytes) -> Result<(), Damage> {
    let mut at = 0;
    while at < i128::from(file.len) {
        match message_at(file, at)? {
            Some(next) => at = next,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Checks the message at `at`; where the next one begins, if this was none that says the end.
fn message_at(file: &Bytes, mut at: i128) -> Result<Option<i128>, Damage> {
    let mut length: [u8; 4] = file.array(METADATA, at)?;
    at += PREFIX_BYTES as i128;
    if length == MARKER {
        length = file.array(METADATA, at)?;
        at += PREFIX_BYTES as i128;
    }
    let metadata_bytes = i128::from(i32::from_le_bytes(length));
    if metadata_bytes == 0 {
        return Ok(None);
    }
    let metadata = file.read(METADATA, at, metadata_bytes)?;
    let message = read_message(&metadata)?;
    at += metadata_bytes;
    let body_bytes = i128::from(message.bodyLength());
    check_body(file, &message, (at, body_bytes))?;
    Ok(Some(at + body_bytes))
}

fn read_message(bytes: &[u8]) -> Result<Message<'_>, Damage> {
    root_as_message(bytes).map_err(|error| Damage::malformed(METADATA, error))
}

/// The body of a message, `bytes` long at `start`.
fn check_body(
    file: &Bytes,
    message: &Message<'_>,
    (start, bytes): (i128, i128),
) -> Result<(), Damage> {
    file.check(BODY, start, bytes)?;
    let missing = || Damage::malformed(METADATA, "it is not of the kind that it says");
    let batch = match message.header_type() {
        MessageHeader::Schema => {
            return check_schema(message.header_as_schema().ok_or_else(missing)?);
        }
        MessageHeader::RecordBatch => message.header_as_record_batch().ok_or_else(missing)?,
        MessageHeader::DictionaryBatch => {
            let dictionary = message.header_as_dictionary_batch();
            let batch = dictionary.and_then(|dictionary| dictionary.data());
            batch.ok_or_else(missing)?
        }
        // What readers refuse by themselves.
        _ => return Ok(()),
    };
    check_batch(file, &batch, (start, bytes))
}

fn check_batch(
    file: &Bytes,
    batch: &RecordBatch<'_>,
    (start, bytes): (i128, i128),
) -> Result<(), Damage> {
    let rows = |rows: i64| (0..=ROWS_MAX).contains(&rows);
    let mut nodes = batch.nodes().into_iter().flatten();
    let are_counts = nodes.all(|node| rows(node.length()) && rows(node.null_count()));
    if !rows(batch.length()) || !are_counts {
        return Err(Damage::malformed(BATCH, "no batch has so many rows"));
    }
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, length) = (i128::from(buffer.offset()), i128::from(buffer.length()));
        let is_within = offset >= 0 && length >= 0 && offset + length <= bytes;
        if !is_within {
            return Err(Damage::Beyond {
                what: BUFFER,
                offset: start + offset,
                said_bytes: length,
                bytes: file.len,
            });
        }
        if batch.compression().is_some() && buffer.length() >= LENGTH_BYTES {
            let plain = i64::from_le_bytes(file.array(BUFFER, start + offset)?);
            if i128::from(plain) > length * EXPANSION_MAX {
                let reason = format!("{length} bytes can't be {plain} that were compressed");
                return Err(Damage::malformed(BUFFER, reason));
            }
        }
    }
    Ok(())
}

/// Types that there are not are found by who makes Arrow's of them.
fn check_schema(schema: Schema<'_>) -> Result<(), Damage> {
    match caught_now(|| fb_to_schema(schema)) {
        Ok(_) => Ok(()),
        Err(panicked) => Err(Damage::malformed(SCHEMA, panicked)),
    }
}
