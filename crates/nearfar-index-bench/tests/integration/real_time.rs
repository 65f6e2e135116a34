//! Trees in real time, small: with emulated far memory, and on tiers of this machine.

use std::sync::Arc;
use std::time::Duration;

use nearfar_index_bench::bench::{
    BenchOptions, GivenOptions, IndexBenchError, IndexBenchOutcome, KeySource, Mode, execute, plan,
};
use nearfar_index_bench::map::{Contestant, PlatformMemory, Rival};
use nearfar_index_bench::placed::{PlacedError, PlacedOptions, PlacedOutcome, Policy, Tuning};
use nearfar_index_bench::real_time::{OwnTiers, loaded_bytes, run_emulated, run_on};
use nearfar_index_bench::workload::{Integers, Workload};
use nearfar_measure::Kind;
use nearfar_measure::compare::compare_by;
use nearfar_memory::{Budgets, MemorySystem, TierId, TierKind, TierSpec};
use nearfar_model::EmulationParameters;
use nearfar_topology::Profile;

const KEYS: u64 = 20_000;

fn options(contestant: Contestant, policy: Policy) -> PlacedOptions {
    PlacedOptions {
        contestant,
        policy,
        workload: Workload::named("ycsb-c").unwrap().with_zipf(0.0),
        near_percent: 25,
        threads: 2,
        batch: 1,
        warm_up: Duration::from_millis(20),
        measured: Duration::from_millis(60),
        slice: Duration::from_millis(20),
        shift: None,
        value_bytes: 8,
        tuning: Tuning::default(),
        seed: 1,
    }
}

/// Far memory, without room for its lines in caches but for the last 512.
fn far() -> EmulationParameters {
    let profile = Profile::builtin("cxl-card").unwrap();
    EmulationParameters {
        cache_bytes: None,
        ..EmulationParameters::try_from(&profile).unwrap()
    }
}

fn outcome(options: &PlacedOptions, far: &EmulationParameters) -> PlacedOutcome {
    let keys = Integers::new(KEYS);
    let bytes = loaded_bytes(
        options.contestant,
        options.value_bytes,
        &keys,
        &PlatformMemory,
    )
    .unwrap();
    let outcome = run_emulated(options, far, (&keys, bytes), &mut |_| ()).unwrap();
    assert_eq!(outcome.lost, 0, "{}", options.policy);
    outcome
}

/// What an operation is charged: latency in nanoseconds, and lines.
fn per_operation(options: &PlacedOptions, far: &EmulationParameters) -> (f64, f64) {
    let emulated = outcome(options, far).emulated.unwrap();
    assert!(emulated.operations > 0);
    let per = |sum: u64| sum as f64 / emulated.operations as f64;
    (
        per(emulated.charged.latency_ns),
        per(emulated.charged.lines_read),
    )
}

/// Of the same requests, each far line that is waited for takes the difference of the latencies.
#[test]
fn twice_the_latency_is_charged_twice() {
    let single = options(Contestant::Art, Policy::AllFar);
    let (once, mut twice) = (far(), far());
    let difference_ns = once.latency_ns - once.near_latency_ns;
    twice.latency_ns += difference_ns;
    let ((once_ns, lines), (twice_ns, same_lines)) = (
        per_operation(&single, &once),
        per_operation(&single, &twice),
    );
    assert!(
        (twice_ns / once_ns - 2.0).abs() < 0.05,
        "{once_ns} {twice_ns}"
    );
    assert!(
        (lines / same_lines - 1.0).abs() < 0.05,
        "{lines} {same_lines}"
    );
    // Some lines of a lookup do not depend on each other, but most do.
    let waits = once_ns / difference_ns;
    assert!(waits <= lines && waits > 1.0, "{waits} of {lines}");
}

/// A lookup takes a hundred times its own time here, so that nothing else on the machine matters.
#[test]
fn who_is_charged_waits() {
    let mut slow = far();
    slow.latency_ns += 50_000.0;
    let rate = |policy| outcome(&options(Contestant::Art, policy), &slow).operations_per_s;
    let rates = [Policy::AllNear, Policy::AllFar].map(rate);
    assert!(rates[0] > 5.0 * rates[1], "{rates:?}");
}

#[test]
fn near_memory_is_not_charged_and_a_share_is_charged_less_than_all() {
    for contestant in [
        Contestant::Art,
        Contestant::BPlusTree { node_bytes: 512 },
        Contestant::Masstree,
    ] {
        let far = far();
        let near = outcome(&options(contestant, Policy::AllNear), &far);
        let near = near.emulated.unwrap();
        assert_eq!(near.charged.far_accesses, 0);
        assert_eq!((near.charged.latency_ns, near.charged.lines_read), (0, 0));
        assert!(near.charged.near_accesses >= near.operations);
        let (far_ns, far_lines) = per_operation(&options(contestant, Policy::AllFar), &far);
        let (some_ns, some_lines) = per_operation(&options(contestant, Policy::Interleave), &far);
        assert!(some_ns < far_ns && some_lines < far_lines, "{contestant}");
    }
}

#[test]
fn larger_values_are_more_lines() {
    let words = options(Contestant::Masstree, Policy::AllFar);
    let larger = PlacedOptions {
        value_bytes: 1000,
        ..words.clone()
    };
    let (of_words, of_larger) = (
        per_operation(&words, &far()).1,
        per_operation(&larger, &far()).1,
    );
    assert!(of_larger > of_words + 14.0, "{of_words} {of_larger}");
}

#[test]
fn a_batch_waits_for_many_lines_together() {
    let single = options(Contestant::Art, Policy::AllFar);
    let batched = PlacedOptions {
        batch: 64,
        ..single.clone()
    };
    let (single_ns, batched_ns) = (
        per_operation(&single, &far()).0,
        per_operation(&batched, &far()).0,
    );
    assert!(batched_ns < single_ns / 2.0, "{single_ns} {batched_ns}");
}

#[test]
fn every_policy_of_nodes_keeps_its_share_and_loses_nothing() {
    let all = Policy::ALL.into_iter().filter(|one| !one.moves_pages());
    for policy in all.filter(|policy| *policy != Policy::AllNear) {
        let mut options = options(Contestant::Art, policy);
        options.workload = Workload::named("hotspot-update-heavy").unwrap();
        options.shift = Some((Duration::from_millis(20), 0.05));
        let outcome = outcome(&options, &far());
        let last = outcome.series.last().unwrap();
        assert!(last.near_bytes_share <= 0.27, "{policy}: {last:?}");
        assert!(outcome.traffic[0].is_none() && outcome.traffic[1].is_some());
    }
}

#[test]
fn options_that_mean_nothing_are_named() {
    let refused = |change: fn(&mut PlacedOptions)| {
        let mut options = options(Contestant::Art, Policy::Sidle);
        change(&mut options);
        run_emulated(
            &options,
            &far(),
            (&Integers::new(KEYS), 1 << 20),
            &mut |_| (),
        )
        .unwrap_err()
    };
    let pages = refused(|options| options.policy = "tpp-4k".parse().unwrap()).to_string();
    assert!(
        pages.contains("tpp-4k") && pages.contains("interleave"),
        "{pages}"
    );
    assert!(!pages.contains("memtis"), "{pages}");
    let share = refused(|options| options.near_percent = 0).to_string();
    assert!(share.starts_with("near-share"), "{share}");
    let rival = refused(|options| options.contestant = Contestant::Rival(Rival::Congee));
    assert!(matches!(rival, PlacedError::Open(_)), "{rival}");
    let (small, keys) = (options(Contestant::Art, Policy::Sidle), Integers::new(KEYS));
    let nowhere = EmulationParameters {
        latency_ns: f64::NAN,
        ..far()
    };
    let error = run_emulated(&small, &nowhere, (&keys, 1 << 20), &mut |_| ()).unwrap_err();
    assert!(matches!(error, PlacedError::Emulation(_)), "{error}");
    let error = run_emulated(&small, &far(), (&keys, 0), &mut |_| ()).unwrap_err();
    assert!(
        matches!(error, PlacedError::Placement(_)),
        "no near budget: {error}"
    );
}

/// Two tiers of this machine's first node, with room for small trees.
fn two_tiers() -> Arc<MemorySystem> {
    let tier = |name, kind| TierSpec::new(name, kind, [0], 256 << 20);
    let near = tier("near", TierKind::LocalDram);
    let far = tier("cxl", TierKind::CpulessNode);
    MemorySystem::from_specs(vec![near, far], &Budgets::new()).unwrap()
}

#[test]
fn on_own_tiers_every_policy_of_nodes_keeps_its_share_and_nothing_is_charged() {
    let system = two_tiers();
    let tiers = OwnTiers::new(&system).unwrap();
    let keys = Integers::new(KEYS);
    let bytes = loaded_bytes(Contestant::Masstree, 8, &keys, &PlatformMemory).unwrap();
    for policy in Policy::ALL.into_iter().filter(|one| !one.moves_pages()) {
        let mut options = options(Contestant::Masstree, policy);
        options.workload = Workload::named("hotspot-update-heavy").unwrap();
        options.shift = Some((Duration::from_millis(20), 0.05));
        let outcome = run_on(&tiers, &options, (&keys, bytes), &mut |_| ()).unwrap();
        let last = outcome.series.last().unwrap();
        match policy {
            Policy::AllNear => assert_eq!(last.near_bytes_share, 1.0),
            Policy::AllFar => assert_eq!(last.near_bytes_share, 0.0),
            _ => assert!(last.near_bytes_share <= 0.27, "{policy}: {last:?}"),
        }
        assert!(
            outcome.operations_per_s > 0.0 && outcome.lost == 0,
            "{policy}"
        );
        assert_eq!((outcome.emulated, last.near_accesses_share), (None, None));
        assert!(outcome.waited_share.is_some());
        let moves = !matches!(
            policy,
            Policy::AllNear
                | Policy::AllFar
                | Policy::Interleave
                | Policy::InnerNear
                | Policy::Oracle
        );
        assert_eq!(outcome.worker_shares.is_some(), moves, "{policy}");
    }
    for tier in [0, 1].map(|tier| TierId::from_index(tier).unwrap()) {
        let usage = system.usage(tier);
        assert_eq!(usage.heap_live_bytes, 0, "trees are gone: {usage:?}");
        assert!(
            usage.peak_bytes > bytes / 2,
            "both tiers were used: {usage:?}"
        );
    }
}

#[test]
fn the_kernel_moves_no_pages_where_tiers_share_a_node() {
    let system = two_tiers();
    let tiers = OwnTiers::new(&system).unwrap();
    let keys = Integers::new(KEYS);
    let kernels = Policy::ALL.into_iter().filter(|one| one.kernel().is_some());
    for policy in kernels {
        let options = options(Contestant::Art, policy);
        let error = run_on(&tiers, &options, (&keys, 1 << 20), &mut |_| ()).unwrap_err();
        let told = error.to_string();
        assert!(told.contains("each needs nodes of its own"), "{told}");
        let error = run_emulated(&options, &far(), (&keys, 1 << 20), &mut |_| ()).unwrap_err();
        let told = error.to_string();
        assert!(told.contains("only mode native"), "{told}");
    }
}

#[test]
fn runs_on_own_tiers_have_counterparts_in_the_model() {
    let given = GivenOptions {
        contestants: vec![Contestant::Art],
        keys: Some(KeySource::Count(20_000)),
        policies: vec![Policy::Interleave, Policy::Fitted],
        profile: Profile::builtin("cxl-card").ok(),
        error_percent: Some(20.0),
        warm_up: Some(Duration::from_millis(20)),
        measured: Some(Duration::from_millis(50)),
        ..GivenOptions::new(Mode::Native)
    };
    let [own, modelled] = given.resolve_with_model().unwrap().map(|options| {
        let options = BenchOptions {
            slice: Duration::from_millis(5),
            ..options
        };
        execute(&plan(options).unwrap(), Some(&two_tiers()), &mut |_| ()).unwrap()
    });
    let compared = compare_by(
        &own.metrics(),
        &modelled.metrics(),
        IndexBenchOutcome::belongs_to,
    );
    let pairs = |name: &str| {
        let pairs = compared.pairs.iter().filter(|pair| pair.metric == name);
        let of = pairs.filter(|pair| pair.ratio() > 0.0 && pair.ratio().is_finite());
        of.count()
    };
    assert_eq!(pairs("throughput_mops"), 2, "one of each policy");
    assert_eq!(pairs("bytes_per_key"), 2);
    assert_eq!(pairs("latency_p50_ns"), 2);
    assert_eq!(pairs("ratio_to_interleave"), 1);
}

#[test]
fn figures_of_own_tiers_are_measured_and_a_machine_without_far_memory_is_refused() {
    let options = BenchOptions {
        contestants: vec![Contestant::Art],
        keys: 5_000,
        policies: vec![Policy::Interleave, Policy::Sidle],
        warm_up: Duration::from_millis(100),
        measured: Duration::from_millis(100),
        ..BenchOptions::on_own_tiers()
    };
    let plan = plan(options).unwrap();
    let outcome = execute(&plan, Some(&two_tiers()), &mut |_| ()).unwrap();
    let metrics = outcome.metrics();
    assert!(metrics.iter().all(|one| one.kind == Kind::Measured));
    let named = |name: &str| {
        let named = metrics.iter().filter(|one| one.metric == name);
        named.collect::<Vec<_>>()
    };
    assert_eq!(named("ratio_to_interleave").len(), 1);
    assert_eq!(named("near_bytes_share").len(), 2);
    assert!(
        named("near_accesses_share")
            .iter()
            .all(|one| one.value.get().is_none())
    );
    assert!(
        named("throughput_mops")
            .iter()
            .all(|one| !one.dimensions.contains_key("profile"))
    );
    assert!(
        outcome
            .report()
            .to_html()
            .contains("own near and far memory")
    );

    let near = TierSpec::new("near", TierKind::LocalDram, [0], 256 << 20);
    let one_tier = MemorySystem::from_specs(vec![near], &Budgets::new()).unwrap();
    let error = execute(&plan, Some(&one_tier), &mut |_| ()).unwrap_err();
    assert!(matches!(error, IndexBenchError::NoFarMemory(_)), "{error}");
    assert!(error.to_string().contains("no far memory"), "{error}");
}
