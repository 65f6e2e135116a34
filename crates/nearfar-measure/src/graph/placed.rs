//! A graph in regions, and its nodes ranked by threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use nearfar_kernels::{Adjacency, GraphError, NotWords, words, words_mut};
use nearfar_memory::{MemorySystem, PageSize, Placement, Region, RegionError, RegionOptions};
use nearfar_model::Native;
use serde_json::json;

use super::kronecker::KroneckerGraph;
use crate::divided::divided;
use crate::results::{Kind, Metric};
use crate::statistics::Summary;

/// Nodes that a thread takes at a time: few enough that threads end together although some nodes have most neighbours.
const PART_NODES: usize = 1024;

/// Passes of a trial, if ranks change for as long (Beamer 2017, GAPBS).
const PASSES_MAX: u32 = 20;

/// A trial is over when all ranks together change by less in a pass (GAPBS).
const CHANGE_MIN: f64 = 1e-4;

/// Why a graph cannot be placed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlacedGraphError {
    /// It gets no memory.
    #[error("no memory for the graph")]
    Region(#[from] RegionError),
    /// A region is no array of integers.
    #[error(transparent)]
    Words(#[from] NotWords),
    /// What was given is no graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// A graph with ranks and shares of its nodes, all in one placement.
#[derive(Debug)]
pub struct PlacedGraph {
    offsets: Region,
    neighbours: Region,
    ranks: Region,
    shares: Region,
}

/// One ranking of all nodes from the start on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// How long it took.
    pub seconds: f64,
    /// Passes over all nodes.
    pub passes: u32,
    /// By how much all ranks together changed in the last one.
    pub change: f64,
}

impl PlacedGraph {
    /// Puts a graph where `placement` says, on huge pages where the machine gives some.
    ///
    /// # Errors
    /// [`PlacedGraphError`]; nothing is left behind.
    pub fn new(
        system: &Arc<MemorySystem>,
        graph: &KroneckerGraph,
        placement: &Placement,
    ) -> Result<Self, PlacedGraphError> {
        let options = RegionOptions {
            page_size: PageSize::Huge,
            ..RegionOptions::default()
        };
        let region =
            |count: usize| Region::allocate(system, count * size_of::<u32>(), placement, options);
        let filled = |with: &[u32]| -> Result<Region, PlacedGraphError> {
            let mut region = region(with.len())?;
            words_mut(region.as_mut_slice())?.copy_from_slice(with);
            Ok(region)
        };
        let placed = Self {
            offsets: filled(&graph.offsets)?,
            neighbours: filled(&graph.neighbours)?,
            ranks: region(graph.nodes())?,
            shares: region(graph.nodes())?,
        };
        Adjacency::new(
            words(placed.offsets.as_slice())?,
            words(placed.neighbours.as_slice())?,
        )?;
        Ok(placed)
    }

    /// Bytes of all regions.
    pub fn bytes(&self) -> usize {
        let regions = [&self.offsets, &self.neighbours, &self.ranks, &self.shares];
        regions.map(Region::len).iter().sum()
    }

    /// Ranks all nodes with so many threads: passes until ranks change by less than 0.0001 together, and 20 at most. A
    /// pass begins when the one before is over, so that the ranks are the same for any number of threads. `None` if it
    /// was stopped.
    ///
    /// # Errors
    /// [`PlacedGraphError`].
    pub fn trial(
        &mut self,
        threads: usize,
        stop: &AtomicBool,
    ) -> Result<Option<Trial>, PlacedGraphError> {
        let graph = Adjacency::new(
            words(self.offsets.as_slice())?,
            words(self.neighbours.as_slice())?,
        )?;
        let ranks = words_mut(self.ranks.as_mut_slice())?;
        let shares = words_mut(self.shares.as_mut_slice())?;
        ranks.fill((1.0 / graph.nodes() as f32).to_bits());
        let mut trial = Trial {
            seconds: 0.0,
            passes: 0,
            change: f64::INFINITY,
        };
        let began = Instant::now();
        while trial.passes < PASSES_MAX && trial.change >= CHANGE_MIN {
            let starts = (0..).step_by(PART_NODES);
            let parts = starts.zip(ranks.chunks(PART_NODES).zip(shares.chunks_mut(PART_NODES)));
            divided(threads, stop, parts, |(first, (ranks, shares))| {
                graph.share(first..first + ranks.len(), ranks, shares, &Native);
                0.0
            });
            let shares = &*shares;
            let parts = (0..).step_by(PART_NODES).zip(ranks.chunks_mut(PART_NODES));
            trial.change = divided(threads, stop, parts, |(first, ranks)| {
                graph.gather(first..first + ranks.len(), shares, ranks, &Native)
            });
            trial.passes += 1;
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
        trial.seconds = began.elapsed().as_secs_f64();
        Ok(Some(trial))
    }

    /// The rank of every node after the last trial; together 1 but for what nodes without neighbours have lost.
    ///
    /// # Errors
    /// [`PlacedGraphError::Words`].
    pub fn ranks(&self) -> Result<impl ExactSizeIterator<Item = f32> + '_, PlacedGraphError> {
        let ranks = words(self.ranks.as_slice())?;
        Ok(ranks.iter().map(|bits| f32::from_bits(*bits)))
    }
}

/// `trial_seconds` over all trials, and what they were run on. None without trials.
pub fn trial_metrics(graph: &PlacedGraph, threads: usize, trials: &[Trial]) -> Vec<Metric> {
    let seconds: Vec<f64> = trials.iter().map(|trial| trial.seconds).collect();
    let (Some(summary), Some(last)) = (Summary::of(seconds.iter().copied()), trials.last()) else {
        return Vec::new();
    };
    let visited = graph.neighbours.len() / size_of::<u32>() * last.passes as usize;
    let measured = |name: &str, value: f64, unit: &str| {
        Metric::new(name, value, unit, Kind::Measured).with("threads", threads)
    };
    vec![
        Metric::of_runs("trial_seconds", &summary, "s", Kind::Measured)
            .with("threads", threads)
            .with("values", json!(seconds)),
        measured("neighbours_per_s", visited as f64 / summary.median, "1/s"),
        measured("passes", f64::from(last.passes), "count").with("change", last.change),
        measured("graph_bytes", graph.bytes() as f64, "B"),
    ]
}

#[cfg(test)]
mod tests {
    use nearfar_memory::{Budgets, TierId};
    use nearfar_topology::Topology;

    use super::*;

    fn placed(graph: &KroneckerGraph) -> PlacedGraph {
        let topology = Topology::this_machine().unwrap();
        let system = MemorySystem::new(&topology, &Budgets::new()).unwrap();
        PlacedGraph::new(&system, graph, &Placement::Bind(TierId::NEAR)).unwrap()
    }

    /// The definition in numbers of 8 bytes, node by node, by what each gives to its neighbours.
    fn by_definition(graph: &KroneckerGraph) -> (Vec<f64>, u32) {
        let nodes = graph.nodes();
        let mut ranks = vec![1.0 / nodes as f64; nodes];
        for passes in 1..=PASSES_MAX {
            let mut new = vec![0.15 / nodes as f64; nodes];
            for (rank, ends) in ranks.iter().zip(graph.offsets.windows(2)) {
                let neighbours = &graph.neighbours[ends[0] as usize..ends[1] as usize];
                for neighbour in neighbours {
                    new[*neighbour as usize] += 0.85 * rank / neighbours.len() as f64;
                }
            }
            let change: f64 = ranks
                .iter()
                .zip(&new)
                .map(|(old, new)| (new - old).abs())
                .sum();
            ranks = new;
            if change < CHANGE_MIN {
                return (ranks, passes);
            }
        }
        (ranks, PASSES_MAX)
    }

    #[test]
    fn ranks_are_those_of_the_definition_for_any_number_of_threads() {
        let graph = KroneckerGraph::draw(12, 16, 7).unwrap();
        let mut placed = placed(&graph);
        let (expected, passes) = by_definition(&graph);
        let mut of_one_thread = Vec::new();
        for threads in [1, 2, 5] {
            let trial = placed
                .trial(threads, &AtomicBool::new(false))
                .unwrap()
                .unwrap();
            assert_eq!(trial.passes, passes);
            assert!(
                trial.change < CHANGE_MIN && trial.seconds > 0.0,
                "{trial:?}"
            );
            let ranks: Vec<f32> = placed.ranks().unwrap().collect();
            for (rank, expected) in ranks.iter().zip(&expected) {
                assert!((f64::from(*rank) / expected - 1.0).abs() < 1e-5);
            }
            match of_one_thread.is_empty() {
                true => of_one_thread = ranks,
                false => assert_eq!(ranks, of_one_thread),
            }
        }
    }

    #[test]
    fn figures_have_all_trials_and_a_stop_ends_them() {
        let graph = KroneckerGraph::draw(5, 4, 7).unwrap();
        let mut placed = placed(&graph);
        assert_eq!(placed.trial(1, &AtomicBool::new(true)).unwrap(), None);
        assert!(trial_metrics(&placed, 1, &[]).is_empty());
        let trial = |seconds| Trial {
            seconds,
            passes: 10,
            change: 0.00005,
        };
        let metrics = trial_metrics(&placed, 1, &[trial(3.0), trial(1.0), trial(2.0)]);
        let value = |name: &str| {
            let metric = metrics.iter().find(|metric| metric.metric == name);
            metric.unwrap().value.get().unwrap()
        };
        assert!((value("trial_seconds") - 2.0).abs() < 1e-9);
        let visited = graph.neighbours.len() as f64 * 10.0;
        assert!((value("neighbours_per_s") - visited / 2.0).abs() < 1e-6);
        assert!(value("graph_bytes") >= (graph.neighbours.len() * 4) as f64);
    }
}
