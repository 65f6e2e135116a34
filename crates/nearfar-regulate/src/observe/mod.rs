//! Observers: how much of its undisturbed speed a victim has, and who moves how much to the slow tier.

mod groups;
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
pub use self::pressure::{Pressure, Waits};
pub use self::probe::NearProbe;
pub use self::resctrl::Traffic;
pub use self::server::GroupServer;
pub use self::slow_tier::{CxlSeen, CxlTraffic, SlowTiers, cxl_events};
use crate::error::RegulateError;

/// Looks at a victim.
pub trait Observer {
    /// What it looks at, and how sure that is: for people.
    fn tells(&self) -> &'static str;

    /// Share of its undisturbed speed that the victim had since the last call, taken at `now_ms`. What is
    /// no number says nothing.
    ///
    /// # Errors
    /// What keeps it from looking.
    fn victim(&mut self, now_ms: f64) -> Result<f64, RegulateError>;

    /// What the victim waited for until the last look, where that is told.
    fn waits(&self) -> Option<Waits> {
        None
    }
}
