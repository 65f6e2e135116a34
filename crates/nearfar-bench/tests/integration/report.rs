//! Results and reports hold the whole run.

use nearfar_bench::tpch::published::hyrise;
use nearfar_bench::tpch::{TpchOptions, report, run};
use nearfar_measure::Kind;
use nearfar_measure::results::{Header, ResultsWriter, read};

use crate::machine::{engine, fast_profile};
use crate::placements::small;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_and_results_name_every_placement_and_query() {
    let options = TpchOptions {
        queries: vec![1, 6],
        runs: 2,
        check: false,
        placements: vec![
            "far".parse().expect("far"),
            "columns:3".parse().expect("columns"),
        ],
        ..small()
    };
    let engine = engine(Some(fast_profile()));
    let outcome = run(&engine, &options, &()).await.expect("a run");
    let command = vec!["tpch".to_owned(), "--sf=0.01".to_owned()];
    let header = Header::new("1.2.3", command, outcome.configuration());

    let page = report(&outcome, &header).to_html();
    for text in [
        "near",
        "far",
        "columns:3",
        "q1",
        "q6",
        "nearfar tpch --sf=0.01",
        "fast",
        "1.2.3",
    ] {
        assert!(page.contains(text), "{text}");
    }
    for figure in hyrise() {
        assert!(
            page.contains(&figure.what) && page.contains(&figure.source),
            "{figure:?}"
        );
    }
    assert!(page.contains("not checked"));

    let mut lines = Vec::new();
    let mut writer = ResultsWriter::new(&mut lines, &header).expect("a header");
    for metric in outcome.metrics() {
        writer.metric(&metric).expect("a valid metric");
    }
    let (_, metrics) = read(lines.as_slice()).expect("what was written");
    let count = |name: &str, kind: Kind| {
        metrics
            .iter()
            .filter(|metric| metric.metric == name && metric.kind == kind)
            .count()
    };
    assert_eq!(count("tpch_query_seconds", Kind::Measured), 2);
    assert_eq!(count("tpch_query_seconds", Kind::Modelled), 4);
    assert_eq!(
        count("tpch_relative_throughput", Kind::Published),
        hyrise().len()
    );
    assert_eq!(count("tpch_load_seconds", Kind::Measured), 8);
    assert_eq!(count("tpch_stored_bytes", Kind::Modelled), 0);
    let migrations = metrics
        .iter()
        .filter(|metric| metric.metric == "tpch_migration_seconds");
    for metric in migrations {
        let is_modelled = metric.kind == Kind::Modelled;
        assert_eq!(metric.value.get().is_none(), is_modelled, "{metric:?}");
    }
    assert_eq!(count("tpch_migration_seconds", Kind::Modelled), 2);
    assert_eq!(count("tpch_checked_queries", Kind::Measured), 0);
}
