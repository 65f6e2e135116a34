//! Figure 6: a graph in local memory is ranked beside non-temporal stores to CXL memory, by the kernel of
//! `nearfar-kernels` on virtual threads.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nearfar_kernels::Adjacency;
use nearfar_model::simulation::{Machine, PlacedBuffer, TierName, VirtualProbe};
use nearfar_model::{Native, Probe};

use super::curves::{BackgroundCurve, BackgroundPoint, CurvesError};
use crate::graph::KroneckerGraph;

/// What is ranked, and by how many threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranked {
    /// The binary logarithm of the number of nodes.
    pub scale: u32,
    /// By how much caches are smaller than those of the machine, for a graph that is so much smaller than one of scale 24.
    pub caches_by: u64,
    /// Threads that rank; the paper does not tell.
    pub threads: usize,
}

/// Edges drawn for each node.
const DEGREE: u32 = 16;
/// Nodes that a thread takes at a time.
const PART_NODES: usize = 64;
/// Stores of a thread of the background between two looks at whether the graph is ranked; one where it pauses, so that
/// nobody is waited for when the ranking has ended.
const STORES: usize = 64;
const LINE_BYTES: usize = 64;
/// Where the background stores, and how far apart its threads do.
const FAR_BEGIN: usize = 1 << 50;
const FAR_BYTES_LOG2: usize = 33;
/// Smallest first-level cache: with less, not even what is read in order is found again.
const L1_BYTES_MIN: u64 = 4096;

/// A graph that a regulated aggressor is set before, smaller than figure 6's, since many states of it are wanted.
const REGULATED: Ranked = Ranked {
    scale: 14,
    caches_by: 1024,
    threads: 16,
};
/// Threads of the aggressor (mao-2025, section V-A).
const REGULATED_STORES: usize = 16;

/// What stores to CXL memory and a ranking of a graph in local memory beside them have, while the stores are slowed.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedStates {
    /// Bandwidth of stores that are not slowed.
    pub full_gb_per_s: f64,
    /// Share of that, and share of its speed that the ranking has.
    pub steady: Vec<(f64, f64)>,
    /// Share of the frequency of the cores that store, and share of their bandwidth.
    pub frequencies: Vec<(f64, f64)>,
}

/// Ranks a graph beside 16 threads of stores to CXL memory that go at these shares of their speed, and at these of
/// their frequency, in virtual time. `progress` is told of every state done, and of how many there are.
///
/// # Errors
/// [`CurvesError`] for a machine with too few cores or without far memory.
pub fn rank_beside_slowed_stores(
    machine: &Machine,
    shares: &[f64],
    frequencies: &[f64],
    mut progress: impl FnMut(usize, usize),
) -> Result<RankedStates, CurvesError> {
    let core_ns = machine.core.access_ns + machine.core.line_ns;
    let machine = REGULATED.machine(machine);
    let graph = KroneckerGraph::draw(REGULATED.scale, DEGREE, 1)?;
    let states = shares.len() + frequencies.len();
    let mut done = 0;
    let mut pass = |stores: Stores| {
        let passed = REGULATED.pass(&machine, &graph, stores);
        done += 1;
        progress(done, states + 2);
        passed
    };
    let alone = pass(Stores::threads(0))?;
    let free = Stores::threads(REGULATED_STORES);
    let full = pass(free)?;
    let full_gb_per_s = full.stored_bytes / full.ns;
    let share = |passed: &Passed| (passed.stored_bytes / passed.ns / full_gb_per_s).min(1.0);
    let mut found = RankedStates {
        full_gb_per_s,
        steady: vec![(1.0, alone.ns / full.ns)],
        frequencies: Vec::new(),
    };
    for wanted in shares.iter().filter(|wanted| **wanted < 1.0) {
        let between_ns = (LINE_BYTES * REGULATED_STORES) as f64 / (full_gb_per_s * wanted);
        let slowed = pass(free.pausing(between_ns - core_ns))?;
        let left = (alone.ns / slowed.ns).min(1.0);
        found.steady.push((share(&slowed), left));
    }
    for frequency in frequencies {
        let slower = pass(free.pausing(core_ns * (1.0 / frequency - 1.0)))?;
        found.frequencies.push((*frequency, share(&slower)));
    }
    Ok(found)
}

/// Threads that store beside a ranking.
#[derive(Debug, Clone, Copy)]
struct Stores {
    threads: usize,
    /// Before each line.
    pause_ps: u32,
}

impl Stores {
    fn threads(threads: usize) -> Self {
        let pause_ps = 0;
        Self { threads, pause_ps }
    }

    fn pausing(mut self, pause_ns: f64) -> Self {
        self.pause_ps = (pause_ns.max(0.0) * 1e3) as u32;
        self
    }
}

/// One pass over a graph.
struct Pass<'a> {
    graph: Adjacency<'a>,
    shares: &'a [u32],
    /// Threads that rank and are not done.
    left: AtomicUsize,
    stores: Stores,
}

/// Parts of the ranks, with their first nodes, that no thread has taken.
type Parts<'a> = Mutex<Box<dyn Iterator<Item = (usize, &'a mut [u32])> + Send + 'a>>;

impl Pass<'_> {
    fn rank(&self, parts: &Parts<'_>, probe: &VirtualProbe) {
        loop {
            probe.wait();
            let part = parts.lock().ok().and_then(|mut parts| parts.next());
            let Some((first, ranks)) = part else {
                break;
            };
            let nodes = first..first + ranks.len();
            self.graph.gather(nodes, self.shares, ranks, probe);
        }
        probe.wait();
        self.left.fetch_sub(1, Ordering::Relaxed);
    }

    fn store(&self, number: usize, probe: &VirtualProbe) {
        let mut address = FAR_BEGIN + (number << FAR_BYTES_LOG2);
        let stores = if self.stores.pause_ps > 0 { 1 } else { STORES };
        while self.left.load(Ordering::Relaxed) > 0 {
            for _ in 0..stores {
                probe.compute_ps(self.stores.pause_ps);
                probe.write_non_temporal(address, LINE_BYTES);
                address += LINE_BYTES;
            }
            probe.wait();
        }
    }
}

impl Ranked {
    /// The machine with caches as small as the graph.
    fn machine(&self, machine: &Machine) -> Machine {
        let mut machine = machine.clone();
        machine.l3_bytes /= self.caches_by;
        machine.core.l2_bytes /= self.caches_by;
        machine.core.l1_bytes = (machine.core.l1_bytes / self.caches_by).max(L1_BYTES_MIN);
        machine
    }

    /// The curve over these threads of the background.
    pub(super) fn curve(
        &self,
        machine: &Machine,
        stores: &[usize],
    ) -> Result<BackgroundCurve, CurvesError> {
        let machine = self.machine(machine);
        let graph = KroneckerGraph::draw(self.scale, DEGREE, 1)?;
        let alone = self.pass(&machine, &graph, Stores::threads(0))?;
        let point = |threads: &usize| {
            let beside = self.pass(&machine, &graph, Stores::threads(*threads))?;
            Ok(BackgroundPoint {
                threads: *threads,
                background_gb_per_s: beside.stored_bytes / beside.ns,
                change_percent: (alone.ns / beside.ns - 1.0) * 100.0,
            })
        };
        Ok(BackgroundCurve {
            tested: "PageRank",
            drive_gb_per_s: None,
            background: "CXL ntst",
            published_percent: None,
            alone_gb_per_s: alone.loaded_bytes / alone.ns,
            points: stores
                .iter()
                .map(point)
                .collect::<Result<_, CurvesError>>()?,
        })
    }

    fn pass(
        &self,
        machine: &Machine,
        graph: &KroneckerGraph,
        stores: Stores,
    ) -> Result<Passed, CurvesError> {
        let nodes = graph.nodes();
        let mut ranks = vec![(1.0 / nodes as f32).to_bits(); nodes];
        let mut shares = vec![0; nodes];
        let adjacency = Adjacency::new(&graph.offsets, &graph.neighbours)?;
        adjacency.share(0..nodes, &ranks, &mut shares, &Native);
        let near = machine.devices(TierName::Near, 1)?;
        let buffer = |addresses, cycle| PlacedBuffer { addresses, cycle };
        let of = |words: &[u32]| buffer(addresses(words), near.clone());
        let mut buffers = [&*graph.offsets, &*graph.neighbours, &*ranks, &*shares]
            .map(of)
            .to_vec();
        let far = FAR_BEGIN..FAR_BEGIN + (stores.threads.max(1) << FAR_BYTES_LOG2);
        buffers.push(buffer(far, machine.devices(TierName::Far, 1)?));
        let pass = Pass {
            graph: adjacency,
            shares: &shares,
            left: AtomicUsize::new(self.threads),
            stores,
        };
        let first = (0..).step_by(PART_NODES);
        let parts: Parts<'_> = Mutex::new(Box::new(first.zip(ranks.chunks_mut(PART_NODES))));
        let (pass, parts) = (&pass, &parts);
        let thread = |number: usize| {
            move |probe: &VirtualProbe| match number.checked_sub(self.threads) {
                None => pass.rank(parts, probe),
                Some(number) => pass.store(number, probe),
            }
        };
        let threads = (0..self.threads + stores.threads).map(thread);
        let outcome = machine.run(&buffers, threads.collect())?;
        Ok(Passed {
            ns: outcome.elapsed_ns,
            loaded_bytes: outcome.load_bytes as f64,
            stored_bytes: outcome.store_bytes as f64,
        })
    }
}

/// What a pass took; what is stored is the background's but for the ranks.
struct Passed {
    ns: f64,
    loaded_bytes: f64,
    stored_bytes: f64,
}

fn addresses(words: &[u32]) -> Range<usize> {
    let range = words.as_ptr_range();
    range.start.addr()..range.end.addr()
}

#[cfg(test)]
mod tests {
    use super::super::system::System;
    use super::*;

    #[test]
    fn stores_slow_the_ranking_of_a_graph_that_no_cache_holds_more_the_more_there_are() {
        let machine = System::A.machine().unwrap();
        let ranked = Ranked {
            scale: 13,
            caches_by: 2048,
            threads: 8,
        };
        let curve = ranked.curve(&machine, &[8, 32]).unwrap();
        let changes: Vec<f64> = curve
            .points
            .iter()
            .map(|point| point.change_percent)
            .collect();
        assert!(
            changes[0] < -20.0 && changes[1] < changes[0] - 10.0,
            "{curve:?}"
        );
        assert!(curve.points[1].background_gb_per_s > 4.0, "{curve:?}");
        // A thread that pauses does not prolong the ranking by its pauses.
        let graph = KroneckerGraph::draw(ranked.scale, DEGREE, 1).unwrap();
        let machine = ranked.machine(&machine);
        let pass = |stores| ranked.pass(&machine, &graph, stores).unwrap().ns;
        let slowed = pass(Stores::threads(8).pausing(10_000.0));
        let alone = pass(Stores::threads(0));
        assert!(slowed < 1.1 * alone, "{slowed} of {alone}");
        // All that the kernel reads: neighbours, their shares, and the offsets.
        assert!(curve.alone_gb_per_s > 0.5, "{curve:?}");
    }
}
