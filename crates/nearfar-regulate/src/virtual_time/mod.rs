//! Controllers in virtual time, on what the simulator says that victims and aggressors have.
//!
//! Queues fill and drain within microseconds, and controllers decide every few milliseconds. So a
//! [`Plant`] holds what the victim has in steady states, taken from the simulator for a number of speeds of
//! the aggressor, and time passes in ticks of ten milliseconds. A [`GroupsPlant`] does the same for an aggressor
//! and an innocent group beside it.

mod groups;
mod one;

pub use self::groups::{GroupsPlant, GroupsQuality, Innocent, Telling, rate_groups};
pub use self::one::{Demand, Plant, Quality, Scenario, Slowing, Tick, rate, read_trace, replay};
