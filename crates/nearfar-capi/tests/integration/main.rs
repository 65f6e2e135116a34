//! The header beside the crate, and what the functions refuse.

mod bad_input;
mod header;
