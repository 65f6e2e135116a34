//! Comparisons from options to results.

use std::num::NonZeroUsize;
use std::time::Duration;

use nearfar_index_bench::bench::{BenchOptions, IndexBenchError, KeyForm, Mode, execute, plan};
use nearfar_index_bench::map::{Contestant, Rival};
use nearfar_index_bench::modelled::Sampling;
use nearfar_index_bench::placed::Policy;
use nearfar_measure::Kind;
use nearfar_measure::results::{Header, ResultsWriter, read};
use nearfar_topology::Profile;

fn count(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap()
}

fn native() -> BenchOptions {
    BenchOptions {
        contestants: vec![
            Contestant::Art,
            Contestant::Rival(Rival::Congee),
            Contestant::StdMap,
        ],
        workloads: vec!["ycsb-a".to_owned(), "ycsb-d".to_owned()],
        keys: 2_000,
        threads: vec![count(1), count(2)],
        runs: count(2),
        operations: count(1_000),
        ..BenchOptions::new(Mode::Native)
    }
}

/// Runs it, and reads its results back.
fn metrics(options: BenchOptions) -> Vec<nearfar_measure::results::Metric> {
    let plan = plan(options).unwrap();
    let mut share = 0.0;
    let outcome = execute(&plan, None, &mut |progress| {
        assert!(progress.share >= share);
        share = progress.share;
    });
    let outcome = outcome.unwrap();
    assert!(!outcome.is_empty() && outcome.report().to_html().contains("Tree indexes"));
    let header = Header::new("0", Vec::new(), outcome.configuration());
    let mut lines = Vec::new();
    let mut writer = ResultsWriter::new(&mut lines, &header).unwrap();
    for metric in outcome.metrics() {
        writer.metric(&metric).unwrap();
    }
    read(&lines[..]).unwrap().1
}

#[test]
fn native_results_have_a_ratio_to_the_best_rival() {
    let metrics = metrics(native());
    let named = |name: &str| metrics.iter().filter(|one| one.metric == name).count();
    assert_eq!(named("throughput_mops"), 3 * 2 * 2);
    assert_eq!(named("ratio_to_best_rival"), 2 * 2, "ours is one of them");
    assert_eq!(named("bytes_per_key"), 3 * 2 * 2);
    let latencies = |operation: Option<&str>| {
        let all = metrics.iter().filter(|one| one.metric == "latency_p99_ns");
        all.filter(|one| one.dimensions.get("operation").and_then(|one| one.as_str()) == operation)
            .count()
    };
    assert_eq!(latencies(None), 3 * 2 * 2, "of all operations together");
    assert_eq!(latencies(Some("update")), 3 * 2, "of one workload");
    assert_eq!(latencies(Some("read")), 3 * 2 * 2);
    let lost = metrics.iter().filter(|one| one.metric == "lost_keys");
    assert!(lost.into_iter().all(|one| one.value.get() == Some(0.0)));
}

#[test]
fn maps_that_take_no_such_values_are_unavailable_with_the_reason() {
    let large = BenchOptions {
        value_bytes: 256,
        workloads: vec!["ycsb-f".to_owned(), "ycsb-e".to_owned()],
        ..native()
    };
    let all = metrics(large.clone());
    let rates: Vec<_> = all
        .iter()
        .filter(|one| one.metric == "throughput_mops")
        .collect();
    let absent: Vec<_> = rates
        .iter()
        .filter(|one| one.value.get().is_none())
        .collect();
    assert_eq!((rates.len(), absent.len()), (2 * 2 * 2 + 1, 1));
    assert_eq!(absent[0].dimensions["tree"], "congee");
    assert!(absent[0].value.reason().unwrap().contains("8 bytes only"));
    let lost = all.iter().filter(|one| one.metric == "lost_keys");
    assert!(lost.into_iter().all(|one| one.value.get() == Some(0.0)));
    let nobody = BenchOptions {
        contestants: vec![Contestant::Rival(Rival::Ferntree)],
        ..large
    };
    let error = execute(&plan(nobody).unwrap(), None, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("ferntree"), "{error}");
}

#[test]
fn virtual_results_have_a_series_and_a_ratio_to_the_baseline() {
    let metrics = metrics(BenchOptions {
        contestants: vec![Contestant::Art],
        keys: 5_000,
        threads: vec![count(2)],
        policies: vec![Policy::Interleave, Policy::Sidle],
        profile: Some(Profile::builtin("cxl-card").unwrap()),
        warm_up: Duration::from_micros(200),
        measured: Duration::from_micros(200),
        ..BenchOptions::new(Mode::Virtual)
    });
    let named = |name: &str| metrics.iter().filter(|one| one.metric == name).count();
    assert_eq!(named("ratio_to_interleave"), 1);
    assert_eq!(named("throughput_mops_at"), 2 * 4);
    assert_eq!(named("near_bytes_share_at"), 2 * 4);
    assert_eq!(named("metadata_bytes"), 1, "of the framework");
    let of_workers = metrics
        .iter()
        .filter(|one| one.metric == "worker_cpu_share");
    assert_eq!(of_workers.count(), 5);
    let served = |name: &str, tier: &str| {
        let is = |one: &&nearfar_measure::results::Metric| {
            one.metric == name && one.dimensions["tier"] == tier
        };
        metrics
            .iter()
            .find(is)
            .and_then(|one| one.value.get())
            .unwrap()
    };
    for tier in ["near", "far"] {
        let [all, read, written] = [
            "memory_bandwidth",
            "memory_read_bandwidth",
            "memory_write_bandwidth",
        ]
        .map(|name| served(name, tier));
        assert!(
            (read + written - all).abs() < 1e-9 && read > 0.0,
            "{tier}: {read} {written}"
        );
    }
}

#[test]
fn unscaled_results_say_how_sure_they_are_and_how_large_the_hot_set_is() {
    let options = BenchOptions {
        contestants: vec![Contestant::Art],
        workloads: vec!["hotspot-read-only".to_owned()],
        keys: 20_000,
        threads: vec![count(2)],
        policies: vec![Policy::Interleave, Policy::Oracle],
        profile: Some(Profile::builtin("cxl-card").unwrap()),
        warm_up: Duration::from_millis(1),
        measured: Duration::from_millis(10),
        slice: Duration::from_millis(1),
        sampling: Sampling {
            error_share_max: 0.05,
            followed_per_slice_max: 1_000,
            windows_per_slice: 1,
            ..Sampling::default()
        },
        ..BenchOptions::unscaled()
    };
    let plan = plan(options).unwrap();
    let outcome = execute(&plan, None, &mut |_| ()).unwrap();
    let page = outcome.report().to_html();
    for told in ["± 95 %", "placement has little to gain", "Over interleave"] {
        assert!(page.contains(told), "{told}");
    }
    let metrics = outcome.metrics();
    let all = |name: &str| {
        metrics
            .iter()
            .filter(|one| one.metric == name)
            .collect::<Vec<_>>()
    };
    let errors = all("throughput_error_percent");
    assert_eq!(errors.len(), 2);
    for error in errors {
        assert!(
            error
                .value
                .get()
                .is_some_and(|percent| percent > 0.0 && percent < 10.0)
        );
        assert_eq!(error.dimensions["confidence_percent"], 95);
        assert_eq!(error.dimensions["scale_factor"], 1.0);
    }
    assert_eq!(all("ratio_to_interleave_error_percent").len(), 1);
    assert_eq!(all("hot_set_bytes").len(), 2);
    let configuration = outcome.configuration();
    assert_eq!(configuration["scale"], "none");
    assert_eq!(configuration["sampling"]["error_share_max"], 0.05);
}

#[test]
fn emulated_results_have_a_series_and_what_was_charged() {
    let metrics = metrics(BenchOptions {
        contestants: vec![Contestant::Art],
        keys: 5_000,
        threads: vec![count(2)],
        policies: vec![Policy::Interleave, Policy::Sidle],
        profile: Some(Profile::builtin("cxl-card").unwrap()),
        warm_up: Duration::from_millis(100),
        measured: Duration::from_millis(100),
        ..BenchOptions::new(Mode::Emulated)
    });
    assert!(metrics.iter().all(|one| one.kind == Kind::Modelled));
    let named = |name: &str| metrics.iter().filter(|one| one.metric == name).count();
    assert_eq!(named("ratio_to_interleave"), 1);
    assert_eq!(named("charged_latency_per_operation"), 2);
    assert!(named("throughput_mops_at") >= 2 * 2);
    let near = metrics
        .iter()
        .find(|one| one.metric == "memory_bandwidth" && one.dimensions["tier"] == "near");
    assert!(near.unwrap().value.get().is_none(), "nobody counts it");
}

#[test]
fn keys_of_a_file_are_loaded_and_asked_for_by_every_map_that_takes_them() {
    let file = std::env::temp_dir().join(format!("nearfar-keys-{}", std::process::id()));
    let lines: String = (0..3_000_u32)
        .map(|number| format!("{:b}\n", number % 2_000))
        .collect();
    std::fs::write(&file, lines).unwrap();
    let metrics = metrics(BenchOptions {
        key_file: Some(file.clone()),
        contestants: vec![
            Contestant::Art,
            Contestant::Masstree,
            Contestant::Rival(Rival::Congee),
            Contestant::StdMap,
        ],
        workloads: vec!["ycsb-d".to_owned(), "ycsb-e".to_owned()],
        ..native()
    });
    std::fs::remove_file(&file).unwrap();
    let rates: Vec<_> = metrics
        .iter()
        .filter(|one| one.metric == "throughput_mops")
        .collect();
    let refused = rates.iter().filter(|one| one.value.get().is_none());
    assert_eq!(
        (rates.len(), refused.count()),
        (3 * 2 * 2 + 1, 1),
        "congee takes integers"
    );
    let lost = metrics.iter().filter(|one| one.metric == "lost_keys");
    for one in lost {
        assert_eq!(one.value.get(), Some(0.0), "{one:?}");
        assert_eq!(one.dimensions["keys"], 2_000);
        assert_eq!(one.dimensions["key_form"], "file");
    }
    let missing = BenchOptions {
        key_file: Some("/nowhere/keys.txt".into()),
        ..native()
    };
    let error = plan(missing).unwrap_err();
    assert!(matches!(error, IndexBenchError::Keys(_)), "{error}");
    assert!(error.to_string().contains("/nowhere/keys.txt"), "{error}");
}

#[test]
fn maps_whose_keys_are_shorter_are_left_out_and_the_others_run() {
    let file = std::env::temp_dir().join(format!("nearfar-long-keys-{}", std::process::id()));
    let lines: String = (0..500_u32)
        .map(|number| format!("{number}/{}\n", "x".repeat(300)))
        .collect();
    std::fs::write(&file, lines).unwrap();
    let contestants = vec![Contestant::Art, Contestant::Rival(Rival::Masstree)];
    let of_length = BenchOptions {
        form: KeyForm::Bytes(300),
        contestants: contestants.clone(),
        ..native()
    };
    let of_file = BenchOptions {
        key_file: Some(file.clone()),
        contestants,
        ..native()
    };
    for options in [of_length, of_file] {
        let outcome = execute(&plan(options).unwrap(), None, &mut |_| ()).unwrap();
        let (left_out, reason) = &outcome.left_out[0];
        assert_eq!(*left_out, Contestant::Rival(Rival::Masstree));
        assert!(reason.contains("256 bytes"), "{reason}");
        assert_eq!((outcome.left_out.len(), outcome.compared.len()), (1, 4));
    }
    std::fs::remove_file(&file).unwrap();
    let longest = BenchOptions {
        form: KeyForm::Bytes(256),
        contestants: vec![Contestant::Rival(Rival::Masstree)],
        workloads: vec!["ycsb-e".to_owned()],
        ..native()
    };
    let outcome = execute(&plan(longest).unwrap(), None, &mut |_| ()).unwrap();
    assert!(outcome.left_out.is_empty() && !outcome.compared.is_empty());
}

#[test]
fn under_policies_trees_that_take_no_such_keys_are_left_out_before_any_runs() {
    let options = BenchOptions {
        contestants: vec![Contestant::Art, "btree".parse().unwrap()],
        form: KeyForm::Urls,
        keys: 2_000,
        threads: vec![count(1)],
        policies: vec![Policy::Interleave],
        profile: Some(Profile::builtin("cxl-card").unwrap()),
        warm_up: Duration::from_micros(100),
        measured: Duration::from_micros(100),
        ..BenchOptions::new(Mode::Virtual)
    };
    let outcome = execute(&plan(options.clone()).unwrap(), None, &mut |_| ()).unwrap();
    let ran: Vec<_> = outcome
        .placed
        .iter()
        .map(|run| run.planned.contestant)
        .collect();
    assert_eq!(ran, [Contestant::Art]);
    let reason = &outcome.left_out[0].1;
    assert!(reason.contains("8 bytes only"), "{reason}");
    assert!(outcome.report().to_html().contains(reason));
    let metrics = outcome.metrics();
    let absent = metrics
        .iter()
        .find(|one| one.dimensions["tree"] == "btree")
        .unwrap();
    assert_eq!((absent.kind, absent.value.get()), (Kind::Modelled, None));
    let nobody = BenchOptions {
        contestants: vec!["btree".parse().unwrap()],
        ..options
    };
    let mut told = 0;
    let error = execute(&plan(nobody).unwrap(), None, &mut |_| told += 1).unwrap_err();
    assert!(error.to_string().starts_with("btree takes keys"), "{error}");
    assert_eq!(told, 0, "nothing ran");
}

#[test]
fn a_trace_that_is_not_there_is_named() {
    let missing = BenchOptions {
        trace: Some("/nowhere/trace.csv".into()),
        ..native()
    };
    let error = plan(missing).unwrap_err();
    assert!(matches!(error, IndexBenchError::Trace(_)));
    assert!(error.to_string().contains("/nowhere/trace.csv"), "{error}");
}
