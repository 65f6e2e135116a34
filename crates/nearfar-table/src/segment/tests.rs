//! Every encoding gives back what it was given, whole, in part, and after a move.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array,
    ListArray, StringViewArray, TimestampMillisecondArray, UInt32Array, UInt64Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Decimal128Type, Int32Type};
use nearfar_memory::{
    Budgets, MemorySystem, OverBudget, PageSize, Placement, RegionOptions, TierId, TierKind,
    TierSpec,
};
use nearfar_model::{BandwidthShare, EmulatedTier, EmulationParameters, Native};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    ColumnSegment, Encoding, EncodingKind, Ranges, RowSet, Selector, Target, Verdict,
    encode_column, integer_array, is_integer_like,
};
use crate::tier_models::TierModels;

const OPTIONS: RegionOptions = RegionOptions {
    page_size: PageSize::Base,
    over_budget: OverBudget::Refuse,
};

fn system() -> Arc<MemorySystem> {
    let tier = |name: &str, kind| TierSpec::new(name, kind, vec![0], 1 << 30);
    let tiers = vec![
        tier("near", TierKind::LocalDram),
        tier("far", TierKind::Modelled),
    ];
    MemorySystem::from_specs(tiers, &Budgets::new()).expect("two tiers on node 0")
}

fn far() -> TierId {
    TierId::from_index(1).expect("a second tier")
}

fn encode(system: &Arc<MemorySystem>, array: &ArrayRef) -> ColumnSegment {
    let placement = Placement::Bind(TierId::NEAR);
    let target = Target {
        system,
        placement: &placement,
        options: OPTIONS,
        pool: None,
        shelf: None,
        models: &TierModels::default(),
    };
    // Two chunks, so that arrays with an offset are met too.
    let half = array.len() / 2;
    let chunks = [array.slice(0, half), array.slice(half, array.len() - half)];
    encode_column(&chunks, array.data_type(), target).expect("encoded")
}

/// Whole, a run, and every third row.
fn check(array: &ArrayRef, segment: &ColumnSegment) {
    let read = |rows: RowSet<'_>| segment.read(rows, array.data_type()).expect("read");
    let rows = array.len();
    assert_eq!(
        &read(RowSet::Run {
            start: 0,
            len: rows
        }),
        array
    );
    let (start, len) = (rows / 3, rows / 2);
    assert_eq!(&read(RowSet::Run { start, len }), &array.slice(start, len));
    for step in [3, 17] {
        let positions: Vec<u32> = (0..rows as u32).step_by(step).collect();
        let expected = take(array, &UInt32Array::from(positions.clone()), None).expect("taken");
        assert_eq!(&read(RowSet::Positions(&positions)), &expected);
        check_integers(&expected, segment, RowSet::Positions(&positions));
        check_places(&expected, segment, RowSet::Positions(&positions));
    }
}

/// The same rows of a segment as integers, 64 bits of each, are those of `array`.
fn check_integers(array: &ArrayRef, segment: &ColumnSegment, rows: RowSet<'_>) {
    if !is_integer_like(array.data_type()) {
        return;
    }
    let read = segment.read_integers(rows, array.data_type());
    let read = read.expect("integers").into_iter();
    let nulls = segment.nulls_of(rows);
    let read = read.enumerate().map(|(row, value)| {
        let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!is_null).then_some(i128::from(value))
    });
    let again = integer_array(read, array.data_type());
    let is_long = |value: &i128| i64::try_from(*value).is_err();
    let decimals = array.as_primitive_opt::<Decimal128Type>();
    if !decimals.is_some_and(|all| all.values().iter().any(is_long)) {
        assert_eq!(&again, array);
    }
}

/// Rows of a segment have the same place where, and only where, they have the same value.
fn check_places(array: &ArrayRef, segment: &ColumnSegment, rows: RowSet<'_>) {
    let Some(places) = segment.read_places(rows) else {
        return;
    };
    let count = segment.place_count().expect("places");
    let mut at_place: HashMap<u32, ArrayRef> = HashMap::new();
    for (row, place) in places.iter().enumerate() {
        assert!(*place < count);
        let value = array.slice(row, 1);
        assert_eq!(
            at_place.entry(*place).or_insert_with(|| Arc::clone(&value)),
            &value
        );
    }
    let values: HashSet<String> = at_place
        .values()
        .map(|value| format!("{value:?}"))
        .collect();
    assert_eq!(values.len(), at_place.len());
}

fn check_with_moves(array: &ArrayRef) -> EncodingKind {
    let system = system();
    let segment = encode(&system, array);
    check(array, &segment);
    let one = NonZeroU32::MIN;
    for placement in [
        Placement::Bind(far()),
        Placement::Weighted(vec![(TierId::NEAR, one), (far(), one)]),
    ] {
        let target = Target {
            system: &system,
            placement: &placement,
            options: OPTIONS,
            pool: None,
            shelf: None,
            models: &TierModels::default(),
        };
        let moved = segment.copy_to(target).expect("moved");
        assert_eq!(moved.placement(), placement);
        check(array, &moved);
    }
    let kind = segment.encoding_kind();
    drop(segment);
    let used: u64 = system
        .tiers()
        .map(|(id, _)| system.usage(id).region_bytes)
        .sum();
    assert_eq!(used, 0, "every region is given back");
    kind
}

#[test]
fn numbers_dates_and_decimals_become_narrow() {
    let decimal = Decimal128Array::from_iter((0..500).map(|i| (i % 7 != 0).then_some(i * 100)))
        .with_precision_and_scale(15, 2)
        .expect("a decimal");
    let arrays: [ArrayRef; 5] = [
        Arc::new(Int64Array::from_iter_values(
            (0..500).map(|i| i64::MIN + i * 1_000_000),
        )),
        Arc::new(UInt64Array::from_iter_values(
            (0..500).map(|i| u64::MAX - i),
        )),
        Arc::new(Date32Array::from_iter(
            (0..500).map(|i| (i % 11 != 3).then_some(i - 250)),
        )),
        Arc::new(TimestampMillisecondArray::from_iter_values(0..500).with_timezone("UTC")),
        Arc::new(decimal),
    ];
    for array in &arrays {
        assert_eq!(
            check_with_moves(array),
            EncodingKind::Narrow,
            "{:?}",
            array.data_type()
        );
    }
}

#[test]
fn values_too_far_apart_stay_plain() {
    let wide = Decimal128Array::from_iter_values([i128::MIN / 4, 0, i128::MAX / 4, 7, 8, 9]);
    assert_eq!(
        check_with_moves(&(Arc::new(wide) as ArrayRef)),
        EncodingKind::Plain
    );
}

#[test]
fn strings_become_dictionaries_or_stay_strings() {
    let few = (0..400).map(|i| (i % 13 != 0).then(|| format!("value {}, rather long", i % 5)));
    let few: ArrayRef = Arc::new(StringViewArray::from_iter(few));
    assert_eq!(check_with_moves(&few), EncodingKind::Dictionary);
    let many = (0..400).map(|i| (i % 13 != 0).then(|| format!("{i} bottles of beer")));
    let many: ArrayRef = Arc::new(StringViewArray::from_iter(many));
    assert_eq!(check_with_moves(&many), EncodingKind::Strings);
}

#[test]
fn everything_else_stays_plain() {
    let lists = (0..90).map(|i| Some((0..i % 4).map(Some).collect::<Vec<_>>()));
    let arrays: [ArrayRef; 4] = [
        Arc::new(Float64Array::from_iter(
            (0..90).map(|i| (i % 5 != 0).then_some(f64::from(i))),
        )),
        Arc::new(BooleanArray::from_iter((0..90).map(|i| Some(i % 3 == 0)))),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        arrow::array::new_null_array(&DataType::Float32, 90),
    ];
    for array in &arrays {
        assert_eq!(
            check_with_moves(array),
            EncodingKind::Plain,
            "{:?}",
            array.data_type()
        );
    }
}

#[test]
fn columns_of_nothing_but_nulls_are_read_back() {
    for data_type in [DataType::Int64, DataType::Utf8View, DataType::Date32] {
        check_with_moves(&arrow::array::new_null_array(&data_type, 100));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_integers_are_read_back(
        values in proptest::collection::vec(proptest::option::weighted(0.9, any::<i64>()), 1..200),
        shift in 0u32..64,
    ) {
        let values = values.into_iter().map(|v| v.map(|v| v >> shift));
        let array: ArrayRef = Arc::new(Int64Array::from_iter(values));
        check(&array, &encode(&system(), &array));
    }

    #[test]
    fn any_strings_are_read_back(
        values in proptest::collection::vec(proptest::option::weighted(0.9, ".{0,20}"), 1..100),
        repeats in 1usize..12,
    ) {
        let rows = values.len() * repeats;
        let values = values.iter().cloned().cycle().take(rows);
        let array: ArrayRef = Arc::new(StringViewArray::from_iter(values));
        check(&array, &encode(&system(), &array));
    }
}

#[test]
fn a_move_takes_as_long_as_an_emulated_tier_needs() {
    const BYTES_PER_S: f64 = 2e6;
    let parameters = EmulationParameters {
        latency_ns: 200.0,
        near_latency_ns: 100.0,
        read_bandwidth_bytes_per_s: BYTES_PER_S,
        write_bandwidth_bytes_per_s: BYTES_PER_S,
        cores: 1,
        outstanding_sequential: 16.0,
        outstanding_random: 8.0,
        cache_bytes: None,
        copy_engine_bandwidth_bytes_per_s: None,
    };
    let model = EmulatedTier::with_parameters(parameters, BandwidthShare::WholeDevice);
    let models = TierModels::new([(far(), model.expect("a tier"))]);
    let system = system();
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..50_000).map(|i| i << 40)));
    let segment = encode(&system, &values);
    let least = Duration::from_secs_f64(segment.bytes() as f64 / BYTES_PER_S);
    let moved = |segment: &ColumnSegment, tier| {
        let target = Target {
            system: &system,
            placement: &Placement::Bind(tier),
            options: OPTIONS,
            pool: None,
            shelf: None,
            models: &models,
        };
        let started = Instant::now();
        (segment.copy_to(target).expect("moved"), started.elapsed())
    };
    let (segment, there) = moved(&segment, far());
    let (_, back) = moved(&segment, TierId::NEAR);
    assert!(there >= least && back >= least, "{there:?}, {back:?}");
}

/// Integers whose codes are of every width, and the ends of their type.
fn integers_of_any_width() -> impl Strategy<Value = Vec<Option<i64>>> {
    let ends = prop::sample::select(vec![i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX]);
    let base = prop_oneof![
        Just(0_i64),
        Just(i64::MIN / 2),
        any::<i32>().prop_map(i64::from)
    ];
    (base, 0..63_u32, any::<bool>()).prop_flat_map(move |(base, bits, has_ends)| {
        let near = (0..1_i64 << bits).prop_map(move |above| base.saturating_add(above));
        let value = match has_ends {
            true => prop_oneof![9 => near, 1 => ends.clone()].boxed(),
            false => near.boxed(),
        };
        prop::collection::vec(prop::option::weighted(0.9, value), 0..300)
    })
}

/// The ranges of some bounds, which are values of the column, beside them, or far away.
fn ranges_around(
    values: &[Option<i64>],
    bounds: Vec<(prop::sample::Index, i128, i128)>,
    negated: bool,
) -> Ranges {
    let ranges = bounds.into_iter().map(|(index, before, more)| {
        let near = match values {
            [] => 0,
            values => values[index.index(values.len())].unwrap_or(0),
        };
        Ranges::of(
            i128::from(near) + before,
            (i128::from(near) + before).saturating_add(more),
        )
    });
    let ranges = ranges.fold(Ranges::default(), |all, one| all.union(&one));
    match negated {
        true => ranges.complement(),
        false => ranges,
    }
}

/// The rows of `segment` from `start` on that are in `ranges` of values, by their codes.
fn selected(segment: &ColumnSegment, ranges: &Ranges, start: usize) -> Vec<u32> {
    let (Encoding::Narrow { base, codes }, false) =
        (segment.encoding(), segment.zones().is_empty())
    else {
        return Vec::new();
    };
    let mut selector = Selector::default();
    selector.begin(codes.len() - start);
    let (ranges, bounds) = (ranges.codes(*base), segment.zones().bounds(0));
    match ranges.verdict(bounds) {
        Verdict::None => selector.remove(vec![u64::MAX; codes.len()]),
        Verdict::All => {}
        Verdict::Some => {
            selector.keep_ranges(codes, start..codes.len(), bounds, &ranges, &Native);
        }
    }
    if let Some(nulls) = segment.nulls() {
        selector.keep_valid(nulls, start);
    }
    let positions = selector.positions(start).to_vec();
    assert_eq!(positions.len(), selector.count());
    positions
}

proptest! {
    #[test]
    fn rows_are_selected_as_if_they_were_decoded(
        values in integers_of_any_width(),
        bounds in prop::collection::vec(
            (any::<prop::sample::Index>(), -2_i128..3, prop_oneof![-1_i128..4, 0..i128::MAX]),
            0..5,
        ),
        negated: bool,
        kind in 0..4,
        start in 0_usize..130,
    ) {
        let as_type: ArrayRef = match kind {
            0 => Arc::new(Int64Array::from(values.clone())),
            1 => Arc::new(TimestampMillisecondArray::from(values.clone())),
            2 => Arc::new(Decimal128Array::from_iter(values.iter().map(|v| v.map(i128::from)))),
            _ => Arc::new(Date32Array::from_iter(values.iter().map(|v| v.map(|v| v as i32)))),
        };
        let segment = encode(&system(), &as_type);
        let ranges = ranges_around(&values, bounds, negated);
        let start = start.min(values.len());
        let decoded = segment
            .read(RowSet::Run { start: 0, len: values.len() }, as_type.data_type())
            .expect("read");
        prop_assert_eq!(&decoded, &as_type);
        let passes = |row: &usize| {
            let value = match decoded.data_type() {
                DataType::Date32 => values[*row].map(|v| i128::from(v as i32)),
                _ => values[*row].map(i128::from),
            };
            value.is_some_and(|value| !ranges.intersect(&Ranges::of(value, value)).is_empty())
        };
        let expected: Vec<u32> = (start..values.len()).filter(passes).map(|row| row as u32).collect();
        prop_assert_eq!(selected(&segment, &ranges, start), expected);
    }
}
