//! The scans with the probe of ordinary execution, for `.ci/probe-is-free`.

use nearfar_kernels::{Lane, Matches, Scan, ScanError, Selection};
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

/// As [`scan_native`], for ranges in encoded columns.
#[inline(never)]
pub fn select_native<'a, L: Lane>(
    scan: &Scan,
    column: &[L],
    (low, high): (L, L),
    selection: &mut Selection,
    positions: &'a mut Vec<u32>,
) -> &'a [u32] {
    for matches in [Matches::Keep, Matches::Remove, Matches::Add] {
        scan.within(column, low..=high, matches, selection, &Native);
    }
    std::hint::black_box(scan.count(selection, &Native));
    scan.positions(selection, 0, positions, &Native)
}

fn selected<L: Lane>(column: [L; 4], range: (L, L)) -> Vec<u32> {
    let (mut selection, mut positions) = (Selection::all(4), Vec::new());
    let column = std::hint::black_box(column);
    select_native(&Scan::new(), &column, range, &mut selection, &mut positions).to_vec()
}

fn main() -> Result<(), ScanError> {
    let column = std::hint::black_box([5, 1, 9, 3]);
    let mut positions = [0; 4];
    let count = scan_native(&Scan::new(), &column, 5, &mut positions)?;
    assert_eq!(positions[..count], [1, 3]);
    assert_eq!(selected([5_u8, 1, 9, 3], (3, 5)), [0, 3]);
    assert_eq!(selected([5_u16, 1, 9, 3], (3, 5)), [0, 3]);
    assert_eq!(selected([5_u32, 1, 9, 3], (3, 5)), [0, 3]);
    assert_eq!(selected([5_u64, 1, 9, 3], (3, 5)), [0, 3]);
    Ok(())
}
