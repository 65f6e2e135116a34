//! Rows of `COPY` as PostgreSQL's text, CSV and binary forms, in both directions.
//!
//! Text that a client sends is cut into records and values ([`split`]) and read as batches ([`read`]); rows
//! for a client are written from what it would be sent as results ([`write`]). The binary form has the values
//! of results and parameters ([`binary`]). Nothing is held but a batch and the record that is not whole yet. CSV is cut
//! here and not by a crate, since PostgreSQL's tells an empty value from a null by its quotes, which those that read Arrow
//! do not tell.

mod binary;
mod forms;
mod read;
mod split;
mod write;

pub use forms::{Decoder, Encoder};
