//! All variants of the scan against a loop over values.

use std::num::NonZeroUsize;

use nearfar_kernels::{Isa, Part, Scan, ScanError, Stores};
use nearfar_model::simulation::Access;
use nearfar_model::{AccessLog, Native};
use proptest::prelude::*;

/// Every variant that this machine can run.
fn variants() -> Vec<Scan> {
    let stores = [Stores::Auto, Stores::Cached, Stores::Streaming];
    Isa::available()
        .flat_map(|isa| {
            let scan = Scan::new().with_isa(isa).unwrap();
            stores.map(|stores| scan.with_stores(stores))
        })
        .collect()
}

fn oracle(column: &[u32], bound: u32, first: u32) -> Vec<u32> {
    let matching = column
        .iter()
        .enumerate()
        .filter(|(_, value)| **value < bound);
    matching.map(|(index, _)| first + index as u32).collect()
}

/// Scans `column`, shifted by some words, into positions shifted by others; nothing around the
/// positions may change.
fn assert_scan(scan: Scan, values: &[u32], shifts: (usize, usize), bound: u32, first: u32) {
    const GUARD: u32 = 0xDEAD_BEEF;
    let mut column = vec![bound.wrapping_sub(1); shifts.0];
    column.extend(values);
    // A match that lies behind the column must not be seen.
    column.push(bound.wrapping_sub(1));
    let column = &column[shifts.0..][..values.len()];
    let mut buffer = vec![GUARD; shifts.1 + values.len() + 40];
    let positions = &mut buffer[shifts.1..][..values.len()];
    let count = scan
        .less_than(column, bound, first, positions, &Native)
        .unwrap();
    assert_eq!(positions[..count], oracle(column, bound, first), "{scan:?}");
    let after = shifts.1 + values.len();
    let guards = buffer[..shifts.1].iter().chain(&buffer[after..]);
    assert!(
        guards.into_iter().all(|word| *word == GUARD),
        "{scan:?} wrote outside"
    );
}

#[test]
fn every_short_length_at_every_alignment() {
    for scan in variants() {
        for length in 0..150_usize {
            let values: Vec<u32> = (0..length as u32)
                .map(|i| i.wrapping_mul(2_654_435_761))
                .collect();
            let shifts = (length % 17, length / 3 % 17);
            for bound in [0, 1, 1 << 31, u32::MAX] {
                assert_scan(scan, &values, shifts, bound, 7);
            }
        }
    }
}

#[test]
fn every_alignment_across_blocks() {
    let values: Vec<u32> = (0..3_000_u32)
        .map(|i| i.wrapping_mul(2_654_435_761))
        .collect();
    for scan in variants() {
        for shift in 0..17 {
            assert_scan(scan, &values, (shift, 16 - shift), 1 << 30, 0);
        }
    }
}

#[test]
fn all_and_none_match() {
    for scan in variants() {
        assert_scan(scan, &vec![0; 5_000], (0, 0), 1, 3);
        assert_scan(scan, &vec![u32::MAX; 5_000], (3, 1), u32::MAX, 3);
        assert_scan(scan, &vec![u32::MAX - 1; 5_000], (3, 1), u32::MAX, 3);
    }
}

#[test]
fn a_column_large_enough_to_stream_by_itself() {
    let values: Vec<u32> = (0..(9 << 20) / 4)
        .map(|i: u32| i.wrapping_mul(2_654_435_761))
        .collect();
    for isa in Isa::available() {
        assert_scan(
            Scan::new().with_isa(isa).unwrap(),
            &values,
            (1, 5),
            1 << 31,
            0,
        );
    }
}

#[test]
fn the_largest_positions() {
    for scan in variants() {
        let first = u32::MAX - 2_999;
        assert_scan(scan, &vec![0; 3_000], (0, 0), 1, first);
        let error = scan.less_than(&[0; 3_001], 1, first, &mut [0; 3_001], &Native);
        assert_eq!(
            error,
            Err(ScanError::PositionTooLarge {
                values: 3_001,
                first_position: first
            })
        );
    }
}

#[test]
fn too_little_room_is_refused() {
    let error = Scan::new().less_than(&[0; 20], 1, 0, &mut [0; 19], &Native);
    assert_eq!(
        error,
        Err(ScanError::PositionsTooShort {
            values: 20,
            positions: 19
        })
    );
    let mut short = [0; 1];
    let mut parts = [Part {
        column: &[0; 2],
        first_position: 0,
        positions: &mut short,
    }];
    let error = Scan::new().less_than_partitioned(&mut parts, 1, |_| Native);
    assert_eq!(
        error,
        Err(ScanError::PositionsTooShort {
            values: 2,
            positions: 1
        })
    );
}

/// What a scan reported: addresses and bytes that it read, and those that it wrote.
fn read_and_written(log: &AccessLog) -> [Vec<(usize, usize)>; 2] {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for one in log.take() {
        let part = (one.address, one.bytes);
        match one.access {
            Access::Load => read.push(part),
            Access::Store => written.push(part),
            Access::NonTemporalStore => {
                let is_whole = one.address.is_multiple_of(64) && one.bytes.is_multiple_of(64);
                assert!(is_whole, "whole lines");
                written.push(part);
            }
            other => panic!("a scan has no {other:?}"),
        }
    }
    [read, written]
}

/// The reported accesses, in order, without gaps and without overlap, begin at `addr`.
fn assert_reported(reported: &[(usize, usize)], addr: usize, bytes: usize) {
    let mut next = addr;
    for (at, length) in reported.iter().filter(|(_, length)| *length > 0) {
        assert_eq!(*at, next);
        next += length;
    }
    assert_eq!(next - addr, bytes);
}

#[test]
fn the_probe_is_told_every_byte_once() {
    let column: Vec<u32> = (0..5_003).collect();
    for scan in variants() {
        let mut positions = vec![0; 5_006];
        let log = AccessLog::new();
        let count = scan
            .less_than(&column, 4_001, 0, &mut positions[3..], &log)
            .unwrap();
        assert_eq!(count, 4_001);
        let [read, written] = read_and_written(&log);
        assert_reported(&read, column.as_ptr().addr(), 5_003 * 4);
        assert_reported(&written, positions[3..].as_ptr().addr(), 4_001 * 4);
    }
}

prop_compose! {
    /// Values that crowd around the bound, where signs and wrap-arounds go wrong.
    fn values_and_bound()(bound in prop_oneof![any::<u32>(), Just(0), Just(1 << 31), Just(u32::MAX)])
        (values in prop::collection::vec(
            prop_oneof![
                any::<u32>(),
                (0..3_u32).prop_map(move |i| bound.wrapping_add(i).wrapping_sub(1)),
                Just(0), Just(u32::MAX), Just(i32::MAX as u32), Just(1 << 31),
            ], 0..2_600),
         bound in Just(bound)) -> (Vec<u32>, u32) { (values, bound) }
}

/// Runs of matches and of misses of any length: what flushes and skips depend on.
fn runs() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec((any::<bool>(), 1..400_usize), 0..24).prop_map(|runs| {
        let values = runs.into_iter();
        values
            .flat_map(|(matches, length)| vec![if matches { 5 } else { 15 }; length])
            .collect()
    })
}

proptest! {
    #[test]
    fn all_variants_agree_with_a_loop(
        (values, bound) in values_and_bound(),
        shifts in (0..17_usize, 0..17_usize),
        first in 0..1_000_000_u32,
    ) {
        for scan in variants() {
            assert_scan(scan, &values, shifts, bound, first);
        }
    }

    #[test]
    fn runs_of_matches_and_misses(values in runs(), shifts in (0..17_usize, 0..17_usize)) {
        for scan in variants() {
            assert_scan(scan, &values, shifts, 10, 0);
        }
    }

    #[test]
    fn parts_together_are_the_whole(values in runs(), parts in 1..9_usize) {
        let mut positions = vec![0; values.len()];
        let mut parts = Part::divide(&values, &mut positions, NonZeroUsize::new(parts).unwrap()).unwrap();
        let counts = Scan::new().less_than_partitioned(&mut parts, 10, |_| Native).unwrap();
        let found: Vec<u32> = parts.iter().zip(counts)
            .flat_map(|(part, count)| part.positions[..count].to_vec()).collect();
        prop_assert_eq!(found, oracle(&values, 10, 0));
    }
}
