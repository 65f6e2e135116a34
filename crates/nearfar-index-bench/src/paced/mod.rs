//! Our trees on this machine, with far memory that is modelled by pace: real threads work on real
//! trees, and each is held back for as long as the far tier of a profile would have kept it waiting.
//!
//! An operation runs natively, over near memory, and reports its accesses. Those to nodes on the
//! far tier are charged: a line that is not in the model of a core's share of the cache (`cache`) takes
//! the difference of far and near latency, lines that do not depend on each other take it together, as
//! many as a core has in flight, and prefetched ones while others are waited for (`lane`). After a few
//! operations their thread charges them, which is not timed, and waits for the latency, or for their
//! lines to pass the link of the tier, which all threads share (`pacer`). Placement runs as threads of
//! its own, at its own intervals, and what it moves passes the link too.
//!
//! What comes out is *modelled*: the processor's part is this machine's, far memory's the profile's.

mod cache;
mod lane;
mod pacer;
mod probe;
mod run;
mod worker;

pub use lane::Charged;
pub use run::{PacedFigures, loaded_bytes, run};
