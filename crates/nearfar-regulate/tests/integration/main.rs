//! The crate through its public interface.

mod faults;
mod groups;
mod journal;
mod kills;
mod machines;
mod metric;
mod testbed;
