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
/// Stores of a thread of the background between two looks at whether the graph is ranked.
const STORES: usize = 64;
const LINE_BYTES: usize = 64;
/// Where the background stores, and how far apart its threads do.
const FAR_BEGIN: usize = 1 << 50;
const FAR_BYTES_LOG2: usize = 33;
/// Smallest first-level cache: with less, not even what is read in order is found again.
const L1_BYTES_MIN: u64 = 4096;

/// One pass over a graph.
struct Pass<'a> {
    graph: Adjacency<'a>,
    shares: &'a [u32],
    /// Threads that rank and are not done.
    left: AtomicUsize,
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
        while self.left.load(Ordering::Relaxed) > 0 {
            for _ in 0..STORES {
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
        let alone = self.pass(&machine, &graph, 0)?;
        let point = |threads: &usize| {
            let beside = self.pass(&machine, &graph, *threads)?;
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
        stores: usize,
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
        let far = FAR_BEGIN..FAR_BEGIN + (stores.max(1) << FAR_BYTES_LOG2);
        buffers.push(buffer(far, machine.devices(TierName::Far, 1)?));
        let pass = Pass {
            graph: adjacency,
            shares: &shares,
            left: AtomicUsize::new(self.threads),
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
        let threads = (0..self.threads + stores).map(thread);
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
        // All that the kernel reads: neighbours, their shares, and the offsets.
        assert!(curve.alone_gb_per_s > 0.5, "{curve:?}");
    }
}
