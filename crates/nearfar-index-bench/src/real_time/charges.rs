//! What threads are charged for their accesses.

use std::time::Duration;

use nearfar_model::emulation::{Charged, EmulatedProbe, EmulatedThread};
use nearfar_model::{Native, Probe};

/// What a thread is charged beside the time that its accesses take.
pub(super) trait Charges: Send + 'static {
    /// Who hears of the accesses.
    type Probe: Probe + Send + 'static;

    /// Ends an operation.
    fn end_operation(probe: &Self::Probe);

    /// Has the thread wait for what the probe kept since the last time.
    fn settle(&mut self, probe: &Self::Probe);

    /// Everything that was charged so far.
    fn charged(&self) -> Charged;

    /// Time that charging took, which is none of the thread's.
    fn charging(&self) -> Duration;
}

impl Charges for EmulatedThread {
    type Probe = EmulatedProbe;

    fn end_operation(probe: &EmulatedProbe) {
        probe.end_operation();
    }

    fn settle(&mut self, probe: &EmulatedProbe) {
        Self::settle(self, probe);
    }

    fn charged(&self) -> Charged {
        Self::charged(self)
    }

    fn charging(&self) -> Duration {
        Self::charging(self)
    }
}

/// Nothing: memory takes the time that it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uncharged;

impl Charges for Uncharged {
    type Probe = Native;

    #[inline]
    fn end_operation(_probe: &Native) {}

    #[inline]
    fn settle(&mut self, _probe: &Native) {}

    fn charged(&self) -> Charged {
        Charged::default()
    }

    fn charging(&self) -> Duration {
        Duration::ZERO
    }
}
