//! Observers: how much of its undisturbed speed a victim has, and who moves how much to the slow tier.

mod groups;
mod metric;
mod metrics_page;
mod perf;
mod pressure;
mod probe;
mod rate;
mod resctrl;
mod server;
mod slow_tier;

pub(crate) use self::groups::{BYTES_PER_S, LEAST_BYTES_PER_S};
pub use self::groups::{
    GroupObserver, GroupSamples, GroupTraffic, GroupsSeen, Residence, ServerCounters, Sureness,
};
pub use self::metric::{Metric, Readings, in_background, of_file};
pub use self::pressure::{Pressure, Waits};
pub use self::probe::NearProbe;
pub use self::resctrl::Traffic;
pub use self::server::GroupServer;
pub use self::slow_tier::{CxlSeen, CxlTraffic, SlowTiers, cxl_events};
use crate::error::RegulateError;

/// Looks at a victim.
pub trait Observer {
    /// What it looks at, and what that leaves out: for people.
    fn tells(&self) -> &'static str;

    /// How it knows what the victim has.
    fn sureness(&self) -> Sureness;

    /// Share of its undisturbed speed that the victim had since the last call, taken at `now_ms`. What is
    /// no number says nothing.
    ///
    /// # Errors
    /// What keeps it from looking.
    fn victim(&mut self, now_ms: f64) -> Result<f64, RegulateError>;

    /// Of how much time before the last look it told. A look tells of what was before a change too, unless that is longer
    /// ago.
    fn window_ms(&self) -> f64 {
        0.0
    }

    /// What the victim waited for until the last look, where that is told.
    fn waits(&self) -> Option<Waits> {
        None
    }
}
