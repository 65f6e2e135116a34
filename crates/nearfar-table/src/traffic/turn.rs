//! Waiting until what was moved may have been moved.

use nearfar_memory::TierId;
use nearfar_regulate::bucket::Place;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::NONE;
use super::account::TrafficAccount;
use super::counters::{Moved, Task};

/// Between looks at whether the limit is another one by now.
const GLANCE: Duration = Duration::from_millis(100);

/// The same for who is asked whether it goes on.
const GLANCE_ON_THREAD: Duration = Duration::from_millis(20);

/// Where somebody stands in the queues for a tier.
#[derive(Debug)]
pub(super) struct QueuedAt {
    pub(super) tier: TierId,
    pub(super) of_engine: Place,
    /// Where the session takes a part of the limit only.
    pub(super) of_session: Option<Place>,
}

/// The turn of somebody who has moved bytes. Who gives it up waits no longer; the bytes stay moved.
#[derive(Debug)]
#[must_use = "nobody waits for a turn that is dropped"]
pub struct Turn {
    account: Arc<TrafficAccount>,
    task: Task,
    places: Vec<QueuedAt>,
}

impl Turn {
    pub(super) fn new(account: &Arc<TrafficAccount>, task: Task, places: Vec<QueuedAt>) -> Self {
        Self {
            account: Arc::clone(account),
            task,
            places,
        }
    }

    /// The tier that is waited for longest, and for how long, at the limit that holds now. None once
    /// the turn has come.
    pub(super) fn left(&self) -> Option<(TierId, Duration)> {
        let traffic = &self.account.traffic;
        let limit = traffic.limit.load(Relaxed);
        if limit == NONE {
            return None;
        }
        let now_s = traffic.now_s();
        let of_tier = |queued: &QueuedAt| {
            let mut all = traffic.buckets.lock();
            let bucket = all.of(queued.tier, now_s, limit as f64);
            let of_engine_s = bucket.wait_s(now_s, queued.of_engine);
            drop(all);
            let own = queued.of_session.zip(self.account.own_limit(limit));
            let of_session_s = own.map_or(0.0, |(place, own)| {
                let mut buckets = self.account.buckets.lock();
                let bucket = buckets.of(queued.tier, now_s, own);
                bucket.wait_s(now_s, place)
            });
            (queued.tier, of_engine_s.max(of_session_s))
        };
        let longest = self.places.iter().map(of_tier);
        let (tier, left_s) = longest.max_by(|one, other| one.1.total_cmp(&other.1))?;
        // No shorter than a clock can tell, so that it ends.
        let left = Duration::try_from_secs_f64(left_s).unwrap_or(Duration::MAX);
        (!left.is_zero()).then_some((tier, left))
    }

    /// Waits for the turn, and keeps no thread meanwhile. Whoever drops the future waits no longer.
    pub async fn wait(self) {
        let Some((tier, _)) = self.left() else {
            return;
        };
        let _waiting = Waiting::begin(&self, tier);
        while let Some((_, left)) = self.left() {
            tokio::time::sleep(left.min(GLANCE)).await;
        }
    }

    /// Waits for the turn on the calling thread, for as long as `go_on` says so.
    pub fn wait_on_thread(self, go_on: &dyn Fn() -> bool) {
        let Some((tier, _)) = self.left() else {
            return;
        };
        let _waiting = Waiting::begin(&self, tier);
        while let Some((_, left)) = self.left()
            && go_on()
        {
            std::thread::sleep(left.min(GLANCE_ON_THREAD));
        }
    }
}

/// A wait, which is counted when it begins, and its time when it ends, also where it is given up.
struct Waiting<'a> {
    turn: &'a Turn,
    tier: TierId,
    began_s: f64,
}

impl<'a> Waiting<'a> {
    fn begin(turn: &'a Turn, tier: TierId) -> Self {
        let traffic = &turn.account.traffic;
        traffic.waiting.fetch_add(1, Relaxed);
        let began = Moved {
            waits: 1,
            ..Moved::default()
        };
        turn.account.counters.add(tier, turn.task, began);
        Self {
            turn,
            tier,
            began_s: traffic.now_s(),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let traffic = &self.turn.account.traffic;
        traffic.waiting.fetch_sub(1, Relaxed);
        let waited_s = traffic.now_s() - self.began_s;
        let waited = Moved {
            wait: Duration::try_from_secs_f64(waited_s).unwrap_or_default(),
            ..Moved::default()
        };
        let account = &self.turn.account;
        account.counters.add(self.tier, self.turn.task, waited);
    }
}
