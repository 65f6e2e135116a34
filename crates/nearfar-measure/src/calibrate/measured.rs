//! Results of `nearfar measure` as points.

use nearfar_topology::Known;
use serde_json::Value;

use super::error::CalibrateError;
use crate::reproduce::{AccessOp, Experiment, LatencyOp, LatencyTier, Point, Points, Statistic};
use crate::results::Metric;

/// Points of the bandwidths and latencies in results of one machine: tasks that read, write or chase, on
/// `near` or on all devices of `far`. Other figures are passed over.
///
/// `far_devices` is how many devices `far` stands for, and `timer_ns` what points of latency hold of their
/// timer, which the latency of a chase does not.
///
/// # Errors
/// [`CalibrateError::NothingMeasured`] where there is no such figure.
pub fn measured_points(
    name: &str,
    metrics: &[Metric],
    far_devices: u32,
    timer_ns: f64,
) -> Result<Points, CalibrateError> {
    let of = |(index, metric): (usize, &Metric)| {
        let Known::Value(value) = metric.value else {
            return None;
        };
        let (experiment, published) = match metric.metric.as_str() {
            "bandwidth_bytes_per_s" => (access(metric, far_devices)?, value * 1e-9),
            "latency_ns" => (chase(metric)?, value + timer_ns),
            _ => return None,
        };
        // Line 1 is the header of the results.
        Some(Point {
            line: index + 2,
            columns: columns(metric),
            published,
            experiment,
        })
    };
    let points: Vec<Point> = metrics.iter().enumerate().filter_map(of).collect();
    match points.is_empty() {
        true => Err(CalibrateError::NothingMeasured {
            name: name.to_owned(),
        }),
        false => Ok(Points {
            unit: "GBps or ns".to_owned(),
            axis: "threads".to_owned(),
            points,
        }),
    }
}

fn text<'a>(metric: &'a Metric, name: &str) -> Option<&'a str> {
    metric.dimensions.get(name)?.as_str()
}

fn count(metric: &Metric, name: &str) -> Option<u64> {
    metric.dimensions.get(name)?.as_u64()
}

fn access(metric: &Metric, far_devices: u32) -> Option<Experiment> {
    let op = match (text(metric, "operation")?, text(metric, "pattern")?) {
        ("read", "sequential") => AccessOp::SequentialRead,
        ("read", "random") => AccessOp::RandomRead,
        ("write", "sequential") => AccessOp::SequentialWrite,
        ("write", "random") => AccessOp::RandomWrite,
        ("write-nt", "sequential") => AccessOp::SequentialNonTemporalWrite,
        ("write-nt", "random") => AccessOp::RandomNonTemporalWrite,
        _ => return None,
    };
    let devices = match text(metric, "placement")? {
        "near" => 0,
        "far" => far_devices,
        _ => return None,
    };
    Some(Experiment::Access {
        op,
        devices,
        access_bytes: u32::try_from(count(metric, "access_bytes")?).ok()?,
        threads: usize::try_from(count(metric, "threads")?).ok()?,
        cxl_percent: 100.0,
    })
}

fn chase(metric: &Metric) -> Option<Experiment> {
    let tier = match text(metric, "placement")? {
        "near" => LatencyTier::Cpu,
        "far" => LatencyTier::Cxl,
        _ => return None,
    };
    let is_single = count(metric, "threads")? == 1;
    is_single.then_some(Experiment::Latency {
        op: LatencyOp::RandomRead,
        tier,
        statistic: Statistic::Mean,
    })
}

fn columns(metric: &Metric) -> Vec<(String, String)> {
    let names = [
        "operation",
        "pattern",
        "placement",
        "access_bytes",
        "threads",
    ];
    let column = |name: &str| {
        let value = match metric.dimensions.get(name)? {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        Some((name.to_owned(), value))
    };
    names.into_iter().filter_map(column).collect()
}
