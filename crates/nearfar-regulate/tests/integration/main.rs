//! The crate through its public interface.

mod groups;
mod kills;
mod machines;
mod testbed;
