//! Parquet files: the footer, and what it says of the places of columns, indexes and pages.

use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader,
};

use super::caught::caught_now;
use super::check::Bytes;
use super::thrift;
use crate::error::Damage;

/// How a file begins and ends.
const MAGIC: &[u8; 4] = b"PAR1";
/// How it ends if its footer is encrypted.
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";
/// The length of the footer and the magic.
const TAIL_BYTES: i128 = 8;
const FOOTER: &str = "the footer";

/// Checks that the footer is within the file, every part of it within the footer, and all that it
/// names within the file.
///
/// # Errors
/// [`Damage`].
pub fn check(file: &Bytes) -> Result<(), Damage> {
    let end = i128::from(file.len);
    let tail: [u8; TAIL_BYTES as usize] = file.array("the end", end - TAIL_BYTES)?;
    let [l0, l1, l2, l3, magic @ ..] = tail;
    if magic != *MAGIC && magic != *MAGIC_ENCRYPTED {
        return Err(Damage::Magic { place: "end" });
    }
    let footer_bytes = i128::from(u32::from_le_bytes([l0, l1, l2, l3]));
    let footer = file.read(FOOTER, end - TAIL_BYTES - footer_bytes, footer_bytes)?;
    if magic == *MAGIC_ENCRYPTED {
        return Ok(());
    }
    if !thrift::is_struct(&footer) {
        return Err(Damage::malformed(FOOTER, "a part of it is longer than it"));
    }
    let metadata = caught_now(|| ParquetMetaDataReader::decode_metadata(&footer))?;
    let metadata = metadata.map_err(|error| Damage::malformed(FOOTER, error))?;
    for group in metadata.row_groups() {
        group
            .columns()
            .iter()
            .try_for_each(|column| check_column(file, column))?;
    }
    check_pages(file, metadata)
}

fn check_column(file: &Bytes, column: &ColumnChunkMetaData) -> Result<(), Damage> {
    let bytes = i128::from(column.compressed_size());
    let pages = [
        Some(column.data_page_offset()),
        column.dictionary_page_offset(),
    ];
    for offset in pages.into_iter().flatten() {
        file.check("a page", offset.into(), 0)?;
    }
    // As readers have it: the dictionary is first, where there is one.
    let start = column
        .dictionary_page_offset()
        .unwrap_or(column.data_page_offset());
    file.check("a column", start.into(), bytes)?;
    for (what, offset, length) in [
        (
            "a column index",
            column.column_index_offset(),
            column.column_index_length(),
        ),
        (
            "an offset index",
            column.offset_index_offset(),
            column.offset_index_length(),
        ),
        (
            "a Bloom filter",
            column.bloom_filter_offset(),
            column.bloom_filter_length().or(Some(0)),
        ),
    ] {
        if let Some((offset, length)) = offset.zip(length) {
            file.check(what, offset.into(), length.into())?;
        }
    }
    Ok(())
}

/// Checks where the offset indexes say that pages are. What is wrong with an index otherwise is left to
/// who reads it.
fn check_pages(file: &Bytes, metadata: ParquetMetaData) -> Result<(), Damage> {
    let policy = PageIndexPolicy::Optional;
    let mut reader =
        ParquetMetaDataReader::new_with_metadata(metadata).with_page_index_policy(policy);
    let read = caught_now(|| reader.read_page_indexes(file.file()))?;
    let metadata = read.and_then(|()| reader.finish());
    let Some(index) = metadata.iter().find_map(ParquetMetaData::offset_index) else {
        return Ok(());
    };
    for column in index.iter().flatten() {
        for page in column.page_locations() {
            file.check(
                "a page",
                page.offset.into(),
                page.compressed_page_size.into(),
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footers_that_can_not_be_are_found() {
        let file = |footer: &[u8], said: u32| {
            let said = said.to_le_bytes();
            Bytes::of(&[&MAGIC[..], footer, &said, MAGIC].concat())
        };
        let footer = [0x15, 0x02, 0x00];
        for said in [8, 0x00ff_ffff, u32::MAX] {
            let found = check(&file(&footer, said));
            assert!(matches!(found, Err(Damage::Beyond { .. })), "{found:?}");
        }
        let found = check(&file(&[0x19, 0xfc, 0xff, 0xff, 0x7f, 0x00], 6));
        assert!(matches!(found, Err(Damage::Malformed { .. })), "{found:?}");
        let found = check(&Bytes::of(b"PAR1PAR2PAR2"));
        assert_eq!(found, Err(Damage::Magic { place: "end" }));
        assert!(check(&Bytes::of(b"PAR1")).is_err());
    }
}
