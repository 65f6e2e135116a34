//! What goes to and from the tiers: who moves it, and how much of it may be moved.
//!
//! Every session has a [`TrafficAccount`], where its statements count what they read and write by tier
//! and by [`Task`]; what the engine does by itself is counted in one of its own. The sum over all
//! accounts, those of sessions that have ended included, is that of the engine.
//!
//! [`TierTraffic`] can have a limit, in bytes per second of each tier that is not near. Then those who
//! may wait ask for a [`Turn`] for what they have moved, and wait until it has come before they move
//! more. Who does not wait, such as a statement that an index leads to a few rows, is counted only.
//! Without a limit nobody asks: that there is none is one relaxed load.
//!
//! Nobody waits with a latch, or with the database's lock for commits.

mod account;
mod buckets;
mod counters;
mod rates;
mod step_turns;
mod turn;

use nearfar_memory::{TierBytes, TierId};
use nearfar_model::{Clock, RealClock};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

pub use account::TrafficAccount;
use buckets::Buckets;
use counters::Counters;
pub use counters::{Moved, Task};
use rates::{Key, Rates};
pub(crate) use step_turns::StepTurns;
pub use turn::Turn;

/// The number of a session, unlike that of any other of its engine.
pub type SessionId = u64;

/// The traffic of an engine with its tiers, and its limit.
#[derive(Debug, Default)]
pub struct TierTraffic {
    /// What waits are measured with, once there are any.
    clock: OnceLock<Arc<dyn Clock>>,
    /// What holds, as [`Limits::lowest`] says, so that it is read without a lock.
    limit: AtomicU64,
    limits: Mutex<Limits>,
    buckets: Mutex<Buckets>,
    /// Turns that are waited for at this moment.
    waiting: AtomicUsize,
    /// What the engine does by itself.
    own: Arc<Counters>,
    accounts: Mutex<Accounts>,
}

/// No limit, where one is kept as a number.
const NONE: u64 = 0;

/// Bytes per second of each tier that is not near.
#[derive(Debug, Default)]
struct Limits {
    /// What the engine was started with.
    at_first: Option<u64>,
    set: Option<u64>,
    regulated: Option<u64>,
}

impl Limits {
    fn lowest(&self) -> Option<u64> {
        let lowest = self.set.into_iter().chain(self.regulated).min();
        lowest.map(|limit| limit.max(TierTraffic::LIMIT_MIN))
    }
}

#[derive(Debug, Default)]
struct Accounts {
    open: BTreeMap<SessionId, Arc<Counters>>,
    /// What sessions have moved that are gone.
    ended: Counters,
    rates: Rates,
}

/// What one session, or the engine itself, has moved to and from one tier for one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrafficRow {
    /// The session; none for what the engine does by itself and for sessions that have ended.
    pub session: Option<SessionId>,
    /// The tier.
    pub tier: TierId,
    /// What for.
    pub task: Task,
    /// What was moved, and waited for.
    pub moved: Moved,
    /// Bytes read per second since the rows were last looked at, for a second at least.
    pub read_bytes_per_s: f64,
    /// The same of bytes written.
    pub written_bytes_per_s: f64,
}

impl TierTraffic {
    /// The least limit that there is, in bytes per second: with less, one step of a scan takes seconds.
    pub const LIMIT_MIN: u64 = 1 << 20;

    /// Traffic with this limit at first, in bytes per second of each tier that is not near.
    pub fn new(limit_bytes_per_s: Option<u64>) -> Arc<Self> {
        Self::with(limit_bytes_per_s, OnceLock::new())
    }

    /// The same, whose waits are measured with `clock`.
    pub fn with_clock(limit_bytes_per_s: Option<u64>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::with(limit_bytes_per_s, OnceLock::from(clock))
    }

    fn with(limit_bytes_per_s: Option<u64>, clock: OnceLock<Arc<dyn Clock>>) -> Arc<Self> {
        let traffic = Self {
            clock,
            ..Self::default()
        };
        traffic.change(|limits| {
            limits.at_first = limit_bytes_per_s;
            limits.set = limit_bytes_per_s;
        });
        Arc::new(traffic)
    }

    /// The limit that holds, in bytes per second: the lower one of those that were set and regulated.
    pub fn limit(&self) -> Option<u64> {
        let limit = self.limit.load(Relaxed);
        (limit != NONE).then_some(limit)
    }

    /// The limit that was set.
    pub fn limit_set(&self) -> Option<u64> {
        self.limits.lock().set
    }

    /// The limit that the engine was started with.
    pub fn limit_at_first(&self) -> Option<u64> {
        self.limits.lock().at_first
    }

    /// Sets the limit; who waits is told.
    pub fn set_limit(&self, bytes_per_s: Option<u64>) {
        self.change(|limits| limits.set = bytes_per_s);
    }

    /// Sets the limit of a controller, beside the one that was set.
    pub fn regulate(&self, bytes_per_s: Option<u64>) {
        self.change(|limits| limits.regulated = bytes_per_s);
    }

    fn change(&self, change: impl FnOnce(&mut Limits)) {
        let mut limits = self.limits.lock();
        change(&mut limits);
        let lowest = limits.lowest();
        if lowest.is_some() {
            // It may take milliseconds to make, which nobody is to wait for later.
            self.clock();
        }
        self.limit.store(lowest.unwrap_or(NONE), Relaxed);
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.clock.get_or_init(|| RealClock::shared() as _)
    }

    /// Turns that are waited for at this moment.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Seconds by the clock of waits.
    fn now_s(&self) -> f64 {
        self.clock().now().as_ns() as f64 * 1e-9
    }

    /// What all have moved to and from a tier for a task.
    pub fn moved(&self, tier: TierId, task: Task) -> Moved {
        let accounts = self.accounts.lock();
        let all = accounts.open.values().map(Arc::as_ref);
        let mut sum = Moved::default();
        for counters in all.chain([&*self.own, &accounts.ended]) {
            sum += counters.of(tier, task);
        }
        sum
    }

    /// Bytes that statements have read of the tables on a tier.
    pub fn bytes_read(&self, tier: TierId) -> u64 {
        let tasks = [Task::Scan, Task::Point];
        tasks
            .map(|task| self.moved(tier, task).read_bytes)
            .iter()
            .sum()
    }

    /// Bytes that all who can be made to wait have read from and written to each tier that is not near.
    pub fn far_bytes(&self) -> TierBytes {
        let accounts = self.accounts.lock();
        let all = accounts.open.values().map(Arc::as_ref);
        let mut sum = TierBytes::ZERO;
        for counters in all.chain([&*self.own, &accounts.ended]) {
            let waits = |(tier, task, _): &(TierId, Task, Moved)| {
                *tier != TierId::NEAR && *task != Task::Point
            };
            for (tier, _, moved) in counters.iter().filter(waits) {
                sum[tier] += moved.read_bytes + moved.written_bytes;
            }
        }
        sum
    }

    /// All that was moved: a row for each account, tier and task of which there is anything.
    pub fn rows(&self) -> Vec<TrafficRow> {
        let mut accounts = self.accounts.lock();
        let mut sums: BTreeMap<Key, Moved> = BTreeMap::new();
        let open = accounts.open.iter();
        let open = open.map(|(session, counters)| (Some(*session), &**counters));
        for (session, counters) in open.chain([(None, &*self.own), (None, &accounts.ended)]) {
            for (tier, task, moved) in counters.iter() {
                *sums.entry((session, tier, task)).or_default() += moved;
            }
        }
        let before = accounts.rates.look(&sums);
        let rows = sums.into_iter().map(|(key, moved)| {
            let (session, tier, task) = key;
            let (read_bytes_per_s, written_bytes_per_s) = before.since(key, &moved);
            TrafficRow {
                session,
                tier,
                task,
                moved,
                read_bytes_per_s,
                written_bytes_per_s,
            }
        });
        rows.collect()
    }

    fn open(&self, session: SessionId) -> Arc<Counters> {
        let counters = Arc::default();
        let mut accounts = self.accounts.lock();
        accounts.open.insert(session, Arc::clone(&counters));
        counters
    }

    /// Keeps what a session has moved that is gone.
    fn close(&self, session: SessionId) {
        let mut accounts = self.accounts.lock();
        if let Some(counters) = accounts.open.remove(&session) {
            accounts.ended.add_all(&counters);
            accounts.rates.end(session);
        }
    }
}

#[cfg(test)]
mod tests;
