//! Published experiments with trees.
//!
//! * [`BPlusTrees`] are those of weisgut-2025, sections 5.4 and 5.5, for figures of `nearfar-measure`.
//! * [`zhao`] has what zhao-2026 (SIDLE) says of placement in figures, and runs it in the model.

mod trees;
pub mod zhao;

pub use trees::{BPlusTrees, Search};
