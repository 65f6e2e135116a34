//! Tables as bytes: what a checkpoint holds, and how it is written down.
//!
//! A [`DatabaseManifest`] is all that is committed at one position of the log. The bytes of column
//! segments are no part of what is encoded here: they are kept as they are, wherever the checkpoint
//! puts them, and used without being encoded anew. What is encoded says how to read them:
//!
//! * `encode_segment` and [`decode_segment`]: one segment, written once and shared by checkpoints;
//! * `encode_sketches` and [`decode_sketches`]: what numbers of distinct values in it come from;
//! * `encode_database` and [`decode_database`]: tables, their parts with identities of rows and
//!   delete vectors, numbers of distinct values, views, schemas.
//!
//! All are framed ([`seal`], [`open`]): magic number, version, byte order, length and checksum. Whatever
//! bytes are read, an [`ManifestError`] says what is wrong with them, and nothing is allocated that is
//! larger than they are. `docs/restart-format.md` describes the encoding.

mod codec;
mod database;
mod error;
mod frame;
mod indexes;
mod rules;
mod schema;
mod segment;
mod sequences;
mod sketches;

pub use codec::{Decoder, Encoder};
pub use database::{
    DatabaseManifest, TableEntry, TableManifest, ViewDefinition, decode_database,
    decode_placements, decode_preload,
};
pub(crate) use database::{encode_database, encode_placements, encode_preload};
pub use error::ManifestError;
pub(crate) use frame::checksum;
pub use frame::{open, seal};
pub use indexes::decode_indexes;
pub(crate) use indexes::{encode_indexes, unfilled_indexes};
pub use rules::decode_rules;
pub(crate) use rules::encode_rules;
pub use schema::decode_schema;
pub(crate) use schema::encode_schema;
pub(crate) use segment::encode_segment;
pub use segment::{ColumnEntry, SegmentForm, decode_segment};
pub use sequences::{SequenceManifest, decode_sequence, decode_value};
pub(crate) use sequences::{encode_sequence, encode_value};
pub use sketches::decode_sketches;
pub(crate) use sketches::encode_sketches;
