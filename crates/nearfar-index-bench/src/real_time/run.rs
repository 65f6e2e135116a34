//! One run of one tree under one policy.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use nearfar_index::placement::{PlacedTree, Placer, Worker as PlacementWorker, Workers};
use nearfar_memory::kernel_tiering::{KernelTiering, KernelTieringError};
use nearfar_memory::{MemorySystem, TierId};
use nearfar_model::emulation::{EmulatedProbe, EmulatedThread};
use nearfar_model::{BandwidthShare, CACHE_LINE_BYTES, EmulatedTier, EmulationParameters, Native};
use nearfar_topology::FAR;

use super::charges::{Charges, Uncharged};
use super::watched::{
    Moved, Watched, far_addresses, moment, moved, near_bytes_share, near_pages_share, rate, sum,
};
use super::worker::{Board, EndOnDrop, Left, Worker};
use crate::latencies::Latencies;
use crate::map::{Contestant, MemorySource, OpenError, PlacedMap, PlacedVisitor, TestKey};
use crate::placed::{
    Charged, EmulatedFigures, Mode, PlacedError, PlacedOptions, PlacedOutcome, Policy,
    PolicyMemory, Scale, TierTraffic, counter_bytes, leaves, oracle, stand_in_system, store_all,
    tree_bytes,
};
use crate::workload::{Distribution, KeySpace};

/// How long a run that should have ended waits for an operation before it looks again.
const SHORTEST_REST: Duration = Duration::from_micros(100);

/// Two tiers of this machine, of which one is near.
#[derive(Debug, Clone)]
pub struct OwnTiers {
    system: Arc<MemorySystem>,
    far: TierId,
}

/// A machine whose memory is all near.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this machine has no far memory to place on (there are: {}): leave the policies out, or run them with mode \
     emulated or virtual",
    tiers.join(", ")
)]
pub struct NoFarMemory {
    /// The tiers that there are.
    pub tiers: Vec<String>,
}

impl OwnTiers {
    /// Refuses a policy of the kernel's that this machine cannot have, before anything is run.
    ///
    /// # Errors
    /// [`KernelTieringError`].
    pub fn check(&self, policy: Policy) -> Result<(), KernelTieringError> {
        match policy.kernel() {
            Some((mover, _)) => KernelTiering::check(&self.system, self.far, mover),
            None => Ok(()),
        }
    }

    /// The nearest tier and the far one.
    ///
    /// # Errors
    /// [`NoFarMemory`].
    pub fn new(system: &Arc<MemorySystem>) -> Result<Self, NoFarMemory> {
        let far = system.tier(FAR).map_err(|_| NoFarMemory {
            tiers: system.tiers().map(|(_, tier)| tier.name.clone()).collect(),
        })?;
        let system = Arc::clone(system);
        Ok(Self { system, far })
    }

    /// Refuses a tree that is too small for policies of the kernel's, before it runs under any.
    pub(crate) fn check_share(
        &self,
        policies: &[Policy],
        near_bytes: u64,
    ) -> Result<(), KernelTieringError> {
        match policies.iter().any(|one| one.kernel().is_some()) {
            true => KernelTiering::check_share(&self.system, near_bytes),
            false => Ok(()),
        }
    }

    /// Near memory of this machine on both sides, of which one stands for a far tier.
    fn stand_in() -> Result<Self, PlacedError> {
        let (system, far) = stand_in_system()?;
        Ok(Self { system, far })
    }
}

/// Bytes of one of our trees with all keys and values of so many bytes, for [`run_emulated`] and [`run_on`]. It is made
/// in `source`, and dropped.
///
/// # Errors
/// [`PlacedError`]: it takes no such keys, or there is no memory.
pub fn loaded_bytes<S: KeySpace>(
    contestant: Contestant,
    value_bytes: usize,
    keys: &S,
    source: &dyn MemorySource,
) -> Result<u64, PlacedError> {
    tree_bytes((contestant, value_bytes), keys, source)
}

/// Runs one tree, which has `tree_bytes` when it is loaded, under one policy, with the far memory of a profile. Any
/// policy of nodes will do. `observe` is told the share of the
/// run's time that is over.
///
/// # Errors
/// [`PlacedError`].
pub fn run_emulated<S: KeySpace>(
    options: &PlacedOptions,
    far: &EmulationParameters,
    (keys, tree_bytes): (&S, u64),
    observe: &mut dyn FnMut(f64),
) -> Result<PlacedOutcome, PlacedError> {
    check(options, Mode::Emulated)?;
    let share = BandwidthShare::Threads(u32::try_from(options.threads).unwrap_or(u32::MAX));
    let tier = EmulatedTier::with_parameters(far.clone(), share)?;
    let tiers = OwnTiers::stand_in()?;
    run(options, (&tiers, Some(tier)), (keys, tree_bytes), observe)
}

/// As [`run_emulated`], on two tiers of this machine as they are. The policy may also be the kernel's, which takes root
/// and changes settings of the machine for the time of the run
/// ([`KernelTiering`](nearfar_memory::kernel_tiering::KernelTiering)).
///
/// # Errors
/// [`PlacedError`].
pub fn run_on<S: KeySpace>(
    tiers: &OwnTiers,
    options: &PlacedOptions,
    (keys, tree_bytes): (&S, u64),
    observe: &mut dyn FnMut(f64),
) -> Result<PlacedOutcome, PlacedError> {
    check(options, Mode::Native)?;
    run(options, (tiers, None), (keys, tree_bytes), observe)
}

fn run<S: KeySpace>(
    options: &PlacedOptions,
    (tiers, emulated): (&OwnTiers, Option<Arc<EmulatedTier>>),
    (keys, tree_bytes): (&S, u64),
    observe: &mut dyn FnMut(f64),
) -> Result<PlacedOutcome, PlacedError> {
    let near_bytes = options.near_bytes(tree_bytes);
    let kernel = options.policy.kernel();
    let source = PolicyMemory {
        near_bytes: Some(near_bytes),
        huge_pages: kernel.is_none_or(|(_, is_huge)| is_huge),
        ..PolicyMemory::new(
            (&tiers.system, tiers.far),
            options.policy,
            options.near_percent,
        )
    };
    let kernel = kernel
        .map(|(mover, _)| KernelTiering::start(&tiers.system, tiers.far, mover, near_bytes))
        .transpose()?;
    let run = Run {
        options,
        keys,
        emulated,
        kernel,
        tree_bytes,
        near_bytes,
        observe,
    };
    S::Key::open_placed(options.contestant, options.value_bytes, &source, run)?
}

fn check(options: &PlacedOptions, mode: Mode) -> Result<(), PlacedError> {
    if !options.contestant.is_ours() {
        let contestant = options.contestant;
        return Err(OpenError::NotOurs { contestant }.into());
    }
    options.check(mode)
}

struct Run<'r, S> {
    options: &'r PlacedOptions,
    keys: &'r S,
    /// The far tier, where it is emulated.
    emulated: Option<Arc<EmulatedTier>>,
    /// The kernel's placement, where that is the policy.
    kernel: Option<KernelTiering>,
    tree_bytes: u64,
    near_bytes: u64,
    observe: &'r mut dyn FnMut(f64),
}

impl<S: KeySpace> PlacedVisitor<S::Key> for Run<'_, S> {
    type Output = Result<PlacedOutcome, PlacedError>;

    fn visit<M: PlacedMap<S::Key>>(self, map: M) -> Self::Output {
        let Some(tier) = self.emulated.clone() else {
            return self.go(&map, || (Native, Uncharged));
        };
        self.go(&map, || {
            let tree = &**map.tree();
            let thread = EmulatedThread::new(&tier, cache_bytes(&tier, tree));
            (EmulatedProbe::new(far_addresses(tree)), thread)
        })
    }
}

/// What a thread has of the cache for far lines: of its share, as much as far memory has of the
/// tree.
fn cache_bytes<T: PlacedTree>(tier: &EmulatedTier, tree: &T) -> u64 {
    let parameters = tier.parameters();
    let of_a_core = parameters.cache_bytes.unwrap_or(0) / u64::from(parameters.cores);
    let far_share = 1.0 - near_bytes_share(tree);
    (of_a_core as f64 * far_share) as u64
}

impl<S: KeySpace> Run<'_, S> {
    /// Loads the tree, and has threads answer requests, each of which `charges` gives a probe and what charges it.
    fn go<M: PlacedMap<S::Key>, C: Charges>(
        mut self,
        map: &M,
        charges: impl Fn() -> (C::Probe, C),
    ) -> Result<PlacedOutcome, PlacedError> {
        let began = Instant::now();
        let workers = self.load(map)?;
        let tree = &**map.tree();
        let board = Board::new(self.options.threads);
        let threads = (0..self.options.threads).map(|thread| {
            let (probe, charges) = charges();
            Worker {
                map,
                keys: self.keys,
                board: &board,
                tally: &board.tallies[thread],
                requests: self.options.requests(self.keys, thread),
                batch: self.options.batch,
                probe,
                charges,
                left: Left::default(),
            }
        });
        let threads: Vec<_> = threads.collect();
        let (watched, left) = thread::scope(|scope| {
            let spawn = |worker: Worker<'_, M, S, C>| worker.run();
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

    /// Loads the tree. Gives the threads that place it during the run, where a policy has some.
    fn load<M: PlacedMap<S::Key>>(
        &self,
        map: &M,
    ) -> Result<Option<Workers<Arc<M::Tree>>>, PlacedError> {
        let contestant = self.options.contestant;
        let failed = |error| PlacedError::Map { contestant, error };
        let placer = match self.options.framework() {
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
        let (mut done, mut moved, mut next) = (board.read(), self.moved(workers), options.slice);
        // On a machine that is busy otherwise, threads may not have had a turn by the end.
        while (began.elapsed() < end || watched.is_empty(board))
            && !board.is_over.load(Ordering::Relaxed)
        {
            if watched.start.is_none() && began.elapsed() >= options.warm_up {
                board.is_measured.store(true, Ordering::Relaxed);
                watched.start = Some((began.elapsed(), board.read(), self.moved(workers)));
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
            done = board.read();
            if let Some(tier) = &self.emulated {
                moved = self.moved(workers);
                tier.transfer_behind(
                    moved.promoted_bytes - moved_before.promoted_bytes,
                    moved.demoted_bytes - moved_before.demoted_bytes,
                );
            }
            let at = (now, self.emulated.is_some());
            let near_share = self.near_bytes_share(tree);
            watched
                .series
                .push(moment(at, &done_before, &done, near_share));
            (self.observe)(now.as_secs_f64().min(end.as_secs_f64()) / end.as_secs_f64());
        }
        watched.end = (began.elapsed(), board.read(), self.moved(workers));
        watched.metadata_bytes = workers.map(|workers| workers.placer().metadata_bytes());
        watched
    }

    /// What placement has moved so far, whoever places.
    fn moved<T: PlacedTree>(&self, workers: Option<&Workers<Arc<T>>>) -> Moved {
        match &self.kernel {
            Some(kernel) => kernel.moves().into(),
            None => moved(workers),
        }
    }

    /// The share of a tree's bytes that are near: of its pages, where the kernel places those.
    fn near_bytes_share<T: PlacedTree>(&self, tree: &T) -> f64 {
        match &self.kernel {
            Some(kernel) => near_pages_share(tree, &kernel.near_nodes()),
            None => near_bytes_share(tree),
        }
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
        let mut latencies = Latencies::default();
        left.iter().for_each(|one| latencies.append(&one.latencies));
        latencies.sort();
        let busy_s = PlacementWorker::ALL.map(|worker| {
            let index = worker as usize;
            (
                worker,
                (moved.busy[index] - moved_before.busy[index]).as_secs_f64(),
            )
        });
        let background_s: f64 = busy_s.iter().map(|(_, seconds)| seconds).sum();
        let all_s = measured.as_secs_f64() * self.options.threads as f64 + background_s;
        let policy = self.options.policy;
        PlacedOutcome {
            operations_per_s: rate(done_before, done, self.emulated.is_some()),
            latencies,
            scale: Scale { factor: 1.0 },
            tree_bytes: self.tree_bytes,
            near_bytes_max: policy.near_bytes_max(self.near_bytes),
            moved_bytes: moved.bytes() - moved_before.bytes(),
            background_share: background_s / all_s,
            worker_shares: policy
                .has_workers()
                .then(|| busy_s.map(|(worker, seconds)| (worker, seconds / all_s))),
            metadata_bytes: watched.metadata_bytes,
            counter_bytes_share: counter_bytes(leaves(tree)) as f64 / self.tree_bytes.max(1) as f64,
            series: watched.series,
            lost: left.iter().map(|one| one.found.lost).sum(),
            traffic: [None, self.far_traffic(sum.charged, measured)],
            counted: self.options.measured,
            hot_set: None,
            sampled: None,
            emulated: self.emulated.is_some().then_some(EmulatedFigures {
                operations: sum.operations,
                charged: sum.charged,
            }),
            waited_share: Some(sum.waited_ns as f64 / (sum.busy_ns + sum.waited_ns).max(1) as f64),
            took: began.elapsed(),
        }
    }

    /// What far memory served in so much time, where it is emulated.
    fn far_traffic(&self, charged: Charged, time: Duration) -> Option<TierTraffic> {
        let tier = self.emulated.as_ref()?;
        let seconds =
            |lines: u64, bytes_per_s: f64| (lines * CACHE_LINE_BYTES) as f64 / bytes_per_s;
        let read_s = seconds(charged.lines_read, tier.read_bandwidth_bytes_per_s());
        let write_s = seconds(charged.lines_written, tier.write_bandwidth_bytes_per_s());
        Some(TierTraffic {
            lines_read: charged.lines_read,
            lines_written: charged.lines_written,
            busy_share: read_s.max(write_s) / time.as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use nearfar_index::Art;
    use nearfar_index::memory::NodeMemory;
    use nearfar_index::placement::{Allocation, Frontend, PlacementOptions, Tracking};

    use super::*;
    use crate::workload::Integers;

    const KEYS: u64 = 5_000;
    /// Time of a slice, and before figures are taken.
    const SLICE: Duration = Duration::from_millis(100);

    /// A tree that is all far, with workers that rest.
    fn far_tree() -> (Arc<Art<u64>>, Workers<Arc<Art<u64>>>) {
        let memory = NodeMemory::platform_with_budgets(&[1 << 19, 1 << 30]);
        let far = memory.farthest();
        let frontend = Frontend::new(Allocation::Bound(far), Tracking::Off, far);
        let tree = Arc::new(Art::with_memory(memory, frontend));
        for key in 0..KEYS {
            tree.insert(&key, key).unwrap();
        }
        let placer = Placer::new(Arc::clone(&tree), PlacementOptions::fitted()).unwrap();
        let workers = Workers::start(placer).unwrap();
        workers.pause();
        (tree, workers)
    }

    /// Reads some keys until leaves have been moved near.
    fn move_some(tree: &Art<u64>, workers: &Workers<Arc<Art<u64>>>) {
        for step in 1..1_000 {
            for key in (0..200).cycle().take(4_000) {
                assert_eq!(tree.get(&key), Some(key));
            }
            workers.placer().step(step * SLICE);
            if moved(Some(workers)).bytes() > 0 {
                return;
            }
        }
        panic!("nothing is moved");
    }

    /// Watches a run that moves something between its first slice and the end of its warm-up. None where the warm-up
    /// was over before.
    fn watch_moves() -> Option<Watched> {
        let options = PlacedOptions {
            warm_up: SLICE,
            measured: 1_000 * SLICE,
            slice: SLICE,
            ..PlacedOptions::of_reads(Policy::Fitted)
        };
        let (tree, workers) = far_tree();
        let board = Board::new(1);
        let mut slices = 0;
        let mut run = Run {
            options: &options,
            keys: &Integers::new(KEYS),
            emulated: None,
            kernel: None,
            tree_bytes: 1 << 20,
            near_bytes: 1 << 19,
            observe: &mut |_| {
                slices += 1;
                match slices {
                    1 => move_some(&tree, &workers),
                    _ => board.is_over.store(true, Ordering::Relaxed),
                }
            },
        };
        let watched = run.watch(&*tree, &board, Some(&workers));
        let start = watched.start.as_ref()?.0;
        (start >= watched.series[0].at).then_some(watched)
    }

    #[test]
    fn what_is_moved_before_figures_are_taken_is_none_of_them() {
        let watched = std::iter::repeat_with(watch_moves)
            .flatten()
            .next()
            .unwrap();
        let (_, _, before) = watched.start.unwrap();
        let (_, _, after) = watched.end;
        assert!(after.bytes() > 0);
        assert_eq!(before.bytes(), after.bytes());
        assert!(watched.metadata_bytes.is_some());
    }
}
