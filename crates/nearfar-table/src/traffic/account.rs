//! The traffic of one session, or of the engine itself.

use nearfar_memory::{TierBytes, TierId};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::buckets::Buckets;
use super::counters::{Counters, Moved, Task};
use super::turn::{QueuedAt, Turn};
use super::{NONE, SessionId, TierTraffic};

/// Where one session, or the engine itself, counts what it moves, and asks for its turns.
#[derive(Debug)]
pub struct TrafficAccount {
    pub(super) traffic: Arc<TierTraffic>,
    /// None for the engine itself.
    session: Option<SessionId>,
    pub(super) counters: Arc<Counters>,
    /// The most of the engine's limit that the session takes.
    percent: AtomicU8,
    pub(super) buckets: Mutex<Buckets>,
}

impl TrafficAccount {
    /// What a session takes of the engine's limit where nothing else is set.
    pub const PERCENT: u8 = 100;

    /// The account of a session, until it is dropped. No other of the engine has its number.
    pub fn of_session(traffic: &Arc<TierTraffic>, session: SessionId) -> Arc<Self> {
        Self::new(traffic, Some(session), traffic.open(session))
    }

    /// The account of what the engine does by itself.
    pub fn of_engine(traffic: &Arc<TierTraffic>) -> Arc<Self> {
        Self::new(traffic, None, Arc::clone(&traffic.own))
    }

    fn new(
        traffic: &Arc<TierTraffic>,
        session: Option<SessionId>,
        counters: Arc<Counters>,
    ) -> Arc<Self> {
        Arc::new(Self {
            traffic: Arc::clone(traffic),
            session,
            counters,
            percent: AtomicU8::new(Self::PERCENT),
            buckets: Mutex::default(),
        })
    }

    /// The traffic of all.
    pub fn traffic(&self) -> &Arc<TierTraffic> {
        &self.traffic
    }

    /// The most of the engine's limit that the session takes, in percent.
    pub fn percent(&self) -> u8 {
        self.percent.load(Relaxed)
    }

    /// Sets that, from 1 to 100.
    pub fn set_percent(&self, percent: u8) {
        self.percent.store(percent.clamp(1, 100), Relaxed);
    }

    /// The session's own limit in bytes per second, where it is lower than the engine's, which is
    /// `limit`.
    pub(super) fn own_limit(&self, limit: u64) -> Option<f64> {
        let percent = self.percent();
        (percent < Self::PERCENT).then(|| limit as f64 * f64::from(percent) / 100.0)
    }

    /// Counts what was read.
    pub fn read(&self, task: Task, bytes: &TierBytes) {
        for (tier, read_bytes) in bytes.iter() {
            let moved = Moved {
                read_bytes,
                ..Moved::default()
            };
            self.counters.add(tier, task, moved);
        }
    }

    /// Counts what was written.
    pub fn wrote(&self, task: Task, bytes: &TierBytes) {
        for (tier, written_bytes) in bytes.iter() {
            let moved = Moved {
                written_bytes,
                ..Moved::default()
            };
            self.counters.add(tier, task, moved);
        }
    }

    /// Counts what was not read, as another scan had just brought it near.
    pub fn saved(&self, task: Task, bytes: &TierBytes) {
        for (tier, saved_bytes) in bytes.iter() {
            let moved = Moved {
                saved_bytes,
                ..Moved::default()
            };
            self.counters.add(tier, task, moved);
        }
    }

    /// Takes `bytes`, which were moved, of what may be moved. The turn comes when they are there, and is
    /// to be waited for before more is moved. None where that is immediately.
    pub fn turn(self: &Arc<Self>, task: Task, bytes: &TierBytes) -> Option<Turn> {
        self.queue(task, bytes, |bytes| bytes)
    }

    /// The turn behind all that others have moved of these tiers so far, for who has moved nothing yet.
    pub fn turn_behind_others(self: &Arc<Self>, task: Task, tiers: &TierBytes) -> Option<Turn> {
        self.queue(task, tiers, |_| 0)
    }

    fn queue(
        self: &Arc<Self>,
        task: Task,
        bytes: &TierBytes,
        taken: impl Fn(u64) -> u64,
    ) -> Option<Turn> {
        let limit = self.traffic.limit.load(Relaxed);
        if limit == NONE {
            return None;
        }
        let far: Vec<_> = bytes
            .iter()
            .filter(|(tier, _)| *tier != TierId::NEAR)
            .collect();
        if far.is_empty() {
            return None;
        }
        let now_s = self.traffic.now_s();
        let places = far.into_iter().map(|(tier, bytes)| {
            let mut all = self.traffic.buckets.lock();
            let of_engine = all.of(tier, now_s, limit as f64).queue(now_s, taken(bytes));
            drop(all);
            let of_session = self.own_limit(limit).map(|own| {
                let mut own_buckets = self.buckets.lock();
                own_buckets.of(tier, now_s, own).queue(now_s, taken(bytes))
            });
            QueuedAt {
                tier,
                of_engine,
                of_session,
            }
        });
        let turn = Turn::new(self, task, places.collect());
        turn.left().is_some().then_some(turn)
    }
}

impl Drop for TrafficAccount {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            self.traffic.close(session);
        }
    }
}
