//! Ranges in encoded columns: all variants against a loop over values.

use std::fmt::Debug;

use nearfar_kernels::{Isa, Lane, Matches, Scan, Selection};
use nearfar_model::simulation::Access;
use nearfar_model::{AccessLog, Native};
use proptest::prelude::*;

fn variants() -> Vec<Scan> {
    Isa::available()
        .map(|isa| Scan::new().with_isa(isa).unwrap())
        .collect()
}

/// Values of any width, from those of eight bytes.
trait Width: Lane + Debug {
    fn of(wide: u64) -> Self;
}

macro_rules! widths {
    ($($width:ident),*) => {$(
        impl Width for $width {
            fn of(wide: u64) -> Self {
                wide as Self
            }
        }
    )*};
}
widths!(u8, u16, u32, u64);

/// Every third row is selected before, so that all of `matches` can be told from each other.
fn selected_before(len: usize) -> Selection {
    let mut before = Selection::all(len);
    before.keep_where((0..len).map(|row| u8::from(row % 3 == 0)));
    before
}

fn assert_within<L: Width>(values: &[u64], shift: usize, low: u64, high: u64) {
    let (low, high) = (L::of(low), L::of(high));
    // What lies around the column would be found.
    let mut column = vec![low; shift];
    column.extend(values.iter().map(|value| L::of(*value)));
    column.push(low);
    let column = &column[shift..][..values.len()];
    let before = selected_before(values.len());
    for scan in variants() {
        for matches in [Matches::Keep, Matches::Remove, Matches::Add] {
            let mut selection = before.clone();
            scan.within(column, low..=high, matches, &mut selection, &Native);
            let expected = (0..values.len()).filter(|row| {
                let found = (low..=high).contains(&column[*row]);
                match matches {
                    Matches::Keep => before.contains(*row) && found,
                    Matches::Remove => before.contains(*row) && !found,
                    Matches::Add => before.contains(*row) || found,
                }
            });
            let expected: Vec<usize> = expected.collect();
            let case = format!("{:?} {matches:?} {low:?}..={high:?}", scan.isa());
            assert!(selection.rows().eq(expected.iter().copied()), "{case}");
            assert_eq!(scan.count(&selection, &Native), expected.len(), "{case}");
            let mut room = Vec::new();
            let positions = scan.positions(&selection, 7, &mut room, &Native);
            assert!(
                positions.iter().map(|at| *at as usize - 7).eq(expected),
                "{case}"
            );
        }
    }
}

fn assert_all_widths(values: &[u64], shift: usize, low: u64, high: u64) {
    assert_within::<u8>(values, shift, low, high);
    assert_within::<u16>(values, shift, low, high);
    assert_within::<u32>(values, shift, low, high);
    assert_within::<u64>(values, shift, low, high);
}

#[test]
fn every_short_length_and_every_extreme() {
    for length in (0..140_usize).chain([8191, 8192]) {
        let values: Vec<u64> = (0..length as u64)
            .map(|row| row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (row % 64))
            .collect();
        for (low, high) in [
            (0, u64::MAX),
            (u64::MAX, u64::MAX),
            (0, 0),
            (1 << 63, u64::MAX),
            (3, 0x7F7F_7F7F_7F7F_7F7F),
        ] {
            assert_all_widths(&values, length % 9, low, high);
        }
    }
}

#[test]
fn nothing_lies_within_a_range_that_ends_before_it_starts() {
    #[allow(clippy::reversed_empty_ranges)]
    let none = 5_u16..=4;
    for scan in variants() {
        for (matches, left) in [(Matches::Keep, 0), (Matches::Remove, 3), (Matches::Add, 3)] {
            let mut selection = Selection::all(3);
            scan.within(&[4, 5, 6], none.clone(), matches, &mut selection, &Native);
            assert_eq!(scan.count(&selection, &Native), left);
        }
    }
}

#[test]
fn the_largest_positions() {
    for scan in variants() {
        let mut room = Vec::new();
        let all = Selection::all(200);
        let positions = scan.positions(&all, u32::MAX - 199, &mut room, &Native);
        assert!(positions.iter().copied().eq(u32::MAX - 199..=u32::MAX));
    }
}

#[test]
#[should_panic(expected = "a selection of other rows")]
fn a_selection_of_other_rows_is_refused() {
    let mut selection = Selection::all(3);
    Scan::new().within(&[1_u8; 4], 0..=1, Matches::Keep, &mut selection, &Native);
}

#[test]
fn the_probe_is_told_of_the_column_the_selection_and_the_positions() {
    let column: Vec<u16> = (0..500).collect();
    for scan in variants() {
        let log = AccessLog::new();
        let mut selection = Selection::all(column.len());
        scan.within(&column, 100..=299, Matches::Keep, &mut selection, &log);
        let of_scan = log.take();
        let told = |access, address: usize, bytes| {
            let is_it = |one: &&nearfar_model::LoggedAccess| {
                (one.access, one.address, one.bytes) == (access, address, bytes)
            };
            of_scan.iter().filter(is_it).count()
        };
        let words = selection.words().as_ptr().addr();
        assert_eq!(told(Access::Load, column.as_ptr().addr(), 1000), 1);
        assert_eq!(told(Access::Load, words, 64), 1);
        assert_eq!(told(Access::Store, words, 64), 1);
        assert_eq!(of_scan.len(), 3);
        let mut room = Vec::new();
        let found = scan.positions(&selection, 0, &mut room, &log).len();
        let written: Vec<usize> = log
            .take()
            .iter()
            .filter(|one| one.access == Access::Store)
            .map(|one| one.bytes)
            .collect();
        assert_eq!((found, written), (200, vec![800]));
    }
}

prop_compose! {
    /// Values that crowd around the bounds, where signs and wrap-arounds go wrong.
    fn column()(
        low in any::<u64>(),
        width in 0..70_u32,
    )(
        values in prop::collection::vec(prop_oneof![
            any::<u64>(),
            (0..3_u64).prop_map(move |i| low.wrapping_add(i).wrapping_sub(1)),
            (0..3_u64).prop_map(move |i| {
                low.wrapping_add(1_u64.checked_shl(width).unwrap_or(0)).wrapping_add(i).wrapping_sub(1)
            }),
            Just(0), Just(u64::MAX), Just(i64::MAX as u64), Just(1 << 63),
        ], 0..400),
        low in Just(low),
        high in Just(low.wrapping_add(1_u64.checked_shl(width).unwrap_or(0))),
    ) -> (Vec<u64>, u64, u64) { (values, low, high) }
}

proptest! {
    #[test]
    fn all_variants_agree_with_a_loop((values, low, high) in column(), shift in 0..9_usize) {
        assert_all_widths(&values, shift, low, high);
    }
}

proptest! {
    #[test]
    fn signed_ranges_agree_with_a_loop(
        values in prop::collection::vec(prop_oneof![any::<i64>(), -3..3_i64], 0..500),
        low in prop_oneof![any::<i64>(), -3..3_i64],
        high in prop_oneof![any::<i64>(), -3..3_i64],
    ) {
        let narrow: Vec<i32> = values.iter().map(|value| *value as i32).collect();
        let (low_narrow, high_narrow) = (low as i32, high as i32);
        for scan in variants() {
            let mut selection = Selection::all(values.len());
            scan.within_signed(&values, low..=high, Matches::Keep, &mut selection, &Native);
            let expected = (0..values.len()).filter(|row| (low..=high).contains(&values[*row]));
            prop_assert!(selection.rows().eq(expected));
            let mut selection = Selection::all(values.len());
            let range = low_narrow..=high_narrow;
            scan.within_signed(&narrow, range.clone(), Matches::Remove, &mut selection, &Native);
            let expected = (0..narrow.len()).filter(|row| !range.contains(&narrow[*row]));
            prop_assert!(selection.rows().eq(expected));
        }
    }
}
