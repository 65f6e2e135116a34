//! Figures 3a, 3b, 4, 5 and 6: writes to storage, a database, and a graph, beside CXL memory.
//!
//! A write to storage is a thread that copies from memory to the page cache, and DMA that reads it there; both take
//! entries of the request table like everybody else, and the slower of them is the rate. What the drive takes is
//! unknown, so that every figure is given for a range of drives.

use nearfar_kernels::GraphError;
use nearfar_model::simulation::{Access, Group, Machine, MachineError, TierName};

use super::declines;
use super::ranked::Ranked;
use super::system::System;
use crate::graph::KroneckerError;
use crate::interference::{bandwidths, written_storage};

/// What drives for four lanes of PCIe 4 take when they are written in order, in GB/s: the paper does not tell.
const SEQUENTIAL_GB_PER_S: [f64; 3] = [3.0, 4.0, 7.0];

/// The same for random writes of 4 KiB: 170,000 to 400,000 per second.
const RANDOM_GB_PER_S: [f64; 3] = [0.7, 1.0, 1.6];

/// Threads of the background; copy and DMA have two of the 32 cores.
const THREADS: [usize; 5] = [4, 8, 16, 24, 28];

/// Threads of loads from CXL memory beside a database, on 48 cores.
const LOAD_THREADS: [usize; 5] = [2, 4, 8, 16, 32];

/// Published losses: section III-D.
const SEQUENTIAL_PERCENT: f64 = -80.9;
const RANDOM_PERCENT: f64 = -54.5;

/// Published largest slowdown of `PageRank`: section IV-B.
pub(super) const GRAPH_TIMES: f64 = 20.8;

/// A graph of scale 16 and caches that are smaller by 256, for one of scale 24. The paper tells neither its size nor its
/// threads.
pub(super) const GRAPH: Ranked = Ranked {
    scale: 16,
    caches_by: 256,
    threads: 16,
};

/// Threads of non-temporal stores beside it, on 48 cores.
const GRAPH_THREADS: [usize; 5] = [4, 8, 16, 24, 32];

/// Published gain of `RocksDB`: section IV-A.
const DATABASE_PERCENT: f64 = 21.2;

/// A figure of curves over threads of the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurvesFigure {
    /// mao-2025, figure 3a: writes to NVMe, in order and at random, beside non-temporal stores to CXL memory.
    Fig3a,
    /// mao-2025, figure 3b: random writes to NVMe beside copies by `MOVDIR64B` in each direction.
    Fig3b,
    /// mao-2025, figure 4: applications of all four types beside memory and storage, on system B.
    Fig4,
    /// The same on system A.
    Fig4SystemA,
    /// mao-2025, figure 5: `RocksDB` beside loads of CXL memory.
    Fig5,
    /// mao-2025, figure 6: `PageRank` in local memory beside non-temporal stores to CXL memory.
    Fig6,
}

impl CurvesFigure {
    /// Its word in commands and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fig3a => "mao-fig3a",
            Self::Fig3b => "mao-fig3b",
            Self::Fig4 => "mao-fig4",
            Self::Fig4SystemA => "mao-fig4-system-a",
            Self::Fig5 => "mao-fig5",
            Self::Fig6 => "mao-fig6",
        }
    }
}

/// What is under test beside more and more threads of a background.
#[derive(Debug, Clone, PartialEq)]
pub struct BackgroundCurve {
    /// What is under test.
    pub tested: &'static str,
    /// What the drive takes at most, in GB/s, where that is what is written to.
    pub drive_gb_per_s: Option<f64>,
    /// What runs beside it.
    pub background: &'static str,
    /// Largest published change in per cent of running alone, where there is a number.
    pub published_percent: Option<f64>,
    /// Bandwidth alone, in GB/s.
    pub alone_gb_per_s: f64,
    /// By threads of the background.
    pub points: Vec<BackgroundPoint>,
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackgroundPoint {
    /// Threads of the background.
    pub threads: usize,
    /// What they have together, in GB/s.
    pub background_gb_per_s: f64,
    /// Change of what is under test, in per cent of running alone.
    pub change_percent: f64,
}

impl BackgroundCurve {
    /// The point that is changed most.
    pub fn largest(&self) -> Option<&BackgroundPoint> {
        let size = |point: &&BackgroundPoint| point.change_percent.abs();
        self.points
            .iter()
            .max_by(|a, b| size(a).total_cmp(&size(b)))
    }

    /// The largest change in per cent; 0 without points.
    pub fn change_percent(&self) -> f64 {
        self.largest().map_or(0.0, |point| point.change_percent)
    }
}

/// Something that the paper says, and whether the model has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedShape {
    /// What it says.
    pub text: &'static str,
    /// Whether the model has it.
    pub is_met: bool,
}

/// Why a figure cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CurvesError {
    /// A profile is no machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A graph of this size cannot be drawn.
    #[error(transparent)]
    Size(#[from] KroneckerError),
    /// What was drawn is no graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// A figure in the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// Which.
    pub figure: CurvesFigure,
    /// The machine.
    pub system: System,
    /// All curves.
    pub curves: Vec<BackgroundCurve>,
    /// What the paper says of them.
    pub shapes: Vec<PublishedShape>,
}

/// Runs a figure in virtual time; `progress` is told of every curve done, and of how many there are.
///
/// # Errors
/// [`CurvesError`], none of which the built-in profiles and sizes have.
pub fn reproduce_curves(
    figure: CurvesFigure,
    mut progress: impl FnMut(usize, usize),
) -> Result<Curves, CurvesError> {
    let system = match figure {
        CurvesFigure::Fig3a | CurvesFigure::Fig3b | CurvesFigure::Fig4 => System::B,
        // Where the gain of figure 5 was seen; figure 6 does not tell.
        CurvesFigure::Fig5 | CurvesFigure::Fig6 | CurvesFigure::Fig4SystemA => System::A,
    };
    let machine = system.machine()?;
    let runs = runs(figure);
    let mut curves = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        curves.push(run.curve(&machine)?);
        progress(index + 1, runs.len());
    }
    if matches!(figure, CurvesFigure::Fig4 | CurvesFigure::Fig4SystemA) {
        curves = declines::curves(system, &mut progress)?;
    }
    if figure == CurvesFigure::Fig6 {
        let curve = GRAPH.curve(&machine, &GRAPH_THREADS)?;
        curves.push(BackgroundCurve {
            published_percent: Some((1.0 / GRAPH_TIMES - 1.0) * 100.0),
            ..curve
        });
        progress(1, 1);
    }
    let shapes = match figure {
        CurvesFigure::Fig3a => fig3a_shapes(&curves),
        CurvesFigure::Fig3b => fig3b_shapes(&curves),
        CurvesFigure::Fig4 | CurvesFigure::Fig4SystemA => declines::shapes(&curves),
        CurvesFigure::Fig5 => fig5_shapes(&curves),
        CurvesFigure::Fig6 => fig6_shapes(&curves),
    };
    Ok(Curves {
        figure,
        system,
        curves,
        shapes,
    })
}

/// A curve to be run.
pub(super) struct Run {
    pub(super) tested: &'static str,
    pub(super) drive_gb_per_s: Option<f64>,
    /// The slowest of these is what is under test.
    pub(super) groups: Vec<Group>,
    pub(super) background: &'static str,
    /// Threads of the background, and its groups, of which the first tells what it has.
    pub(super) besides: Vec<(usize, Vec<Group>)>,
    pub(super) published_percent: Option<f64>,
}

/// A group by more and more threads.
pub(super) fn by_threads(beside: Group, threads: &[usize]) -> Vec<(usize, Vec<Group>)> {
    let of = |threads: &usize| {
        let group = Group {
            threads: *threads,
            ..beside
        };
        (*threads, vec![group])
    };
    threads.iter().map(of).collect()
}

impl Run {
    fn write(
        tested: &'static str,
        drive_gb_per_s: f64,
        background: &'static str,
        beside: Group,
    ) -> Self {
        Self {
            tested,
            drive_gb_per_s: Some(drive_gb_per_s),
            groups: written_storage(drive_gb_per_s).into(),
            background,
            besides: by_threads(beside, &THREADS),
            published_percent: None,
        }
    }

    pub(super) fn curve(&self, machine: &Machine) -> Result<BackgroundCurve, MachineError> {
        let own = self.groups.len();
        let slowest = |found: &[f64]| found[..own].iter().copied().fold(f64::INFINITY, f64::min);
        let alone_gb_per_s = slowest(&bandwidths(machine, &self.groups)?);
        let of = |(threads, beside): &(usize, Vec<Group>)| {
            let found = bandwidths(machine, &[&self.groups[..], beside].concat())?;
            Ok(BackgroundPoint {
                threads: *threads,
                background_gb_per_s: found[own],
                change_percent: (slowest(&found) / alone_gb_per_s - 1.0) * 100.0,
            })
        };
        Ok(BackgroundCurve {
            tested: self.tested,
            drive_gb_per_s: self.drive_gb_per_s,
            background: self.background,
            published_percent: self.published_percent,
            alone_gb_per_s,
            points: self.besides.iter().map(of).collect::<Result<_, _>>()?,
        })
    }
}

const SEQUENTIAL: &str = "SSD write";
const RANDOM: &str = "SSD randwrite";
const STORES: &str = "CXL ntst";
const COPIES: [(&str, TierName, TierName); 4] = [
    ("CXL to CXL movdir64b", TierName::Far, TierName::Far),
    ("MMEM to CXL movdir64b", TierName::Near, TierName::Far),
    ("CXL to MMEM movdir64b", TierName::Far, TierName::Near),
    ("MMEM to MMEM movdir64b", TierName::Near, TierName::Near),
];

fn runs(figure: CurvesFigure) -> Vec<Run> {
    let stores = Group::new(TierName::Far, Access::NonTemporalStore, 1);
    match figure {
        CurvesFigure::Fig3a => {
            let of = |tested, rates: [f64; 3], published| {
                rates.map(|rate| Run {
                    published_percent: Some(published),
                    ..Run::write(tested, rate, STORES, stores)
                })
            };
            let sequential = of(SEQUENTIAL, SEQUENTIAL_GB_PER_S, SEQUENTIAL_PERCENT);
            let random = of(RANDOM, RANDOM_GB_PER_S, RANDOM_PERCENT);
            sequential.into_iter().chain(random).collect()
        }
        CurvesFigure::Fig3b => {
            let rate = RANDOM_GB_PER_S[RANDOM_GB_PER_S.len() - 1];
            let copies = COPIES.map(|(name, from, to)| {
                let copy = Group::copy(from, to, Access::NonTemporalStore, 1);
                Run::write(RANDOM, rate, name, copy)
            });
            let stores = Run::write(RANDOM, rate, STORES, stores);
            [stores].into_iter().chain(copies).collect()
        }
        CurvesFigure::Fig5 => vec![Run {
            tested: "dependent reads of MMEM",
            drive_gb_per_s: None,
            groups: vec![Group::chase(TierName::Near)],
            background: "CXL ld",
            besides: by_threads(Group::new(TierName::Far, Access::Load, 1), &LOAD_THREADS),
            published_percent: Some(DATABASE_PERCENT),
        }],
        // Of several applications, and not of groups of threads.
        CurvesFigure::Fig4 | CurvesFigure::Fig4SystemA | CurvesFigure::Fig6 => Vec::new(),
    }
}

/// The largest changes of all curves of that name, from the deepest loss on.
fn changes(curves: &[BackgroundCurve], is: impl Fn(&BackgroundCurve) -> bool) -> Vec<f64> {
    let of = curves.iter().filter(|curve| is(curve));
    let mut changes: Vec<f64> = of.map(BackgroundCurve::change_percent).collect();
    changes.sort_unstable_by(f64::total_cmp);
    changes
}

fn is_within(changes: &[f64], published: f64) -> bool {
    let ends = changes.first().zip(changes.last());
    ends.is_some_and(|(low, high)| (*low..=*high).contains(&published))
}

fn fig3a_shapes(curves: &[BackgroundCurve]) -> Vec<PublishedShape> {
    let of = |tested| changes(curves, |curve| curve.tested == tested);
    let (sequential, random) = (of(SEQUENTIAL), of(RANDOM));
    let loses_more = sequential.last() < random.first();
    vec![
        PublishedShape {
            text: "writes in order lose more than random ones, whatever drives of the range are",
            is_met: loses_more,
        },
        PublishedShape {
            text: "writes in order lose 80.9 %: within what the range of drives gives",
            is_met: is_within(&sequential, SEQUENTIAL_PERCENT),
        },
        PublishedShape {
            text: "random writes lose 54.5 %: within what the range of drives gives",
            is_met: is_within(&random, RANDOM_PERCENT),
        },
    ]
}

fn fig3b_shapes(curves: &[BackgroundCurve]) -> Vec<PublishedShape> {
    let of = |background: &str| changes(curves, |curve| curve.background == background);
    let loss = |background: &str| of(background).first().copied().unwrap_or(0.0);
    let stores = loss(STORES);
    let to_far = COPIES.iter().filter(|(_, _, to)| *to == TierName::Far);
    let to_far: Vec<f64> = to_far.map(|(name, ..)| loss(name)).collect();
    vec![
        PublishedShape {
            text: "copies to CXL memory take as non-temporal stores do: within 10 points",
            is_met: to_far.iter().all(|loss| (loss - stores).abs() <= 10.0),
        },
        PublishedShape {
            text: "copies to CXL memory take less than non-temporal stores",
            is_met: to_far.iter().all(|loss| *loss > stores),
        },
        PublishedShape {
            text: "copies from CXL to local memory take nothing: within 5 %",
            is_met: loss("CXL to MMEM movdir64b") >= -5.0,
        },
    ]
}

fn fig5_shapes(curves: &[BackgroundCurve]) -> Vec<PublishedShape> {
    let gain = changes(curves, |_| true).last().copied().unwrap_or(0.0);
    vec![PublishedShape {
        text: "RocksDB gains up to 21.2 % once CXL loads have more than 8 GB/s: a gain above 5 %",
        is_met: gain > 5.0,
    }]
}

fn fig6_shapes(curves: &[BackgroundCurve]) -> Vec<PublishedShape> {
    let changes = |curve: &BackgroundCurve| {
        let points = curve.points.iter();
        points.map(|point| point.change_percent).collect::<Vec<_>>()
    };
    let falls = |curve: &BackgroundCurve| changes(curve).is_sorted_by(|a, b| a > b);
    let times = |curve: &BackgroundCurve| 1.0 / (1.0 + curve.change_percent() / 100.0);
    vec![
        PublishedShape {
            text: "a trial takes longer with every thread of the background",
            is_met: curves.iter().all(falls),
        },
        PublishedShape {
            text: "up to 20.8 times as long: within a quarter",
            is_met: curves
                .iter()
                .all(|curve| (times(curve) / GRAPH_TIMES - 1.0).abs() <= 0.25),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(groups: &[Group], beside: Group, threads: usize) -> f64 {
        let machine = System::B.machine().unwrap();
        let run = Run {
            tested: "",
            drive_gb_per_s: None,
            groups: groups.to_vec(),
            background: "",
            besides: by_threads(beside, &[threads]),
            published_percent: None,
        };
        run.curve(&machine).unwrap().change_percent()
    }

    #[test]
    fn stores_take_more_from_fast_writes_than_from_slow_ones_and_copies_to_near_nothing() {
        let stores = Group::new(TierName::Far, Access::NonTemporalStore, 1);
        let to_near = Group::copy(TierName::Far, TierName::Near, Access::NonTemporalStore, 1);
        let sequential = change(&written_storage(4.0), stores, 28);
        let random = change(&written_storage(1.6), stores, 28);
        assert!((-90.0..-70.0).contains(&sequential), "{sequential}");
        assert!((-75.0..-45.0).contains(&random), "{random}");
        let copied = change(&written_storage(1.6), to_near, 16);
        assert!(copied.abs() < 5.0, "{copied}");
    }

    fn curve(
        tested: &'static str,
        background: &'static str,
        change_percent: f64,
    ) -> BackgroundCurve {
        BackgroundCurve {
            tested,
            drive_gb_per_s: Some(1.0),
            background,
            published_percent: None,
            alone_gb_per_s: 1.0,
            points: [0.3, change_percent, 0.1]
                .map(|change_percent| BackgroundPoint {
                    threads: 1,
                    background_gb_per_s: 1.0,
                    change_percent,
                })
                .to_vec(),
        }
    }

    fn met(shapes: &[PublishedShape]) -> Vec<bool> {
        shapes.iter().map(|shape| shape.is_met).collect()
    }

    #[test]
    fn shapes_follow_from_curves() {
        let of = |tested, changes: [f64; 2]| changes.map(|change| curve(tested, STORES, change));
        let all = [of(SEQUENTIAL, [-85.0, -70.0]), of(RANDOM, [-60.0, -20.0])].concat();
        assert_eq!(met(&fig3a_shapes(&all)), [true, true, true]);
        let all = [of(SEQUENTIAL, [-85.0, -50.0]), of(RANDOM, [-53.0, -20.0])].concat();
        assert_eq!(met(&fig3a_shapes(&all)), [false, true, false]);
        let with = |changes: [f64; 4]| {
            let mut all = vec![curve(RANDOM, STORES, -64.0)];
            let copies = COPIES.iter().zip(changes);
            all.extend(copies.map(|((name, ..), change)| curve(RANDOM, name, change)));
            met(&fig3b_shapes(&all))
        };
        assert_eq!(with([-60.0, -62.0, -3.0, -1.0]), [true, true, true]);
        assert_eq!(with([-75.0, -62.0, -6.0, -1.0]), [false, false, false]);
        assert_eq!(met(&fig5_shapes(&[curve("", "", 0.2)])), [false]);
        assert_eq!(met(&fig5_shapes(&[curve("", "", 12.0)])), [true]);
        let mut ranked = curve("", "", -50.0);
        assert_eq!(met(&fig6_shapes(&[ranked.clone()])), [false, false]);
        for (point, change) in ranked.points.iter_mut().zip([-50.0, -80.0, -95.0]) {
            point.change_percent = change;
        }
        assert_eq!(met(&fig6_shapes(&[ranked])), [true, true]);
    }
}
