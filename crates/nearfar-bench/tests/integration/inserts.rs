//! The benchmark of inserts, in short turns.

use std::time::Duration;

use nearfar_bench::insert::{
    InsertBenchError, InsertBenchOptions, InsertContestant, measure_inserts,
};
use nearfar_durable::log::LogSync;
use nearfar_measure::Kind;
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_topology::Topology;
use std::collections::BTreeSet;
use std::fs;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_contestant_inserts_in_every_round_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = InsertBenchOptions {
        rounds: 2,
        turn: Duration::from_millis(20),
        directory: folder.path().to_owned(),
    };
    let topology = Topology::this_machine().expect("a machine");
    let engine = |data| {
        Engine::new(EngineOptions {
            data,
            threads: 2,
            ..EngineOptions::new(topology.clone())
        })
    };
    let outcome = measure_inserts(&options, engine, |_| {}).await;
    let outcome = outcome.expect("rows that are all there");
    assert_eq!(outcome.contestants.len(), InsertContestant::ALL.len());
    for (contestant, runs) in &outcome.contestants {
        assert_eq!(runs.len(), 2, "{contestant}");
        for run in runs {
            assert!(run.commits >= contestant.sessions as u64, "{contestant}");
            assert_eq!(run.rows, run.commits * contestant.rows as u64);
            let is_synced = contestant.sync == Some(LogSync::On);
            assert!(!is_synced || run.syncs > 0, "{contestant}");
            assert!(contestant.sync.is_some() || run.syncs == 0, "{contestant}");
        }
    }
    let left = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 0);

    let metrics = outcome.metrics();
    assert!(metrics.iter().all(|metric| metric.kind == Kind::Measured));
    let ratios = metrics
        .iter()
        .filter(|metric| metric.metric == "insert_ratio_to_memory");
    let ratios: Vec<_> = ratios.collect();
    assert!(ratios.iter().all(|ratio| ratio.value.get() > Some(0.0)));
    let settings: BTreeSet<_> = ratios
        .iter()
        .map(|ratio| ratio.dimensions["sync"].to_string())
        .collect();
    let expected = ["\"200ms\"", "\"off\"", "\"on\""].map(str::to_owned);
    assert_eq!(settings, BTreeSet::from(expected));
}

#[tokio::test]
async fn no_rounds_and_no_time_are_refused() {
    for (rounds, millis, expected) in [(0, 20, "rounds"), (1, 0, "seconds")] {
        let options = InsertBenchOptions {
            rounds,
            turn: Duration::from_millis(millis),
            directory: std::env::temp_dir(),
        };
        let made = measure_inserts(&options, |_| unreachable!("no engine"), |_| {}).await;
        match made {
            Err(InsertBenchError::Options { field, .. }) => assert_eq!(field, expected),
            other => panic!("{other:?}"),
        }
    }
}
