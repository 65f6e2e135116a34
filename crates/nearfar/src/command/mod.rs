//! The commands, one module each.

pub mod bench;
pub mod profiles;
pub mod tiers;
pub mod tpch;
