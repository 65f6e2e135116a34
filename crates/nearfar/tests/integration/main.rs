//! The program as its users see it: arguments in; stdout, stderr, files and an exit code out.

mod architecture;
mod calibrate;
mod cluster;
mod commits;
mod damage;
mod data;
mod documents;
mod errors;
mod failover;
mod faults;
mod files;
mod interrupt;
mod lost;
mod measure;
mod memory;
mod node;
mod plan;
mod private;
mod regulate;
mod serve;
mod sql;
mod support;
mod testbed;
mod tiers;
mod tpcc;
mod tpch;
