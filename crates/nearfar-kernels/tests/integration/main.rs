//! Kernels from the outside.

mod aggregate;
mod cancel;
mod copy;
mod join;
mod limits;
mod lost;
mod scan;
mod within;
