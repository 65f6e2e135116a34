//! The loop of mao-2025, section V-A.

use super::{Controller, Goal};

/// Each period in which the victim is severely disturbed, the quota is lowered. The paper gives neither
/// period nor step nor what severe is, and never raises: here a period is a second, a step halves, and
/// severe is what the paper's own result is not, less than 90 %.
#[derive(Debug, Clone)]
pub struct Published {
    goal: Goal,
    granted: f64,
}

/// Assumed, see [`Published`].
const PERIOD_MS: f64 = 1_000.0;
const STEP: f64 = 0.5;
const SEVERE: f64 = 0.9;

impl Published {
    /// A loop that has seen nothing.
    pub fn new(goal: Goal) -> Self {
        Self { goal, granted: 1.0 }
    }
}

impl Controller for Published {
    fn name(&self) -> &'static str {
        "published"
    }

    fn period_ms(&self) -> f64 {
        PERIOD_MS
    }

    fn floor(&self) -> f64 {
        self.goal.floor
    }

    fn is_disturbed(&self, victim: f64) -> bool {
        victim < SEVERE
    }

    fn decide(&mut self, _now_ms: f64, victim: f64) -> f64 {
        if self.is_disturbed(victim) {
            self.granted = (self.granted * STEP).max(self.goal.floor);
        }
        self.granted
    }

    fn release(&mut self) {
        self.granted = 1.0;
    }
}
