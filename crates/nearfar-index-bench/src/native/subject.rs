//! One loaded map, whatever its type.

use std::hint::black_box;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use nearfar_measure::probe::Waiting;
use nearfar_model::Native;

use crate::latencies::Latencies;
use crate::map::{MapError, OrderedMap, SESSION_OPERATIONS, Session, Visitor};
use crate::perform::{Batch, Found, perform, read_batch};
use crate::workload::{Action, KeySpace, Pick, Request, Trace};

/// Every so many operations one is timed by itself.
const LATENCY_SAMPLE_EVERY: usize = 64;

/// How a map was loaded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loading {
    /// Keys stored per second, all threads together.
    pub keys_per_s: f64,
    /// Bytes that the map keeps of the allocator, as it asked for them; `None` where nobody counts.
    pub bytes: Option<u64>,
}

/// One run of one contestant.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Operations per second, all threads together.
    pub operations_per_s: f64,
    /// The largest share of its time that a thread waited for a processor; `None` if unknown.
    pub waited_share: Option<f64>,
    /// Times of single operations: one of many was timed by itself.
    pub latencies: Latencies,
    /// Keys that were asked for, are in the map, and were not found.
    pub lost: u64,
}

/// A map that can be loaded and run, without its type.
pub(super) trait Subject<S: KeySpace>: Send + Sync {
    /// Stores all keys, by so many threads.
    fn load(&self, keys: &S, threads: usize) -> Result<f64, MapError>;

    /// Runs a trace per thread; reads are looked up so many together.
    fn run(&self, traces: &[Trace], batch: usize) -> Result<Round, MapError>;

    /// Bytes that the map keeps account of itself.
    fn own_bytes(&self) -> Option<u64>;
}

/// Boxes a map of any type.
pub(super) struct Boxed<S>(PhantomData<fn() -> S>);

impl<S> Default for Boxed<S> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<S: KeySpace> Visitor<S::Key> for Boxed<S> {
    type Output = Box<dyn Subject<S>>;

    fn visit<M: OrderedMap<S::Key> + 'static>(self, map: M) -> Self::Output {
        Box::new(Tested { map, keys: self.0 })
    }
}

struct Tested<M, S> {
    map: M,
    keys: PhantomData<fn() -> S>,
}

impl<S: KeySpace, M: OrderedMap<S::Key>> Subject<S> for Tested<M, S> {
    fn load(&self, keys: &S, threads: usize) -> Result<f64, MapError> {
        let count = keys.count();
        let parts = on_threads(threads, |thread, start| {
            start.wait();
            let began = Instant::now();
            let (from, to) = slice(count, thread, threads);
            self.load_slice(keys, from..to)?;
            Ok((began, Instant::now()))
        })?;
        Ok(count as f64 / span(parts.into_iter()).as_secs_f64())
    }

    fn run(&self, traces: &[Trace], batch: usize) -> Result<Round, MapError> {
        let parts = on_threads(traces.len(), |thread, start| {
            let mut part = Part::default();
            start.wait();
            let waiting = Waiting::start();
            let began = Instant::now();
            self.run_trace(&traces[thread], batch, &mut part)?;
            let ended = Instant::now();
            let waited = waiting.elapsed();
            let share = |waited: Duration| waited.as_secs_f64() / (ended - began).as_secs_f64();
            Ok((began, ended, waited.map(share), part))
        })?;
        let operations: usize = traces.iter().map(|trace| trace.requests.len()).sum();
        let seconds = span(parts.iter().map(|part| (part.0, part.1))).as_secs_f64();
        let waited = parts.iter().map(|part| part.2);
        let most = waited.reduce(|a, b| Some(a?.max(b?))).flatten();
        let mut latencies = Latencies::default();
        parts
            .iter()
            .for_each(|part| latencies.append(&part.3.latencies));
        latencies.sort();
        Ok(Round {
            operations_per_s: operations as f64 / seconds,
            waited_share: most,
            latencies,
            lost: parts.iter().map(|part| part.3.found.lost).sum(),
        })
    }

    fn own_bytes(&self) -> Option<u64> {
        self.map.own_bytes()
    }
}

/// What a thread of a run found.
#[derive(Debug, Default)]
struct Part {
    latencies: Latencies,
    found: Found,
}

impl<S: KeySpace, M: OrderedMap<S::Key>> Tested<M, S> {
    fn load_slice(&self, keys: &S, ids: std::ops::Range<u64>) -> Result<(), MapError> {
        let mut arena = Vec::new();
        let mut id = ids.start;
        while id < ids.end {
            let mut session = self.map.session(&Native);
            let end = ids.end.min(id + SESSION_OPERATIONS as u64);
            while id < end {
                arena.clear();
                let token = keys.token(Pick::Id(id), &mut arena);
                session.insert(S::resolve(&token, &arena), id)?;
                id += 1;
            }
        }
        Ok(())
    }

    fn run_trace(&self, trace: &Trace, batch: usize, part: &mut Part) -> Result<(), MapError> {
        let mut room = Batch::new(batch);
        for requests in trace.requests.chunks(SESSION_OPERATIONS) {
            let mut session = self.map.session(&Native);
            let reads_only = requests
                .iter()
                .all(|request| request.action == Action::Read);
            if batch > 1 && reads_only {
                for requests in requests.chunks(batch) {
                    let (arena, found) = (&trace.arena, &mut part.found);
                    read_batch::<S, _>(&mut session, requests, arena, &mut room, found);
                }
            } else {
                run_one_by_one::<S, _>(&mut session, requests, &trace.arena, part)?;
            }
        }
        black_box(part.found.checksum);
        Ok(())
    }
}

fn run_one_by_one<S: KeySpace, M: Session<S::Key>>(
    session: &mut M,
    requests: &[Request],
    arena: &[u8],
    part: &mut Part,
) -> Result<(), MapError> {
    for requests in requests.chunks(LATENCY_SAMPLE_EVERY) {
        let Some((timed, others)) = requests.split_first() else {
            continue;
        };
        let began = Instant::now();
        perform::<S, M>(session, timed, arena, &mut part.found)?;
        let took_ns = began.elapsed().as_nanos() as f64;
        part.latencies.add(timed.action.kind(), took_ns);
        for request in others {
            perform::<S, M>(session, request, arena, &mut part.found)?;
        }
    }
    Ok(())
}

/// The part of `count` that is a thread's.
fn slice(count: u64, thread: usize, threads: usize) -> (u64, u64) {
    let at = |thread: usize| (u128::from(count) * thread as u128 / threads as u128) as u64;
    (at(thread), at(thread + 1))
}

/// From the first beginning to the last end.
fn span(parts: impl Iterator<Item = (Instant, Instant)>) -> Duration {
    let both = parts.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    both.map_or(Duration::ZERO, |(began, ended)| ended - began)
}

/// Runs `work` on so many threads, which all wait at the barrier before they start.
fn on_threads<T: Send>(
    threads: usize,
    work: impl Fn(usize, &Barrier) -> Result<T, MapError> + Sync,
) -> Result<Vec<T>, MapError> {
    let (start, work) = (&Barrier::new(threads), &work);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread, start)))
            .collect();
        let ends = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ends.collect()
    })
}
