//! Controllers in virtual time, on what the simulator says that victims and aggressors have.
//!
//! Queues fill and drain within microseconds, and controllers decide every few milliseconds. So a
//! [`Plant`] holds what the victim has in steady states, taken from the simulator for a number of speeds of
//! the aggressor, and time passes in ticks of ten milliseconds. A [`GroupsPlant`] does the same for an aggressor
//! and an innocent group beside it. What decides is the [`Regulator`](crate::regulator::Regulator) of machines, with observers and
//! knobs in virtual time.

mod groups;
mod plant;
mod recording;
mod regulated;
mod replay;
mod trace;

pub use self::groups::{GroupsPlant, GroupsQuality, Innocent, Telling, rate_groups};
pub use self::plant::{Plant, Scenario, Slowing};
pub use self::recording::Recording;
pub use self::replay::{
    GroupReplayed, Quality, Rated, Replayed, ReplayedQuality, Tick, rate, replay,
};
pub use self::trace::{Demand, Trace, read_trace};
