//! Tests of memory of other hosts.

mod testbed;
mod unavailable;
