//! Rounds of all contestants.

use std::num::{NonZeroU32, NonZeroUsize};
use std::panic::resume_unwind;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::Instant;

use arrow::array::UInt32Array;
use arrow::buffer::ScalarBuffer;
use nearfar_kernels::{Isa, Scan, words, words_mut};
use nearfar_measure::probe::Waiting;
use nearfar_memory::{
    Budgets, MemorySystem, PageSize, PlaceName, Placement, PlacementSpec, Region, RegionOptions,
};
use nearfar_topology::Topology;

use super::contest::{ArrowResult, Contestant, Lane, VALUES_END};
use super::error::ScanBenchError;

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanBenchOptions {
    /// Threads, each with a column of its own.
    pub threads: NonZeroUsize,
    /// Bytes of each column; as many again for its positions.
    pub column_bytes: usize,
    /// Times that every contestant runs.
    pub rounds: NonZeroU32,
    /// Where columns lie.
    pub columns: PlacementSpec,
    /// Where positions are written.
    pub positions: PlacementSpec,
    /// Selectivities, in matches per thousand values.
    pub matches_per_mille: Vec<u32>,
    /// Instructions of the scan.
    pub isa: Isa,
}

impl Default for ScanBenchOptions {
    /// All processors, 128 MiB per column, everything near, 31 rounds, 0.1 % and 100 %, the widest instructions.
    fn default() -> Self {
        let near = || PlacementSpec::Bind(PlaceName::near());
        Self {
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            column_bytes: 128 << 20,
            rounds: const { NonZeroU32::new(31).unwrap() },
            columns: near(),
            positions: near(),
            matches_per_mille: vec![1, 1000],
            isa: Isa::widest(),
        }
    }
}

/// One run of one contestant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// Bytes of columns passed over per second, all threads together.
    pub bytes_per_s: f64,
    /// The largest share of its time that a thread waited for a processor; `None` if unknown.
    pub waited_share: Option<f64>,
}

/// What every contestant did in every round.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanBenchOutcome {
    /// What was compared.
    pub options: ScanBenchOptions,
    /// The profile in whose model it ran; none for the memory of this machine.
    pub model: Option<String>,
    /// The rounds of each contestant, in turn.
    pub rounds: Vec<(Contestant, Vec<Round>)>,
}

/// Runs the rounds. `progress` is told how many of how many are done.
///
/// # Errors
/// [`ScanBenchError`], among others where contestants disagree on the number of matches.
pub fn compare_scans(
    options: &ScanBenchOptions,
    mut progress: impl FnMut(u32, u32),
) -> Result<ScanBenchOutcome, ScanBenchError> {
    check(options)?;
    let scan = Scan::new()
        .with_isa(options.isa)
        .map_err(|error| ScanBenchError::Options {
            field: "isa",
            reason: error.to_string(),
        })?;
    let topology = Topology::this_machine().map_err(|error| ScanBenchError::Options {
        field: "threads",
        reason: error.to_string(),
    })?;
    let system = MemorySystem::new(&topology, &Budgets::new())?;
    let columns = columns(options, &system)?;
    let placement = options.positions.resolve(&system)?;
    let mut positions = (0..options.threads.get())
        .map(|_| placed(options.column_bytes, &system, &placement))
        .collect::<Result<Vec<_>, _>>()?;
    let values = options.column_bytes / size_of::<u32>();
    let all: UInt32Array = (0..values as u32).collect::<Vec<_>>().into();
    let mut lanes = Vec::new();
    for (column, positions) in columns.iter().zip(&mut positions) {
        let buffer = ScalarBuffer::new(column.buffer(0..column.len()), 0, values);
        lanes.push(Lane {
            column: words(column.as_slice())?,
            column_bytes: column.as_slice(),
            arrow_column: UInt32Array::new(buffer, None),
            arrow_positions: &all,
            positions: words_mut(positions.as_mut_slice())?,
        });
    }
    let contestants = contestants(options);
    let mut rounds: Vec<(Contestant, Vec<Round>)> =
        contestants.iter().map(|one| (*one, Vec::new())).collect();
    agree(&mut lanes, &contestants, &scan)?;
    for round in 0..options.rounds.get() {
        progress(round, options.rounds.get());
        for (contestant, taken) in &mut rounds {
            taken.push(run(&mut lanes, *contestant, &scan)?);
        }
    }
    let options = options.clone();
    Ok(ScanBenchOutcome {
        options,
        model: None,
        rounds,
    })
}

pub(super) fn check(options: &ScanBenchOptions) -> Result<(), ScanBenchError> {
    let refuse = |field, reason: String| Err(ScanBenchError::Options { field, reason });
    if options.column_bytes < 4096 || !options.column_bytes.is_multiple_of(4096) {
        let reason = format!("{} bytes: give a multiple of 4096", options.column_bytes);
        return refuse("column", reason);
    }
    match options
        .matches_per_mille
        .iter()
        .find(|matches| **matches > 1000)
    {
        Some(matches) => refuse(
            "selectivity",
            format!("{} %: at most 100 %", f64::from(*matches) / 10.0),
        ),
        None => Ok(()),
    }
}

fn contestants(options: &ScanBenchOptions) -> Vec<Contestant> {
    let filtering = options
        .matches_per_mille
        .iter()
        .flat_map(|&matches_per_mille| {
            let arrow = |result| Contestant::Arrow {
                matches_per_mille,
                result,
            };
            [
                Contestant::Scan { matches_per_mille },
                arrow(ArrowResult::Array),
                arrow(ArrowResult::Written),
            ]
        });
    [Contestant::Read, Contestant::Copy]
        .into_iter()
        .chain(filtering)
        .collect()
}

fn placed(
    bytes: usize,
    system: &Arc<MemorySystem>,
    placement: &Placement,
) -> Result<Region, ScanBenchError> {
    let options = RegionOptions {
        page_size: PageSize::Huge,
        ..RegionOptions::default()
    };
    Ok(Region::allocate(system, bytes, placement, options)?)
}

/// A column per thread, of uniform values.
fn columns(
    options: &ScanBenchOptions,
    system: &Arc<MemorySystem>,
) -> Result<Vec<Arc<Region>>, ScanBenchError> {
    let placement = options.columns.resolve(system)?;
    let column = |thread: usize| {
        let mut region = placed(options.column_bytes, system, &placement)?;
        let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(thread as u64 + 1);
        for value in words_mut(region.as_mut_slice())? {
            // Marsaglia's xorshift (2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *value = (state >> 32) as u32 % VALUES_END;
        }
        Ok(Arc::new(region))
    };
    (0..options.threads.get()).map(column).collect()
}

/// Lets everybody pass once, which also warms up, and compares the number of matches.
fn agree(
    lanes: &mut [Lane<'_>],
    contestants: &[Contestant],
    scan: &Scan,
) -> Result<(), ScanBenchError> {
    for (thread, lane) in lanes.iter_mut().enumerate() {
        for contestant in contestants {
            let found = lane.pass(*contestant, scan)?;
            let Some(matches_per_mille) = contestant.matches_per_mille() else {
                continue;
            };
            let expected = lane.pass(Contestant::Scan { matches_per_mille }, scan)?;
            if found != expected {
                let contestant = contestant.to_string();
                return Err(ScanBenchError::Mismatch {
                    contestant,
                    thread,
                    found,
                    expected,
                });
            }
        }
    }
    Ok(())
}

/// One pass on all threads concurrently, each by its own clock.
fn run(
    lanes: &mut [Lane<'_>],
    contestant: Contestant,
    scan: &Scan,
) -> Result<Round, ScanBenchError> {
    let start = Barrier::new(lanes.len());
    let failure = Mutex::new(None);
    let pass = |lane: &mut Lane<'_>| {
        start.wait();
        let waiting = Waiting::start();
        let began = Instant::now();
        let outcome = lane.pass(contestant, scan);
        let elapsed = began.elapsed();
        let waited = waiting.elapsed();
        if let Err(error) = outcome {
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        Round {
            bytes_per_s: lane.column_bytes.len() as f64 / elapsed.as_secs_f64(),
            waited_share: waited.map(|waited| waited.div_duration_f64(elapsed)),
        }
    };
    let of_threads: Vec<Round> = std::thread::scope(|scope| {
        let pass = &pass;
        let workers: Vec<_> = lanes
            .iter_mut()
            .map(|lane| scope.spawn(move || pass(lane)))
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|round| round.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let shares = of_threads.iter().map(|round| round.waited_share);
    Ok(Round {
        bytes_per_s: of_threads.iter().map(|round| round.bytes_per_s).sum(),
        waited_share: shares.reduce(|a, b| Some(a?.max(b?))).flatten(),
    })
}
