//! Aggregates of every instruction set against a loop over values.

use std::collections::BTreeMap;

use nearfar_kernels::{Aggregate, CodeTooLarge, HashGroups, Isa, Number, Selection, Summary};
use nearfar_model::simulation::Access;
use nearfar_model::{AccessLog, Native};
use proptest::prelude::*;

fn variants() -> impl Iterator<Item = Aggregate> {
    Isa::available().map(|isa| Aggregate::new().with_isa(isa).unwrap())
}

fn oracle<T: Number + Into<i128>>(values: impl Iterator<Item = T> + Clone) -> Summary<T> {
    Summary {
        count: values.clone().count() as u64,
        sum: values.clone().map(Into::into).sum(),
        min: values.clone().min(),
        max: values.max(),
    }
}

fn assert_summary<T: Number + Into<i128> + std::fmt::Debug>(column: &[T]) {
    let expected = oracle(column.iter().copied());
    for aggregate in variants() {
        assert_eq!(
            aggregate.summary(column, &Native),
            expected,
            "{aggregate:?}"
        );
        assert_eq!(
            aggregate.sum(column, &Native),
            expected.sum,
            "{aggregate:?}"
        );
    }
}

/// Keys that few or many rows share, far apart or close together.
fn keys() -> impl Strategy<Value = Vec<i64>> {
    let key = prop_oneof![
        0..5_i64,
        0..2000_i64,
        any::<i64>(),
        (0..64_i64).prop_map(|key| key << 56)
    ];
    prop::collection::vec(key, 0..3000)
}

#[test]
fn every_short_length_at_every_alignment() {
    let words: Vec<i32> = (0..1200_u32)
        .map(|i| i.wrapping_mul(2_654_435_761) as i32)
        .collect();
    let longs: Vec<i64> = words.iter().map(|word| i64::from(*word) << 31).collect();
    for begin in 0..17 {
        // Parts of 1 KiB are 256 or 128 values.
        for length in (0..150).chain([255, 256, 257, 383, 512, 1000, 1024, 1100]) {
            assert_summary(&words[begin..][..length]);
            assert_summary(&longs[begin..][..length]);
        }
    }
}

#[test]
fn no_sum_overflows() {
    for length in [1, 31, 32, 33, 10_000] {
        for value in [i64::MIN, i64::MAX, -1] {
            assert_summary(&vec![value; length]);
        }
        for value in [i32::MIN, i32::MAX, -1] {
            assert_summary(&vec![value; length]);
        }
    }
}

#[test]
fn a_code_without_a_group_is_refused_with_nothing_added() {
    let mut groups = [Summary::default(); 3];
    for aggregate in variants() {
        let refused = aggregate.by_code(&[0, 2, 3, 9], &[1_i32; 4], &mut groups, &Native);
        let expected = CodeTooLarge {
            row: 2,
            code: 3,
            groups: 3,
        };
        assert_eq!(refused, Err(expected));
        assert_eq!(groups, [Summary::default(); 3]);
        let none = aggregate.by_code(&[], &[] as &[i32], &mut [], &Native);
        assert_eq!(none, Ok(()));
    }
}

#[test]
fn the_probe_is_told_every_byte_once() {
    let column: Vec<i64> = (0..10_003).collect();
    for aggregate in variants() {
        let log = AccessLog::new();
        aggregate.summary(&column, &log);
        let mut next = column.as_ptr().addr();
        for one in log.take() {
            assert_eq!((one.access, one.address), (Access::Load, next));
            next += one.bytes;
        }
        assert_eq!(next, column.as_ptr_range().end.addr());
    }
}

#[test]
fn large_groups_grow_their_table() {
    let keys: Vec<i64> = (0..100_000).map(|row| row % 40_000 * 7_919).collect();
    for aggregate in variants() {
        let mut groups = HashGroups::of(aggregate);
        groups.add(&keys, &keys, &Native).unwrap();
        assert_eq!(groups.len(), 40_000);
        let sum: i128 = groups.groups().map(|(_, group)| group.sum).sum();
        assert_eq!(sum, keys.iter().copied().map(i128::from).sum());
        let first = groups
            .groups()
            .next()
            .map(|(key, group)| (key, group.count));
        assert_eq!(first, Some((0, 3)));
    }
}

/// Groups of `keys`, null where `valid` says so, as SQL has them: NaNs are one key, and so are both zeros.
fn assert_float_groups(keys: &[f64], valid: &Selection) {
    let values: Vec<i32> = (0..keys.len() as i32).collect();
    let bits = |key: f64| match key {
        key if key.is_nan() => f64::NAN.to_bits(),
        0.0 => 0,
        key => key.to_bits(),
    };
    let mut expected: BTreeMap<Option<u64>, Vec<i32>> = BTreeMap::new();
    for (row, value) in values.iter().enumerate() {
        let key = valid.contains(row).then(|| bits(keys[row]));
        expected.entry(key).or_default().push(*value);
    }
    let expected: BTreeMap<Option<u64>, Summary<i32>> = expected
        .into_iter()
        .map(|(key, values)| (key, oracle(values.into_iter())))
        .collect();
    for aggregate in variants() {
        let mut groups = HashGroups::of(aggregate);
        groups.add_valid(keys, valid, &values, &Native).unwrap();
        let with_key = groups
            .groups()
            .map(|(key, group)| (Some(bits(key)), *group));
        let null = groups.null_group().map(|group| (None, *group));
        let found: BTreeMap<Option<u64>, Summary<i32>> = with_key.chain(null).collect();
        assert_eq!(found, expected, "{aggregate:?}");
        assert_eq!(groups.len() + usize::from(null.is_some()), expected.len());
    }
}

const FLOATS: [f64; 9] = [
    f64::NAN,
    -f64::NAN,
    0.0,
    -0.0,
    1.5,
    -1.5,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MIN_POSITIVE,
];

#[test]
fn nan_both_zeros_and_null_are_a_group_each() {
    // Blocks have 1024 rows.
    for rows in [1, 2, 9, 1023, 1024, 1025, 2500] {
        let keys: Vec<f64> = (0..rows)
            .map(|row| FLOATS[row * 7 % FLOATS.len()])
            .collect();
        let mut valid = Selection::all(rows);
        assert_float_groups(&keys, &valid);
        valid.remove((0..rows as u64).map(|word| 0xf0f1_u64.rotate_left(word as u32)));
        assert_float_groups(&keys, &valid);
        assert_float_groups(&keys, &Selection::none(rows));
    }
}

#[test]
#[should_panic(expected = "a selection of other rows")]
fn keys_that_are_null_are_of_as_many_rows() {
    let valid = Selection::all(3);
    let _ = HashGroups::new().add_valid(&[1_i64, 2], &valid, &[1_i64, 2], &Native);
}

proptest! {
    #[test]
    fn summaries_agree_with_a_loop(
        longs in prop::collection::vec(any::<i64>(), 0..5000),
        bits in any::<u64>(),
    ) {
        assert_summary(&longs);
        let words: Vec<i32> = longs.iter().map(|long| *long as i32).collect();
        assert_summary(&words);
        for mask in [bits, u64::MAX, 0, bits | 0xffff] {
            let mut selection = Selection::all(longs.len());
            selection.keep((0..longs.len() as u64).map(|word| if word % 3 == 0 { u64::MAX } else { mask.rotate_left(word as u32) }));
            let expected = oracle(selection.rows().map(|row| longs[row]).collect::<Vec<_>>().into_iter());
            for aggregate in variants() {
                prop_assert_eq!(aggregate.summary_of(&longs, &selection, &Native), expected);
            }
        }
    }

    #[test]
    fn groups_agree_with_a_map(keys in keys(), parts in 1..5_usize) {
        let values: Vec<i32> = (0..keys.len() as i32).map(|row| row.wrapping_mul(0x3039_1234)).collect();
        let mut expected: BTreeMap<i64, Vec<i32>> = BTreeMap::new();
        for (key, value) in keys.iter().zip(&values) {
            expected.entry(*key).or_default().push(*value);
        }
        let expected: BTreeMap<i64, Summary<i32>> =
            expected.into_iter().map(|(key, values)| (key, oracle(values.into_iter()))).collect();
        let part = keys.len().div_ceil(parts).max(1);
        for aggregate in variants() {
            let mut groups = HashGroups::of(aggregate);
            for (keys, values) in keys.chunks(part).zip(values.chunks(part)) {
                groups.add(keys, values, &Native).unwrap();
            }
            let found: BTreeMap<i64, Summary<i32>> = groups.groups().map(|(key, group)| (key, *group)).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(groups.len(), expected.len());
        }
    }

    #[test]
    fn codes_agree_with_a_loop(count in 1..300_usize, rows in 0..2000_usize) {
        let codes: Vec<u32> = (0..rows).map(|row| (row * row % count) as u32).collect();
        let values: Vec<i64> = (0..rows as i64).map(|row| (row << 40) - (1 << 50)).collect();
        for aggregate in variants() {
            let mut groups = vec![Summary::default(); count];
            aggregate.by_code(&codes, &values, &mut groups, &Native).unwrap();
            for (code, group) in groups.iter().enumerate() {
                let of_code = codes.iter().zip(&values).filter(|(other, _)| **other as usize == code);
                prop_assert_eq!(*group, oracle(of_code.map(|(_, value)| *value)));
            }
        }
    }
}
