//! What a regulator reads of others: traces, lines of `perf stat`, and pages of metrics that came over a network.
#![no_main]

#[path = "../../crates/nearfar-regulate/src/observe/metrics_page.rs"]
mod metrics_page;

use libfuzzer_sys::fuzz_target;
use metrics_page::{page, slow_bytes};
use nearfar_regulate::virtual_time::read_trace;
use nearfar_topology::perf::parse;

fuzz_target!(|text: &str| {
    match read_trace(text) {
        Ok(trace) => {
            let shares = trace.demands.iter().map(|demand| demand.shares.len());
            assert!(
                shares
                    .into_iter()
                    .all(|shares| shares == trace.groups.len())
            );
        }
        Err(error) => assert!(error.to_string().starts_with("trace, line ")),
    }
    for count in parse(text) {
        assert!(!count.event.is_empty());
    }
    match page(text).and_then(slow_bytes) {
        Ok(bytes) => assert!(bytes >= 0.0),
        Err(reason) => assert!(!reason.is_empty()),
    }
});
