//! One run of one tree under one policy.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use nearfar_index::placement::{PlacedTree, Placer, Workers};
use nearfar_memory::TierId;
use nearfar_model::emulation::{EmulatedProbe, EmulatedThread};
use nearfar_model::{BandwidthShare, CACHE_LINE_BYTES, EmulatedTier, EmulationParameters};

use super::worker::{Board, Done, EndOnDrop, Left, Worker};
use crate::map::{Contestant, OpenError, PlacedMap, PlacedVisitor, TestKey};
use crate::placed::{
    EmulatedFigures, Moment, PlacedError, PlacedOptions, PlacedOutcome, Policy, PolicyMemory,
    Scale, TierTraffic, counter_bytes, leaves, oracle, stand_in_system, store_all, tree_bytes,
};
use crate::workload::{Distribution, KeySpace};

/// How long a run that should have ended waits for an operation before it looks again.
const SHORTEST_REST: Duration = Duration::from_micros(100);

/// Bytes of one of our trees with all keys and values of so many bytes, for [`run`].
///
/// # Errors
/// [`PlacedError`]: it takes no such keys, or there is no memory.
pub fn loaded_bytes<S: KeySpace>(
    contestant: Contestant,
    value_bytes: usize,
    keys: &S,
) -> Result<u64, PlacedError> {
    tree_bytes((contestant, value_bytes), keys, &stand_in_system()?)
}

/// Runs one tree, which has `tree_bytes` when it is loaded, under one policy: any but those of pages,
/// which only the model in virtual time has. `observe` is told the share of the run's time that is over.
///
/// # Errors
/// [`PlacedError`].
pub fn run<S: KeySpace>(
    options: &PlacedOptions,
    far: &EmulationParameters,
    (keys, tree_bytes): (&S, u64),
    observe: &mut dyn FnMut(f64),
) -> Result<PlacedOutcome, PlacedError> {
    check(options)?;
    let share = BandwidthShare::Threads(u32::try_from(options.threads).unwrap_or(u32::MAX));
    let tier = EmulatedTier::with_parameters(far.clone(), share)?;
    let near_bytes = options.near_bytes(tree_bytes);
    let source = PolicyMemory {
        near_bytes: Some(near_bytes),
        huge_pages: true,
        ..PolicyMemory::new(&stand_in_system()?, options.policy, options.near_percent)
    };
    let run = Run {
        options,
        keys,
        tier,
        tree_bytes,
        near_bytes,
        observe,
    };
    S::Key::open_placed(options.contestant, options.value_bytes, &source, run)?
}

fn check(options: &PlacedOptions) -> Result<(), PlacedError> {
    if !options.contestant.is_ours() {
        let contestant = options.contestant;
        return Err(OpenError::NotOurs { contestant }.into());
    }
    if options.policy.moves_pages() {
        let reason = format!(
            "{} moves pages, which only virtual time has; in emulated runs there are: {}",
            options.policy,
            Policy::of_nodes(),
        );
        let field = "policy";
        return Err(PlacedError::Options { field, reason });
    }
    options.check()
}

struct Run<'r, S> {
    options: &'r PlacedOptions,
    keys: &'r S,
    tier: Arc<EmulatedTier>,
    tree_bytes: u64,
    near_bytes: u64,
    observe: &'r mut dyn FnMut(f64),
}

impl<S: KeySpace> PlacedVisitor<S::Key> for Run<'_, S> {
    type Output = Result<PlacedOutcome, PlacedError>;

    fn visit<M: PlacedMap<S::Key>>(mut self, map: M) -> Self::Output {
        let began = Instant::now();
        let workers = self.load(&map)?;
        let tree = &**map.tree();
        let board = Board::new(self.options.threads);
        let cache_bytes = self.cache_bytes(tree);
        let far = far_addresses(tree);
        let threads = (0..self.options.threads).map(|thread| Worker {
            map: &map,
            keys: self.keys,
            board: &board,
            tally: &board.tallies[thread],
            requests: self.options.requests(self.keys, thread),
            batch: self.options.batch,
            probe: EmulatedProbe::new(far.clone()),
            emulated: EmulatedThread::new(&self.tier, cache_bytes),
            left: Left::default(),
        });
        let threads: Vec<_> = threads.collect();
        let (watched, left) = thread::scope(|scope| {
            let spawn = |worker: Worker<'_, M, S>| worker.run();
            let handles: Vec<_> = threads
                .into_iter()
                .map(|worker| scope.spawn(move || spawn(worker)))
                .collect();
            let watched = self.watch(tree, &board, workers.as_ref());
            let ends = handles.into_iter();
            let ends = ends.map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic)));
            (watched, ends.collect::<Result<Vec<Left>, _>>())
        });
        drop(workers);
        let contestant = self.options.contestant;
        let left = left.map_err(|error| PlacedError::Map { contestant, error })?;
        Ok(self.outcome((watched, left), tree, began))
    }
}

impl<S: KeySpace> Run<'_, S> {
    /// Loads the tree. Gives the threads that place it during the run, where a policy has some.
    fn load<M: PlacedMap<S::Key>>(
        &self,
        map: &M,
    ) -> Result<Option<Workers<Arc<M::Tree>>>, PlacedError> {
        let contestant = self.options.contestant;
        let failed = |error| PlacedError::Map { contestant, error };
        let placer = match self.options.policy.framework() {
            Some(framework) => Some(Placer::new(Arc::clone(map.tree()), framework)?),
            None => None,
        };
        if self.options.policy == Policy::Oracle {
            store_all::<S, M>(map, self.keys, |_| ()).map_err(failed)?;
            let requests = self.options.requests(self.keys, 0);
            oracle::learn::<S, M>(map, self.keys, (requests, oracle::REQUESTS_MIN))
                .map_err(failed)?;
            if let Some(placer) = placer {
                oracle::place(&placer);
            }
            return Ok(None);
        }
        let workers = placer.map(Workers::start).transpose();
        let workers = workers.map_err(PlacedError::Workers)?;
        store_all::<S, M>(map, self.keys, |_| ()).map_err(failed)?;
        map.tree().memory().quiesce();
        Ok(workers)
    }

    /// What a thread has of the cache for far lines: of its share, as much as far memory has of the
    /// tree.
    fn cache_bytes<T: PlacedTree>(&self, tree: &T) -> u64 {
        let parameters = self.tier.parameters();
        let of_a_core = parameters.cache_bytes.unwrap_or(0) / u64::from(parameters.cores);
        let far_share = 1.0 - near_bytes_share(tree);
        (of_a_core as f64 * far_share) as u64
    }

    /// Watches the threads until the run is over.
    fn watch<T: PlacedTree + Send + Sync + 'static>(
        &mut self,
        tree: &T,
        board: &Board,
        workers: Option<&Workers<Arc<T>>>,
    ) -> Watched {
        let options = self.options;
        let _ends = EndOnDrop(&board.is_over);
        let mut watched = Watched::default();
        let began = Instant::now();
        let end = options.warm_up + options.measured;
        let (mut done, mut moved, mut next) = (board.read(), moved(workers), options.slice);
        // On a machine that is busy otherwise, threads may not have had a turn by the end.
        while (began.elapsed() < end || watched.is_empty(board))
            && !board.is_over.load(Ordering::Relaxed)
        {
            if watched.start.is_none() && began.elapsed() >= options.warm_up {
                board.is_measured.store(true, Ordering::Relaxed);
                watched.start = Some((began.elapsed(), board.read(), moved));
            }
            // Figures are taken from the end of the warm-up on, wherever slices end.
            let until = match watched.start {
                None => next.min(options.warm_up),
                Some(_) => next.min(end),
            };
            let rest = until.saturating_sub(began.elapsed());
            thread::sleep(rest.max(SHORTEST_REST));
            if until < next {
                continue;
            }
            next += options.slice;
            let now = began.elapsed();
            if let Some((every, share)) = options.shift
                && let Distribution::HotRegion(region) = options.workload.distribution
            {
                let moves = (now.as_nanos() / every.as_nanos()) as f64;
                if moves > 0.0 {
                    board.move_hot_region((region.start_share + moves * share).fract());
                }
            }
            let (done_before, moved_before) = (done, moved);
            (done, moved) = (board.read(), self::moved(workers));
            self.tier.transfer_behind(
                moved.promoted_bytes - moved_before.promoted_bytes,
                moved.demoted_bytes - moved_before.demoted_bytes,
            );
            watched.series.push(moment(now, &done_before, &done, tree));
            (self.observe)(now.as_secs_f64().min(end.as_secs_f64()) / end.as_secs_f64());
        }
        watched.end = (began.elapsed(), board.read(), self::moved(workers));
        watched
    }

    fn outcome<T: PlacedTree>(
        &self,
        (watched, left): (Watched, Vec<Left>),
        tree: &T,
        began: Instant,
    ) -> PlacedOutcome {
        let (end, done, moved) = &watched.end;
        let none = (Duration::ZERO, Vec::new(), Moved::default());
        let (start, done_before, moved_before) = watched.start.as_ref().unwrap_or(&none);
        let measured = end.saturating_sub(*start);
        let sum = sum(done_before, done);
        let mut latencies_ns: Vec<f64> = Vec::new();
        for one in &left {
            latencies_ns.extend(&one.latencies_ns);
        }
        latencies_ns.sort_unstable_by(f64::total_cmp);
        let lines = |lines: u64, bandwidth: f64| (lines * CACHE_LINE_BYTES) as f64 / bandwidth;
        let busy_s = lines(
            sum.charged.lines_read,
            self.tier.read_bandwidth_bytes_per_s(),
        )
        .max(lines(
            sum.charged.lines_written,
            self.tier.write_bandwidth_bytes_per_s(),
        ));
        let far = TierTraffic {
            lines_read: sum.charged.lines_read,
            lines_written: sum.charged.lines_written,
            busy_share: busy_s / measured.as_secs_f64(),
        };
        let background_s = (moved.busy - moved_before.busy).as_secs_f64();
        let all_s = measured.as_secs_f64() * self.options.threads as f64 + background_s;
        let policy = self.options.policy;
        PlacedOutcome {
            operations_per_s: rate(done_before, done),
            latencies_ns,
            scale: Scale { factor: 1.0 },
            tree_bytes: self.tree_bytes,
            near_bytes_max: policy.near_bytes_max(self.near_bytes),
            moved_bytes: moved.bytes() - moved_before.bytes(),
            background_share: background_s / all_s,
            counter_bytes_share: counter_bytes(leaves(tree)) as f64 / self.tree_bytes.max(1) as f64,
            series: watched.series,
            lost: left.iter().map(|one| one.found.lost).sum(),
            traffic: [None, Some(far)],
            counted: self.options.measured,
            hot_set: None,
            sampled: None,
            emulated: Some(EmulatedFigures {
                operations: sum.operations,
                charged: sum.charged,
                waited_share: sum.waited_ns as f64 / (sum.busy_ns + sum.waited_ns).max(1) as f64,
            }),
            took: began.elapsed(),
        }
    }
}

/// What placement has done so far.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    promoted_bytes: u64,
    demoted_bytes: u64,
    /// Processor time of its threads.
    busy: Duration,
}

impl Moved {
    const fn bytes(&self) -> u64 {
        self.promoted_bytes + self.demoted_bytes
    }
}

fn moved<T: PlacedTree>(workers: Option<&Workers<Arc<T>>>) -> Moved {
    let mut moved = Moved::default();
    let Some(workers) = workers else {
        return moved;
    };
    let statistics = workers.placer().statistics();
    for tier in &statistics.tiers {
        moved.promoted_bytes += tier.moves.promoted_bytes;
        moved.demoted_bytes += tier.moves.demoted_bytes;
    }
    moved.busy = statistics.busy.iter().map(|(_, busy)| *busy).sum();
    moved
}

/// A moment, what each thread had done by then, and what placement had.
type Mark = (Duration, Vec<Done>, Moved);

/// What was seen of a run.
#[derive(Debug, Default)]
struct Watched {
    series: Vec<Moment>,
    /// When figures began to be taken.
    start: Option<Mark>,
    end: Mark,
}

impl Watched {
    /// Whether no operation was counted yet since figures are taken.
    fn is_empty(&self, board: &Board) -> bool {
        let done = |(_, before, _): &Mark| sum(before, &board.read()).operations;
        self.start.as_ref().map_or(0, done) == 0
    }
}

impl Board {
    fn read(&self) -> Vec<Done> {
        self.tallies.iter().map(|tally| tally.read()).collect()
    }
}

/// Operations per second of all threads together, each in the time that it spent on them.
fn rate(before: &[Done], after: &[Done]) -> f64 {
    let before = before
        .iter()
        .copied()
        .chain(std::iter::repeat(Done::default()));
    let rates = before.zip(after).map(|(before, after)| {
        let busy_s = (after.busy_ns - before.busy_ns) as f64 / 1e9;
        let operations = (after.operations - before.operations) as f64;
        if busy_s > 0.0 {
            operations / busy_s
        } else {
            0.0
        }
    });
    rates.sum()
}

/// What all threads have done between two moments.
fn sum(before: &[Done], after: &[Done]) -> Done {
    let before = before
        .iter()
        .copied()
        .chain(std::iter::repeat(Done::default()));
    let mut sum = Done::default();
    for (before, after) in before.zip(after) {
        let charged = after.charged.since(before.charged);
        sum.operations += after.operations - before.operations;
        sum.busy_ns += after.busy_ns - before.busy_ns;
        sum.waited_ns += after.waited_ns - before.waited_ns;
        sum.charged.latency_ns += charged.latency_ns;
        sum.charged.lines_read += charged.lines_read;
        sum.charged.lines_written += charged.lines_written;
        sum.charged.near_accesses += charged.near_accesses;
        sum.charged.far_accesses += charged.far_accesses;
    }
    sum
}

fn moment<T: PlacedTree>(at: Duration, before: &[Done], after: &[Done], tree: &T) -> Moment {
    let charged = sum(before, after).charged;
    let accesses = charged.near_accesses + charged.far_accesses;
    Moment {
        at,
        operations_per_s: rate(before, after),
        near_bytes_share: near_bytes_share(tree),
        near_accesses_share: charged.near_accesses as f64 / accesses.max(1) as f64,
    }
}

/// The share of a tree's bytes that are near.
fn near_bytes_share<T: PlacedTree>(tree: &T) -> f64 {
    let memory = tree.memory();
    memory.ledger(TierId::NEAR).used_bytes() as f64 / memory.used_bytes().max(1) as f64
}

/// The addresses of the nodes on far memory.
fn far_addresses<T: PlacedTree>(tree: &T) -> Range<usize> {
    let memory = tree.memory();
    memory.addresses(memory.farthest()).unwrap_or(0..0)
}
