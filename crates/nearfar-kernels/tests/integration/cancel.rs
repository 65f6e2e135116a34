//! Aggregates, groups and filters that are cancelled end after few other pieces, and find the same where nobody cancels.

use std::cell::Cell;
use std::fmt::Debug;

use nearfar_kernels::{
    Aggregate, Cancel, Cancelled, CodeTooLarge, GroupsError, HashGroups, Isa, Matches, Scan,
    ScanError, Selection, Stores, Summary,
};
use nearfar_model::{EachAccess, Native};

/// Rows of each column: many parts, and one that is no whole part.
const ROWS: usize = 300_001;

/// Calls a function for each access.
type Told<'a> = EachAccess<&'a dyn Fn()>;

/// Whether `work` ends with fewer than `late_max` accesses more wherever it is cancelled.
fn assert_cancellable<E: Copy + Debug + PartialEq>(
    late_max: usize,
    cancelled: E,
    work: impl Fn(&Cancel, &Told<'_>) -> Result<(), E>,
) {
    let run = |at| {
        let (cancel, told) = (Cancel::default(), Cell::new(0));
        let tell = || {
            told.set(told.get() + 1);
            if told.get() == at {
                cancel.cancel();
            }
        };
        let done = work(&cancel, &EachAccess(&tell));
        (done, told.get())
    };
    let (done, all) = run(0);
    assert_eq!(done, Ok(()));
    assert!(all > 3 * late_max, "{all} are too few for this test");
    let last = all - late_max;
    for at in (1..last).step_by((last / 24).max(1)) {
        let (done, told) = run(at);
        assert_eq!(done, Err(cancelled), "at {at} of {all}");
        assert!(told - at < late_max, "{} after {at} of {all}", told - at);
    }
}

fn values() -> Vec<i64> {
    let value = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15).cast_signed() >> 20;
    (0..ROWS as u64).map(value).collect()
}

/// Two rows of three, and no row of some words.
fn some_rows() -> Selection {
    let mut selection = Selection::all(ROWS);
    selection.keep_where((0..ROWS).map(|row| u8::from(row % 3 > 0 && row / 64 % 5 > 0)));
    selection
}

#[test]
fn aggregates_end_within_a_part() {
    let (values, selection) = (values(), some_rows());
    let aggregate = Aggregate::new();
    assert_cancellable(3, Cancelled, |cancel, told| {
        let sum = aggregate.sum_cancellable(&values, cancel, told)?;
        assert_eq!(sum, aggregate.sum(&values, &Native));
        Ok(())
    });
    assert_cancellable(3, Cancelled, |cancel, told| {
        let summary = aggregate.summary_cancellable(&values, cancel, told)?;
        assert_eq!(summary, aggregate.summary(&values, &Native));
        Ok(())
    });
    // A part is 256 words, and each is told of.
    assert_cancellable(300, Cancelled, |cancel, told| {
        let found = aggregate.summary_of_cancellable(&values, &selection, cancel, told)?;
        assert_eq!(found, aggregate.summary_of(&values, &selection, &Native));
        Ok(())
    });
}

#[test]
fn groups_by_code_end_within_a_part_and_name_the_row() {
    let values = values();
    let codes: Vec<u32> = (0..ROWS as u32).map(|row| row % 200).collect();
    let mut expected = vec![Summary::default(); 200];
    let aggregate = Aggregate::new();
    let by_code = aggregate.by_code(&codes, &values, &mut expected, &Native);
    assert_eq!(by_code, Ok(()));
    let cancelled = GroupsError::Cancelled(Cancelled);
    assert_cancellable(4, cancelled, |cancel, told| {
        let mut groups = vec![Summary::default(); 200];
        aggregate.by_code_cancellable(&codes, &values, &mut groups, cancel, told)?;
        assert_eq!(groups, expected);
        Ok(())
    });
    let mut wrong = codes;
    wrong[200_000] = 200;
    let cancel = Cancel::default();
    let refused = aggregate.by_code_cancellable(&wrong, &values, &mut expected, &cancel, &Native);
    let expected = CodeTooLarge {
        row: 200_000,
        code: 200,
        groups: 200,
    };
    assert_eq!(refused, Err(GroupsError::Code(expected)));
}

#[test]
fn groups_by_key_end_within_a_step_of_their_growing_table() {
    let (keys, valid) = (values(), some_rows());
    let mut expected = HashGroups::new();
    expected.add_valid(&keys, &valid, &keys, &Native).unwrap();
    // The keys of a step are put into a table of twice the size, with a prefetch and a line or two for each.
    assert_cancellable(
        16_384 * 5,
        GroupsError::Cancelled(Cancelled),
        |cancel, told| {
            let mut groups = HashGroups::new();
            groups.add_cancellable(&keys, Some(&valid), &keys, cancel, told)?;
            assert!(groups.groups().eq(expected.groups()));
            assert_eq!(groups.null_group(), expected.null_group());
            Ok(())
        },
    );
}

#[test]
fn filters_end_within_a_part() {
    let signed = values();
    let unsigned: Vec<u32> = signed.iter().map(|value| *value as u32).collect();
    let (low, high) = (u32::MAX / 4, u32::MAX / 2);
    for isa in Isa::available() {
        let scan = Scan::new().with_isa(isa).unwrap();
        assert_cancellable(4, Cancelled, |cancel, told| {
            let [mut found, mut expected] = [(); 2].map(|()| some_rows());
            let keep = Matches::Keep;
            scan.within_cancellable(&unsigned, low..=high, keep, &mut found, cancel, told)?;
            scan.within(&unsigned, low..=high, keep, &mut expected, &Native);
            assert_eq!(found, expected);
            Ok(())
        });
        assert_cancellable(4, Cancelled, |cancel, told| {
            let [mut found, mut expected] = [(); 2].map(|()| some_rows());
            let add = Matches::Add;
            scan.within_signed_cancellable(&signed, -9..=1 << 40, add, &mut found, cancel, told)?;
            scan.within_signed(&signed, -9..=1 << 40, add, &mut expected, &Native);
            assert_eq!(found, expected);
            Ok(())
        });
        let (selection, mut room) = (some_rows(), Vec::new());
        let expected = scan.positions(&selection, 7, &mut room, &Native);
        assert_cancellable(3, Cancelled, |cancel, told| {
            let mut room = Vec::new();
            let found = scan.positions_cancellable(&selection, 7, &mut room, cancel, told)?;
            assert_eq!(found, expected);
            Ok(())
        });
    }
}

#[test]
fn a_range_without_values_is_no_work() {
    let (column, cancel) = (vec![1_u32; ROWS], Cancel::default());
    let mut selection = Selection::all(ROWS);
    #[expect(clippy::reversed_empty_ranges, reason = "no value is within it")]
    let range = 2..=1;
    let done = Scan::new().within_cancellable(
        &column,
        range,
        Matches::Keep,
        &mut selection,
        &cancel,
        &Native,
    );
    assert_eq!((done, selection), (Ok(()), Selection::none(ROWS)));
}

#[test]
fn positions_below_a_bound_end_within_a_part() {
    let column: Vec<u32> = values().iter().map(|value| *value as u32).collect();
    let bound = u32::MAX / 3;
    for isa in Isa::available() {
        for stores in [Stores::Auto, Stores::Streaming] {
            let scan = Scan::new().with_isa(isa).unwrap().with_stores(stores);
            let mut positions = vec![0; ROWS];
            let count = scan.less_than(&column, bound, 11, &mut positions, &Native);
            let expected = &positions[..count.unwrap()];
            // A part is 16 blocks, each of which is read and written in up to three pieces.
            let cancelled = ScanError::Cancelled(Cancelled);
            assert_cancellable(80, cancelled, |cancel, told| {
                let mut found = vec![0; ROWS];
                let count =
                    scan.less_than_cancellable(&column, bound, 11, &mut found, cancel, told)?;
                assert!(found[..count] == *expected);
                Ok(())
            });
        }
    }
    let cancel = Cancel::default();
    let mut short = vec![0; ROWS - 1];
    let refused = Scan::new().less_than_cancellable(&column, 1, 0, &mut short, &cancel, &Native);
    let is_short = matches!(refused, Err(ScanError::PositionsTooShort { .. }));
    assert!(is_short, "{refused:?}");
}
