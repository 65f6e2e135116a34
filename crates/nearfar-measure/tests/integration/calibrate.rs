//! Points become parameters of the simulator, or are refused.

use std::sync::atomic::{AtomicBool, Ordering};

use nearfar_measure::calibrate::{
    CalibrateError, Calibration, Options, Parameter, calibrate, calibrate_until, measured_points,
};
use nearfar_measure::reproduce::{Figure, Points, reproduce};
use nearfar_measure::results::{Kind, Metric};
use nearfar_topology::{Known, Profile};

const LATENCY: &str = "op,tier,percentile,ns\nrand_read,cxl,avg,1\nrand_read,cxl,50,1\n";
const THROUGHPUT: &str = "op,devices,access_size,threads,GBps\n\
    rand_read,1,64,1,1\nrand_read,1,64,2,1\nrand_read,1,64,4,1\nrand_read,1,256,1,1\n\
    seq_read,1,64,12,1\nseq_read,1,4096,12,1\nseq_read,1,64,16,1\nseq_read,1,4096,16,1\n";

fn profile() -> Profile {
    Profile::builtin("cxl-blades-4").unwrap()
}

/// The profile with other parameters.
fn with(changes: &[(Parameter, f64)]) -> Profile {
    let mut profile = profile();
    if let Known::Value(simulation) = &mut profile.simulation {
        for (parameter, value) in changes {
            parameter.set(simulation, *value);
        }
    }
    profile
}

/// Points with the values that the simulator gives them.
fn generated(text: &str, truth: &Profile) -> Points {
    let mut points = Points::parse("generated", text).unwrap();
    let outcome = reproduce("generated", &points, truth, |_, _| {}).unwrap();
    for point in &mut points.points {
        let found = outcome.points().find(|one| one.columns == point.columns);
        point.published = found.unwrap().modelled;
    }
    points
}

fn options(parameters: &[Parameter]) -> Options {
    Options {
        parameters: parameters.to_vec(),
        held_out: 0.25,
        seed: 0,
        rounds_max: 40,
        name: "mine".to_owned(),
    }
}

fn run(
    files: &[(&str, Points)],
    start: &Profile,
    options: &Options,
) -> Result<Calibration, CalibrateError> {
    let files = files
        .iter()
        .map(|(name, points)| ((*name).to_owned(), points.clone()));
    calibrate(&files.collect::<Vec<_>>(), start, options, |_, _| {})
}

#[test]
fn parameters_of_a_simulated_machine_are_recovered() {
    let truth = [
        (Parameter::FarReadLatency, 600.0),
        (Parameter::FarReadService, 2.2),
    ];
    let machine = with(&truth);
    let files = [
        ("latency.csv", generated(LATENCY, &machine)),
        ("throughput.csv", generated(THROUGHPUT, &machine)),
    ];
    let found = run(&files, &profile(), &options(&truth.map(|one| one.0))).unwrap();
    for (fitted, (parameter, value)) in found.parameters.iter().zip(truth) {
        assert_eq!(fitted.parameter, parameter);
        let error = (fitted.value_ns / value - 1.0).abs();
        assert!(error < 0.03, "{fitted:?}, expected {value}");
        assert!(
            error * 100.0 < 3.0 * fitted.uncertainty_percent,
            "{fitted:?}"
        );
    }
    assert!(
        found.fitted_error_percent() < 1.5,
        "{}",
        found.fitted_error_percent()
    );
    assert!(
        found.held_out_error_percent() < 2.5,
        "{}",
        found.held_out_error_percent()
    );
    let Known::Value(simulation) = &found.profile.simulation else {
        panic!("no simulation");
    };
    let source = &simulation.sources["simulation.far.read_latency_ns"];
    assert!(source.starts_with("calibrated on latency.csv, throughput.csv: standard error"));
    let kept = &simulation.sources["simulation.core.fill_buffers"];
    assert!(kept.starts_with("as in profile cxl-blades-4: "), "{kept}");
    assert_eq!(found.profile.name, "mine");
    let metrics = found.metrics();
    assert_eq!(metrics[0].metric, "fitted_error_percent");
    assert_eq!(
        (&metrics[1].metric[..], &metrics[1].dimensions["points"]),
        ("held_out_error_percent", &3.into())
    );
}

#[test]
fn a_part_of_the_published_points_predicts_the_rest() {
    let one_device = |figure: Figure, keep: &dyn Fn(&str) -> bool| {
        let mut points = figure.points();
        points.points.retain(|point| {
            let columns: Vec<&str> = point
                .columns
                .iter()
                .map(|(_, value)| value.as_str())
                .collect();
            keep(&columns.join(","))
        });
        points
    };
    let files = [
        (
            "figure 4",
            one_device(Figure::Fig4, &|row| {
                ["seq_read,1,4096,", "rand_read,1,64,"]
                    .iter()
                    .any(|start| row.starts_with(start))
                    && [",1", ",8", ",20"].iter().any(|end| row.ends_with(end))
            }),
        ),
        (
            "figure 5",
            one_device(Figure::Fig5, &|row| row == "rand_read,cxl,50"),
        ),
    ];
    assert!(files[0].1.points.len() >= 5, "{}", files[0].1.points.len());
    let wrong = [
        (Parameter::FarReadLatency, 650.0),
        (Parameter::FarReadService, 2.2),
    ];
    let found = run(&files, &with(&wrong), &options(&wrong.map(|one| one.0))).unwrap();
    assert!(
        found.fitted_error_percent() < 12.0,
        "{}",
        found.fitted_error_percent()
    );
    assert!(
        found.held_out_error_percent() < 15.0,
        "{}",
        found.held_out_error_percent()
    );
    let latency = found.parameters[0].value_ns;
    assert!((420.0..520.0).contains(&latency), "{latency}");
}

#[test]
fn what_points_do_not_determine_is_refused() {
    let latency = || {
        (
            "latency.csv",
            generated(
                "op,tier,percentile,ns\nrand_read,cxl,avg,1\nrand_read,cxl,50,1\nrand_read,cxl,25,1\nrand_read,cxl,75,1\n",
                &profile(),
            ),
        )
    };
    let refused =
        |parameters: &[Parameter]| run(&[latency()], &profile(), &options(parameters)).unwrap_err();
    let error = refused(&[Parameter::FarReadLatency, Parameter::FarWriteService]);
    let told = error.to_string();
    assert!(
        matches!(
            error,
            CalibrateError::NoEffect {
                key: "far.write_service_ns",
                ..
            }
        ),
        "{told}"
    );
    assert!(
        told.contains("writes to far memory by many threads"),
        "{told}"
    );
    let too_few = refused(&Parameter::ALL);
    assert!(
        matches!(
            too_few,
            CalibrateError::TooFewPoints {
                fitted: 3,
                held_out: 1,
                ..
            }
        ),
        "{too_few}"
    );
    assert!(matches!(refused(&[]), CalibrateError::Parameters));
    let twice = [Parameter::FarReadLatency; 2];
    assert!(matches!(refused(&twice), CalibrateError::Parameters));
    let unknown = Profile::builtin("geyer-rdma").unwrap();
    let error = run(&[latency()], &unknown, &options(&Parameter::DEFAULT)).unwrap_err();
    assert!(
        matches!(error, CalibrateError::NoSimulation { .. }),
        "{error}"
    );
    let trees = [("trees", Figure::Fig11.points())];
    let error = run(&trees, &profile(), &options(&Parameter::DEFAULT)).unwrap_err();
    assert!(
        matches!(error, CalibrateError::NotAnAccess { .. }),
        "{error}"
    );
}

#[test]
fn results_of_a_machine_are_points() {
    let metric = |name: &str, operation: &str, placement: &str, threads: u64, value: f64| {
        Metric::new(name, value, "x", Kind::Measured)
            .with("operation", operation)
            .with("pattern", "random")
            .with("placement", placement)
            .with("access_bytes", 64)
            .with("threads", threads)
    };
    let metrics = [
        metric("bandwidth_bytes_per_s", "read", "far", 4, 8e9),
        metric("latency_ns", "chase", "near", 1, 108.0),
        metric("bandwidth_bytes_per_s", "chase", "near", 1, 1e9),
        metric(
            "bandwidth_bytes_per_s",
            "read",
            "split:near=50%,far",
            4,
            8e9,
        ),
    ];
    let points = measured_points("r.jsonl", &metrics, 4, 37.0).unwrap();
    let values: Vec<f64> = points.points.iter().map(|point| point.published).collect();
    assert_eq!(values, [8.0, 145.0]);
    let lines: Vec<usize> = points.points.iter().map(|point| point.line).collect();
    assert_eq!(lines, [2, 3]);
    let nothing = measured_points("r.jsonl", &metrics[2..], 4, 37.0).unwrap_err();
    assert!(
        matches!(nothing, CalibrateError::NothingMeasured { .. }),
        "{nothing}"
    );
}

#[test]
fn keys_of_parameters_are_read() {
    for parameter in Parameter::ALL {
        assert_eq!(parameter.key().parse(), Ok(parameter));
    }
    assert!(
        "far.devices"
            .parse::<Parameter>()
            .unwrap_err()
            .contains("far.read_latency_ns")
    );
}

#[test]
fn it_ends_where_the_caller_stops_it() {
    let machine = with(&[(Parameter::FarReadLatency, 600.0)]);
    let files = [("latency.csv".to_owned(), generated(LATENCY, &machine))];
    let options = Options {
        held_out: 0.5,
        ..options(&[Parameter::FarReadLatency])
    };
    let files = [
        files[0].clone(),
        ("more.csv".to_owned(), files[0].1.clone()),
    ];
    let stop = AtomicBool::new(false);
    let mut rounds = 0;
    let found = calibrate_until(&files, &profile(), &options, &stop, |round, _| {
        rounds = round;
        stop.store(round == 2, Ordering::Relaxed);
    });
    assert!(matches!(found, Err(CalibrateError::Stopped)), "{found:?}");
    assert_eq!(rounds, 2);
}
