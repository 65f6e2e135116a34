//! Kernels from the outside.

mod aggregate;
mod copy;
mod join;
mod limits;
mod scan;
mod within;
