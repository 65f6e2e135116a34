//! Trees in virtual time, small.

use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use nearfar_index_bench::map::{Contestant, Rival};
use nearfar_index_bench::modelled::{ModelledMachine, Sampling, run};
use nearfar_index_bench::placed::{
    Mode, PlacedError, PlacedOptions, PlacedOutcome, Policy, ScaleRule, Tuning, Worker, watermarks,
};
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
        tuning: Tuning::default(),
        seed: 1,
    }
}

fn try_run(options: &PlacedOptions) -> Result<PlacedOutcome, PlacedError> {
    let modelled = ModelledMachine {
        machine: Machine::new(&Profile::builtin("cxl-card").unwrap()).unwrap(),
        scale: ScaleRule::Bytes,
        sampling: None,
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
    let modelled = Policy::ALL
        .into_iter()
        .filter(|one| Mode::Virtual.has(*one));
    for policy in modelled.filter(|one| *one != Policy::AllNear) {
        let outcome = outcome(&options(Contestant::Art, policy));
        let share = outcome.series.last().unwrap().near_bytes_share;
        // A tree of one page of 2 MiB has that page near.
        let is_huge = matches!(policy, Policy::Pages { is_huge: true, .. });
        assert!(share <= 0.27 || is_huge, "{policy}: {share}");
    }
}

#[test]
fn watermarks_and_intervals_are_those_that_are_given() {
    let usual = options(Contestant::Art, Policy::Sidle);
    let tuned = |tuning| {
        outcome(&PlacedOptions {
            tuning,
            ..usual.clone()
        })
    };
    let low = tuned(Tuning {
        watermarks: watermarks("30:40").ok(),
        ..Tuning::default()
    });
    let near = |outcome: &PlacedOutcome| outcome.series.last().unwrap().near_bytes_share;
    assert!(near(&low) <= 0.25 * 0.45, "{}", near(&low));
    let busy = outcome(&usual);
    assert!(near(&busy) > near(&low));
    let workers = busy.worker_shares.expect("five workers");
    let sum: f64 = workers.iter().map(|(_, share)| share).sum();
    assert!(
        (sum - busy.background_share).abs() < 1e-9 && sum > 0.0,
        "{workers:?}"
    );
    let trigger = workers
        .iter()
        .find(|(worker, _)| *worker == Worker::Trigger);
    assert!(
        trigger.is_some_and(|(_, share)| *share > sum / 2.0),
        "{workers:?}"
    );
    assert!(
        outcome(&options(Contestant::Art, Policy::Interleave))
            .worker_shares
            .is_none()
    );
    let hour = Some(Duration::from_secs(3600));
    let asleep = tuned(Tuning {
        trigger: hour,
        cooler: hour,
        maintainer: hour,
        ..Tuning::default()
    });
    assert_eq!(asleep.moved_bytes, 0);
    assert!(asleep.background_share < busy.background_share / 2.0);
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

fn sampled(options: &PlacedOptions, sampling: Sampling) -> Result<PlacedOutcome, PlacedError> {
    let modelled = ModelledMachine {
        machine: Machine::new(&Profile::builtin("cxl-card").unwrap()).unwrap(),
        scale: ScaleRule::Bytes,
        sampling: Some(sampling),
    };
    run(options, &modelled, &Rc::new(Integers::new(KEYS)), |_| ())
}

/// Windows of a small tree, of which there are few.
fn sampling() -> Sampling {
    Sampling {
        error_share_max: 0.03,
        window: Duration::from_micros(20),
        lead_in: Duration::from_micros(5),
        windows_per_slice: 2,
        followed_per_slice_max: 2_000,
    }
}

fn long(workload: &str, policy: Policy) -> PlacedOptions {
    PlacedOptions {
        workload: Workload::named(workload).unwrap(),
        warm_up: Duration::from_millis(1),
        measured: Duration::from_millis(2),
        ..options(Contestant::Masstree, policy)
    }
}

/// Twice the standard error of the mean of the measured slices, over the mean: full detail is of some operations only,
/// too.
fn error_share(outcome: &PlacedOutcome, slices: usize) -> f64 {
    let measured = &outcome.series[outcome.series.len() - slices..];
    let rates = measured.iter().map(|moment| moment.operations_per_s);
    let mean = rates.clone().sum::<f64>() / slices as f64;
    let variance = rates.map(|rate| (rate - mean).powi(2)).sum::<f64>() / (slices - 1) as f64;
    2.0 * (variance / slices as f64).sqrt() / mean
}

/// Runs a test in a process that has no other tests: where nodes lie, and when those that were moved are freed,
/// depends on what other threads of a process allocate.
fn alone(test: &str) {
    let program = std::env::current_exe().unwrap();
    let run = Command::new(program)
        .args(["--exact", test, "--ignored", "--test-threads=1"])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && output.contains("1 passed"),
        "{output}"
    );
}

#[test]
fn windows_tell_what_full_detail_tells_within_their_error() {
    alone("modelled::windows_tell_what_full_detail_tells_alone");
}

/// What windows tell is what the simulation of all of the measured time tells, within twice the errors of both.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn windows_tell_what_full_detail_tells_alone() {
    let cases = [
        ("hotspot-read-only", Policy::Interleave),
        ("ycsb-a", Policy::Oracle),
        ("ycsb-c", Policy::AllFar),
    ];
    let compared = cases.map(|(workload, policy)| {
        let options = long(workload, policy);
        let all = try_run(&options).unwrap();
        assert!(all.sampled.is_none());
        let windows = sampled(&options, sampling()).unwrap();
        let figures = windows.sampled.unwrap();
        assert!(figures.is_reached() && figures.windows >= 40, "{figures:?}");
        assert_eq!((all.lost, windows.lost), (0, 0));
        let off = windows.operations_per_s / all.operations_per_s - 1.0;
        (off, figures.error_share.hypot(error_share(&all, 20)))
    });
    let is_within = |(off, error): &(f64, f64)| off.abs() < 2.0 * error && *error < 0.03;
    assert!(compared.iter().all(is_within), "{compared:?}");
}

/// Placement that is followed ends where placement that is simulated does.
#[test]
fn placement_follows_operations_that_are_not_simulated() {
    let options = long("hotspot-read-only", Policy::Sidle);
    let all = try_run(&options).unwrap();
    let windows = sampled(&options, sampling()).unwrap();
    let accesses =
        |outcome: &PlacedOutcome| outcome.series.last().unwrap().near_accesses_share.unwrap();
    let interleaved = sampled(&long("hotspot-read-only", Policy::Interleave), sampling()).unwrap();
    assert!(accesses(&windows) > accesses(&interleaved) + 0.2);
    assert!((accesses(&windows) - accesses(&all)).abs() < 0.1);
    assert!(windows.operations_per_s > interleaved.operations_per_s);
}

#[test]
fn the_same_seed_gives_the_same_windows() {
    alone("modelled::the_same_seed_gives_the_same_windows_alone");
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn the_same_seed_gives_the_same_windows_alone() {
    let options = long("ycsb-d", Policy::Sidle);
    let runs = [1, 1, 2].map(|seed| {
        let options = PlacedOptions {
            seed,
            ..options.clone()
        };
        let mut outcome = sampled(&options, sampling()).unwrap();
        outcome.took = Duration::ZERO;
        outcome
    });
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].operations_per_s, runs[2].operations_per_s);
}

/// A run goes on beyond its measured time until it is as sure as is asked for, and not for ever.
#[test]
fn more_windows_are_simulated_until_the_error_is_small() {
    let options = long("hotspot-read-only", Policy::Interleave);
    let slices = |error_share_max| {
        let sampling = Sampling {
            error_share_max,
            ..sampling()
        };
        sampled(&options, sampling).unwrap().sampled.unwrap()
    };
    let (rough, never) = (slices(0.5), slices(1e-9));
    assert!(rough.is_reached() && rough.slices == 20, "{rough:?}");
    assert!(!never.is_reached() && never.slices == 80, "{never:?}");
    assert!(never.error_share < rough.error_share);
}

#[test]
fn what_cannot_be_sampled_is_refused_with_the_reason() {
    let refused = |change: fn(&mut PlacedOptions, &mut Sampling)| {
        let (mut options, mut sampling) = (long("ycsb-c", Policy::Sidle), sampling());
        change(&mut options, &mut sampling);
        sampled(&options, sampling).unwrap_err().to_string()
    };
    let pages = refused(|options, _| options.policy = "memtis-4k".parse().unwrap());
    assert!(pages.starts_with("policy: memtis-4k"), "{pages}");
    let shift = refused(|options, _| options.shift = Some((Duration::from_millis(1), 0.05)));
    assert!(shift.starts_with("shift: throughput is a mean"), "{shift}");
    let short = refused(|options, _| options.measured = Duration::from_micros(900));
    assert!(short.contains("give at least 1 ms"), "{short}");
    let sure = refused(|_, sampling| sampling.error_share_max = 0.0);
    assert!(sure.starts_with("error: 0 %"), "{sure}");
    let long = refused(|_, sampling| sampling.window = Duration::from_micros(50));
    assert!(long.contains("fit a slice of 0.1 ms"), "{long}");
}
