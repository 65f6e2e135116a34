//! `nearfar plan cost` and the figure that it is held against.

use std::fs;

use nearfar_measure::results::read;
use nearfar_topology::Known;

use crate::support::{run, run_in, temp};

#[test]
fn the_cheapest_machines_are_printed() {
    let text = run(["plan", "cost", "--capacity", "1TiB,4352GiB"]).succeeded();
    assert!(text.starts_with("prices weisgut-2025, 2025-03"), "{text}");
    for price in ["9536", "10560", "110400", "43536", "26160"] {
        assert!(text.contains(price), "{price}: {text}");
    }
    let asked = ["plan", "cost", "--capacity", "8TiB", "--devices", "1-4"];
    let text = run([&asked[..], &["--format", "json"]].concat()).succeeded();
    let (header, metrics) = read(text.as_bytes()).expect("results");
    assert_eq!(header.configuration["prices"]["currency"], "USD");
    assert_eq!(metrics.len(), 1);
    assert_eq!(metrics[0].value, Known::Value(59_136.0));
    assert_eq!(metrics[0].dimensions["devices"], 4);
}

#[test]
fn published_prices_are_reproduced_exactly() {
    let text = run(["reproduce", "weisgut-fig14", "--format", "json"]).succeeded();
    let (_, metrics) = read(text.as_bytes()).expect("results");
    assert_eq!(metrics[0].metric, "mape_percent");
    assert_eq!(metrics[0].value, Known::Value(0.0));
    assert_eq!(metrics[0].dimensions["points"], 96);
}

#[test]
fn what_cannot_be_bought_is_told() {
    let too_much = run(["plan", "cost", "--capacity", "9TiB", "--devices", "0"]);
    too_much.failed(9, &["no configuration of 9216 GiB", "8192 GiB"]);
    let some = run(["plan", "cost", "--capacity", "9TiB"]).succeeded();
    assert!(some.contains("none is large enough"), "{some}");
    run(["plan", "cost"]).failed(2, &["--capacity"]);
    run(["plan", "cost", "--capacity", "1TiB", "--devices", "4-1"]).failed(2, &["1-4"]);
}

#[test]
fn prices_of_a_file_are_checked() {
    let folder = temp();
    let asked = ["plan", "cost", "--capacity", "1TiB", "--prices", "p.toml"];
    run_in(folder.path(), asked).failed(4, &["cannot read prices p.toml"]);
    fs::write(folder.path().join("p.toml"), "name = \"x\"").expect("written");
    run_in(folder.path(), asked).failed(4, &["prices p.toml"]);
}
