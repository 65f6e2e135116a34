//! Kernels from the outside.

mod aggregate;
mod join;
mod scan;
mod within;
