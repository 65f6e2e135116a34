//! Controllers: how much of its speed an aggressor keeps.
//!
//! All have one shape. At each of its periods a controller is told what share of its undisturbed speed
//! the victim has, and says what share of its speed the aggressor is granted: 1 is all of it.

mod goal;
mod published;
mod tier_aware;

pub use self::goal::Goal;
pub use self::published::Published;
pub use self::tier_aware::TierAware;

/// Decides what an aggressor is granted.
pub trait Controller {
    /// Its word in results.
    fn name(&self) -> &'static str;

    /// Time between two decisions.
    fn period_ms(&self) -> f64;

    /// The share that is granted from `now_ms` on, from the goal's floor to 1, after the victim had
    /// `victim` of its undisturbed speed since the last decision. What is no number changes nothing.
    fn decide(&mut self, now_ms: f64, victim: f64) -> f64;

    /// The aggressor is gone: what comes next is granted all.
    fn release(&mut self);
}
