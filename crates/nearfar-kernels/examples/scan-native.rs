//! The scan with the probe of ordinary execution, for `.ci/probe-is-free`.

use nearfar_kernels::{Scan, ScanError};
use nearfar_model::Native;

/// Not inlined, so that its machine code can be found.
#[inline(never)]
pub fn scan_native(
    scan: &Scan,
    column: &[u32],
    bound: u32,
    positions: &mut [u32],
) -> Result<usize, ScanError> {
    scan.less_than(column, bound, 0, positions, &Native)
}

fn main() -> Result<(), ScanError> {
    let column = std::hint::black_box([5, 1, 9, 3]);
    let mut positions = [0; 4];
    let count = scan_native(&Scan::new(), &column, 5, &mut positions)?;
    assert_eq!(positions[..count], [1, 3]);
    Ok(())
}
