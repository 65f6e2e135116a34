//! How much memory and time a plan takes.

use std::time::Duration;

use super::planned::{Plan, PlanTarget, PlannedRun};
use crate::access::kernels::Operation;
use crate::access::spec::{Length, TaskSpec};

/// Speed at which regions are filled and checked, for estimates of a plan's time.
const PREPARED_BYTES_PER_S: f64 = 1.5e9;

/// Speed of accesses by volume, for estimates of a plan's time.
const ACCESSED_BYTES_PER_S: f64 = 5e9;

/// Time of an access that is waited for, for estimates of a plan's time.
const WAITED_ACCESS_S: f64 = 200e-9;

/// Lines that the simulator follows in a second, for estimates of a plan's time.
const SIMULATED_LINES_PER_S: f64 = 5e6;

impl Plan {
    /// Most bytes that any run takes on all tiers together; none where it is simulated.
    pub fn memory_bytes(&self) -> u64 {
        if matches!(self.target, PlanTarget::Simulated(_)) {
            return 0;
        }
        let of_run = |run: &PlannedRun| run.regions.iter().map(|region| region.bytes as u64).sum();
        self.runs.iter().map(of_run).max().unwrap_or(0)
    }

    /// About how long all runs take, repetitions included.
    pub fn time(&self) -> Duration {
        let times = self.runs.iter().map(PlannedRun::time);
        times.fold(Duration::ZERO, Duration::saturating_add)
    }
}

impl PlannedRun {
    /// About how long all its repetitions take.
    pub fn time(&self) -> Duration {
        if let Some(window) = &self.window {
            let lines = (window.warm_lines + window.lines) as f64;
            return Duration::from_secs_f64(lines / SIMULATED_LINES_PER_S)
                .saturating_mul(self.spec.repetitions);
        }
        let once = match self.spec.length {
            Length::Time(time) => time,
            Length::Volume(bytes) => {
                let tasks = self.spec.tasks.iter().filter(|task| !task.background);
                let seconds = tasks.map(|task| task_s(task, bytes));
                Duration::from_secs_f64(seconds.fold(0.0, f64::max))
            }
        };
        let prepared: usize = self.regions.iter().map(|region| region.bytes).sum();
        let prepare = Duration::from_secs_f64(prepared as f64 / PREPARED_BYTES_PER_S);
        once.saturating_mul(self.spec.repetitions)
            .saturating_add(prepare)
    }
}

/// About how long a task takes to access so many bytes.
fn task_s(task: &TaskSpec, bytes: u64) -> f64 {
    let is_waited = |operation| matches!(operation, Operation::Chase | Operation::WriteFlush);
    let of_element = task.steps.iter().map(|step| {
        let bytes = step.access_bytes as f64;
        let access_s = if is_waited(step.operation) {
            WAITED_ACCESS_S
        } else {
            bytes / ACCESSED_BYTES_PER_S
        };
        (bytes * step.count as f64, access_s * step.count as f64)
    });
    let (element_bytes, element_s) = of_element.fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    let passes = bytes as f64 / element_bytes;
    passes * element_s
        / if is_waited(task.steps[0].operation) {
            task.threads as f64
        } else {
            1.0
        }
}
