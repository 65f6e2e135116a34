//! Joins of every kind, plan and instruction set against nested loops over a map.

use std::cell::Cell;
use std::collections::BTreeMap;

use nearfar_kernels::{
    BloomFilter, Cancel, HashJoin, Isa, JoinError, JoinKind, JoinPlan, JoinTable, JoinTier, Line,
    Matched, NO_ROW, Partitions, ProbeCursor, Probing, Selection, Side, lines_mut,
};
use nearfar_model::simulation::Access;
use nearfar_model::{AccessLog, EachAccess, Native};
use proptest::prelude::*;

const KINDS: [JoinKind; 4] = [
    JoinKind::Inner,
    JoinKind::Semi,
    JoinKind::Anti,
    JoinKind::Left,
];

/// Keys of a side, and which rows have one.
type Column = (Vec<i64>, Selection);

fn plans() -> [JoinPlan; 6] {
    let plan = |partitions_log2, is_filtered, distance| JoinPlan {
        partitions_log2,
        is_filtered,
        probing: Probing { distance },
    };
    [
        plan(0, false, 0),
        plan(0, false, 32),
        plan(0, true, 0),
        plan(0, true, 3),
        plan(1, false, 32),
        plan(5, false, 0),
    ]
}

/// Rows of both sides, ordered; semi and anti joins have no build rows.
fn oracle(kind: JoinKind, build: &Column, probed: &Column) -> Vec<(u32, u32)> {
    let mut rows_of: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for row in build.1.rows() {
        rows_of.entry(build.0[row]).or_default().push(row as u32);
    }
    let mut rows = Vec::new();
    for (row, key) in probed.0.iter().enumerate() {
        let found = rows_of.get(key).filter(|_| probed.1.contains(row));
        let found = found.map_or(&[][..], |rows| rows);
        let row = row as u32;
        match kind {
            JoinKind::Inner => rows.extend(found.iter().map(|build| (row, *build))),
            JoinKind::Semi if !found.is_empty() => rows.push((row, 0)),
            JoinKind::Anti if found.is_empty() => rows.push((row, 0)),
            JoinKind::Left if found.is_empty() => rows.push((row, NO_ROW)),
            JoinKind::Left => rows.extend(found.iter().map(|build| (row, *build))),
            JoinKind::Semi | JoinKind::Anti => {}
        }
    }
    rows.sort_unstable();
    rows
}

fn pairs(matched: &Matched) -> Vec<(u32, u32)> {
    let rows = matched.probe_rows.iter().enumerate();
    let build_row = |index| matched.build_rows.get(index).copied().unwrap_or(0);
    rows.map(|(index, row)| (*row, build_row(index))).collect()
}

fn with_nulls((keys, valid): &Column) -> Side<'_, i64> {
    (keys, Some(valid))
}

/// Without a word about nulls where there are none.
fn without_nulls((keys, valid): &Column) -> Side<'_, i64> {
    let has_nulls = valid.rows().count() < keys.len();
    (keys, has_nulls.then_some(valid))
}

fn assert_join(build: &Column, probed: &Column) {
    for kind in KINDS {
        let expected = oracle(kind, build, probed);
        for plan in plans() {
            for isa in Isa::available() {
                let join = HashJoin::new(kind, plan).with_isa(isa).unwrap();
                for (build, probed) in [
                    (with_nulls(build), with_nulls(probed)),
                    (without_nulls(build), without_nulls(probed)),
                ] {
                    let mut rows = Vec::new();
                    join.run(build, probed, &Native, |matched| {
                        rows.extend(pairs(matched));
                    })
                    .unwrap();
                    rows.sort_unstable();
                    assert_eq!(rows, expected, "{join:?}");
                    let mut rows = by_number(kind, isa, build, probed);
                    rows.sort_unstable();
                    assert_eq!(rows, expected, "{kind:?} by number, {isa:?}");
                }
            }
        }
    }
}

/// The rows of a join by a table that knows between which numbers the keys of its rows are.
fn by_number(
    kind: JoinKind,
    isa: Isa,
    (build, build_valid): Side<'_, i64>,
    (probed, valid): Side<'_, i64>,
) -> Vec<(u32, u32)> {
    let has_key = |row: &usize| build_valid.is_none_or(|valid| valid.contains(*row));
    let keys = || (0..build.len()).filter(has_key).map(|row| build[row]);
    let between = keys().min().zip(keys().max()).map(|(low, high)| low..=high);
    let mut table = JoinTable::with_room(build.len(), between.as_ref()).unwrap();
    assert_eq!(
        table.bytes(),
        JoinTable::bytes_for(build.len(), between.as_ref())
    );
    table.put(build, 0..build.len(), build_valid, &Native);
    let table = table.with_isa(isa).unwrap();
    let (mut cursor, mut matched, probing) = (
        ProbeCursor::default(),
        Matched::default(),
        Probing::default(),
    );
    let mut rows = Vec::new();
    loop {
        let is_done = table
            .probe(
                kind,
                probing,
                probed,
                valid,
                &mut cursor,
                &mut matched,
                &Native,
            )
            .unwrap();
        rows.extend(pairs(&matched));
        matched.clear();
        if is_done {
            return rows;
        }
    }
}

fn all_valid(keys: Vec<i64>) -> Column {
    let valid = Selection::all(keys.len());
    (keys, valid)
}

#[test]
fn every_short_length_on_both_sides() {
    for build in [0, 1, 2, 5, 6, 17, 64] {
        for probed in [0, 1, 3, 31, 65] {
            let build = all_valid((0..build).map(|row| row * 3).collect());
            let probed = all_valid((0..probed).map(|row| row * 2 - 5).collect());
            assert_join(&build, &probed);
        }
    }
}

#[test]
fn numbers_at_the_ends_of_their_type() {
    let edges = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
    let probed = all_valid(edges.to_vec());
    for low in [i64::MIN, -2, i64::MAX - 3] {
        assert_join(&all_valid((low..=low + 3).collect()), &probed);
    }
    assert_join(&probed, &probed);
    // Numbers that are close together take less than lines.
    let lines = JoinTable::bytes_for(1 << 20, None);
    assert!(JoinTable::bytes_for(1 << 20, Some(&(-5..=1 << 20))) < lines / 2);
    for far in [i64::MIN..=i64::MAX, 0..=i64::MAX, 0..=1 << 23] {
        assert_eq!(JoinTable::bytes_for(1 << 20, Some(&far)), lines);
    }
}

#[test]
#[should_panic(expected = "a key that was not announced")]
fn keys_beyond_those_that_were_announced_are_refused() {
    let mut table = JoinTable::with_room(2, Some(&(0..=1))).unwrap();
    table.put(&[0_i64, 2], 0..2, None, &Native);
}

#[test]
fn probe_sides_that_blocks_divide_and_others() {
    // Blocks have 1024 rows; the first build side has no key twice.
    for distinct in [700, 300] {
        let build = all_valid((0..700).map(|row| row % distinct * 3).collect());
        for probed in [1023, 1024, 1025, 2047, 2048, 3000] {
            let keys: Vec<i64> = (0..probed).map(|row| row * 7 % 2200).collect();
            let mut some = all_valid(keys.clone());
            some.1.remove([0xf0f0, 0, 0b11, 0, u64::MAX]);
            assert_join(&build, &some);
            assert_join(&build, &all_valid(keys));
        }
        let found = all_valid((0..3000).map(|row| row % distinct * 3).collect());
        assert_join(&build, &found);
    }
}

#[test]
fn one_key_for_all_rows_is_the_product_of_both_sides() {
    assert_join(&all_valid(vec![7; 70]), &all_valid(vec![7; 80]));
    assert_join(&all_valid(vec![7; 70]), &all_valid(vec![8; 80]));
}

#[test]
fn a_probe_pauses_and_no_result_is_much_larger() {
    let table = JoinTable::build(&vec![7_i64; 50_000], None, &Native).unwrap();
    assert!(!table.is_unique());
    let (keys, mut cursor, mut found) = ([7_i64; 3], ProbeCursor::default(), 0);
    let mut calls = 0;
    loop {
        let mut matched = Matched::default();
        let is_done = table.probe(
            JoinKind::Inner,
            Probing::default(),
            &keys,
            None,
            &mut cursor,
            &mut matched,
            &Native,
        );
        found += matched.probe_rows.len();
        calls += 1;
        assert!(
            matched.probe_rows.len() < 10_000,
            "{}",
            matched.probe_rows.len()
        );
        if is_done.unwrap() {
            break;
        }
    }
    assert_eq!(found, 150_000);
    assert!(calls > 15);
}

/// Floating-point keys as integers that are equal where SQL has them equal: all NaNs are one key, and so are both zeros.
fn as_sql(keys: &[f64], valid: &Selection) -> Column {
    let key = |key: &f64| match *key {
        key if key.is_nan() => -1,
        0.0 => -2,
        key => key.to_bits().cast_signed(),
    };
    (keys.iter().map(key).collect(), valid.clone())
}

#[test]
fn nan_zeros_and_nulls_are_joined_as_in_sql_by_every_kind_and_plan() {
    const KEYS: [f64; 7] = [f64::NAN, -f64::NAN, 0.0, -0.0, 1.5, -1.5, f64::INFINITY];
    // The probe side finds NaN and zero by the other sign too, and has keys that are not there.
    let build: Vec<f64> = (0..40).map(|row| KEYS[row * 3 % KEYS.len()]).collect();
    let probed: Vec<f64> = (0..1500)
        .map(|row| KEYS[row * 5 % KEYS.len()] * if row % 11 == 0 { 3.0 } else { 1.0 })
        .collect();
    let mut valid = [Selection::all(build.len()), Selection::all(probed.len())];
    for is_with_nulls in [false, true] {
        if is_with_nulls {
            valid[0].remove([0b1_0010_1001]);
            valid[1].remove((0..1500 / 64).map(|word| 0x8421_u64.rotate_left(word)));
        }
        let [build_valid, probe_valid] = &valid;
        let sides = (as_sql(&build, build_valid), as_sql(&probed, probe_valid));
        for kind in KINDS {
            let expected = oracle(kind, &sides.0, &sides.1);
            assert!(!expected.is_empty(), "{kind:?} finds something");
            for plan in plans() {
                for isa in Isa::available() {
                    let join = HashJoin::new(kind, plan).with_isa(isa).unwrap();
                    let mut rows = Vec::new();
                    let build = (&build[..], Some(build_valid));
                    let probed = (&probed[..], Some(probe_valid));
                    join.run(build, probed, &Native, |matched| {
                        rows.extend(pairs(matched))
                    })
                    .unwrap();
                    rows.sort_unstable();
                    assert_eq!(rows, expected, "{join:?}");
                }
            }
        }
    }
}

#[test]
fn memory_that_does_not_hold_the_table_is_refused() {
    let keys = [1_i64; 100];
    let lines = vec![Line::default(); 34];
    let error = JoinTable::build_in(lines, vec![0; 100], &keys, None, &Native).unwrap_err();
    let expected = JoinError::NoRoom {
        rows: 100,
        lines_needed: 35,
        lines: 34,
        links: 100,
    };
    assert_eq!(error, expected);
    let lines = vec![Line::default(); 35];
    let error = JoinTable::build_in(lines, vec![0; 99], &keys, None, &Native).unwrap_err();
    assert!(matches!(error, JoinError::NoRoom { links: 99, .. }));
    let error = JoinTable::build(&keys, Some(&Selection::all(99)), &Native).unwrap_err();
    let expected = JoinError::OtherRows {
        keys: 100,
        selected: 99,
    };
    assert_eq!(error, expected);
}

#[test]
fn a_table_in_a_region_of_the_caller() {
    let mut bytes = vec![0xff_u8; 64 * 65];
    let begin = bytes.as_ptr().align_offset(64);
    let lines = lines_mut(&mut bytes[begin..][..64 * 64]).unwrap();
    let keys: Vec<i64> = (0..100).collect();
    let table = JoinTable::build_in(lines, vec![0; 100], &keys, None, &Native).unwrap();
    assert_eq!((table.rows(), table.bytes()), (100, 64 * 64 + 400));
    let (mut cursor, mut matched) = (ProbeCursor::default(), Matched::default());
    let probing = Probing::default();
    let done = table.probe(
        JoinKind::Inner,
        probing,
        &keys,
        None,
        &mut cursor,
        &mut matched,
        &Native,
    );
    assert_eq!(done, Ok(true));
    assert!(
        pairs(&matched)
            .into_iter()
            .eq((0..100).map(|row| (row, row)))
    );
}

#[test]
fn plans_follow_size_and_tier() {
    let far = JoinTier {
        latency_ns: 500.0,
        ..JoinTier::NEAR
    };
    assert_eq!(
        JoinPlan::choose(1_000, far),
        JoinPlan::choose(1_000, JoinTier::NEAR)
    );
    let near = JoinPlan::choose(16 << 20, JoinTier::NEAR);
    assert!(near.partitions_log2 == 0 && !near.is_filtered, "{near:?}");
    let divided = JoinPlan::choose(16 << 20, far);
    assert!(
        divided.partitions_log2 > 6 && !divided.is_filtered,
        "{divided:?}"
    );
    let wide = JoinTier {
        outstanding: 100.0,
        ..far
    };
    assert!(JoinPlan::choose(16 << 20, wide).is_filtered);
}

#[test]
fn a_filter_is_asked_before_the_table_and_spares_its_lines() {
    let keys: Vec<i64> = (0..20_000).collect();
    let others: Vec<i64> = (0..20_000).map(|key| key + (1 << 40)).collect();
    let lookups = |is_filtered: bool, probing| {
        let mut table = JoinTable::build(&keys, None, &Native).unwrap();
        if is_filtered {
            table = table.with_filter(BloomFilter::of(&keys, None, &Native));
        }
        let log = AccessLog::new();
        let (mut cursor, mut matched) = (ProbeCursor::default(), Matched::default());
        while !table
            .probe(
                JoinKind::Inner,
                probing,
                &others,
                None,
                &mut cursor,
                &mut matched,
                &log,
            )
            .unwrap()
        {}
        assert!(matched.probe_rows.is_empty());
        let of = |access| {
            let log = log.take();
            log.iter()
                .filter(|one| one.access == access && one.bytes == 64)
                .count()
        };
        of(if probing == Probing::PLAIN {
            Access::Load
        } else {
            Access::Prefetch
        })
    };
    for probing in [Probing::PLAIN, Probing::default()] {
        assert!(lookups(false, probing) >= 20_000);
        assert!(lookups(true, probing) < 2_000);
    }
}

#[test]
fn every_line_is_asked_for_ahead_of_its_use() {
    let keys: Vec<i64> = (0..5_000).collect();
    let table = JoinTable::build(&keys, None, &Native).unwrap();
    let log = AccessLog::new();
    let (mut cursor, mut matched) = (ProbeCursor::default(), Matched::default());
    let probing = Probing::default();
    table
        .probe(
            JoinKind::Semi,
            probing,
            &keys,
            None,
            &mut cursor,
            &mut matched,
            &log,
        )
        .unwrap();
    let mut asked = std::collections::HashSet::new();
    let mut late = 0;
    for one in log.take() {
        match one.access {
            Access::Prefetch => {
                asked.insert(one.address);
            }
            Access::Load if one.bytes == 64 => late += usize::from(!asked.contains(&one.address)),
            _ => {}
        }
    }
    // Lines behind those that overflow are not.
    assert!(late < 300, "{late}");
}

#[test]
fn partitions_hold_every_row_once() {
    let keys: Vec<i64> = (0..10_000).map(|row| row * row % 77).collect();
    let mut valid = Selection::all(keys.len());
    valid.remove([0b1010]);
    for log2 in [0, 1, 4, 11, 40] {
        let parts = Partitions::of(&keys, Some(&valid), log2, &Native).unwrap();
        assert_eq!(parts.len(), 1 << log2.min(11));
        let mut rows: Vec<u32> = (0..parts.len())
            .flat_map(|part| parts.partition(part).1.to_vec())
            .collect();
        rows.extend(parts.null_rows());
        rows.sort_unstable();
        assert!(rows.into_iter().eq(0..10_000));
        assert_eq!(parts.null_rows(), [1, 3]);
    }
}

/// Cancels at one of the accesses that it is told of, and counts all.
#[derive(Default)]
struct CancelsAt {
    cancel: Cancel,
    told: Cell<usize>,
    at: usize,
}

impl CancelsAt {
    fn probe(&self) -> EachAccess<impl Fn() + '_> {
        EachAccess(|| {
            self.told.set(self.told.get() + 1);
            if self.told.get() == self.at {
                self.cancel.cancel();
            }
        })
    }
}

/// Accesses that a join may make after it was cancelled: 16,384 rows of the build side with a prefetch, a line or two
/// that are read, one that is written, and links. Fewer are probed in a step.
const LATE_MAX: usize = 16_384 * 7;

/// Whether joins that are cancelled at any of their accesses end with few others, and hand out nothing after that.
fn assert_cancellable(kind: JoinKind, plan: JoinPlan, build: &[i64], probed: &[i64]) {
    let join = HashJoin::new(kind, plan);
    let run = |at| {
        let cancels = CancelsAt {
            at,
            ..CancelsAt::default()
        };
        let (probe, cancel) = (cancels.probe(), &cancels.cancel);
        let mut late_calls = 0;
        let joined = join.run_cancellable((build, None), (probed, None), cancel, &probe, |_| {
            late_calls += usize::from(cancel.is_cancelled());
        });
        // What was found in the block that cancelled, if it made the probe pause.
        assert!(late_calls < 2, "{late_calls}");
        (joined, cancels.told.get())
    };
    let (joined, all) = run(0);
    assert_eq!(joined, Ok(()));
    assert!(all > 4 * LATE_MAX, "{all} are too few for this test");
    let last = all - LATE_MAX;
    for at in (1..last).step_by(last / 6) {
        let (joined, told) = run(at);
        assert_eq!(joined, Err(JoinError::Cancelled), "at {at} of {all}");
        assert!(told - at < LATE_MAX, "{} after {at} of {all}", told - at);
    }
}

#[test]
fn joins_that_are_cancelled_end_within_a_step() {
    let different: Vec<i64> = (0..150_000).collect();
    let others: Vec<i64> = (150_000..300_000).collect();
    let lists: Vec<i64> = (0..150_000).map(|row| row / 50).collect();
    for plan in plans() {
        // Nothing is found, so that nothing makes the probe pause.
        assert_cancellable(JoinKind::Inner, plan, &different, &others);
        assert_cancellable(JoinKind::Left, plan, &different, &different);
        // Of each list 50 rows are found.
        assert_cancellable(JoinKind::Inner, plan, &lists, &lists[..20_000]);
    }
}

#[test]
fn tables_of_callers_are_built_and_probed_until_they_are_cancelled() {
    let keys: Vec<i64> = (0..100_000).collect();
    let build = |cancels: &CancelsAt| {
        let lines = vec![Line::default(); Line::count_for(keys.len())];
        let links = vec![0; keys.len()];
        let (cancel, probe) = (&cancels.cancel, cancels.probe());
        JoinTable::build_cancellable(lines, links, &keys, None, cancel, &probe)
    };
    let early = CancelsAt {
        at: 10_000,
        ..CancelsAt::default()
    };
    assert_eq!(build(&early).unwrap_err(), JoinError::Cancelled);
    assert!(early.told.get() < 10_000 + LATE_MAX);

    let cancels = CancelsAt::default();
    let (table, probe) = (build(&cancels).unwrap(), cancels.probe());
    let (mut cursor, mut matched) = (ProbeCursor::default(), Matched::default());
    let mut go_on = |matched: &mut Matched| {
        let (kind, probing) = (JoinKind::Semi, Probing::default());
        table.probe(kind, probing, &keys, None, &mut cursor, matched, &probe)
    };
    assert_eq!(go_on(&mut matched), Ok(false));
    let found = matched.clone();
    cancels.cancel.cancel();
    assert_eq!(go_on(&mut matched), Err(JoinError::Cancelled));
    assert_eq!(matched, found);
}

fn column(rows: std::ops::Range<usize>) -> impl Strategy<Value = Column> {
    let key = prop_oneof![
        4 => -20..20_i64,
        4 => 0..1500_i64,
        1 => any::<i64>(),
        1 => (0..64_i64).prop_map(|key| key << 57),
    ];
    prop::collection::vec((key, prop::bool::weighted(0.9)), rows).prop_map(|rows| {
        let mut valid = Selection::all(rows.len());
        valid.keep_where(rows.iter().map(|(_, valid)| u8::from(*valid)));
        (rows.into_iter().map(|(key, _)| key).collect(), valid)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn joins_agree_with_a_map(build in column(0..600), probed in column(0..2600)) {
        assert_join(&build, &probed);
    }

    #[test]
    fn a_filter_has_all_keys(build in column(0..3000)) {
        let filter = BloomFilter::of(&build.0, Some(&build.1), &Native);
        for row in build.1.rows() {
            prop_assert!(filter.may_have(build.0[row]));
        }
        prop_assert!(filter.bytes() <= build.0.len() + 8);
    }
}
