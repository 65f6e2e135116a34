//! Figure 4: the largest decline of applications, as far as they can be stood in for.
//!
//! Types are the paper's: A writes files beside CXL memory, B uses CXL memory beside storage, C local memory beside
//! CXL memory, and D CXL memory beside local memory. Inference streams its weights, and look-ups are dependent reads, as
//! a database's in memory.

use nearfar_model::simulation::{Access, Group, Machine, TierName};

use super::curves::{
    BackgroundCurve, CurvesError, GRAPH, GRAPH_TIMES, PublishedShape, Run, by_threads,
};
use super::system::System;
use crate::interference::written_storage;

/// Threads that stream weights.
const STREAMS: usize = 16;
/// Threads of the background beside many threads, and beside one or two, as far as the machine has cores for them.
const BESIDE_MANY: [usize; 5] = [4, 8, 16, 24, 32];
const BESIDE_FEW: [usize; 7] = [4, 8, 16, 24, 28, 32, 44];
/// Published largest declines of type A beside each operation, and of B, and of C.
const FILES: [(&str, f64); 3] = [("CXL ld", -20.0), ("CXL st", -44.0), ("CXL ntst", -90.0)];
const STORAGE_PERCENT: f64 = -12.0;
const NEAR_PERCENT: f64 = (1.0 / GRAPH_TIMES - 1.0) * 100.0;

/// Names with their type, as in the paper.
const FILE_WRITES: &str = "file writes-A";
const OF_STORAGE: [&str; 2] = ["inference-B", "look-ups-B"];
const OF_NEAR: [&str; 2] = ["inference-C", "look-ups-C"];
const OF_FAR: [&str; 2] = ["inference-D", "look-ups-D"];
const RANKED: &str = "PageRank-C";

/// Threads of the background, of these, for which a machine has cores beside so many.
fn besides(machine: &Machine, numbers: &[usize], tested: usize) -> Vec<usize> {
    let fits = |number: &usize| number + tested <= machine.cores as usize;
    numbers.iter().copied().filter(fits).collect()
}

/// In the order of backgrounds.
const OPERATIONS: [Access; 3] = [Access::Load, Access::Store, Access::NonTemporalStore];

/// Inference and look-ups in a tier.
fn in_memory(tier: TierName) -> [Vec<Group>; 2] {
    let streams = Group::new(tier, Access::Load, STREAMS);
    [vec![streams], vec![Group::chase(tier)]]
}

/// The three operations on a tier beside these, by more and more threads.
fn traffic(machine: &Machine, tier: TierName, tested: &[Group]) -> [Vec<(usize, Vec<Group>)>; 3] {
    let own = tested.iter().map(|group| group.threads).sum();
    let numbers = match own {
        STREAMS.. => besides(machine, &BESIDE_MANY, own),
        _ => besides(machine, &BESIDE_FEW, own),
    };
    OPERATIONS.map(|access| by_threads(Group::new(tier, access, 1), &numbers))
}

fn runs(system: System, machine: &Machine) -> Vec<Run> {
    let mut runs = Vec::new();
    let drive_gb_per_s = Some(system.drive_gb_per_s());
    let writes = written_storage(system.drive_gb_per_s());
    let besides = traffic(machine, TierName::Far, &writes);
    for ((background, percent), besides) in FILES.into_iter().zip(besides) {
        runs.push(Run {
            tested: FILE_WRITES,
            drive_gb_per_s,
            groups: writes.into(),
            background,
            besides,
            published_percent: Some(percent),
        });
    }
    let near = ["MMEM ld", "MMEM st", "MMEM ntst"];
    let far = FILES.map(|(background, _)| background);
    let types = [
        (OF_NEAR, TierName::Near, far, TierName::Far),
        (OF_FAR, TierName::Far, near, TierName::Near),
    ];
    for (names, tier, backgrounds, beside) in types {
        for (tested, groups) in names.into_iter().zip(in_memory(tier)) {
            let besides = traffic(machine, beside, &groups);
            for (background, besides) in backgrounds.into_iter().zip(besides) {
                runs.push(Run {
                    tested,
                    drive_gb_per_s: None,
                    groups: groups.clone(),
                    background,
                    besides,
                    published_percent: None,
                });
            }
        }
    }
    // Behind those of three curves, which reports show together.
    for (tested, groups) in OF_STORAGE.into_iter().zip(in_memory(TierName::Far)) {
        runs.push(Run {
            tested,
            drive_gb_per_s: None,
            groups,
            background: "SSD",
            besides: vec![(1, system.storage().into())],
            published_percent: Some(STORAGE_PERCENT),
        });
    }
    runs
}

/// All curves of the figure; `progress` is told of every one.
pub(super) fn curves(
    system: System,
    mut progress: impl FnMut(usize, usize),
) -> Result<Vec<BackgroundCurve>, CurvesError> {
    let machine = system.machine()?;
    let runs = runs(system, &machine);
    let all = runs.len() + 1;
    let mut curves = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        curves.push(run.curve(&machine)?);
        progress(index + 1, all);
    }
    curves.push(BackgroundCurve {
        tested: RANKED,
        published_percent: Some(NEAR_PERCENT),
        ..GRAPH.curve(&machine, &besides(&machine, &BESIDE_MANY, GRAPH.threads))?
    });
    progress(all, all);
    Ok(curves)
}

/// The deepest loss of these, in per cent; 0 where nothing is lost.
fn deepest(curves: &[BackgroundCurve], is: impl Fn(&BackgroundCurve) -> bool) -> f64 {
    let of = curves.iter().filter(|curve| is(curve));
    let changes = of.flat_map(|curve| curve.points.iter().map(|point| point.change_percent));
    changes.fold(0.0, f64::min)
}

pub(super) fn shapes(curves: &[BackgroundCurve]) -> Vec<PublishedShape> {
    let file = |(background, percent): (&str, f64)| {
        let loss = deepest(curves, |curve| {
            curve.tested == FILE_WRITES && curve.background == background
        });
        (loss - percent).abs() <= 10.0
    };
    let of = |names: &[&str]| deepest(curves, |curve| names.contains(&curve.tested));
    let storage = of(&OF_STORAGE);
    let pairs = OF_NEAR.iter().zip(&OF_FAR);
    let shape = |text, is_met| PublishedShape { text, is_met };
    vec![
        shape(
            "files lose up to 20 % beside CXL loads: within 10 points",
            file(FILES[0]),
        ),
        shape(
            "files lose up to 44 % beside CXL stores: within 10 points",
            file(FILES[1]),
        ),
        shape(
            "files lose up to 90 % beside CXL ntst: within 10 points",
            file(FILES[2]),
        ),
        shape(
            "CXL memory loses up to 12 % beside storage: a loss of 2 to 22 %",
            (-22.0..=-2.0).contains(&storage),
        ),
        shape(
            "local memory loses more beside CXL memory than CXL memory beside local memory, each application",
            pairs
                .into_iter()
                .all(|(near, far)| of(&[near]) < of(&[far])),
        ),
        shape(
            "local memory loses up to 95.2 % beside CXL memory: within 10 points",
            (of(&[OF_NEAR[0], OF_NEAR[1], RANKED]) - NEAR_PERCENT).abs() <= 10.0,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::curves::BackgroundPoint;
    use super::*;

    fn curve(tested: &'static str, background: &'static str, loss: f64) -> BackgroundCurve {
        let point = |change_percent| BackgroundPoint {
            threads: 1,
            background_gb_per_s: 1.0,
            change_percent,
        };
        BackgroundCurve {
            tested,
            drive_gb_per_s: None,
            background,
            published_percent: None,
            alone_gb_per_s: 1.0,
            points: [3.0, loss].map(point).into(),
        }
    }

    fn met(losses: [f64; 8]) -> Vec<bool> {
        let [ld, st, ntst, storage, inference, look_ups, far, ranked] = losses;
        let all = [
            curve(FILE_WRITES, "CXL ld", ld),
            curve(FILE_WRITES, "CXL st", st),
            curve(FILE_WRITES, "CXL ntst", ntst),
            curve(OF_STORAGE[0], "SSD", storage),
            curve(OF_NEAR[0], "CXL ntst", inference),
            curve(OF_NEAR[1], "CXL ntst", look_ups),
            curve(OF_FAR[0], "MMEM ntst", far),
            curve(RANKED, "CXL ntst", ranked),
        ];
        let shapes = shapes(&all);
        shapes.iter().map(|shape| shape.is_met).collect()
    }

    #[test]
    fn backgrounds_and_drives_are_those_of_the_two_machines() {
        let of = |system: System| {
            let machine = system.machine().unwrap();
            let many = besides(&machine, &BESIDE_MANY, STREAMS);
            let few = besides(&machine, &BESIDE_FEW, 2);
            (
                many.last().copied(),
                few.last().copied(),
                system.drive_gb_per_s(),
            )
        };
        assert_eq!(of(System::A), (Some(32), Some(44), 1.2));
        assert_eq!(of(System::B), (Some(16), Some(28), 4.0));
    }

    #[test]
    fn shapes_follow_from_losses() {
        let published = [-25.0, -50.0, -85.0, -12.0, -80.0, -70.0, -10.0, -95.0];
        assert_eq!(met(published), [true; 6]);
        let none = [0.0, 0.0, -60.0, 0.0, -40.0, 0.0, -50.0, -80.0];
        assert_eq!(met(none), [false; 6]);
    }

    #[test]
    fn look_ups_in_local_memory_lose_beside_stores_to_cxl_memory_and_none_beside_storage() {
        let system = System::B;
        let machine = system.machine().unwrap();
        let loss = |tested: &str, background: &str| {
            let runs = runs(system, &machine);
            let run = runs
                .iter()
                .find(|run| run.tested == tested && run.background == background);
            run.unwrap().curve(&machine).unwrap().change_percent()
        };
        assert!(loss("look-ups-C", "CXL ntst") < -50.0);
        assert!(loss("look-ups-B", "SSD").abs() < 5.0);
    }
}
