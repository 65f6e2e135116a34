//! Published tree experiments, small.

use nearfar_index_bench::reproduce::{BPlusTrees, Search};
use nearfar_measure::reproduce::{Points, reproduce_with};
use nearfar_topology::Profile;

const POINTS: &str = "\
workload,placement,node_bytes,threads,Mops
read95,CPU,1024,8,1
read95,CXL-1,1024,8,1
write95,CPU,1024,8,1
write95,CXL-1,1024,8,1
";

#[test]
fn trees_are_slower_far_and_writing() {
    let points = Points::parse("p", POINTS).unwrap();
    let profile = Profile::builtin("cxl-blades-4").unwrap();
    for search in [Search::Bisection, Search::Samples] {
        let mut trees = BPlusTrees::new(search, 20_000);
        let outcome = reproduce_with("p", &points, &profile, Some(&mut trees), |_, _| ()).unwrap();
        let mops: Vec<f64> = outcome.points().map(|point| point.modelled).collect();
        let [read_near, read_far, write_near, write_far] = mops[..] else {
            panic!("four points: {mops:?}");
        };
        assert!(read_near > read_far && write_near > write_far, "{mops:?}");
        assert!(read_near > write_near && read_far > write_far, "{mops:?}");
    }
}

/// weisgut-2025, section 5.4 on figure 12, whose points nothing was fitted to.
#[test]
fn larger_nodes_wait_for_bandwidth_instead_of_latency() {
    let mut text = "bench,group,placement,kind,node_bytes,pct\n".to_owned();
    for (devices, bytes) in [(1, 256), (1, 1024), (1, 4096), (4, 4096)] {
        for kind in ["bandwidth", "latency"] {
            text += &format!("btree,write95,CXL-{devices},{kind},{bytes},50\n");
        }
    }
    let points = Points::parse("p", &text).unwrap();
    let profile = Profile::builtin("cxl-blades-4").unwrap();
    let mut trees = BPlusTrees::new(Search::Bisection, 200_000);
    let outcome = reproduce_with("p", &points, &profile, Some(&mut trees), |_, _| ()).unwrap();
    let shares: Vec<f64> = outcome.points().map(|point| point.modelled).collect();
    let [
        (small, small_wait),
        (middle, middle_wait),
        (large, large_wait),
        (four, _),
    ] = [0, 2, 4, 6].map(|at| (shares[at], shares[at + 1]));
    assert!(small < middle && middle < large, "bandwidth: {shares:?}");
    assert!(
        small_wait > middle_wait && middle_wait > large_wait,
        "latency: {shares:?}"
    );
    assert!(four < large, "four devices have more of it: {shares:?}");
}

#[test]
fn more_devices_than_there_are_and_odd_nodes_are_refused() {
    let odd = "workload,placement,node_bytes,Mops\nread95,CPU,1000,1\n";
    let error = Points::parse("p", odd).unwrap_err().to_string();
    assert!(error.contains("node_bytes"), "{error}");
    let many = "workload,placement,node_bytes,Mops\nread95,CXL-9,1024,1\n";
    let points = Points::parse("p", many).unwrap();
    let profile = Profile::builtin("cxl-blades-4").unwrap();
    let mut trees = BPlusTrees::default();
    let error = reproduce_with("p", &points, &profile, Some(&mut trees), |_, _| ()).unwrap_err();
    assert!(error.to_string().contains('9'), "{error}");
}
