//! What holds for tasks and regions on any machine.

use nearfar_memory::{PageSize, PlaceName, Placement, PlacementSpec};

use super::planned::PlannedRegion;
use crate::access::kernels::Operation;
use crate::access::spec::{RegionSpec, RunSpec, SpecError, TaskSpec};

/// Bytes of an automatic region where the tier has enough (weisgut-2025, section 4.2).
const AUTO_BYTES: u64 = 7 << 30;

/// Bytes of an automatic region, of `regions`, on tiers that have so many left: whole huge pages.
pub(super) fn automatic_bytes(available_bytes: u64, regions: usize) -> u64 {
    let quarter = available_bytes / 4 / regions as u64;
    (AUTO_BYTES.min(quarter) >> 21 << 21).max(8192)
}

/// The size of a region's pages.
pub(super) fn page_size(region: &RegionSpec) -> PageSize {
    match region.huge_pages {
        true => PageSize::Huge,
        false => PageSize::Base,
    }
}

/// Refuses a region that has too few pages for one to lie on every place that its placement names: a
/// figure of it would be that of another placement.
pub(super) fn check_pages(
    spec: &RunSpec,
    region: &RegionSpec,
    bytes: u64,
) -> Result<(), SpecError> {
    let pages = bytes.div_ceil(page_size(region).bytes() as u64);
    let Some(place) = place_without_pages(&region.placement, pages) else {
        return Ok(());
    };
    let (size, advice) = match region.huge_pages {
        true => ("2 MiB", "make it larger, or write pages = \"base\""),
        false => ("4 KiB", "make it larger"),
    };
    let counted = match pages {
        1 => format!("one page of {size}"),
        _ => format!("{pages} pages of {size}"),
    };
    let message =
        format!("the region has {counted}, and none of it would lie on {place}: {advice}");
    Err(spec.error(&format!("region.{}.placement", region.name), message))
}

/// The first place that gets none of so many pages. A share of nothing or of all is meant.
fn place_without_pages(placement: &PlacementSpec, pages: u64) -> Option<&PlaceName> {
    match placement {
        Placement::Bind(_) => None,
        Placement::Interleave(places) => {
            place_without_turn(places.iter().map(|place| (place, 1)), pages)
        }
        Placement::Weighted(runs) => {
            let runs = runs
                .iter()
                .map(|(place, run)| (place, u64::from(run.get())));
            place_without_turn(runs, pages)
        }
        Placement::Split {
            first,
            first_share,
            rest,
        } => {
            let first_pages = (pages as f64 * first_share).round() as u64;
            let lacks_first = first_pages == 0 && *first_share > 0.0;
            let lacks_rest = first_pages >= pages && *first_share < 1.0;
            match (lacks_first, lacks_rest) {
                (true, _) => Some(first),
                (_, true) => Some(rest),
                _ => None,
            }
        }
    }
}

/// The first place that gets none of so many pages where places take turns, each with a run of them.
fn place_without_turn<'a>(
    runs: impl Iterator<Item = (&'a PlaceName, u64)>,
    pages: u64,
) -> Option<&'a PlaceName> {
    let mut start = 0;
    let (mut served, mut waiting) = (Vec::new(), Vec::new());
    for (place, run) in runs {
        let list = if start < pages {
            &mut served
        } else {
            &mut waiting
        };
        list.push(place);
        start += run;
    }
    waiting.into_iter().find(|place| !served.contains(place))
}

/// Checks what steps ask of their regions, and that a chain has its region to itself.
pub(super) fn check_steps(spec: &RunSpec, regions: &[PlannedRegion]) -> Result<(), SpecError> {
    for task in &spec.tasks {
        for step in &task.steps {
            for &region in step.regions.iter().chain(&step.source) {
                let name = &spec.regions[region].name;
                if step.operation == Operation::Chase
                    && spec.tasks.iter().any(|other| writes_to(other, region))
                {
                    let message =
                        format!("region {name:?} is written too: give the chase its own region");
                    return Err(spec.error(&format!("task.{}.operation", task.name), message));
                }
                if step.access_bytes > regions[region].bytes {
                    let message = format!("larger than region {name:?}");
                    return Err(spec.error(&format!("task.{}.access", task.name), message));
                }
            }
            if step.operation == Operation::Chase && step.regions.len() > 1 {
                let message = "a chain lies in one region: name it";
                return Err(spec.error(&format!("task.{}.region", task.name), message));
            }
        }
    }
    Ok(())
}

fn writes_to(task: &TaskSpec, region: usize) -> bool {
    task.steps.iter().any(|step| {
        step.regions.contains(&region)
            && (step.operation.writes() || task.writes_share.is_some_and(|share| share > 0.0))
    })
}
