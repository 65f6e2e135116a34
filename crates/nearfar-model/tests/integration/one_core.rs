//! A thread has the bandwidth of one core, whatever it does on emulated tiers.

use std::sync::Arc;
use std::time::Duration;

use nearfar_model::{
    BandwidthShare, EmulationParameters, HeapAccess, Pattern, Stamp, VirtualClock,
};

use crate::simulation::{VirtualTier, parameters, tier};

const CHUNK: u64 = 64 << 10;
const CHUNKS: u64 = 1_000;

/// What a core of the test's tier transfers in a nanosecond.
const CORE_BYTES_PER_NS: f64 = 6.4;

/// Virtual time that `work` takes on a tier of which the link is no limit.
fn took_ns(work: impl FnOnce(&VirtualTier)) -> u64 {
    let tier = tier(parameters(), BandwidthShare::WholeDevice);
    work(&tier);
    tier.now_ns()
}

#[track_caller]
fn assert_near(found_ns: u64, expected_ns: f64) {
    let off = found_ns as f64 / expected_ns - 1.0;
    assert!(off.abs() < 0.01, "took {found_ns} ns, not {expected_ns} ns");
}

#[test]
fn two_scans_of_a_thread_take_as_long_as_one_of_twice_the_bytes() {
    let one = took_ns(|tier| {
        for _ in 0..2 * CHUNKS {
            tier.tier.read(Pattern::Next, CHUNK);
        }
    });
    let two = took_ns(|tier| {
        let mut patterns = [Pattern::First; 2];
        for _ in 0..CHUNKS {
            for pattern in &mut patterns {
                tier.tier.read(pattern.advance(), CHUNK);
            }
        }
    });
    assert_near(one, (2 * CHUNKS * CHUNK) as f64 / CORE_BYTES_PER_NS);
    assert_near(two, one as f64);
}

#[test]
fn a_scan_below_a_join_does_not_go_on_while_the_join_accesses_its_table() {
    let probes = HeapAccess {
        random_reads: 1_000,
        random_writes: 0,
        table_bytes: 1 << 30,
        cache_bytes: 0,
    };
    let scan = took_ns(|tier| (0..CHUNKS).for_each(|_| tier.tier.read(Pattern::Next, CHUNK)));
    let mut table = Duration::ZERO;
    let both = took_ns(|tier| {
        for _ in 0..CHUNKS {
            tier.tier.read(Pattern::Next, CHUNK);
            let delay = tier.tier.heap_delay(&probes);
            tier.tier.delay(delay);
            table += delay;
        }
    });
    assert!(table > Duration::from_nanos(scan), "{table:?}");
    assert_near(both, (scan + table.as_nanos() as u64) as f64);
}

#[test]
fn tiers_share_the_core() {
    let clock = Arc::new(VirtualClock::new());
    let slower = EmulationParameters {
        latency_ns: 1_000.0,
        ..parameters()
    };
    let tiers = [parameters(), slower]
        .map(|parameters| VirtualTier::new(parameters, BandwidthShare::WholeDevice, &clock));
    for _ in 0..CHUNKS {
        for tier in &tiers {
            tier.tier.read(Pattern::Next, CHUNK);
        }
    }
    // The lines in flight are the core's; on the second tier each takes twice as long.
    let bytes = (CHUNKS * CHUNK) as f64;
    let expected_ns = bytes / CORE_BYTES_PER_NS + 2.0 * bytes / CORE_BYTES_PER_NS;
    assert_near(tiers[0].now_ns(), expected_ns);
}

#[test]
fn threads_have_a_core_each() {
    let tier = tier(parameters(), BandwidthShare::WholeDevice);
    let mut cores = [tier.core(), tier.core()];
    let mut ends = [0; 2];
    for _ in 0..CHUNKS {
        ends = cores
            .each_mut()
            .map(|core| tier.request_read(core, CHUNK).as_ns());
    }
    for end_ns in ends {
        assert_near(end_ns, (CHUNKS * CHUNK) as f64 / CORE_BYTES_PER_NS);
    }
}

#[test]
fn what_a_new_sequence_reads_first_was_not_fetched_ahead() {
    let took_ns = |pattern| {
        let tier = tier(parameters(), BandwidthShare::WholeDevice);
        tier.tier.read(Pattern::Next, CHUNK);
        // Work that takes as long as many chunks.
        let began_ns = tier.now_ns() + 1_000_000;
        tier.clock.set(Stamp::from_ns(began_ns));
        tier.tier.read(pattern, CHUNK);
        tier.now_ns() - began_ns
    };
    let transfer_ns = CHUNK as f64 / CORE_BYTES_PER_NS;
    assert_near(took_ns(Pattern::First), transfer_ns + 500.0);
    assert_eq!(took_ns(Pattern::Next), 0);
}

#[test]
fn random_lines_are_limited_by_those_that_a_core_has_in_flight() {
    let random = took_ns(|tier| {
        for _ in 0..CHUNKS {
            tier.tier.read(Pattern::Random, CHUNK);
        }
    });
    // 16 lines of 64 bytes each 500 ns.
    assert_near(random, (CHUNKS * CHUNK) as f64 * 500.0 / (16.0 * 64.0));
}
