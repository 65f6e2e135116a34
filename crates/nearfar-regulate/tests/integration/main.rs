//! The crate through its public interface.

mod faults;
mod groups;
mod kills;
mod machines;
mod metric;
mod testbed;
