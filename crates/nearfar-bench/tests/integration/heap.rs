//! The benchmarks of heaps and of merges, on little data.

use nearfar_bench::heap::{
    Configuration, HeapBenchError, HeapBenchOptions, Workload, compare_heaps,
};
use nearfar_bench::merge::{MergeBenchOptions, measure_merges};
use nearfar_measure::Kind;
use nearfar_sql::engine::Engine;

use crate::machine::{engine, fast_profile};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_configuration_gives_the_same_answers_and_figures_of_its_kind() {
    let options = HeapBenchOptions {
        scale_factor: 0.002,
        threads: 2,
        runs: 1,
        profile: Some(fast_profile()),
        devices: HeapBenchOptions::published_devices(),
    };
    let outcome = compare_heaps(&options, Engine::new, |_| {}).await;
    let outcome = outcome.expect("equal answers");
    // Seven queries and a procedure, and the procedure alone with temporary tables far, twice.
    assert_eq!(outcome.timed.len(), 2 * (3 * 8 + 1));
    assert!(outcome.timed.iter().all(|timed| timed.seconds.len() == 1));
    let temporary = Configuration::TemporaryFar;
    let of = |workload| outcome.relative_throughput(temporary, 1, &[workload]);
    assert!(of(Workload::Scan).is_none());
    assert!(of(Workload::Temporary).is_some_and(|ratio| ratio.median > 0.0));
    for metric in outcome.metrics() {
        let published = metric.dimensions.contains_key("source");
        let near = metric.dimensions["configuration"] == "near";
        let kind = match (published, near) {
            (true, _) => Kind::Published,
            (false, true) => Kind::Measured,
            (false, false) => Kind::Modelled,
        };
        assert_eq!(metric.kind, kind, "{metric:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_without_a_far_tier_is_refused_without_a_profile() {
    let options = HeapBenchOptions {
        scale_factor: 0.002,
        threads: 2,
        runs: 1,
        profile: None,
        devices: HeapBenchOptions::published_devices(),
    };
    let topology = nearfar_topology::Topology::this_machine().expect("this machine");
    let outcome = compare_heaps(&options, Engine::new, |_| {}).await;
    match topology.tier("far") {
        Ok(_) => {
            let outcome = outcome.expect("equal answers");
            assert!(outcome.timed.iter().all(|timed| timed.devices == 1));
            let metrics = outcome.metrics();
            assert!(metrics.iter().all(|metric| metric.kind != Kind::Modelled));
        }
        Err(_) => assert!(matches!(outcome, Err(HeapBenchError::NoFarTier))),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_are_measured_beside_queries() {
    let options = MergeBenchOptions {
        rows: 60_000,
        written_rows: 70_000,
        rounds: 2,
        queries: 3,
    };
    let outcome = measure_merges(&engine(None), &options, |_, _| {}).await;
    let outcome = outcome.expect("merges");
    let merged: Vec<u64> = outcome.rounds.iter().map(|r| r.merged_rows).collect();
    assert!(merged.iter().all(|rows| *rows > 70_000), "{merged:?}");
    let rounds = outcome.rounds.iter();
    assert!(rounds.clone().all(|round| round.quiet_seconds.len() == 3));
    assert!(
        rounds
            .clone()
            .all(|round| !round.merging_seconds.is_empty())
    );
    let metrics = outcome.metrics();
    assert!(metrics.iter().all(|metric| metric.kind == Kind::Measured));
    let ratio = metrics.iter().find(|m| m.metric == "merge_query_p99_ratio");
    assert!(
        ratio
            .and_then(|ratio| ratio.value.get())
            .is_some_and(|ratio| ratio > 0.0)
    );
}
