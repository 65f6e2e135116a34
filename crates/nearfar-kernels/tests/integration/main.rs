//! Kernels from the outside.

mod scan;
mod within;
