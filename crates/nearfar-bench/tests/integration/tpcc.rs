//! TPC-C in this process, over tables of a hundredth of their size.

use std::path::PathBuf;
use std::time::Duration;

use nearfar_bench::tpcc::{TpccOptions, Way, measure_tpcc};
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_topology::Topology;

fn options(directory: PathBuf) -> TpccOptions {
    TpccOptions {
        program: PathBuf::new(),
        threads: 2,
        warehouses: 2,
        shrink: 100,
        terminals: 4,
        rounds: 2,
        turn: Duration::from_millis(700),
        warmup: Duration::ZERO,
        thinks: false,
        ways: vec![Way::InProcess],
        beside_postgres: false,
        durable: false,
        kills: 0,
        seed: 42,
        directory,
    }
}

async fn run(options: &TpccOptions) -> Vec<(String, f64)> {
    let engine = |data| {
        let topology = Topology::this_machine().expect("a machine");
        Engine::new(EngineOptions {
            threads: 2,
            data,
            ..EngineOptions::new(topology)
        })
    };
    let outcome = measure_tpcc(options, engine, |_| ()).await;
    let metrics = outcome.expect("measured").metrics().into_iter();
    let figures = metrics.map(|metric| {
        assert_eq!(metric.dimensions["way"], "in-process");
        (metric.metric, metric.value.get().expect("a value"))
    });
    figures.collect()
}

fn value(figures: &[(String, f64)], name: &str) -> f64 {
    let found = figures.iter().find(|(known, _)| known == name);
    found.expect("the figure").1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_leave_the_tables_consistent() {
    let folder = tempfile::tempdir().expect("a folder");
    let figures = run(&options(folder.path().to_owned())).await;
    assert_eq!(value(&figures, "tpcc_consistency_failures"), 0.0);
    assert!(value(&figures, "tpcc_new_orders_per_minute") > 0.0);
    assert!(value(&figures, "tpcc_latency_p99_s") >= value(&figures, "tpcc_latency_p50_s"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durable_transactions_do_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let durable = TpccOptions {
        durable: true,
        rounds: 1,
        ..options(folder.path().to_owned())
    };
    let figures = run(&durable).await;
    assert_eq!(value(&figures, "tpcc_consistency_failures"), 0.0);
    assert!(value(&figures, "tpcc_new_orders_per_minute") > 0.0);
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let engine = |_| unreachable!("nothing is started");
    for wrong in [
        TpccOptions {
            terminals: 0,
            ..options(PathBuf::new())
        },
        TpccOptions {
            ways: Vec::new(),
            ..options(PathBuf::new())
        },
        TpccOptions {
            kills: 1,
            ..options(PathBuf::new())
        },
    ] {
        let refused = measure_tpcc(&wrong, engine, |_| ()).await;
        refused.expect_err("options that can't be carried out");
    }
}
