//! `nearfar bench tpcc` over tables of a hundredth of their size.

use serde_json::Value;

use crate::support::{run, temp};

/// The figures of a run, by name.
fn figures(arguments: &[&str]) -> Vec<(String, Value)> {
    let common = [
        "bench", "tpcc", "--shrink", "100", "--warmup", "0", "--rounds", "1", "--format", "json",
    ];
    let ran = run([&common[..], arguments].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = ran.stdout.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        (line["metric"].as_str().unwrap_or_default().to_owned(), line)
    });
    lines.collect()
}

fn value(figures: &[(String, Value)], name: &str) -> f64 {
    let found = figures.iter().find(|(known, _)| known == name);
    let (_, line) = found.unwrap_or_else(|| panic!("{name} is not there"));
    line["value"].as_f64().expect("a number")
}

#[test]
fn tpcc_over_the_wire_survives_a_kill() {
    let folder = temp();
    let directory = folder.path().to_str().expect("UTF-8");
    let figures = figures(&[
        "--way",
        "wire",
        "--warehouses",
        "1",
        "--terminals",
        "2",
        "--seconds",
        "8",
        "--durable",
        "--kills",
        "1",
        "--directory",
        directory,
    ]);
    assert!(value(&figures, "tpcc_new_orders_per_minute") > 0.0);
    assert_eq!(value(&figures, "tpcc_consistency_failures"), 0.0);
    assert!(value(&figures, "tpcc_kill_orders") > 0.0);
    assert_eq!(value(&figures, "tpcc_kill_lost_orders"), 0.0);
    assert_eq!(value(&figures, "tpcc_kill_consistency_failures"), 0.0);
}

#[test]
fn kills_of_what_is_not_durable_are_refused() {
    let ran = run(["bench", "tpcc", "--kills", "1", "--shrink", "100"]);
    ran.failed(2, &["kills", "durable"]);
}
