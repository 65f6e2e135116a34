//! Comparisons with contenders that run in threads of the test.

use nearfar_bench::bench::{
    BenchError, BenchOptions, BenchOutcome, Contender, Launch, Processes, Rival, Role, Turns, Who,
    compare, serve,
};
use nearfar_bench::tpch::Suite;
use nearfar_topology::Known;
use std::io::{BufRead, BufReader, Write, pipe};
use std::path::PathBuf;

/// Serves own contenders in threads, and leaves rivals to an interpreter that is not there.
struct Threads;

impl Launch for Threads {
    fn launch(&self, who: Who) -> Result<Contender, BenchError> {
        let Who::Own(role) = who else {
            return without_python().launch(who);
        };
        let (requests, to_contender) = pipe().expect("a pipe");
        let (from_contender, replies) = pipe().expect("a pipe");
        std::thread::spawn(move || serve(role, BufReader::new(requests), replies));
        Contender::over(who, BufReader::new(from_contender), to_contender)
    }
}

fn without_python() -> Processes {
    Processes {
        program: PathBuf::from("/nonexistent/nearfar"),
        arguments: Vec::new(),
        python: PathBuf::from("/nonexistent/python3"),
    }
}

fn small() -> BenchOptions {
    BenchOptions {
        suite: Suite::TpcH,
        scale_factor: 0.01,
        threads: 2,
        queries: vec![1, 6, 16],
        runs: 2,
        turns: Turns::Alternating,
        load_runs: 1,
        memtable: true,
        rivals: vec![Rival::DuckDb],
        without: Vec::new(),
        plan_anew: false,
        memory_limit_bytes: None,
        directory: None,
    }
}

fn value(outcome: &BenchOutcome, name: &str) -> Known<f64> {
    let metrics = outcome.metrics();
    let found = metrics.iter().find(|metric| metric.metric == name);
    found.map(|metric| metric.value.clone()).expect(name)
}

#[test]
fn own_tables_are_compared_and_an_absent_rival_is_unavailable() {
    let outcome = compare(&small(), &Threads, &()).expect("a comparison");
    let metrics = outcome.metrics();
    let geomean = value(&outcome, "tpch_geomean_ratio_memtable");
    assert!(geomean.get().is_some_and(|ratio| ratio > 0.0));
    let queries = metrics
        .iter()
        .filter(|metric| metric.metric == "tpch_query_ratio_memtable");
    for (metric, number) in queries.zip([1, 6, 16]) {
        assert_eq!(metric.dimensions["query"], number);
        assert_eq!(metric.spread.map(|spread| spread.runs), Some(2));
    }
    let absent = value(&outcome, "tpch_geomean_ratio_duckdb");
    let reason = absent.reason().expect("a reason");
    assert!(
        reason.contains("/nonexistent/python3") && reason.contains("pip install"),
        "{reason}"
    );
    for name in [
        "load_ratio_datafusion",
        "resident_bytes_ratio_memtable",
        "counter_overhead_ratio",
    ] {
        assert!(
            value(&outcome, name).get().is_some_and(|ratio| ratio > 0.0),
            "{name}"
        );
    }
    // Contenders share a process here, and with other tests: the figure itself says nothing.
    assert!(
        metrics
            .iter()
            .any(|metric| metric.metric == "load_peak_ratio")
    );
    let resident = metrics
        .iter()
        .filter(|m| m.metric == "resident_bytes_ratio_memtable");
    assert_eq!(resident.count(), 9);
}

#[test]
fn contenders_apart_are_compared_too() {
    let options = BenchOptions {
        load_runs: 2,
        turns: Turns::Apart,
        rivals: Vec::new(),
        memory_limit_bytes: Some(64 << 20),
        ..small()
    };
    let outcome = compare(&options, &Threads, &()).expect("a comparison");
    let [comparison] = outcome.comparisons.as_slice() else {
        panic!("{outcome:?}")
    };
    assert_eq!(comparison.queries.len(), 3);
    // Contenders share a process here: that there is a figure is all that it says.
    let memory = comparison.queries.iter().map(|query| query.memory);
    let peaks = memory.map(|memory| memory.expect("measured").nearfar);
    assert!(peaks.into_iter().all(|memory| memory.before_bytes > 0));
    assert!(outcome.loads.iter().all(|loads| loads.loads.len() == 2));
    let metrics = outcome.metrics();
    assert!(
        metrics
            .iter()
            .all(|metric| metric.dimensions["turns"] == "apart")
    );
}

#[test]
fn queries_take_turns_with_and_without_a_setting() {
    let without = ["key_joins", "share_subplans"].map(str::to_owned);
    let options = BenchOptions {
        memtable: false,
        rivals: Vec::new(),
        without: without.to_vec(),
        plan_anew: true,
        ..small()
    };
    let outcome = compare(&options, &Threads, &()).expect("a comparison");
    let names = outcome.without.iter().map(|(setting, _)| setting);
    assert!(names.eq(&without));
    let metrics = outcome.metrics();
    let means = metrics
        .iter()
        .filter(|metric| metric.metric == "tpch_geomean_ratio_without");
    let means = means.map(|metric| metric.dimensions["setting"].clone());
    assert!(means.eq(without));
    let unknown = BenchOptions {
        without: vec!["no_such_setting".to_owned()],
        ..options
    };
    let error = compare(&unknown, &Threads, &()).expect_err("no such setting");
    assert!(error.to_string().contains("no_such_setting"), "{error}");
}

/// As [`Threads`], but a MemTable that ends in its second query.
struct ShortLived;

impl Launch for ShortLived {
    fn launch(&self, who: Who) -> Result<Contender, BenchError> {
        if who != Who::Own(Role::MemTable) {
            return Threads.launch(who);
        }
        let (requests, to_contender) = pipe().expect("a pipe");
        let (heard, mut ear) = pipe().expect("a pipe");
        let (from_contender, replies) = pipe().expect("a pipe");
        std::thread::spawn(move || serve(Role::MemTable, BufReader::new(heard), replies));
        std::thread::spawn(move || {
            // The load, and the answer, two runs and the memory of the first query.
            for line in BufReader::new(requests).lines().take(5) {
                writeln!(ear, "{}", line.expect("a line")).expect("heard");
            }
        });
        Contender::over(who, BufReader::new(from_contender), to_contender)
    }
}

#[test]
fn what_a_rival_did_before_it_ended_counts() {
    for turns in [Turns::Alternating, Turns::Apart] {
        let options = BenchOptions {
            turns,
            rivals: Vec::new(),
            ..small()
        };
        let outcome = compare(&options, &ShortLived, &()).expect("a comparison");
        let [comparison] = outcome.comparisons.as_slice() else {
            panic!("{outcome:?}")
        };
        assert_eq!(comparison.queries.len(), 1);
        assert_eq!(comparison.ended.as_ref().map(|ended| ended.query), Some(6));
        let metrics = outcome.metrics();
        let ended = metrics
            .iter()
            .filter(|metric| metric.metric == "tpch_query_ratio_memtable")
            .find(|metric| metric.dimensions["query"] == 6)
            .and_then(|metric| metric.value.reason().map(str::to_owned));
        assert!(ended.is_some_and(|reason| reason.contains("MemTable ended")));
        assert!(value(&outcome, "counter_overhead_ratio").get().is_some());
    }
}

#[test]
fn a_contender_says_what_it_cannot_do() {
    let mut contender = Threads
        .launch(Who::Own(Role::MemTable))
        .expect("a contender");
    assert!(contender.version().starts_with("DataFusion "));
    let early = contender.query("select 1").expect_err("an error");
    assert!(
        matches!(&early, BenchError::Failed { reason, .. } if reason.contains("nothing is loaded"))
    );
    let nowhere = PathBuf::from("/nonexistent");
    let missing = contender
        .load(&nowhere, &["region"], 1)
        .expect_err("an error");
    assert!(matches!(missing, BenchError::Failed { .. }), "{missing}");
}

#[test]
fn a_contender_that_ends_or_babbles_is_named() {
    let who = Who::Own(Role::Nearfar);
    let (replies, writer) = pipe().expect("a pipe");
    drop(writer);
    let ended = Contender::over(who, BufReader::new(replies), Vec::new()).expect_err("an error");
    assert!(matches!(ended, BenchError::Silent { .. }), "{ended}");
    let (replies, mut writer) = pipe().expect("a pipe");
    writer.write_all(b"hello\n").expect("written");
    let babble = Contender::over(who, BufReader::new(replies), Vec::new()).expect_err("an error");
    assert!(babble.to_string().contains("hello"), "{babble}");
    let missing = without_python().launch(who).expect_err("an error");
    assert!(matches!(missing, BenchError::Start { .. }), "{missing}");
}

#[test]
fn tpcds_is_compared_too() {
    let options = BenchOptions {
        scale_factor: 0.01,
        threads: 2,
        // A limit that leaves rows open, a window, a ROLLUP, a union.
        queries: vec![3, 22, 36, 98],
        runs: 1,
        load_runs: 1,
        ..BenchOptions::of(Suite::TpcDs)
    };
    let outcome = compare(&options, &Threads, &()).expect("a comparison");
    let [comparison] = outcome.comparisons.as_slice() else {
        panic!("{outcome:?}")
    };
    assert_eq!(comparison.missed, []);
    assert_eq!(value(&outcome, "tpcds_queries_right").get(), Some(4.0));
    assert!(
        value(&outcome, "tpcds_geomean_ratio_memtable")
            .get()
            .is_some()
    );
    let metrics = outcome.metrics();
    let names = metrics.iter().map(|metric| metric.metric.as_str());
    let of_queries = names.filter(|name| *name == "tpcds_query_ratio_memtable");
    assert_eq!(of_queries.count(), 4);
}

/// As [`Threads`], but a MemTable that fails whenever it is asked for query 3.
struct Failing;

impl Launch for Failing {
    fn launch(&self, who: Who) -> Result<Contender, BenchError> {
        if who != Who::Own(Role::MemTable) {
            return Threads.launch(who);
        }
        let (requests, to_contender) = pipe().expect("a pipe");
        let (heard, mut ear) = pipe().expect("a pipe");
        let (from_contender, replies) = pipe().expect("a pipe");
        std::thread::spawn(move || serve(Role::MemTable, BufReader::new(heard), replies));
        std::thread::spawn(move || {
            for line in BufReader::new(requests).lines() {
                let line = line.expect("a line");
                let line = line.replace("brand_id", "no_column");
                writeln!(ear, "{line}").expect("heard");
            }
        });
        Contender::over(who, BufReader::new(from_contender), to_contender)
    }
}

#[test]
fn a_query_of_tpcds_that_fails_is_left_out() {
    for turns in [Turns::Alternating, Turns::Apart] {
        let options = BenchOptions {
            scale_factor: 0.01,
            threads: 2,
            queries: vec![52, 93],
            runs: 1,
            load_runs: 1,
            turns,
            ..BenchOptions::of(Suite::TpcDs)
        };
        let outcome = compare(&options, &Failing, &()).expect("a comparison");
        let [comparison] = outcome.comparisons.as_slice() else {
            panic!("{outcome:?}")
        };
        let [missed] = comparison.missed.as_slice() else {
            panic!("{comparison:?}")
        };
        assert_eq!(missed.query, 52);
        assert!(missed.reason.contains("MemTable"), "{missed:?}");
        assert_eq!(comparison.queries.len(), 1);
        assert_eq!(value(&outcome, "tpcds_queries_right").get(), Some(1.0));
        let metrics = outcome.metrics();
        let unavailable = metrics
            .iter()
            .find(|metric| metric.dimensions.get("query") == Some(&52.into()));
        assert!(unavailable.is_some_and(|metric| metric.value.reason().is_some()));
    }
}
