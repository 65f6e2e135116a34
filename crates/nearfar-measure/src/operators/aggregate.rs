//! Sums over local and remote buffers (section 3, figures 2 and 3).

use super::fluid;
use super::grid::{OperatorGrid, SumPoint};
use super::machine::{OperatorMachine, SUM_S_PER_BYTE, Threads};

/// Bytes of a local buffer: larger than the caches (the paper gives no number; results hardly depend on it).
const BUFFER_BYTES: f64 = 256e6;

/// Bytes of all buffers over the time until the last thread ends: `local` threads with a near buffer each,
/// and `remote` threads with a far one that is smaller by `far_share`.
pub(super) fn bytes_per_s(
    machine: &OperatorMachine,
    local: usize,
    remote: usize,
    far_share: f64,
) -> f64 {
    let threads = Threads::place(machine, local + remote, remote > 0);
    let far_bytes = BUFFER_BYTES * far_share;
    let phase = |thread: usize| {
        let (near, far) = if thread < local {
            (BUFFER_BYTES, 0.0)
        } else {
            (0.0, far_bytes)
        };
        vec![threads.phase(thread, near, far, (near + far) * SUM_S_PER_BYTE)]
    };
    let phases = (0..local + remote).map(phase).collect();
    let ends = fluid::run(&threads.capacities(), phases, 0);
    let last_s = ends.into_iter().fold(0.0, f64::max);
    (local as f64 * BUFFER_BYTES + remote as f64 * far_bytes) / last_s
}

/// The sums of a grid in virtual time.
pub(super) fn modelled_sums(machine: &OperatorMachine, grid: &OperatorGrid) -> Vec<SumPoint> {
    let point = |(threads, far_threads, far_share): (usize, usize, f64)| SumPoint {
        threads,
        far_threads,
        far_share,
        integer_bytes: None,
        bytes_per_s: vec![bytes_per_s(machine, threads, far_threads, far_share)],
    };
    grid.sums().into_iter().map(point).collect()
}
