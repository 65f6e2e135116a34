//! The program as its users see it: arguments in; stdout, stderr, files and an exit code out.

mod architecture;
mod data;
mod documents;
mod errors;
mod failover;
mod faults;
mod files;
mod interrupt;
mod measure;
mod serve;
mod sql;
mod support;
mod testbed;
mod tiers;
mod tpch;
