//! `nearfar calibrate` on the model's own points.

use std::fs;

use nearfar_measure::results::read;
use nearfar_topology::{Known, Profile};

use crate::support::{run_in, temp};

const POINTS: &str = "op,devices,access_size,threads,GBps\n\
    rand_read,1,64,1,1.9\nrand_read,1,64,2,3.8\nrand_read,1,256,1,6.0\nrand_read,1,64,4,7.6\n";

#[test]
fn points_become_a_profile_that_can_be_used() {
    let folder = temp();
    fs::write(folder.path().join("points.csv"), POINTS).expect("written");
    let asked = [
        "calibrate",
        "points.csv",
        "--fit",
        "far.read_latency_ns",
        "--name",
        "mine",
    ];
    let output = ["-o", "mine.toml", "--rounds", "12", "--format", "json"];
    let ran = run_in(folder.path(), [&asked[..], &output].concat());
    let text = ran.succeeded_telling("mine.toml");
    let (_, metrics) = read(text.as_bytes()).expect("results");
    let names: Vec<&str> = metrics[..3].iter().map(|metric| &*metric.metric).collect();
    assert_eq!(
        names,
        [
            "fitted_error_percent",
            "held_out_error_percent",
            "parameter"
        ]
    );
    let profile = Profile::load(&folder.path().join("mine.toml")).expect("a profile");
    assert_eq!(profile.name, "mine");
    let Known::Value(simulation) = profile.simulation else {
        panic!("no simulation");
    };
    let Known::Value(found_ns) = metrics[2].value else {
        panic!("no latency");
    };
    // One of the two was read from decimal digits.
    assert!((found_ns - simulation.far.read_latency_ns).abs() < 1e-9);
}

#[test]
fn what_is_not_determined_is_told() {
    let folder = temp();
    fs::write(folder.path().join("points.csv"), POINTS).expect("written");
    let asked = ["calibrate", "points.csv", "--fit"];
    let of = |key: &'static str| run_in(folder.path(), [&asked[..], &[key]].concat());
    of("far.write_service_ns").failed(4, &["do not determine far.write_service_ns"]);
    of("far.devices").failed(2, &["cannot be fitted"]);
    let unknown = ["calibrate", "points.csv", "--profile", "geyer-rdma"];
    run_in(folder.path(), unknown).failed(9, &["geyer-rdma has no parameters of the simulator"]);
    run_in(folder.path(), ["calibrate", "none.csv"]).failed(4, &["cannot read points none.csv"]);
}
