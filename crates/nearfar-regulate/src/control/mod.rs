//! Controllers: how much of its speed an aggressor keeps.
//!
//! [`Shares`] splits that among several.
//!
//! All have one shape. At each of its periods a controller is told what share of its undisturbed speed
//! the victim has, and says what share of its speed the aggressor is granted: 1 is all of it.

mod goal;
mod published;
mod shares;
mod tier_aware;

pub use self::goal::Goal;
pub use self::published::Published;
pub use self::shares::{Rates, Shares};
pub use self::tier_aware::TierAware;

/// Decides what an aggressor is granted.
pub trait Controller {
    /// Its word in results.
    fn name(&self) -> &'static str;

    /// Time between two decisions.
    fn period_ms(&self) -> f64;

    /// The least share that it grants.
    fn floor(&self) -> f64;

    /// Whether a victim that has `victim` of its undisturbed speed is disturbed so much that somebody has to be
    /// slowed. What is no number is not.
    fn is_disturbed(&self, victim: f64) -> bool;

    /// The share that is granted from `now_ms` on, from the goal's floor to 1, after the victim had
    /// `victim` of its undisturbed speed since the last decision. What is no number changes nothing.
    fn decide(&mut self, now_ms: f64, victim: f64) -> f64;

    /// The aggressor is gone: what comes next is granted all.
    fn release(&mut self);
}
