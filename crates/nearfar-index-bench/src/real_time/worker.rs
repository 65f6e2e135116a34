//! Threads that answer requests, and what they and the run share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nearfar_measure::probe::Waiting;
use nearfar_model::emulation::Charged;

use super::charges::Charges;
use crate::latencies::Latencies;
use crate::map::{MapError, OrderedMap, SESSION_OPERATIONS};
use crate::perform::{Batch, Found, perform, read_batch};
use crate::workload::{Action, KeySpace, Request, Requests, Trace};

/// Requests that are drawn together, while no time is taken.
const DRAWN: usize = 2048;
/// Operations after which a thread waits for what they were charged. A shorter wait would take less
/// than reading the clock.
const SETTLED_OPERATIONS: usize = 16;

/// What threads and the run tell each other.
#[derive(Debug)]
pub(super) struct Board {
    /// No operation begins any more.
    pub(super) is_over: AtomicBool,
    /// Latencies are kept.
    pub(super) is_measured: AtomicBool,
    /// Where the hot region begins, as the bits of a share; not a number until it has moved.
    hot_start: AtomicU64,
    pub(super) tallies: Vec<Tally>,
}

/// What one thread has done; written by it alone, and read at any time.
#[derive(Debug, Default)]
pub(super) struct Tally {
    operations: AtomicU64,
    /// Time spent on them, without what a thread waited for a processor.
    busy_ns: AtomicU64,
    /// Time waited for a processor.
    waited_ns: AtomicU64,
    charged: [AtomicU64; 5],
}

/// A [`Tally`] at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Done {
    pub(super) operations: u64,
    pub(super) busy_ns: u64,
    pub(super) waited_ns: u64,
    pub(super) charged: Charged,
}

impl Board {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            is_over: AtomicBool::new(false),
            is_measured: AtomicBool::new(false),
            hot_start: AtomicU64::new(f64::NAN.to_bits()),
            tallies: (0..threads).map(|_| Tally::default()).collect(),
        }
    }

    /// Lets the hot region begin elsewhere.
    pub(super) fn move_hot_region(&self, start_share: f64) {
        self.hot_start
            .store(start_share.to_bits(), Ordering::Relaxed);
    }

    fn hot_start(&self) -> Option<f64> {
        let share = f64::from_bits(self.hot_start.load(Ordering::Relaxed));
        (!share.is_nan()).then_some(share)
    }
}

impl Tally {
    fn add(&self, done: Done) {
        let add = |count: &AtomicU64, more: u64| count.fetch_add(more, Ordering::Relaxed);
        add(&self.busy_ns, done.busy_ns);
        add(&self.waited_ns, done.waited_ns);
        let charged = done.charged;
        let parts = [
            charged.latency_ns,
            charged.lines_read,
            charged.lines_written,
            charged.near_accesses,
            charged.far_accesses,
        ];
        for (count, part) in self.charged.iter().zip(parts) {
            add(count, part);
        }
        // Pairs with the load in `read`: who sees operations sees what they took and were charged.
        self.operations
            .fetch_add(done.operations, Ordering::Release);
    }

    /// What was done so far.
    pub(super) fn read(&self) -> Done {
        let operations = self.operations.load(Ordering::Acquire);
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [
            latency_ns,
            lines_read,
            lines_written,
            near_accesses,
            far_accesses,
        ] = self.charged.each_ref().map(read);
        Done {
            operations,
            busy_ns: read(&self.busy_ns),
            waited_ns: read(&self.waited_ns),
            charged: Charged {
                latency_ns,
                lines_read,
                lines_written,
                near_accesses,
                far_accesses,
            },
        }
    }
}

/// What a thread leaves when it ends.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) found: Found,
    /// Of single operations: their time on this machine, and the latency that they were charged, if any.
    pub(super) latencies: Latencies,
}

/// A thread that answers requests.
pub(super) struct Worker<'r, M, S, C: Charges> {
    pub(super) map: &'r M,
    pub(super) keys: &'r S,
    pub(super) board: &'r Board,
    pub(super) tally: &'r Tally,
    pub(super) requests: Requests,
    pub(super) batch: usize,
    pub(super) probe: C::Probe,
    pub(super) charges: C,
    pub(super) left: Left,
}

impl<S: KeySpace, M: OrderedMap<S::Key>, C: Charges> Worker<'_, M, S, C> {
    /// Answers requests until the run is over.
    pub(super) fn run(mut self) -> Result<Left, MapError> {
        let _ends = EndOnDrop(&self.board.is_over);
        let mut trace = Trace::default();
        while !self.board.is_over.load(Ordering::Relaxed) {
            if let Some(start) = self.board.hot_start() {
                self.requests.move_hot_region(start);
            }
            trace.clear();
            self.requests.draw(self.keys, DRAWN, &mut trace);
            let before = (self.charges.charged(), self.charges.charging());
            let waiting = Waiting::start();
            let began = Instant::now();
            for requests in trace.requests.chunks(SESSION_OPERATIONS) {
                self.answer(requests, &trace.arena)?;
            }
            let elapsed = began.elapsed();
            let waited = waiting.elapsed().unwrap_or_default().min(elapsed);
            let charging = self.charges.charging() - before.1;
            self.tally.add(Done {
                operations: trace.requests.len() as u64,
                busy_ns: busy_ns(elapsed, waited, charging),
                waited_ns: waited.as_nanos() as u64,
                charged: self.charges.charged().since(before.0),
            });
        }
        Ok(self.left)
    }

    fn answer(&mut self, requests: &[Request], arena: &[u8]) -> Result<(), MapError> {
        let mut session = self.map.session(&self.probe);
        let (found, charges) = (&mut self.left.found, &mut self.charges);
        let is_read = |request: &Request| request.action == Action::Read;
        if self.batch > 1 && requests.iter().all(is_read) {
            let mut room = Batch::new(self.batch);
            for requests in requests.chunks(self.batch) {
                read_batch::<S, _>(&mut session, requests, arena, &mut room, found);
                C::end_operation(&self.probe);
                charges.settle(&self.probe);
            }
            return Ok(());
        }
        let mut rest = requests;
        if let Some((first, others)) = requests.split_first()
            && self.board.is_measured.load(Ordering::Relaxed)
        {
            let (began, before) = (Instant::now(), charges.charged().latency_ns);
            perform::<S, _>(&mut session, first, arena, found)?;
            C::end_operation(&self.probe);
            let took_ns = began.elapsed().as_nanos() as u64;
            charges.settle(&self.probe);
            let waited_ns = charges.charged().latency_ns - before;
            let latency_ns = (took_ns + waited_ns) as f64;
            self.left.latencies.add(first.action.kind(), latency_ns);
            rest = others;
        }
        for requests in rest.chunks(SETTLED_OPERATIONS) {
            for request in requests {
                perform::<S, _>(&mut session, request, arena, found)?;
                C::end_operation(&self.probe);
            }
            charges.settle(&self.probe);
        }
        Ok(())
    }
}

/// What is left of `elapsed` without what the thread `waited` for a processor and without what was
/// `spent` on charging, of which a share was waited too.
fn busy_ns(elapsed: Duration, waited: Duration, spent: Duration) -> u64 {
    let ran = elapsed.saturating_sub(waited);
    let charging = spent.as_secs_f64() / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    ran.mul_f64((1.0 - charging).clamp(0.0, 1.0)).as_nanos() as u64
}

/// Has a run end when what holds it is dropped, also by an error or a panic.
#[derive(Debug)]
pub(super) struct EndOnDrop<'r>(pub(super) &'r AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charging_and_waiting_are_taken_off_once() {
        let ms = Duration::from_millis;
        assert_eq!(busy_ns(ms(10), ms(0), ms(0)), 10_000_000);
        assert_eq!(busy_ns(ms(10), ms(0), ms(3)), 7_000_000);
        // Half of everything was waited, also of charging.
        assert_eq!(busy_ns(ms(20), ms(10), ms(6)), 7_000_000);
        assert_eq!(busy_ns(ms(10), ms(10), ms(10)), 0);
        assert_eq!(busy_ns(ms(0), ms(0), ms(0)), 0);
    }
}
