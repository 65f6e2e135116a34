//! Published tree experiments, small.

use std::num::NonZeroUsize;
use std::time::Duration;

use nearfar_index_bench::reproduce::{BPlusTrees, Search, zhao};
use nearfar_measure::Kind;
use nearfar_measure::report::Report;
use nearfar_measure::reproduce::{Figure, FigureOutcome, Points, reproduce_with};
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

/// Figures of placement, small: what they are worth is not said here.
#[test]
fn claims_about_placement_are_run_and_set_beside_what_is_published() {
    let options = zhao::FigureOptions {
        keys: 5_000,
        threads: NonZeroUsize::new(2).unwrap(),
        warm_up: Duration::from_micros(300),
        measured: Duration::from_micros(200),
        ..zhao::FigureOptions::new(Profile::builtin("cxl-card").unwrap())
    };
    let figures = [zhao::Figure::Fig16c, zhao::Figure::Table3];
    let mut told = Vec::new();
    let outcomes = zhao::run(&figures, &options, |claim, share| {
        told.push((claim.to_owned(), share));
    });
    let outcomes = outcomes.unwrap();
    let claims: usize = figures.map(|figure| figure.claims().len()).iter().sum();
    assert_eq!(told.len(), claims);
    assert!(told.is_sorted_by_key(|(_, share)| *share));
    let [everything_near, workers] = &outcomes[..] else {
        panic!("two figures");
    };
    for one in &everything_near.claims {
        let percent = one.modelled_percent;
        assert!((-90.0..20.0).contains(&percent), "{}: {percent}", one.claim);
    }
    // The part of a worker is none without all of them.
    for pair in workers
        .claims
        .chunk_by(|a, b| a.claim.workload == b.claim.workload)
    {
        let all = pair.last().unwrap().modelled_percent;
        assert!(all > 0.0 && pair.iter().all(|one| one.modelled_percent <= all + 1e-9));
    }
    let metrics = workers.metrics();
    assert_eq!(metrics.len(), 3 + 4 * workers.claims.len());
    let published = metrics.iter().filter(|one| one.kind == Kind::Published);
    assert_eq!(published.count(), 2 * workers.claims.len());
    let mut page = Report::new("Placement");
    workers.add_to(&mut page);
    assert!(page.to_html().contains("zhao-table3: Time of workers"));
}

/// The mean absolute error of every so many points, with trees of so many keys.
fn hold(figure: Figure, every: usize, keys: u64, most: f64) {
    let mut points = figure.points();
    points.points = points.points.into_iter().step_by(every).collect();
    let profile = Profile::builtin("cxl-blades-4").unwrap();
    let mut trees = BPlusTrees::new(Search::Bisection, keys);
    let outcome = reproduce_with("p", &points, &profile, Some(&mut trees), |_, _| ()).unwrap();
    let error = outcome.mape_percent().unwrap();
    assert!(error <= most, "{figure:?}: {error:.2} of at most {most}");
}

/// What `docs/reproduction.md` says of two million keys, with some margin. `nearfar-measure` holds the other figures.
#[test]
#[ignore = "minutes: .ci/nightly errors"]
fn all_points_of_trees_are_met() {
    hold(Figure::Fig9, 1, BPlusTrees::KEYS, 8.0);
    hold(Figure::Fig10, 1, BPlusTrees::KEYS, 14.0);
    hold(Figure::Fig11, 1, BPlusTrees::KEYS, 11.0);
}

#[test]
fn every_so_many_points_of_trees_are_met() {
    hold(Figure::Fig10, 4, 100_000, 25.0);
    hold(Figure::Fig11, 13, 100_000, 25.0);
}
