//! DRAM on node 0, and node 1 without CPUs, which is the tier `far`.

use std::time::Duration;

use nearfar_index_bench::bench::{BenchOptions, execute, plan};
use nearfar_index_bench::map::Contestant;
use nearfar_index_bench::placed::Policy;
use nearfar_measure::Kind;
use nearfar_memory::{Budgets, MemorySystem};
use nearfar_topology::Topology;

/// Settings of the kernel that its placement needs, and what they are in the guest.
const SETTINGS: [(&str, &str); 3] = [
    ("/proc/sys/kernel/numa_balancing", "1"),
    ("/sys/kernel/mm/numa/demotion_enabled", "false"),
    ("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0"),
];

fn settings_are_as_before() {
    for (file, expected) in SETTINGS {
        assert_eq!(
            std::fs::read_to_string(file).unwrap().trim(),
            expected,
            "{file}"
        );
    }
}

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

/// Pages that the kernel has demoted as near memory ran low.
fn demoted_pages() -> u64 {
    let counters = std::fs::read_to_string("/proc/vmstat").unwrap();
    let mut counters = counters.lines().filter_map(|line| line.split_once(' '));
    let found = counters.find(|(name, _)| *name == "pgdemote_kswapd");
    found.unwrap().1.parse().unwrap()
}

/// Small watermarks, beside which a small tree is large.
const MIN_FREE_KBYTES: (&str, &str) = ("/proc/sys/vm/min_free_kbytes", "8192");

/// New nodes fill near memory, so that most of the hot spot is far at first; then pages have to go both ways.
#[test]
#[ignore = "needs the topology far-node: cargo xtask testbed far-node"]
fn the_kernel_places_pages_of_trees_and_is_as_before_afterwards() {
    let topology = Topology::this_machine().unwrap();
    let system = MemorySystem::new(&topology, &Budgets::new()).unwrap();
    settings_are_as_before();
    std::fs::write(MIN_FREE_KBYTES.0, MIN_FREE_KBYTES.1).unwrap();
    let kernels = Policy::ALL.into_iter().filter(|one| one.kernel().is_some());
    for policy in kernels {
        let options = BenchOptions {
            contestants: vec![Contestant::BPlusTree { node_bytes: 1024 }],
            workloads: vec!["hotspot-read-only".to_owned()],
            keys: 80_000,
            value_bytes: 1000,
            policies: vec![policy],
            near_percent: 40,
            warm_up: Duration::from_millis(100),
            measured: Duration::from_secs(6),
            ..BenchOptions::on_own_tiers()
        };
        let demoted = demoted_pages();
        let outcome = execute(&plan(options).unwrap(), Some(&system), &mut |_| ()).unwrap();
        let run = &outcome.placed[0].outcome;
        let shares = run.series.iter().map(|one| one.near_bytes_share);
        let (least, most) = (
            shares.clone().fold(1.0, f64::min),
            shares.fold(0.0, f64::max),
        );
        assert!(least > 0.05 && most < 0.8, "{policy}: {least} to {most}");
        assert_eq!(run.lost, 0, "{policy}");
        let has_moved = demoted_pages() > demoted || run.moved_bytes > 0;
        assert!(has_moved, "{policy}");
        settings_are_as_before();
    }
}
