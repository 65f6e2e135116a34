//! Why bytes are no manifest.

use arrow::datatypes::DataType;

/// Why bytes can't be read as a manifest, or a table can't be written as one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// They begin with something else.
    #[error("it is no {what} of Nearfar")]
    Magic {
        /// What was looked for.
        what: &'static str,
    },
    /// They were written by a machine with the other byte order.
    #[error("it was written by a machine with the other byte order")]
    ByteOrder,
    /// They have another version of the format.
    #[error("it has version {found} of the format, this program knows version {known}")]
    Version {
        /// The version of the bytes.
        found: u32,
        /// The version of this program.
        known: u32,
    },
    /// There are fewer or more bytes than were written.
    #[error("it has {found} bytes instead of {expected}: it is torn")]
    Length {
        /// What there is.
        found: u64,
        /// What was written.
        expected: u64,
    },
    /// Bytes have changed.
    #[error("its checksum is {found:#018x} instead of {expected:#018x}: it is damaged")]
    Checksum {
        /// The checksum of what there is.
        found: u64,
        /// The checksum of what was written.
        expected: u64,
    },
    /// The bytes are as they were written, but mean nothing.
    #[error("{what} of it can't be read")]
    Invalid {
        /// What was being read.
        what: &'static str,
    },
    /// A type of column that has no encoding.
    #[error("columns of type {data_type} can't be kept")]
    Unsupported {
        /// The type.
        data_type: DataType,
    },
}
