//! Points of access benchmarks as specifications, which `nearfar measure` runs too.

use std::sync::atomic::AtomicBool;

use nearfar_topology::Profile;

use super::points::{AccessOp, Experiment, LatencyOp, LatencyTier};
use crate::access::{Document, Plan, PlanError, PlanTarget, simulate};

/// Every so many accesses of a sequential read are timed: a prime, so that timed ones fall on all
/// parts of a page. The published runs timed every 10,000th.
const SEQUENTIAL_SAMPLE: u32 = 131;

impl Experiment {
    /// The specification of an access benchmark, in TOML; `None` for other experiments.
    ///
    /// ```
    /// use nearfar_measure::access::Document;
    /// use nearfar_measure::reproduce::Figure;
    ///
    /// let first = &Figure::Fig4.points().points[0];
    /// let text = first.experiment.specification().unwrap_or_default();
    /// assert!(Document::parse("figure 4", &text).is_ok());
    /// ```
    pub fn specification(&self) -> Option<String> {
        match *self {
            Self::Access {
                op,
                devices,
                access_bytes,
                threads,
                cxl_percent,
            } => {
                let (operation, pattern) = op.words();
                let placement = match (devices, cxl_percent) {
                    (0, _) => "near".to_owned(),
                    (_, 100.0) => far(devices),
                    _ => format!("split:near={}%,{}", 100.0 - cxl_percent, far(devices)),
                };
                Some(format!(
                    "name = \"throughput\"\nrepetitions = 1\n\n[region.data]\nsize = \"7GiB\"\n\
                     pages = \"base\"\nplacement = \"{placement}\"\n\n[task.access]\n\
                     operation = \"{operation}\"\npattern = \"{pattern}\"\naccess = {access_bytes}\n\
                     threads = {threads}\n"
                ))
            }
            Self::Latency { op, tier, .. } => {
                let placement = match tier {
                    LatencyTier::Cpu => "near",
                    LatencyTier::RemoteCpu => "remote",
                    LatencyTier::Cxl => "far0",
                };
                let task = match op {
                    LatencyOp::SequentialRead => {
                        format!(
                            "operation = \"read\"\nfence = true\nsample = {SEQUENTIAL_SAMPLE}\n"
                        )
                    }
                    LatencyOp::RandomRead => "operation = \"chase\"\nsample = 1\n".to_owned(),
                    LatencyOp::WriteBack => {
                        "operation = \"write-flush\"\npattern = \"random\"\nsample = 1\n".to_owned()
                    }
                };
                Some(format!(
                    "name = \"latency\"\nrepetitions = 1\n\n[region.data]\nsize = \"8GiB\"\n\
                     pages = \"base\"\nplacement = \"{placement}\"\n\n[task.access]\naccess = 8\n{task}"
                ))
            }
            Self::Scan { .. }
            | Self::Tree(_)
            | Self::BoundShare { .. }
            | Self::Price { .. }
            | Self::Interference(_) => None,
        }
    }
}

/// The first devices of the far tier.
fn far(devices: u32) -> String {
    match devices {
        1 => "far0".to_owned(),
        devices => format!("far0-{}", devices - 1),
    }
}

impl AccessOp {
    /// Operation and pattern of a specification.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::SequentialRead => ("read", "sequential"),
            Self::RandomRead => ("read", "random"),
            Self::SequentialWrite => ("write", "sequential"),
            Self::RandomWrite => ("write", "random"),
            Self::SequentialNonTemporalWrite => ("write-nt", "sequential"),
            Self::RandomNonTemporalWrite => ("write-nt", "random"),
        }
    }
}

/// What a specification of one task gave.
pub(super) struct Simulated {
    /// Bytes per second.
    pub bandwidth_bytes_per_s: f64,
    /// Of timed accesses, in ascending order, without the time of the timer.
    pub sorted_ns: Vec<f64>,
}

/// Runs a specification of one task once, in virtual time.
pub(super) fn run(text: &str, profile: &Profile) -> Result<Simulated, PlanError> {
    let document = Document::parse("point", text)?;
    let plan = Plan::simulated(&document, profile, None)?;
    let (PlanTarget::Simulated(machine), [run]) = (&plan.target, &plan.runs[..]) else {
        unreachable!("a point is one run in virtual time");
    };
    let never = AtomicBool::new(false);
    let repetition = simulate(machine, run, 0, &never)?;
    let threads = repetition.into_iter().flat_map(|one| one.tasks).flatten();
    let mut simulated = Simulated {
        bandwidth_bytes_per_s: 0.0,
        sorted_ns: Vec::new(),
    };
    for thread in threads {
        simulated.bandwidth_bytes_per_s += thread.bytes as f64 / thread.elapsed.as_secs_f64();
        let samples = thread.samples_ns.iter();
        simulated.sorted_ns.extend(samples.map(|ns| f64::from(*ns)));
    }
    simulated.sorted_ns.sort_by(f64::total_cmp);
    Ok(simulated)
}
