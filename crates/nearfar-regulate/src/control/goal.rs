//! What a user asks for.

use crate::error::RegulateError;

/// A victim's share, and what it may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Share of its undisturbed speed that the victim shall have.
    pub victim: f64,
    /// Share of its speed that no aggressor falls below.
    pub floor: f64,
}

impl Default for Goal {
    /// 95 % for the victim, and at least 2 % for the aggressor.
    fn default() -> Self {
        Self {
            victim: 0.95,
            floor: 0.02,
        }
    }
}

impl Goal {
    /// Checks both.
    ///
    /// # Errors
    /// [`RegulateError::Goal`] for what is no share.
    pub fn check(self) -> Result<Self, RegulateError> {
        let shares = [("a goal", self.victim), ("a floor", self.floor)];
        match shares
            .into_iter()
            .find(|(_, value)| !(*value > 0.0 && *value < 1.0))
        {
            Some((what, value)) => Err(RegulateError::Goal {
                what,
                value,
                allowed: "give a share between 0 and 1",
            }),
            None => Ok(self),
        }
    }
}
