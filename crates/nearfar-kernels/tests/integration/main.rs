//! Kernels from the outside.

mod scan;
