//! Where requests spend their time: before the fill buffers, the L2 queue and the request table, on the link, and at
//! the device.

use std::ops::Sub;

use super::time::Ps;

/// Sums over the requests of a core, in picoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Lines that the program has touched.
    pub lines: u64,
    /// Requests that got an entry of the table: what the caches write back waits in the last level, and is not counted.
    pub requests: u64,
    /// Until a fill buffer was free.
    pub fill_buffers: Ps,
    /// Until the L2 queue had a place.
    pub l2_queue: Ps,
    /// Until the request table had an entry.
    pub table: Ps,
    /// On the way to the device and back.
    pub link: Ps,
    /// In the queue of the device and served by it.
    pub device: Ps,
    /// With an entry of the table.
    pub held: Ps,
    /// From the core to the answer, but for the last part of its way.
    pub answered: Ps,
}

impl Sub for Waits {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            lines: self.lines - before.lines,
            requests: self.requests - before.requests,
            fill_buffers: self.fill_buffers - before.fill_buffers,
            l2_queue: self.l2_queue - before.l2_queue,
            table: self.table - before.table,
            link: self.link - before.link,
            device: self.device - before.device,
            held: self.held - before.held,
            answered: self.answered - before.answered,
        }
    }
}

/// When a request was where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stay {
    pub ready: Ps,
    pub admitted: Ps,
    /// At the device.
    pub arrived: Ps,
    pub served: Ps,
    /// When it gave back its entry.
    pub released: Ps,
    /// For the core; before it is served for what is answered by the table.
    pub answered: Ps,
}

/// What network and devices know of the requests of each core.
#[derive(Debug, Clone, Default)]
pub(crate) struct NetworkWaits {
    pub of_cores: Vec<Waits>,
    /// Whose request the next one is.
    pub asking: usize,
}

impl NetworkWaits {
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            of_cores: vec![Waits::default(); cores],
            asking: 0,
        }
    }

    pub(crate) fn count(&mut self, stay: Stay) {
        let waits = &mut self.of_cores[self.asking];
        waits.requests += 1;
        waits.table += stay.admitted - stay.ready;
        let back = stay.answered.saturating_sub(stay.served);
        waits.link += stay.arrived - stay.admitted + back;
        waits.device += stay.served - stay.arrived;
        waits.held += stay.released - stay.admitted;
        waits.answered += stay.answered - stay.ready;
    }
}
