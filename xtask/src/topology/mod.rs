//! The virtual machines: what memory each has, declared as data, and how qemu is told.

mod catalog;
mod machine;
mod qemu;

pub use catalog::{ALL, find};
pub use machine::Topology;
pub use qemu::{Files, arguments};
