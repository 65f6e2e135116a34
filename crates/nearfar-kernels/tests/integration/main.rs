//! Kernels from the outside.

mod aggregate;
mod copy;
mod join;
mod scan;
mod within;
