//! Rows of `COPY` as text: PostgreSQL's own format and CSV, in both directions.
//!
//! What a client sends is cut into records and values ([`split`]) and read as batches ([`read`]); rows
//! for a client are written from what it would be sent as results ([`write`]). Nothing is held but a
//! batch and the record that is not whole yet. CSV is cut here and not by a crate, since PostgreSQL's
//! tells an empty value from a null by its quotes, which those that read Arrow do not tell.

mod read;
mod split;
mod write;

pub use read::Decoder;
pub use write::Encoder;
