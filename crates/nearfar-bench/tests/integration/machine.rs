//! A machine whose far tier is modelled and costs next to nothing, so that tests are fast.

use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_topology::{Profile, Topology};
use std::sync::Arc;

const FAST_TIER: &str = r#"
devices = { value = 1, source = "a test" }
capacity_bytes = { value = 1099511627776, source = "a test" }
idle_latency_ns = { value = 1, source = "a test" }
sequential_latency_ns = { value = 1, source = "a test" }
write_latency_ns = { value = 1, source = "a test" }
read_bandwidth_bytes_per_s = { value = 1e13, source = "a test" }
write_bandwidth_bytes_per_s = { value = 1e13, source = "a test" }
core_outstanding_random = { value = 100, source = "a test" }
core_outstanding_sequential = { value = 100, source = "a test" }
"#;

/// The profile of a far tier that is faster than any machine.
pub fn fast_profile() -> Profile {
    let head = r#"
name = "fast"
description = "A far tier faster than near"
cores = { value = 1, source = "a test" }
cache_bytes = { value = 1048576, source = "a test" }
"#;
    let text = format!("{head}\n[near]\n{FAST_TIER}\n[far]\n{FAST_TIER}");
    Profile::parse("fast.toml", &text).expect("a valid profile")
}

/// An engine of two threads, with the fast far tier if asked for.
pub fn engine(profile: Option<Profile>) -> Arc<Engine> {
    let topology = Topology::this_machine().expect("a machine");
    let options = EngineOptions {
        profile,
        threads: 2,
        ..EngineOptions::new(topology)
    };
    Engine::new(options).expect("an engine")
}
