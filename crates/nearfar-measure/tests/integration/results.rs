//! What is written can be read back.

use nearfar_measure::Kind;
use nearfar_measure::Summary;
use nearfar_measure::results::{
    Header, Metric, ReadError, ResultsWriter, SCHEMA, WriteError, read,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn header() -> Header {
    Header::new(
        "1.2.3",
        vec!["tiers".into(), "--probe".into()],
        json!({"runs": 5, "tier": null}),
    )
    .unavailable("resctrl", "not mounted")
}

fn written(metrics: &[Metric]) -> String {
    let mut bytes = Vec::new();
    let mut writer = ResultsWriter::new(&mut bytes, &header()).unwrap();
    for metric in metrics {
        writer.metric(metric).unwrap();
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_schema_is_as_documented() {
    let summary = Summary::of([506.0, 507.5, 509.0]).unwrap();
    let text = written(&[
        Metric::of_runs("idle_latency_ns", &summary, "ns", Kind::Modelled).with("tier", "far"),
        Metric::unavailable(
            "write_bandwidth_bytes_per_s",
            "not published",
            "B/s",
            Kind::Published,
        ),
    ]);
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["schema"], SCHEMA);
    assert_eq!(lines[0]["configuration"], json!({"runs": 5, "tier": null}));
    assert_eq!(
        lines[0]["unavailable"],
        json!([{"what": "resctrl", "reason": "not mounted"}])
    );
    assert_eq!(
        lines[1],
        json!({
            "metric": "idle_latency_ns", "value": 507.5, "unit": "ns", "kind": "modelled",
            "min": 506.0, "max": 509.0, "runs": 3, "tier": "far",
        })
    );
    assert_eq!(
        lines[2],
        json!({
            "metric": "write_bandwidth_bytes_per_s", "value": {"unavailable": "not published"},
            "unit": "B/s", "kind": "published",
        })
    );
}

#[test]
fn what_the_schema_forbids_is_not_written() {
    let mut bytes = Vec::new();
    let mut writer = ResultsWriter::new(&mut bytes, &header()).unwrap();
    let infinite = Metric::new("ratio", f64::INFINITY, "ratio", Kind::Measured);
    assert!(matches!(
        writer.metric(&infinite),
        Err(WriteError::NotFinite { .. })
    ));
    let shadowing = Metric::new("ratio", 1.0, "ratio", Kind::Measured).with("kind", "mine");
    assert!(matches!(
        writer.metric(&shadowing),
        Err(WriteError::ReservedDimension {
            dimension: "kind",
            ..
        })
    ));
    assert_eq!(String::from_utf8(bytes).unwrap().lines().count(), 1);
}

#[test]
fn wrong_input_is_located() {
    assert!(matches!(read(&b""[..]), Err(ReadError::Empty)));
    let other = r#"{"schema":"nearfar-results/9","shape":"other"}"#;
    assert!(
        matches!(read(other.as_bytes()), Err(ReadError::Schema { found })
        if found == "nearfar-results/9")
    );
    let broken = written(&[]) + "{\"metric\":\"x\"}\n";
    assert!(matches!(
        read(broken.as_bytes()),
        Err(ReadError::Line { line: 2, .. })
    ));
}

fn metric() -> impl Strategy<Value = Metric> {
    let kind = prop::sample::select(Kind::ALL.to_vec());
    // Three decimals: JSON readers may differ from the writer in the last bit of a longer number.
    let number =
        || (-1_000_000_000_i64..1_000_000_000).prop_map(|thousandths| thousandths as f64 / 1e3);
    let value = prop_oneof![number().prop_map(Ok), "[^\\x00]{0,20}".prop_map(Err)];
    let dimensions = prop::collection::btree_map("d_[a-z]{1,8}", "\\PC{0,10}", 0..4);
    let spread = prop::option::of((number(), number(), 1_u32..100));
    ("[a-z_]{1,20}", value, kind, dimensions, spread).prop_map(
        |(name, value, kind, dimensions, spread)| {
            let mut metric = match value {
                Ok(value) => Metric::new(&name, value, "ns", kind),
                Err(reason) => Metric::unavailable(&name, &reason, "ns", kind),
            };
            metric.spread =
                spread.map(|(min, max, runs)| nearfar_measure::results::Spread { min, max, runs });
            dimensions
                .into_iter()
                .fold(metric, |metric, (key, value)| metric.with(&key, value))
        },
    )
}

proptest! {
    #[test]
    fn results_round_trip(metrics in prop::collection::vec(metric(), 0..8)) {
        let (read_header, read_metrics) = read(written(&metrics).as_bytes()).unwrap();
        prop_assert_eq!(read_header, header());
        prop_assert_eq!(read_metrics, metrics);
    }
}
