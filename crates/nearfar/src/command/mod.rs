//! The commands, one module each.

pub mod bench;
pub mod calibrate;
pub mod measure;
pub mod memory;
pub mod plan;
pub mod profiles;
pub mod regulate;
pub mod reproduce;
pub mod serve;
pub mod tiers;
pub mod tpch;
