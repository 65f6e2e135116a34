//! Trees in virtual time, small.

use std::rc::Rc;
use std::time::Duration;

use nearfar_index_bench::map::{Contestant, Rival};
use nearfar_index_bench::modelled::{ModelledMachine, run};
use nearfar_index_bench::placed::{PlacedError, PlacedOptions, PlacedOutcome, Policy, ScaleRule};
use nearfar_index_bench::workload::{Integers, Workload};
use nearfar_model::simulation::Machine;
use nearfar_topology::Profile;

const KEYS: u64 = 20_000;

fn options(contestant: Contestant, policy: Policy) -> PlacedOptions {
    PlacedOptions {
        contestant,
        policy,
        workload: Workload::named("hotspot-read-only").unwrap(),
        near_percent: 25,
        threads: 4,
        batch: 1,
        warm_up: Duration::from_micros(500),
        measured: Duration::from_micros(500),
        slice: Duration::from_micros(100),
        shift: None,
        value_bytes: 8,
        seed: 1,
    }
}

fn try_run(options: &PlacedOptions) -> Result<PlacedOutcome, PlacedError> {
    let modelled = ModelledMachine {
        machine: Machine::new(&Profile::builtin("cxl-card").unwrap()).unwrap(),
        scale: ScaleRule::Bytes,
    };
    run(options, &modelled, &Rc::new(Integers::new(KEYS)), |_| ())
}

fn outcome(options: &PlacedOptions) -> PlacedOutcome {
    let outcome = try_run(options).unwrap();
    assert_eq!(outcome.lost, 0, "{}", options.policy);
    assert_eq!(outcome.series.len(), 10);
    outcome
}

#[test]
fn near_memory_is_faster_than_far_and_a_share_lies_between() {
    for contestant in [Contestant::Art, Contestant::BPlusTree { node_bytes: 512 }] {
        let rate = |policy| outcome(&options(contestant, policy)).operations_per_s;
        let (near, far) = (rate(Policy::AllNear), rate(Policy::AllFar));
        let between = rate(Policy::Interleave);
        assert!(near > between && between > far, "{near} {between} {far}");
    }
}

#[test]
fn every_policy_keeps_its_share() {
    for policy in Policy::ALL {
        if matches!(policy, Policy::AllNear) {
            continue;
        }
        let outcome = outcome(&options(Contestant::Art, policy));
        let share = outcome.series.last().unwrap().near_bytes_share;
        // A tree of one page of 2 MiB has that page near.
        let is_huge = matches!(policy, Policy::Pages { is_huge: true, .. });
        assert!(share <= 0.27 || is_huge, "{policy}: {share}");
    }
}

#[test]
fn batches_hide_latency() {
    for tree in [Contestant::Art, Contestant::BPlusTree { node_bytes: 1024 }] {
        let mut single = options(tree, Policy::AllFar);
        single.workload = Workload::named("ycsb-c").unwrap().with_zipf(0.0);
        let batched = PlacedOptions {
            batch: 32,
            ..single.clone()
        };
        let (single, batched) = (outcome(&single), outcome(&batched));
        let gain = batched.operations_per_s / single.operations_per_s;
        assert!(gain > 2.0, "{tree}: {gain}");
    }
}

#[test]
fn options_that_mean_nothing_are_named() {
    let mut bad = options(Contestant::Art, Policy::Sidle);
    bad.near_percent = 0;
    let error = try_run(&bad).unwrap_err();
    assert!(error.to_string().starts_with("near-share"), "{error}");
    let rival = options(Contestant::Rival(Rival::Congee), Policy::Sidle);
    let error = try_run(&rival).unwrap_err();
    assert!(matches!(error, PlacedError::Open(_)), "{error}");
    let mut crowded = options(Contestant::Art, Policy::Sidle);
    crowded.threads = 64;
    let error = try_run(&crowded).unwrap_err();
    assert!(matches!(error, PlacedError::Machine(_)), "{error}");
}
