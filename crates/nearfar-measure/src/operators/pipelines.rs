//! Pipelines that read the same far column at the same time: what the method that geyer-2023 cites for grouping groups.

use nearfar_kernels::copy::CopyMethod;

use super::fluid::{self, Phase};
use super::grid::{CHUNK_BYTES, CopierCount, OperatorGrid};
use super::joins::{Access, PROBE_S_PER_BYTE};
use super::machine::{FAR, OperatorMachine, SUM_S_PER_BYTE, Threads};

/// Bytes of the column in virtual time: some chunks of each copier (assumed).
const COLUMN_BYTES: usize = 32_000_000;

/// What pipelines do with the column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineWork {
    /// All of them sum it: what depends on the speed of memory most.
    Sum,
    /// All of them filter it into bitmaps.
    Filter,
    /// All of them look it up in a table of the caches.
    Probe,
    /// They sum, filter and probe in turn.
    Mixed,
}

impl PipelineWork {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Filter, Self::Probe, Self::Mixed];

    /// Its word in commands and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Filter => "filter",
            Self::Probe => "probe",
            Self::Mixed => "mixed",
        }
    }

    /// What the pipeline with this number does.
    pub(super) const fn of(self, pipeline: usize) -> PipelineOperator {
        match (self, pipeline % 3) {
            (Self::Sum, _) | (Self::Mixed, 0) => PipelineOperator::Sum,
            (Self::Filter, _) | (Self::Mixed, 1) => PipelineOperator::Filter,
            (Self::Probe | Self::Mixed, _) => PipelineOperator::Probe,
        }
    }
}

/// What one pipeline does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipelineOperator {
    Sum,
    Filter,
    Probe,
}

impl PipelineOperator {
    /// Core time of a byte in virtual time; a filter compares vectors as fast as a sum adds them (assumed).
    const fn s_per_byte(self) -> f64 {
        match self {
            Self::Sum | Self::Filter => SUM_S_PER_BYTE,
            Self::Probe => PROBE_S_PER_BYTE,
        }
    }
}

/// Pipelines over one far column, and how they reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipelineConfiguration {
    /// How many there are, each a thread.
    pub pipelines: usize,
    /// What they do.
    pub work: PipelineWork,
    /// Each reads the column itself, each copies it for itself, or all read the same copies.
    pub access: Access,
    /// The rings through which it is copied; `None` of pipelines that read it themselves.
    pub ring: Option<RingCopies>,
}

/// Copies through rings of chunks: one for all pipelines, or one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingCopies {
    /// Threads that copy, for all pipelines together; each ring has at least one.
    pub copiers: CopierCount,
    /// Bytes of a chunk.
    pub chunk_bytes: usize,
    /// Chunks of each ring.
    pub depth: usize,
    /// How copies are made; `None` in virtual time.
    pub method: Option<CopyMethod>,
}

/// What pipelines did.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelinePoint {
    /// What was run.
    pub configuration: PipelineConfiguration,
    /// Bytes that all pipelines together have read of the column or its copies, over the time, of each round.
    pub bytes_per_s: Vec<f64>,
    /// The same with the column near and no copies, in the same rounds.
    pub near_bytes_per_s: Vec<f64>,
    /// Bytes that were read of the far tier, once or more often.
    pub far_bytes: u64,
}

impl PipelinePoint {
    /// Throughput over that with the column near, of each round.
    pub fn ratios(&self) -> impl Iterator<Item = f64> {
        let rounds = self.bytes_per_s.iter().zip(&self.near_bytes_per_s);
        rounds.map(|(far, near)| far / near)
    }
}

impl RingCopies {
    /// Copiers of a ring, where there are so many rings; those that are left over are the first ones'. `None` of an
    /// adaptive number.
    pub(super) fn copiers_of(&self, ring: usize, rings: usize) -> Option<usize> {
        let copiers = self.copiers.fixed()?;
        Some(share(copiers, ring, rings))
    }
}

/// What a ring has of so many copiers: at least one.
pub(super) fn share(copiers: usize, ring: usize, rings: usize) -> usize {
    (copiers / rings + usize::from(ring < copiers % rings)).max(1)
}

impl PipelineConfiguration {
    /// Rings of chunks.
    pub(super) fn rings(&self) -> usize {
        match (self.access, self.ring) {
            (_, None) => 0,
            (Access::Grouped, Some(_)) => 1,
            (Access::Synchronous | Access::Asynchronous, Some(_)) => self.pipelines,
        }
    }

    /// The ring that a pipeline reads.
    fn ring_of(&self, pipeline: usize) -> usize {
        match self.access {
            Access::Grouped => 0,
            Access::Synchronous | Access::Asynchronous => pipeline,
        }
    }

    /// Copiers of all rings.
    fn copiers(&self) -> usize {
        let rings = self.rings();
        let of_ring = |ring| self.ring?.copiers_of(ring, rings);
        (0..rings).filter_map(of_ring).sum()
    }

    fn chunk_bytes(&self) -> usize {
        self.ring.map_or(CHUNK_BYTES, |ring| ring.chunk_bytes)
    }

    fn chunks(&self) -> usize {
        COLUMN_BYTES.div_ceil(self.chunk_bytes())
    }

    fn bytes_of(&self, chunk: usize) -> f64 {
        let chunk_bytes = self.chunk_bytes();
        chunk_bytes.min(COLUMN_BYTES - chunk * chunk_bytes) as f64
    }

    /// Phases of all threads.
    pub(super) fn phases(&self) -> usize {
        self.chunks().saturating_mul(self.pipelines + self.rings())
    }

    /// Phases, each counted once for each thread that it may run beside: what running it takes.
    pub(super) fn steps(&self) -> usize {
        let threads = self.pipelines + self.copiers();
        self.phases().saturating_mul(threads)
    }

    /// The event of a chunk that was copied.
    fn copied(&self, ring: usize, chunk: usize) -> usize {
        2 * (ring * self.chunks() + chunk)
    }

    /// The event of a chunk that was read, by each pipeline of its ring.
    fn released(&self, ring: usize, chunk: usize) -> usize {
        self.copied(ring, chunk) + 1
    }

    /// Bytes that all pipelines read, over the time until the last one ends, and the bytes that cross the far link.
    fn run(&self, machine: &OperatorMachine) -> (f64, u64) {
        let threads = Threads::place(machine, self.pipelines + self.copiers(), true);
        let mut phases: Vec<Vec<Phase>> = (0..self.pipelines)
            .map(|pipeline| self.pipeline(&threads, pipeline))
            .collect();
        let mut copier = self.pipelines;
        for ring in 0..self.rings() {
            for copies in self.copies(&threads, ring, copier) {
                phases.push(copies);
                copier += 1;
            }
        }
        let takes = phases.iter().flatten().flat_map(|phase| &phase.takes);
        let far = takes.filter(|(resource, _)| *resource == FAR);
        let far_bytes: f64 = far.map(|(_, bytes)| bytes).sum();
        let events = 2 * self.rings() * self.chunks();
        let ends = fluid::run(&threads.capacities(), phases, events);
        let last_s = ends.into_iter().take(self.pipelines).fold(0.0, f64::max);
        let bytes = (self.pipelines * COLUMN_BYTES) as f64;
        (bytes / last_s, far_bytes.round() as u64)
    }

    /// The phases of a pipeline, one for each chunk.
    fn pipeline(&self, threads: &Threads<'_>, pipeline: usize) -> Vec<Phase> {
        let s_per_byte = self.work.of(pipeline).s_per_byte();
        let ring = self.ring_of(pipeline);
        let of_chunk = |chunk: usize| {
            let bytes = self.bytes_of(chunk);
            let core_s = bytes * s_per_byte;
            if self.ring.is_none() {
                return threads.phase(pipeline, 0.0, bytes, core_s);
            }
            Phase {
                waits_for: Some((self.copied(ring, chunk), 1)),
                signals: Some(self.released(ring, chunk)),
                ..threads.phase(pipeline, bytes, 0.0, core_s)
            }
        };
        (0..self.chunks()).map(of_chunk).collect()
    }

    /// The phases of the copiers of a ring, which take chunks in turn. A chunk is copied when all who read the ring have
    /// read the one that was in its place. The first copier is the thread `first`.
    fn copies(&self, threads: &Threads<'_>, ring: usize, first: usize) -> Vec<Vec<Phase>> {
        let copies = self.ring.and_then(|of| {
            let copiers = of.copiers_of(ring, self.rings())?;
            Some((copiers, of.depth))
        });
        let Some((copiers, depth)) = copies else {
            return Vec::new();
        };
        let readers = self.pipelines / self.rings();
        let mut phases = vec![Vec::new(); copiers];
        for chunk in 0..self.chunks() {
            let copier = chunk % copiers;
            let before = chunk.checked_sub(depth);
            phases[copier].push(Phase {
                waits_for: before.map(|before| (self.released(ring, before), readers)),
                signals: Some(self.copied(ring, chunk)),
                ..threads.copy(first + copier, self.bytes_of(chunk))
            });
        }
        phases
    }
}

impl OperatorGrid {
    /// All pipelines. Those of the same number and work follow each other.
    pub(super) fn pipeline_configurations(&self) -> Vec<PipelineConfiguration> {
        let mut all = Vec::new();
        for &work in &self.pipeline_works {
            for &pipelines in &self.pipelines {
                for &access in &self.accesses {
                    let rings = match access {
                        Access::Synchronous => vec![None],
                        Access::Asynchronous | Access::Grouped => {
                            self.rings().into_iter().map(Some).collect()
                        }
                    };
                    all.extend(rings.into_iter().map(|ring| PipelineConfiguration {
                        pipelines,
                        work,
                        access,
                        ring,
                    }));
                }
            }
        }
        all
    }

    /// Every combination of copiers, chunks, methods and depths.
    fn rings(&self) -> Vec<RingCopies> {
        let mut rings = Vec::new();
        for (copiers, chunk_bytes, method) in self.ways() {
            rings.extend(self.ring_depths.iter().map(|&depth| RingCopies {
                copiers,
                chunk_bytes: chunk_bytes.unwrap_or(CHUNK_BYTES),
                depth,
                method,
            }));
        }
        rings
    }
}

/// The pipelines of a grid in virtual time, each beside the same with the column near and no copies.
pub(super) fn modelled_pipelines(
    machine: &OperatorMachine,
    grid: &OperatorGrid,
) -> Vec<PipelinePoint> {
    let near = machine.all_near();
    let point = |configuration: PipelineConfiguration| {
        let all_near = PipelineConfiguration {
            access: Access::Synchronous,
            ring: None,
            ..configuration
        };
        let (bytes_per_s, far_bytes) = configuration.run(machine);
        PipelinePoint {
            configuration,
            bytes_per_s: vec![bytes_per_s],
            near_bytes_per_s: vec![all_near.run(&near).0],
            far_bytes,
        }
    };
    let all = grid.pipeline_configurations().into_iter();
    all.map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copiers_are_divided_among_rings() {
        let of = |copiers, rings| -> Vec<usize> {
            (0..rings).map(|ring| share(copiers, ring, rings)).collect()
        };
        assert_eq!(of(5, 1), [5]);
        assert_eq!(of(5, 3), [2, 2, 1]);
        assert_eq!(of(2, 4), [1; 4]);
    }

    #[test]
    fn mixed_pipelines_take_turns() {
        use PipelineOperator::{Filter, Probe, Sum};
        let of = |work: PipelineWork| (0..4).map(|pipeline| work.of(pipeline)).collect::<Vec<_>>();
        assert_eq!(of(PipelineWork::Mixed), [Sum, Filter, Probe, Sum]);
        assert_eq!(of(PipelineWork::Sum), [Sum; 4]);
        assert_eq!(of(PipelineWork::Filter), [Filter; 4]);
        assert_eq!(of(PipelineWork::Probe), [Probe; 4]);
    }

    #[test]
    fn only_pipelines_that_copy_are_varied_by_how() {
        let grid = OperatorGrid {
            pipelines: vec![1, 3],
            pipeline_works: vec![PipelineWork::Sum],
            copiers: vec![CopierCount::Fixed(2), CopierCount::Adaptive],
            chunk_bytes: vec![64, 128],
            ring_depths: vec![1, 2, 3],
            ..OperatorGrid::of_processors(2)
        };
        let all = grid.pipeline_configurations();
        let count = |access| all.iter().filter(|one| one.access == access).count();
        assert_eq!(Access::ALL.map(count), [2, 24, 24]);
        let rings = |one: &PipelineConfiguration| (one.access, one.pipelines, one.rings());
        assert!(all.iter().map(rings).all(|found| match found {
            (Access::Synchronous, _, rings) => rings == 0,
            (Access::Asynchronous, pipelines, rings) => rings == pipelines,
            (Access::Grouped, _, rings) => rings == 1,
        }));
    }
}
