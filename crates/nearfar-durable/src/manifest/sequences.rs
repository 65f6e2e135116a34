//! Sequences, as they were declared and where they are.

use super::codec::{Decoder, Encoder};
use super::error::ManifestError;
use nearfar_table::sequence::{SequenceDefinition, SequenceType, SequenceValue};

const WHAT: &str = "a sequence";

/// A sequence at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceManifest {
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// How it was declared.
    pub definition: SequenceDefinition,
    /// Where it is.
    pub value: SequenceValue,
}

/// Writes how a sequence was declared.
pub(crate) fn encode_sequence(out: &mut Encoder, sequence: &SequenceDefinition) {
    out.text(sequence.data_type.name());
    let numbers = [
        sequence.start,
        sequence.increment,
        sequence.min,
        sequence.max,
        sequence.cache,
    ];
    numbers.iter().for_each(|number| out.u64(*number as u64));
    out.flag(sequence.cycles);
    out.option(sequence.owner.as_ref(), |out, (table, column)| {
        out.u64(*table);
        out.text(column);
    });
}

/// Reads what `encode_sequence` has written.
///
/// # Errors
/// [`ManifestError::Invalid`].
pub fn decode_sequence(bytes: &mut Decoder<'_>) -> Result<SequenceDefinition, ManifestError> {
    let invalid = ManifestError::Invalid { what: WHAT };
    let name = bytes.text(WHAT)?;
    let mut types = SequenceType::ALL.into_iter();
    let data_type = types.find(|known| known.name() == name).ok_or(invalid)?;
    let mut number = || bytes.u64(WHAT).map(|number| number as i64);
    let (start, increment, min, max) = (number()?, number()?, number()?, number()?);
    let cache = number()?;
    Ok(SequenceDefinition {
        data_type,
        start,
        increment,
        min,
        max,
        cache,
        cycles: bytes.flag(WHAT)?,
        owner: bytes.option(WHAT, |bytes| Ok((bytes.u64(WHAT)?, bytes.text(WHAT)?)))?,
    })
}

/// Writes where a sequence is.
pub(crate) fn encode_value(out: &mut Encoder, value: SequenceValue) {
    out.u64(value.last as u64);
    out.flag(value.is_called);
}

/// Reads what `encode_value` has written.
///
/// # Errors
/// [`ManifestError::Invalid`].
pub fn decode_value(bytes: &mut Decoder<'_>) -> Result<SequenceValue, ManifestError> {
    Ok(SequenceValue {
        last: bytes.u64(WHAT)? as i64,
        is_called: bytes.flag(WHAT)?,
    })
}
