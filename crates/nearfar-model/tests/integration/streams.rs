//! What cores get, in virtual time.

use nearfar_model::{BandwidthShare, Pattern, Stamp};

use crate::simulation::{Actor, parameters, rate_bytes_per_s, run, tier, total_rate_bytes_per_s};

const CHUNK: u64 = 64 << 10;
const END_NS: u64 = 20_000_000;

#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found / expected - 1.0).abs() <= tolerance,
        "found {found}, expected {expected}"
    );
}

#[test]
fn together_cores_get_the_share() {
    // Two threads' share: 40 GB/s x 2 / 20 = 4 GB/s, less than one core could take.
    for streams in [1, 2, 8] {
        let tier = tier(parameters(), BandwidthShare::Threads(2));
        let deliveries = run(&tier, &vec![Actor::reader(CHUNK, 0); streams], END_NS);
        assert_near(
            total_rate_bytes_per_s(&deliveries, streams, END_NS),
            4e9,
            0.03,
        );
    }
}

#[test]
fn a_core_has_its_own_limit() {
    let one = tier(parameters(), BandwidthShare::WholeDevice);
    let deliveries = run(&one, &[Actor::reader(CHUNK, 0)], END_NS);
    assert_near(total_rate_bytes_per_s(&deliveries, 1, END_NS), 6.4e9, 0.01);

    let four = tier(parameters(), BandwidthShare::WholeDevice);
    let deliveries = run(&four, &vec![Actor::reader(CHUNK, 0); 4], END_NS);
    assert_near(total_rate_bytes_per_s(&deliveries, 4, END_NS), 25.6e9, 0.01);

    let twenty = tier(parameters(), BandwidthShare::WholeDevice);
    let deliveries = run(&twenty, &vec![Actor::reader(CHUNK, 0); 20], END_NS);
    assert_near(total_rate_bytes_per_s(&deliveries, 20, END_NS), 40e9, 0.02);
}

#[test]
fn the_first_chunk_pays_the_latency() {
    let tier = tier(parameters(), BandwidthShare::Threads(2));
    tier.clock.set(Stamp::from_ns(10_000));
    let mut core = tier.core();
    assert_eq!(
        tier.request_read(&mut core, 4_000).as_ns(),
        10_000 + 500 + 1_000
    );
    tier.clock.set(Stamp::from_ns(11_500));
    assert_eq!(tier.request_read(&mut core, 4_000).as_ns(), 12_500);
}

#[test]
fn work_hides_the_transfer_of_the_next_chunk() {
    // 65,536 B at 4 GB/s take 16,384 ns.
    for (work_ns, expected_period_ns) in [(4_000, 16_384), (16_000, 16_384), (50_000, 50_000)] {
        let tier = tier(parameters(), BandwidthShare::Threads(2));
        let deliveries = run(&tier, &[Actor::reader(CHUNK, work_ns)], END_NS);
        let last = deliveries.last().unwrap();
        let period_ns = last.at_ns as f64 / deliveries.len() as f64;
        assert_near(period_ns, f64::from(expected_period_ns), 0.01);
    }
}

#[test]
fn an_idle_link_is_no_credit() {
    let tier = tier(parameters(), BandwidthShare::Threads(2));
    let mut core = tier.core();
    tier.request_read(&mut core, CHUNK);
    // A second of work can have hidden one chunk's transfer, not the next ones'.
    tier.clock.set(Stamp::from_ns(1_000_000_000));
    let hidden = tier.request_read(&mut core, CHUNK);
    assert!(hidden.as_ns() <= 1_000_000_000);
    let next = tier.request_read(&mut core, CHUNK);
    let after = tier.request_read(&mut core, CHUNK);
    assert!(next.as_ns() >= 1_000_000_000 + 15_000, "{next:?}");
    assert_eq!(after.since_ns(next), 16_384);

    // Nor does a small chunk lend its idle time to a large one.
    let mut core = tier.core();
    tier.request_read(&mut core, 64);
    tier.clock.set(Stamp::from_ns(2_000_000_000));
    assert!(tier.request_read(&mut core, 1 << 20).as_ns() >= 2_000_000_000 + 260_000);
}

#[test]
fn cores_are_served_alike() {
    let tier = tier(parameters(), BandwidthShare::Threads(2));
    let deliveries = run(&tier, &vec![Actor::reader(CHUNK, 0); 4], END_NS);
    for actor in 0..4 {
        assert_near(rate_bytes_per_s(&deliveries, actor, END_NS), 1e9, 0.03);
    }
}

#[test]
fn small_chunks_get_as_much_as_large_ones() {
    let tier = tier(parameters(), BandwidthShare::Threads(2));
    let actors = [Actor::reader(256 << 10, 0), Actor::reader(8 << 10, 0)];
    let deliveries = run(&tier, &actors, END_NS);
    assert_near(rate_bytes_per_s(&deliveries, 0, END_NS), 2e9, 0.05);
    assert_near(rate_bytes_per_s(&deliveries, 1, END_NS), 2e9, 0.05);
}

#[test]
fn a_busy_consumer_is_not_starved_and_the_rest_is_used() {
    // The first works 40 us per chunk: it needs 1.6 GB/s of the 4, less than its half.
    let tier = tier(parameters(), BandwidthShare::Threads(2));
    let actors = [Actor::reader(CHUNK, 40_000), Actor::reader(CHUNK, 0)];
    let deliveries = run(&tier, &actors, END_NS);
    assert_near(
        rate_bytes_per_s(&deliveries, 0, END_NS),
        65_536.0 / 40e-6,
        0.03,
    );
    assert_near(total_rate_bytes_per_s(&deliveries, 2, END_NS), 4e9, 0.03);
}

#[test]
fn reads_and_writes_have_a_link_each() {
    let actors = [
        Actor::reader(CHUNK, 0),
        Actor {
            writes: true,
            ..Actor::reader(CHUNK, 0)
        },
    ];
    let full = tier(parameters(), BandwidthShare::Threads(2));
    let deliveries = run(&full, &actors, END_NS);
    assert_near(rate_bytes_per_s(&deliveries, 0, END_NS), 4e9, 0.02);
    assert_near(rate_bytes_per_s(&deliveries, 1, END_NS), 2e9, 0.02);
}

#[test]
fn a_copying_core_is_limited_over_both_directions() {
    let tier = tier(parameters(), BandwidthShare::WholeDevice);
    for _ in 0..1_000 {
        tier.tier.read(Pattern::Next, CHUNK);
        tier.tier.write(Pattern::Next, CHUNK);
    }
    let seconds = tier.now_ns() as f64 * 1e-9;
    assert_near(2.0 * 1_000.0 * CHUNK as f64 / seconds, 6.4e9, 0.02);
}

#[test]
fn nothing_costs_nothing() {
    let tier = tier(parameters(), BandwidthShare::Threads(2));
    tier.tier.read(Pattern::Next, 0);
    tier.tier.write(Pattern::Next, 0);
    assert_eq!(tier.now_ns(), 0);
}

#[test]
fn many_small_chunks_take_as_long_as_one() {
    let tier = tier(parameters(), BandwidthShare::Threads(2));
    for _ in 0..100_000 {
        tier.tier.read(Pattern::Next, 10);
    }
    assert_near(tier.now_ns() as f64, 250_000.0, 0.01);
}
