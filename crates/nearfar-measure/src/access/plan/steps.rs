//! What holds for tasks and regions on any machine.

use super::planned::PlannedRegion;
use crate::access::kernels::Operation;
use crate::access::spec::{RunSpec, SpecError, TaskSpec};

/// Bytes of an automatic region where the tier has enough (weisgut-2025, section 4.2).
const AUTO_BYTES: u64 = 7 << 30;

/// Bytes of an automatic region, of `regions`, on tiers that have so many left: whole huge pages.
pub(super) fn automatic_bytes(available_bytes: u64, regions: usize) -> u64 {
    let quarter = available_bytes / 4 / regions as u64;
    (AUTO_BYTES.min(quarter) >> 21 << 21).max(8192)
}

/// Checks what steps ask of their regions, and that a chain has its region to itself.
pub(super) fn check_steps(spec: &RunSpec, regions: &[PlannedRegion]) -> Result<(), SpecError> {
    for task in &spec.tasks {
        for step in &task.steps {
            for &region in &step.regions {
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
