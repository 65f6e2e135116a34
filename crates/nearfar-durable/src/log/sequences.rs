//! What records say of sequences.

use super::record::{QualifiedName, read_name, write_name};
use crate::manifest::{
    Decoder, Encoder, ManifestError, decode_sequence, decode_value, encode_sequence, encode_value,
};
use nearfar_table::sequence::{SequenceDefinition, SequenceValue};

/// A change of a sequence.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SequenceChange {
    /// It is new, or declared anew.
    Declared {
        definition: SequenceDefinition,
        value: SequenceValue,
    },
    /// Where it is.
    At(SequenceValue),
    Dropped,
}

mod tag {
    pub const DECLARED: u8 = 0;
    pub const AT: u8 = 1;
    pub const DROPPED: u8 = 2;
}

impl SequenceChange {
    pub fn write(&self, name: &QualifiedName, out: &mut Encoder) {
        write_name(out, name);
        match self {
            Self::Declared { definition, value } => {
                out.u8(tag::DECLARED);
                encode_sequence(out, definition);
                encode_value(out, *value);
            }
            Self::At(value) => {
                out.u8(tag::AT);
                encode_value(out, *value);
            }
            Self::Dropped => out.u8(tag::DROPPED),
        }
    }

    pub fn read(input: &mut Decoder<'_>) -> Result<(QualifiedName, Self), ManifestError> {
        const WHAT: &str = "a change of a sequence";
        let name = read_name(input)?;
        let change = match input.u8(WHAT)? {
            tag::DECLARED => Self::Declared {
                definition: decode_sequence(input)?,
                value: decode_value(input)?,
            },
            tag::AT => Self::At(decode_value(input)?),
            tag::DROPPED => Self::Dropped,
            _ => return Err(ManifestError::Invalid { what: WHAT }),
        };
        Ok((name, change))
    }
}
