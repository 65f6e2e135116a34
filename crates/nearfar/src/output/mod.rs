//! What commands write, and where to.

pub mod comparison;
pub mod figures;
pub mod file;
pub mod grid;
pub mod rows;
