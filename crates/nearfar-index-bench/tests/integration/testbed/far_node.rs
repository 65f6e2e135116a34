//! DRAM on node 0, and node 1 without CPUs, which is the tier `far`.

use std::time::Duration;

use nearfar_index_bench::bench::{BenchOptions, execute, plan};
use nearfar_index_bench::map::Contestant;
use nearfar_index_bench::placed::Policy;
use nearfar_measure::Kind;
use nearfar_memory::{Budgets, MemorySystem};
use nearfar_topology::Topology;

#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn trees_are_measured_under_every_policy_of_nodes() {
    let topology = Topology::this_machine().unwrap();
    let system = MemorySystem::new(&topology, &Budgets::new()).unwrap();
    let far = system.tier("far").unwrap();
    assert_eq!(system.nodes(far), [1]);
    let policies = Policy::ALL.into_iter().filter(|one| !one.moves_pages());
    let options = BenchOptions {
        contestants: vec![Contestant::Masstree],
        workloads: vec!["hotspot-update-heavy".to_owned()],
        keys: 50_000,
        policies: policies.collect(),
        warm_up: Duration::from_millis(500),
        measured: Duration::from_millis(500),
        shift: Some(Duration::from_millis(300)),
        ..BenchOptions::on_own_tiers()
    };
    let outcome = execute(&plan(options).unwrap(), Some(&system), &mut |_| ()).unwrap();
    let tree_bytes = outcome.placed[0].outcome.tree_bytes;
    assert!(
        system.usage(far).peak_bytes >= tree_bytes,
        "all of one tree was far"
    );
    for run in &outcome.placed {
        let near = run.outcome.series.last().unwrap().near_bytes_share;
        match run.policy {
            Policy::AllNear => assert_eq!(near, 1.0),
            Policy::AllFar => assert_eq!(near, 0.0),
            policy => assert!(near <= 0.22, "{policy}: {near}"),
        }
        assert_eq!(run.outcome.lost, 0, "{}", run.policy);
    }
    let metrics = outcome.metrics();
    assert!(metrics.iter().all(|one| one.kind == Kind::Measured));
}
