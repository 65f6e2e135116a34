//! The crate through its public interface.

mod kills;
mod machines;
mod testbed;
