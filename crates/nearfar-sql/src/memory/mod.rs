//! What the operators of queries may take, and who is refused when it is not enough.
//!
//! Every query has a pool of its own ([`QueryMemory`]) that draws on what all queries of the engine
//! may take together ([`EngineMemory`]). A query whose operator is refused spills where DataFusion
//! can ([`SpillAccount`]), and else fails with [`Refusal`]; what other queries hold is untouched. A query
//! that holds less than [`FLOOR_BYTES`] is refused by its own limit only, so that small queries go on
//! while a large one takes everything.
//!
//! The pool also ends queries that were given up: operators that gather rows ask it for memory with
//! every batch, many of them without letting go of their thread in between.

mod spilled;
mod statement;

pub use spilled::SpillAccount;
pub use statement::{Charge, StatementMemory};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::prelude::SessionConfig;
use nearfar_memory::{MemorySystem, TierId};
use parking_lot::{Mutex, RwLock};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::datafusion_names::{SORT_MERGER, SORTER};
use crate::error::{EngineError, LimitOf, Refusal};
use nearfar_topology::units::Bytes;

/// What a query may hold however much the others take.
pub const FLOOR_BYTES: u64 = 16 << 20;

/// The share of what tables leave of a tier that queries may take, where no limit is given: the
/// rest is for what operators do not account for, such as batches on their way.
const DEFAULT_SHARE: f64 = 0.8;

/// The share of a query's memory that its operators that can spill take as they come. They take of
/// the rest only up to an equal part each: it is for operators that can't spill, and for merging
/// what was spilled.
///
/// A half: the keys of rows that are merged take up to as much as the rows themselves
/// ([`QueryMemory::fitted`] has the other part of it), and a sort that has kept all its rows until
/// then can't spill any more. That is why a sort never has more than its equal part, however little
/// the others hold: what it merges in memory has to fit the part that is its own for merging.
const SPILLING_SHARE: f64 = 0.5;

/// What every operator may hold, whatever the others do: some take memory without asking, and one that
/// wants a few bytes for a sum must not fail for that.
const TRIFLE_BYTES: u64 = 64 << 10;

fn is_merger(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with(SORT_MERGER)
}

fn is_sorter(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with(SORTER)
}

/// The share of a query's memory that is for merging, so that the operators above it get some. Sorts of
/// one query may all merge concurrently, as below a join: each has an equal part of it, and no more, as one
/// that took the part of another would have it until its merge ends.
const MERGING_SHARE: f64 = 0.75;

/// The longest wait for operators that are being dropped.
const GIVING_BACK: Duration = Duration::from_millis(200);

/// What a sort sets apart for merging is at most one in so many bytes of its query's memory, over
/// all partitions.
const MERGE_RESERVATION_PARTS: usize = 8;

/// The memory that all queries of an engine share.
#[derive(Debug)]
pub struct EngineMemory {
    system: Arc<MemorySystem>,
    limit_bytes: Option<u64>,
    used_bytes: AtomicU64,
    /// Held between the question whether an operator may have memory and its taking it.
    granting: Mutex<()>,
}

impl EngineMemory {
    /// Queries together may take `limit_bytes` or, where that is not given, four fifths of what
    /// tables leave of the budget of the tier that their heap is on.
    pub fn new(system: Arc<MemorySystem>, limit_bytes: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            system,
            limit_bytes,
            used_bytes: AtomicU64::new(0),
            granting: Mutex::new(()),
        })
    }

    /// Bytes that operators of all queries hold.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }

    /// Bytes that queries may take whose heap is on `tier`.
    pub fn limit_bytes(&self, tier: TierId) -> u64 {
        self.limit_bytes.unwrap_or_else(|| {
            let nodes = self.system.info(tier).nodes();
            let beside = self
                .system
                .tiers()
                .filter(|(_, info)| info.nodes().iter().any(|node| nodes.contains(node)));
            let tables: u64 = beside
                .map(|(id, _)| self.system.usage(id))
                .map(|usage| usage.region_bytes + usage.pool_bytes)
                .sum();
            let left = self.system.usage(tier).budget_bytes.saturating_sub(tables);
            (left as f64 * DEFAULT_SHARE) as u64
        })
    }

    /// A pool for one query of a session whose heap is on `tier` and that may take `limit_bytes` at
    /// most.
    pub fn query(
        self: &Arc<Self>,
        session: &Arc<SessionMemory>,
        tier: TierId,
        limit_bytes: Option<u64>,
    ) -> Arc<QueryMemory> {
        Arc::new(QueryMemory {
            engine: Arc::clone(self),
            session: Arc::clone(session),
            tier,
            limit_bytes,
            used_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            refusal: Mutex::new(None),
            is_cancelled: AtomicBool::new(false),
            spilling: AtomicU64::new(0),
            merging: AtomicU64::new(0),
            is_watched: AtomicBool::new(false),
            watched: RwLock::default(),
            spilled: Arc::default(),
        })
    }
}

/// The memory that all queries of a session share.
#[derive(Debug)]
pub struct SessionMemory {
    limit_bytes: AtomicU64,
    used_bytes: AtomicU64,
}

impl SessionMemory {
    /// The limit of a session that has none but the engine's.
    pub const UNLIMITED: u64 = u64::MAX;

    /// Queries of the session together may take `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            limit_bytes: AtomicU64::new(limit_bytes),
            used_bytes: AtomicU64::new(0),
        })
    }

    /// Bytes that they may take.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Relaxed)
    }

    /// Changes what they may take. What they hold above it stays until they let it go.
    pub fn set_limit_bytes(&self, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, Relaxed);
    }
}

/// Cancels a query when it is dropped, which changes nothing for one that has ended.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(pub Arc<QueryMemory>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

thread_local! {
    static WATCHER: RefCell<Option<Arc<AtomicU64>>> = const { RefCell::new(None) };
}

/// Ends what [`watching`] began.
pub struct Watching(Option<Arc<AtomicU64>>);

/// Keeps in `bytes` what the consumers hold that this thread registers until the guard is dropped;
/// with nothing, watches none of them.
pub fn watching(bytes: Option<Arc<AtomicU64>>) -> Watching {
    Watching(WATCHER.replace(bytes))
}

impl Drop for Watching {
    fn drop(&mut self) {
        WATCHER.set(self.0.take());
    }
}

/// The memory of one query.
#[derive(Debug)]
pub struct QueryMemory {
    engine: Arc<EngineMemory>,
    session: Arc<SessionMemory>,
    tier: TierId,
    limit_bytes: Option<u64>,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    refusal: Mutex<Option<Refusal>>,
    is_cancelled: AtomicBool,
    /// Consumers that can spill.
    spilling: AtomicU64,
    /// Consumers that merge what was spilled.
    merging: AtomicU64,
    is_watched: AtomicBool,
    /// Where the bytes of some consumers are kept, by the consumer's number.
    watched: RwLock<HashMap<usize, Arc<AtomicU64>>>,
    spilled: Arc<SpillAccount>,
}

impl QueryMemory {
    /// The most that its operators held at one moment.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Relaxed)
    }

    /// What its operators have spilled.
    pub fn spilled(&self) -> &Arc<SpillAccount> {
        &self.spilled
    }

    /// `config` with what sorts set apart for merging fitted to the query's memory: DataFusion takes
    /// 10 MiB for each partition, which a small limit has not got.
    pub(crate) fn fitted(&self, config: &SessionConfig) -> SessionConfig {
        let (limit_bytes, _) = self.limit();
        let partitions = config.target_partitions().max(1);
        let most = limit_bytes as usize / MERGE_RESERVATION_PARTS / partitions;
        let set = config.options().execution.sort_spill_reservation_bytes;
        match set > most {
            true => config.clone().with_sort_spill_reservation_bytes(most),
            false => config.clone(),
        }
    }

    /// Refuses all further memory, so that operators end that would go on for a while before they
    /// look at anything else.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Relaxed);
    }

    /// Waits until all is given back by operators that are being dropped, which their threads do when
    /// they next let go. Not for long: what else holds memory may hold it until the query ends.
    pub(crate) async fn wait_for_operators(&self) {
        let began = Instant::now();
        while self.used_bytes.load(Relaxed) > 0 && began.elapsed() < GIVING_BACK {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The operator that was refused last.
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal.lock().clone()
    }

    /// Where the bytes of a reservation are kept, if that is asked for.
    fn watched(&self, reservation: &MemoryReservation) -> Option<Arc<AtomicU64>> {
        if !self.is_watched.load(Relaxed) {
            return None;
        }
        self.watched
            .read()
            .get(&reservation.consumer().id())
            .cloned()
    }

    fn take(&self, reservation: &MemoryReservation, bytes: u64) {
        if let Some(watched) = self.watched(reservation) {
            watched.fetch_add(bytes, Relaxed);
        }
        self.engine.used_bytes.fetch_add(bytes, Relaxed);
        self.session.used_bytes.fetch_add(bytes, Relaxed);
        let used = self.used_bytes.fetch_add(bytes, Relaxed) + bytes;
        self.peak_bytes.fetch_max(used, Relaxed);
    }

    /// What other queries of the session hold, and what they leave of its limit.
    fn session_share(&self) -> (u64, u64) {
        let query_bytes = self.used_bytes.load(Relaxed);
        let session_bytes = self.session.used_bytes.load(Relaxed);
        let others_bytes = session_bytes.saturating_sub(query_bytes);
        let left_bytes = self.session.limit_bytes().saturating_sub(others_bytes);
        (others_bytes, left_bytes)
    }

    /// What the query may hold now, and whose limit that is.
    fn limit(&self) -> (u64, LimitOf) {
        let query_bytes = self.used_bytes.load(Relaxed);
        let others_bytes = self.engine.used_bytes().saturating_sub(query_bytes);
        let engine_bytes = self.engine.limit_bytes(self.tier);
        let of_engine = engine_bytes.saturating_sub(others_bytes);
        let (session_others_bytes, of_session) = self.session_share();
        match self.limit_bytes {
            Some(own) if own <= of_engine.min(of_session) => (own, LimitOf::Query),
            _ if of_session < of_engine => {
                let others_bytes = session_others_bytes;
                let whose = LimitOf::Session { others_bytes };
                (self.session.limit_bytes(), whose)
            }
            _ => {
                let by_tier = self.engine.limit_bytes.is_none();
                let tier = by_tier.then(|| self.engine.system.info(self.tier).name.clone());
                (engine_bytes, LimitOf::Engine { others_bytes, tier })
            }
        }
    }

    /// What the query may hold with the `requested_bytes`, where it may hold `left_bytes` in all.
    fn allowed_bytes(
        &self,
        reservation: &MemoryReservation,
        requested_bytes: u64,
        left_bytes: u64,
    ) -> u64 {
        let consumer = reservation.consumer();
        let sorts = self.merging.load(Relaxed).max(1);
        let greedy_bytes = (left_bytes as f64 * SPILLING_SHARE) as u64;
        // What it has for sure, and what the query may hold if it takes more.
        let (part_bytes, else_bytes) = if is_merger(consumer) {
            ((left_bytes as f64 * MERGING_SHARE) as u64 / sorts, 0)
        } else if is_sorter(consumer) {
            (greedy_bytes / sorts, 0)
        } else if consumer.can_spill() {
            let spilling = self.spilling.load(Relaxed).max(1);
            (greedy_bytes / spilling, greedy_bytes)
        } else {
            (left_bytes, left_bytes)
        };
        // One that can spill and holds nothing has nothing to spill: it fails if it is refused.
        let is_first = consumer.can_spill() && reservation.size() == 0;
        if is_first || reservation.size() as u64 + requested_bytes <= part_bytes {
            left_bytes
        } else {
            else_bytes
        }
    }

    fn refuse(&self, reservation: &MemoryReservation, requested_bytes: u64) -> Option<Refusal> {
        if reservation.size() as u64 + requested_bytes <= TRIFLE_BYTES {
            return None;
        }
        let query_bytes = self.used_bytes.load(Relaxed);
        let wanted_bytes = query_bytes + requested_bytes;
        let (limit_bytes, whose) = self.limit();
        let others_bytes = match whose {
            LimitOf::Query => 0,
            LimitOf::Session { others_bytes } | LimitOf::Engine { others_bytes, .. } => {
                others_bytes
            }
        };
        let floor_bytes = match self.limit_bytes {
            Some(_) => 0,
            None => FLOOR_BYTES.min(self.session_share().1),
        };
        let left_bytes = limit_bytes.saturating_sub(others_bytes).max(floor_bytes);
        let allowed_bytes = self.allowed_bytes(reservation, requested_bytes, left_bytes);
        (wanted_bytes > allowed_bytes).then(|| Refusal {
            operator: reservation.consumer().name().to_owned(),
            requested_bytes,
            query_bytes,
            limit_bytes,
            whose,
        })
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "query memory (used {})",
            Bytes(self.used_bytes.load(Relaxed))
        )
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        "query memory"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.spilling
            .fetch_add(u64::from(consumer.can_spill()), Relaxed);
        self.merging
            .fetch_add(u64::from(is_merger(consumer)), Relaxed);
        WATCHER.with_borrow(|watcher| {
            if let Some(bytes) = watcher {
                self.watched
                    .write()
                    .insert(consumer.id(), Arc::clone(bytes));
                self.is_watched.store(true, Relaxed);
            }
        });
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.spilling
            .fetch_sub(u64::from(consumer.can_spill()), Relaxed);
        self.merging
            .fetch_sub(u64::from(is_merger(consumer)), Relaxed);
        if self.is_watched.load(Relaxed) {
            self.watched.write().remove(&consumer.id());
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.take(reservation, additional as u64);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if let Some(watched) = self.watched(reservation) {
            watched.fetch_sub(shrink as u64, Relaxed);
        }
        self.used_bytes.fetch_sub(shrink as u64, Relaxed);
        self.engine.used_bytes.fetch_sub(shrink as u64, Relaxed);
        self.session.used_bytes.fetch_sub(shrink as u64, Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if self.is_cancelled.load(Relaxed) {
            return Err(EngineError::Cancelled {
                what: "the query".to_owned(),
            }
            .into());
        }
        let _granting = self.engine.granting.lock();
        match self.refuse(reservation, additional as u64) {
            None => {
                self.take(reservation, additional as u64);
                Ok(())
            }
            Some(refusal) => {
                // Operators that can spill look for this variant.
                let error = DataFusionError::ResourcesExhausted(refusal.to_string());
                *self.refusal.lock() = Some(refusal);
                Err(error)
            }
        }
    }

    fn reserved(&self) -> usize {
        self.used_bytes.load(Relaxed) as usize
    }

    fn memory_limit(&self) -> MemoryLimit {
        let limit = self
            .limit_bytes
            .unwrap_or_else(|| self.engine.limit_bytes(self.tier));
        MemoryLimit::Finite(limit.min(self.session.limit_bytes()) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_memory::{Budgets, MachineRoots, TierKind, TierSpec};

    const MIB: u64 = 1 << 20;

    fn engine(limit_bytes: Option<u64>) -> Arc<EngineMemory> {
        let tier = |name: &str| TierSpec::new(name, TierKind::LocalDram, [0], 1000 * MIB);
        let nowhere = MachineRoots {
            proc: "nowhere".into(),
            sys: "nowhere".into(),
            cgroup: "nowhere".into(),
        };
        let budgets = Budgets::new().with_roots(nowhere);
        let system = MemorySystem::from_specs(vec![tier("near"), tier("far")], &budgets);
        EngineMemory::new(system.expect("a system"), limit_bytes)
    }

    fn unlimited() -> Arc<SessionMemory> {
        SessionMemory::new(SessionMemory::UNLIMITED)
    }

    fn query(engine: &Arc<EngineMemory>, limit_bytes: Option<u64>) -> Arc<dyn MemoryPool> {
        engine.query(&unlimited(), TierId::NEAR, limit_bytes)
    }

    fn consumer(pool: &Arc<dyn MemoryPool>, name: &str, can_spill: bool) -> MemoryReservation {
        MemoryConsumer::new(name)
            .with_can_spill(can_spill)
            .register(pool)
    }

    fn grow(reservation: &MemoryReservation, bytes: u64) -> Result<(), String> {
        reservation
            .try_grow(bytes as usize)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_query_meets_its_own_limit() {
        let engine = engine(None);
        let pool = query(&engine, Some(10 * MIB));
        let build = consumer(&pool, "HashJoinInput", false);
        grow(&build, 9 * MIB).expect("below the limit");
        let error = grow(&build, 2 * MIB).expect_err("above the limit");
        assert!(error.contains("HashJoinInput needs 2.00 MiB more, but the query holds 9.00 MiB"));
        assert!(
            error.contains("may hold 10.0 MiB; raise it with SET memory_limit"),
            "{error}"
        );
        drop(build);
        assert_eq!(engine.used_bytes(), 0);
    }

    #[test]
    fn small_queries_go_on_beside_a_large_one() {
        let engine = engine(Some(100 * MIB));
        let (large, small) = (query(&engine, None), query(&engine, None));
        let (greedy, modest) = (consumer(&large, "a", false), consumer(&small, "b", false));
        grow(&greedy, 100 * MIB).expect("all there is");
        let error = grow(&greedy, MIB).expect_err("more than there is");
        assert!(
            error.contains("of which others hold 0 B; raise the engine's memory limit"),
            "{error}"
        );
        grow(&modest, FLOOR_BYTES).expect("the floor");
        let error = grow(&modest, MIB).expect_err("more than the floor");
        assert!(error.contains("of which others hold 100 MiB"), "{error}");
    }

    #[test]
    fn queries_of_a_session_share_its_limit() {
        let engine = engine(Some(100 * MIB));
        let session = SessionMemory::new(20 * MIB);
        let of_session = || -> Arc<dyn MemoryPool> { engine.query(&session, TierId::NEAR, None) };
        let (one, two, other) = (of_session(), of_session(), query(&engine, None));
        let (first, second) = (consumer(&one, "a", false), consumer(&two, "b", false));
        grow(&first, 15 * MIB).expect("below the limit");
        let error = grow(&second, 6 * MIB).expect_err("above the limit, if below the floor");
        assert!(
            error.contains("may hold 20.0 MiB, of which others hold 15.0 MiB")
                && error.contains("SET session_memory_limit"),
            "{error}"
        );
        grow(&consumer(&other, "c", false), 70 * MIB).expect("another session");
        session.set_limit_bytes(30 * MIB);
        grow(&second, 6 * MIB).expect("below the new limit");
        drop(first);
        grow(&second, 20 * MIB).expect("what the other gave back");
    }

    #[test]
    fn operators_that_spill_leave_room_for_those_that_can_t() {
        let engine = engine(Some(200 * MIB));
        let pool = query(&engine, None);
        let (sort, other) = (
            consumer(&pool, "sort", true),
            consumer(&pool, "other", true),
        );
        let join = consumer(&pool, "join", false);
        grow(&sort, 100 * MIB).expect("a half");
        grow(&sort, MIB).expect_err("the other half is not for one that has a lot");
        grow(&other, 50 * MIB).expect("an equal part");
        grow(&join, 50 * MIB).expect("what is left");
        grow(&join, MIB).expect_err("nothing is left");
    }

    #[test]
    fn sorts_that_merge_concurrently_have_equal_parts() {
        let engine = engine(Some(80 * MIB));
        let pool = query(&engine, None);
        let (one, two) = (
            consumer(&pool, "ExternalSorterMerge[0]", false),
            consumer(&pool, "ExternalSorterMerge[1]", false),
        );
        grow(&one, 30 * MIB).expect("its part");
        grow(&one, MIB).expect_err("more than its part, of what the other may want");
        grow(&two, 30 * MIB).expect("its part");
        grow(&two, MIB).expect_err("more than its part");
        let sum = consumer(&pool, "AggregateStream[0]", false);
        let join = consumer(&pool, "join", false);
        grow(&join, 20 * MIB).expect("all that is left");
        grow(&sum, 1).expect("a trifle");
        grow(&sum, MIB).expect_err("more than a trifle");
    }

    /// Each of four sorts keeps what it may, and then merges it in memory while others merge what they
    /// spilled: none may be refused, whatever the order, as none of them could spill then.
    #[test]
    fn what_sorts_keep_they_can_merge() {
        for merging_in_memory in 0..=4 {
            let engine = engine(Some(56 * MIB));
            let pool = query(&engine, None);
            let sort = |n: u64| {
                let sorter = consumer(&pool, &format!("ExternalSorter[{n}]"), true);
                (
                    sorter,
                    consumer(&pool, &format!("ExternalSorterMerge[{n}]"), false),
                )
            };
            let sorts: Vec<_> = (0..4).map(sort).collect();
            let take_all = |reservation: &MemoryReservation| {
                grow(reservation, MIB).expect("a first part");
                while grow(reservation, MIB / 4).is_ok() {}
            };
            for (sorter, _) in &sorts[..merging_in_memory] {
                take_all(sorter);
            }
            for (_, merger) in &sorts[merging_in_memory..] {
                take_all(merger);
            }
            for (sorter, merger) in &sorts[..merging_in_memory] {
                grow(merger, sorter.size() as u64).expect("room for the keys of its rows");
            }
        }
    }

    #[test]
    fn who_can_spill_gets_a_first_batch_of_what_is_left() {
        let engine = engine(Some(80 * MIB));
        let pool = query(&engine, None);
        let join = consumer(&pool, "join", false);
        grow(&join, 20 * MIB).expect("some of it");
        let sort = consumer(&pool, "sort", true);
        grow(&sort, 50 * MIB).expect("it has nothing to spill");
        grow(&sort, MIB).expect_err("it has something to spill");
        grow(&join, 10 * MIB).expect("what is left");
    }

    #[test]
    fn the_limit_is_a_share_of_the_tier() {
        assert_eq!(engine(None).limit_bytes(TierId::NEAR), 800 * MIB);
        assert_eq!(engine(Some(5)).limit_bytes(TierId::NEAR), 5);
    }

    #[test]
    fn a_cancelled_query_gets_no_more() {
        let engine = engine(None);
        let memory = engine.query(&unlimited(), TierId::NEAR, None);
        let pool: Arc<dyn MemoryPool> = Arc::clone(&memory) as _;
        let sort = consumer(&pool, "sort", true);
        drop(CancelOnDrop(memory));
        assert!(grow(&sort, 1).expect_err("cancelled").contains("cancelled"));
    }

    #[test]
    fn bytes_of_watched_consumers_are_kept() {
        let engine = engine(None);
        let pool = query(&engine, None);
        let held = Arc::new(AtomicU64::new(0));
        let watched = {
            let _watching = watching(Some(Arc::clone(&held)));
            let inner = {
                let _unwatched = watching(None);
                consumer(&pool, "not watched", false)
            };
            grow(&inner, MIB).expect("room");
            consumer(&pool, "watched", false)
        };
        grow(&watched, 3 * MIB).expect("room");
        watched.shrink(MIB as usize);
        assert_eq!(held.load(Relaxed), 2 * MIB);
        drop(watched);
        assert_eq!(held.load(Relaxed), 0);
        grow(&consumer(&pool, "later", false), MIB).expect("room");
        assert_eq!(held.load(Relaxed), 0);
    }
}
