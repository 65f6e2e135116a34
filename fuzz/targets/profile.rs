//! Profiles of machines: a text is refused with a message or describes far memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfar_topology::Profile;

fuzz_target!(|text: &str| {
    match Profile::parse("fuzz.toml", text) {
        Ok(profile) => assert!(profile.far.idle_latency_ns.is_finite()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
