//! Specifications of access benchmarks, as TOML and as YAML, up to the points of their matrix.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfar_measure::access::Document;
use nearfar_measure::access::spec::{Context, RUNS_MAX};

fuzz_target!(|text: &str| {
    let context = Context {
        cpus: 4,
        rest_cpus: 3,
        tiers: vec!["near".to_owned(), "far".to_owned()],
    };
    for name in ["fuzz.toml", "fuzz.yaml"] {
        let Ok(document) = Document::parse(name, text) else {
            continue;
        };
        if let Ok(runs) = document.expand(&context) {
            assert!(!runs.is_empty() && runs.len() <= RUNS_MAX);
        }
    }
});
