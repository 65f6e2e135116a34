//! The benchmark of cooperative scans.

use nearfar_bench::cooperative::{
    CooperativeBenchError, CooperativeBenchOptions, compare_cooperation,
};
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_topology::{Profile, Topology};
use std::time::Duration;

fn options() -> CooperativeBenchOptions {
    CooperativeBenchOptions {
        scale_factor: 0.1,
        sessions: vec![1, 3],
        turn: Duration::from_millis(300),
        rounds: 1,
        far_bandwidth_bytes_per_s: None,
    }
}

fn engine(profile: Option<Profile>) -> std::sync::Arc<Engine> {
    let topology = Topology::this_machine().expect("this machine's topology");
    let options = EngineOptions {
        threads: 2,
        profile,
        ..EngineOptions::new(topology)
    };
    Engine::new(options).expect("an engine")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_scan_apart_and_together() {
    let profile = Profile::builtin("cxl-blades-1").expect("a built-in profile");
    let engine = engine(Some(profile));
    let outcome = compare_cooperation(&engine, &options(), |_| {}).await;
    let outcome = outcome.expect("answers");
    assert_eq!(outcome.turns.len(), 4);
    for turn in &outcome.turns {
        assert!(turn.queries > 0 && turn.far_bytes > 0, "{turn:?}");
        assert!(turn.is_together || turn.saved_bytes == 0, "{turn:?}");
    }
    let names: Vec<String> = outcome.metrics().into_iter().map(|it| it.metric).collect();
    for name in [
        "cooperative_queries_per_s",
        "cooperative_far_bytes_per_query",
        "cooperative_throughput_ratio",
        "cooperative_far_bytes_ratio",
    ] {
        assert!(names.iter().any(|known| known == name), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_means_nothing_is_refused() {
    let engine = engine(None);
    let wrong = CooperativeBenchOptions {
        sessions: vec![0],
        ..options()
    };
    let refused = compare_cooperation(&engine, &wrong, |_| {}).await;
    assert!(matches!(
        refused,
        Err(CooperativeBenchError::Options {
            field: "sessions",
            ..
        })
    ));
    if engine.tier("far").is_none() {
        let refused = compare_cooperation(&engine, &options(), |_| {}).await;
        assert!(matches!(refused, Err(CooperativeBenchError::NoFarTier)));
    }
}
