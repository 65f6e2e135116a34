//! What holds for any mix of cores.

use nearfar_model::{BandwidthShare, Pattern, Stamp};
use proptest::prelude::*;

use crate::simulation::{Actor, Delivery, parameters, run, tier};

const END_NS: u64 = 5_000_000;
const CORE_BYTES_PER_NS: f64 = 6.4;

fn actors() -> impl Strategy<Value = Vec<Actor>> {
    let actor = (256_u64..300_000, 0_u64..100_000, any::<bool>()).prop_map(
        |(chunk_bytes, work_ns, writes)| Actor {
            chunk_bytes,
            work_ns,
            writes,
        },
    );
    prop::collection::vec(actor, 1..8)
}

/// The most bytes by which the deliveries of `of` run ahead of a link of `bytes_per_ns`.
fn lead_bytes(deliveries: &[Delivery], of: impl Fn(usize) -> bool, bytes_per_ns: f64) -> f64 {
    let mut sorted: Vec<&Delivery> = deliveries
        .iter()
        .filter(|delivery| of(delivery.actor))
        .collect();
    sorted.sort_by_key(|delivery| delivery.at_ns);
    let mut bytes = 0_u64;
    let mut lead = 0.0_f64;
    for delivery in sorted {
        bytes += delivery.bytes;
        lead = lead.max(bytes as f64 - delivery.at_ns as f64 * bytes_per_ns);
    }
    lead
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// All cores together never get more than the link has: what runs ahead of it for a moment
    /// is bounded by what they have in flight.
    #[test]
    fn never_faster_than_the_link(actors in actors(), threads in 1_u32..=20) {
        let tier = tier(parameters(), BandwidthShare::Threads(threads));
        let deliveries = run(&tier, &actors, END_NS);
        for writes in [false, true] {
            let bytes_per_ns = f64::from(threads) * if writes { 1.0 } else { 2.0 };
            let of = |actor: usize| actors[actor].writes == writes;
            let in_flight: u64 =
                actors.iter().filter(|actor| actor.writes == writes).map(|a| a.chunk_bytes).sum();
            let lead = lead_bytes(&deliveries, of, bytes_per_ns);
            prop_assert!(lead <= 2.0 * in_flight as f64, "lead {lead} of {in_flight}");
        }
    }

    /// No core gets more than it can keep in flight.
    #[test]
    fn never_faster_than_the_core(actors in actors()) {
        let tier = tier(parameters(), BandwidthShare::WholeDevice);
        let deliveries = run(&tier, &actors, END_NS);
        for (actor, Actor { chunk_bytes, .. }) in actors.iter().enumerate() {
            let lead = lead_bytes(&deliveries, |other| other == actor, CORE_BYTES_PER_NS);
            prop_assert!(lead <= 2.0 * *chunk_bytes as f64, "lead {lead} of {chunk_bytes}");
        }
    }

    /// Cores that do nothing but read use the whole link, or all their cores.
    #[test]
    fn work_conserving(
        chunks in prop::collection::vec(256_u64..300_000, 1..8),
        threads in 1_u32..=20,
    ) {
        let tier = tier(parameters(), BandwidthShare::Threads(threads));
        let actors: Vec<Actor> = chunks.iter().map(|&chunk| Actor::reader(chunk, 0)).collect();
        let deliveries = run(&tier, &actors, END_NS);
        let delivered: u64 = deliveries
            .iter()
            .filter(|delivery| delivery.at_ns <= END_NS)
            .map(|delivery| delivery.bytes)
            .sum();
        let bytes_per_ns =
            (f64::from(threads) * 2.0).min(chunks.len() as f64 * CORE_BYTES_PER_NS);
        let in_flight: u64 = chunks.iter().sum();
        let latency_ns = 500.0;
        let possible = bytes_per_ns * (END_NS as f64 - latency_ns) - in_flight as f64;
        prop_assert!(delivered as f64 >= 0.97 * possible, "{delivered} of {possible}");
    }

    /// A single core follows the textbook: transfers in a row, each started at the previous
    /// request, consumer work beside them.
    #[test]
    fn one_core_is_a_pipeline(
        works_ns in prop::collection::vec(0_u64..40_000, 1..50),
        chunk_bytes in 1_000_u64..100_000,
    ) {
        let chunk_bytes = chunk_bytes / 4 * 4;
        let tier = tier(parameters(), BandwidthShare::Threads(2));
        let transfer_ns = chunk_bytes / 4;
        let (mut now_ns, mut asked_ns, mut end_ns, mut window_ns) = (0_u64, 0_u64, 0_u64, 0_u64);
        for (i, work_ns) in works_ns.into_iter().enumerate() {
            tier.tier.read(Pattern::Next, chunk_bytes);
            let start_ns = end_ns.max(asked_ns).max(now_ns.saturating_sub(window_ns));
            let latency_ns = if i == 0 { 500 } else { 0 };
            end_ns = start_ns + transfer_ns + latency_ns;
            window_ns = transfer_ns + latency_ns;
            asked_ns = now_ns;
            now_ns = now_ns.max(end_ns);
            prop_assert!(tier.now_ns().abs_diff(now_ns) <= 1 + i as u64);
            now_ns += work_ns;
            tier.clock.set(Stamp::from_ns(now_ns));
        }
    }
}
