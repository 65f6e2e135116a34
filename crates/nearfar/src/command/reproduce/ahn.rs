//! Numbers of ahn-2024, of which only those in its text are known here.

use nearfar_bench::heap::{
    HeapBenchOptions, HeapBenchOutcome, PublishedLoss, compare_heaps, published,
};
use nearfar_measure::reproduce::{Claim, Claims};
use nearfar_topology::{Known, Profile};

use super::shown::Shown;
use crate::args::figure::AhnFigure;
use crate::machine;
use crate::progress::Live;

/// The profile of the far tier, and of one with twice its bandwidth.
const PROFILE: &str = "cxl-blades-1";
/// TPC-H's scale factor, and the runs of each query: small, as a figure among others.
const SCALE_FACTOR: f64 = 0.2;
const RUNS: u32 = 3;

/// Relative throughputs with one thing far, by the queries of `nearfar bench heap` over an emulated tier.
pub fn losses(live: &Live) -> anyhow::Result<Box<dyn Shown>> {
    let options = HeapBenchOptions {
        scale_factor: SCALE_FACTOR,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        runs: RUNS,
        profile: Some(Profile::resolve(PROFILE)?),
        devices: HeapBenchOptions::published_devices(),
    };
    let runtime = machine::many_threads(options.threads)?;
    let compared = compare_heaps(&options, machine::one_of_several, |step| {
        live.say(format!("{}: {step}", AhnFigure::Losses.name()));
    });
    let outcome = runtime.block_on(compared)?;
    let claims = published();
    Ok(Box::new(Claims {
        name: AhnFigure::Losses.name(),
        title: "Throughput relative to everything near (ahn-2024, figures 4, 8 and 9)",
        claims: claims.iter().map(|loss| claim(loss, &outcome)).collect(),
    }))
}

fn claim(loss: &PublishedLoss, outcome: &HeapBenchOutcome) -> Claim {
    let found = outcome.relative_throughput(loss.configuration, loss.devices, loss.workloads);
    Claim {
        figure: loss.figure,
        what: format!(
            "{}, {}, bandwidth x{}",
            loss.workload, loss.configuration, loss.devices
        ),
        unit: "ratio",
        published: (loss.low, loss.high),
        modelled: match found {
            Some(summary) => Known::Value(summary.median),
            None => Known::unavailable("no query was run with it"),
        },
    }
}

/// Figure, what, unit, value.
type Number = (&'static str, &'static str, &'static str, f64);

/// Traffic to CXL memory (sections 5.1.2 and 5.2.2).
const TRAFFIC: [Number; 6] = [
    ("ahn-fig4", "traffic, main-far, bandwidth x1", "GB/s", 19.0),
    ("ahn-fig4", "traffic, main-far, bandwidth x2", "GB/s", 26.0),
    ("ahn-fig4", "traffic, heap-far, bandwidth x1", "GB/s", 27.0),
    ("ahn-fig4", "traffic, heap-far, bandwidth x2", "GB/s", 45.0),
    ("ahn-fig8", "traffic, PaPM", "GB/s", 8.0),
    ("ahn-fig9", "traffic, ProcBench", "GB/s", 0.11),
];
const NO_TRAFFIC: &str = "of 56 cores and eight streams or 20 processes of another database";

/// Temporary tables of procedures.
const TABLES: [Number; 6] = [
    ("ahn-table1", "PaPM, procedure A", "MB", 1_335.329),
    ("ahn-table1", "PaPM, procedure B", "MB", 628.359),
    ("ahn-table1", "PaPM, procedure C", "MB", 600.617),
    ("ahn-table2", "ProcBench, custTotalLoss", "MB", 3_031.582),
    (
        "ahn-table2",
        "ProcBench, unsatisfiedCustomersCat",
        "MB",
        1_510.766,
    ),
    (
        "ahn-table2",
        "ProcBench, unsatisfiedCustomerStore",
        "MB",
        2_165.340,
    ),
];
const NO_PROCEDURES: &str = "these procedures are not run here";

/// Restarts of a standby server with shared memory, TPC-H at scale factor 10.
const RESTARTS: [Number; 3] = [
    ("ahn-fig11", "preloading time saved", "%", 85.0),
    ("ahn-fig11", "restart time saved", "%", 40.0),
    (
        "ahn-fig11",
        "restart time beside one that preloads nothing",
        "% longer",
        7.0,
    ),
];
const NO_RESTART: &str = "restarts are measured, not modelled: nearfar bench restart";

/// What nothing in the model stands for, with the reason.
pub fn rest() -> Box<dyn Shown> {
    let of = |numbers: &[Number], reason: &'static str| {
        let claims = numbers.iter().map(|&(figure, what, unit, value)| Claim {
            figure,
            what: what.to_owned(),
            unit,
            published: (value, value),
            modelled: Known::unavailable(reason),
        });
        claims.collect::<Vec<_>>()
    };
    let claims = [
        of(&TRAFFIC, NO_TRAFFIC),
        of(&TABLES, NO_PROCEDURES),
        of(&RESTARTS, NO_RESTART),
    ];
    Box::new(Claims {
        name: AhnFigure::Rest.name(),
        title: "Traffic, temporary tables and restarts (ahn-2024, figures 4, 8, 9, 11, tables 1 and 2)",
        claims: claims.concat(),
    })
}
