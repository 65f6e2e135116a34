//! Filters on encoded integers: the kernels of `nearfar-kernels` against a loop over bytes that the
//! compiler vectorises, a table of verdicts, and decoding before Arrow compares. Zone by zone, as
//! a scan does it, down to the positions of the rows that pass; medians over rounds of the time of a
//! row, and of its ratio to the kernel's within a round. Above 1, the kernel is faster.
//!
//! ```console
//! $ cargo run --release -p nearfar-table --example filter-codes
//! ```
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, BooleanArray, Int64Array};
use arrow::compute::kernels::cmp::{eq, gt_eq, lt_eq};
use arrow::compute::{and, or};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use nearfar_kernels::{Isa, Scan};
use nearfar_memory::{
    Budgets, MemorySystem, OverBudget, PageSize, Placement, RegionOptions, TierId, TierKind,
    TierSpec,
};
use nearfar_model::Native;
use nearfar_table::segment::{
    Code, Codes, ColumnSegment, Ranges, RowSet, Selector, Target, ZONE_ROWS, encode_column,
    with_codes,
};
use nearfar_table::tier_models::TierModels;

const ROWS: usize = 1 << 20;
const ROUNDS: usize = 31;

/// Of larger domains there is no table of verdicts.
const TABLE_END: u64 = 1 << 20;

/// What is filtered by, as a share of the values or as single ones.
#[derive(Clone, Copy)]
enum Shape {
    PerMille(i128),
    NotOne,
    In(i128),
}

impl Shape {
    fn name(self) -> String {
        match self {
            Self::PerMille(share) => format!("{} %", share as f64 / 10.0),
            Self::NotOne => "<>".to_owned(),
            Self::In(count) => format!("in {count}"),
        }
    }

    /// The values that pass, of those below `end`.
    fn ranges(self, end: i128) -> Ranges {
        match self {
            Self::PerMille(share) => Ranges::of(0, (end * share / 1000).max(1) - 1),
            Self::NotOne => Ranges::of(end / 3, end / 3).complement(),
            Self::In(count) => {
                let ones =
                    (1..=count).map(|i| Ranges::of(end * i / (count + 1), end * i / (count + 1)));
                ones.fold(Ranges::default(), |all, one| all.union(&one))
            }
        }
    }
}

fn segment(end: u64) -> Result<ColumnSegment, Box<dyn Error>> {
    let near = TierSpec::new("near", TierKind::LocalDram, vec![0], 1 << 30);
    let system = MemorySystem::from_specs(vec![near], &Budgets::new())?;
    let target = Target {
        system: &system,
        placement: &Placement::Bind(TierId::NEAR),
        options: RegionOptions {
            page_size: PageSize::Base,
            over_budget: OverBudget::Refuse,
        },
        pool: None,
        shelf: None,
        models: &TierModels::default(),
    };
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let values = (0..ROWS).map(|row| {
        // Marsaglia's xorshift (2003); both ends are there, so that the width is.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match row {
            0 => 0,
            1 => end - 1,
            _ => state % end,
        }
    });
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(values.map(u64::cast_signed)));
    Ok(encode_column(&[array], &DataType::Int64, target)?)
}

fn zones() -> impl Iterator<Item = Range<usize>> {
    (0..ROWS)
        .step_by(ZONE_ROWS)
        .map(|start| start..(start + ZONE_ROWS).min(ROWS))
}

/// A byte for each row, then the rows whose byte is 1.
fn by_bytes(segment: &ColumnSegment, restrict: impl Fn(&Codes, Range<usize>, &mut [u8])) -> usize {
    let Some(codes) = segment.codes() else {
        return 0;
    };
    let mut mask = Vec::new();
    let mut found = 0;
    for rows in zones() {
        mask.clear();
        mask.resize(rows.len(), 1);
        restrict(codes, rows.clone(), &mut mask);
        let count: usize = mask.iter().map(|keep| usize::from(*keep)).sum();
        found += count;
        if count > 0 && count < rows.len() {
            let mut positions = vec![0_u32; count + 1];
            let mut next = 0;
            for (offset, keep) in mask.iter().enumerate() {
                positions[next] = (rows.start + offset) as u32;
                next += usize::from(*keep);
                if next == count {
                    break;
                }
            }
            positions.truncate(count);
            black_box(positions);
        }
    }
    found
}

fn restrict_to_range<C: Code>(codes: &[C], (low, high): (i128, i128), mask: &mut [u8]) {
    let (low, high) = (C::truncate(low as u64), C::truncate(high as u64));
    for (keep, code) in mask.iter_mut().zip(codes) {
        *keep &= u8::from(*code >= low) & u8::from(*code <= high);
    }
}

fn by_kernel(segment: &ColumnSegment, ranges: &Ranges, selector: &mut Selector) -> usize {
    let Some(codes) = segment.codes() else {
        return 0;
    };
    let mut found = 0;
    for (zone, rows) in zones().enumerate() {
        selector.begin(rows.len());
        selector.keep_ranges(
            codes,
            rows.clone(),
            segment.zones().bounds(zone),
            ranges,
            &Native,
        );
        let count = selector.count();
        found += count;
        if count > 0 && count < rows.len() {
            black_box(selector.positions(rows.start).to_vec());
        }
    }
    found
}

/// The same through a table of verdicts.
fn by_kernel_table(segment: &ColumnSegment, table: &[u8], selector: &mut Selector) -> usize {
    let Some(codes) = segment.codes() else {
        return 0;
    };
    let mut found = 0;
    for rows in zones() {
        selector.begin(rows.len());
        with_codes!(codes, codes => {
            selector.keep_where(codes[rows.clone()].iter().map(|code| table[code.widen() as usize]));
        });
        let count = selector.count();
        found += count;
        if count > 0 && count < rows.len() {
            black_box(selector.positions(rows.start).to_vec());
        }
    }
    found
}

/// Decodes, and asks `compare` which values pass.
fn by_arrow(
    segment: &ColumnSegment,
    compare: impl Fn(&ArrayRef) -> Result<BooleanArray, ArrowError>,
) -> Result<usize, Box<dyn Error>> {
    let mut found = 0;
    for rows in zones() {
        let run = RowSet::Run {
            start: rows.start,
            len: rows.len(),
        };
        let mask = compare(&segment.read(run, &DataType::Int64)?)?;
        let count = mask.true_count();
        found += count;
        if count > 0 && count < rows.len() {
            let positions = mask.values().set_indices();
            let positions = positions.map(|row| (rows.start + row) as u32);
            black_box(positions.collect::<Vec<u32>>());
        }
    }
    Ok(found)
}

fn is_in_range(values: &ArrayRef, (low, high): (i128, i128)) -> Result<BooleanArray, ArrowError> {
    let end = |value: i128| Int64Array::new_scalar(value as i64);
    and(&gt_eq(values, &end(low))?, &lt_eq(values, &end(high))?)
}

/// A comparison for each value of a list, and `OR`.
fn is_in_list(values: &ArrayRef, list: &[i128]) -> Result<BooleanArray, ArrowError> {
    let is = |value: &i128| eq(values, &Int64Array::new_scalar(*value as i64));
    let mut mask = is(&list[0])?;
    for value in &list[1..] {
        mask = or(&mask, &is(value)?)?;
    }
    Ok(mask)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Nanoseconds that a row takes.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let began = Instant::now();
    let result = work();
    (began.elapsed().as_secs_f64() * 1e9 / ROWS as f64, result)
}

/// Finds the rows that pass; returns how many.
type Contestant<'a> = (
    &'static str,
    Box<dyn FnMut() -> Result<usize, Box<dyn Error>> + 'a>,
);

/// Lets the first contestant and the others take turns, and prints the ratios.
fn contest(what: &str, mut contestants: Vec<Contestant<'_>>) -> Result<(), Box<dyn Error>> {
    let mut times = vec![Vec::new(); contestants.len()];
    let mut ratios = times.clone();
    for _ in 0..ROUNDS {
        let mut first = None;
        for (index, (name, pass)) in contestants.iter_mut().enumerate() {
            let (time, found) = timed(pass);
            let found = found?;
            let (first_time, first_found) = *first.get_or_insert((time, found));
            assert_eq!(found, first_found, "{name} found other rows");
            times[index].push(time);
            ratios[index].push(time / first_time);
        }
    }
    let names = contestants.iter().map(|(name, _)| *name);
    let figures = times
        .into_iter()
        .zip(ratios)
        .map(|(times, ratios)| (median(times), median(ratios)));
    for (name, (time, ratio)) in names.zip(figures) {
        println!("{what} {name:>14} {time:>8.3} {ratio:>7.2}");
    }
    Ok(())
}

/// For each value 1 where it passes, if that is worth a table.
fn verdicts(ranges: &Ranges, end: u64, shape: Shape) -> Vec<u8> {
    if end > TABLE_END || matches!(shape, Shape::PerMille(_)) {
        return Vec::new();
    }
    let mut table = vec![0; end as usize];
    for (low, high) in ranges.as_slice() {
        let (low, high) = ((*low).max(0), (*high).min(i128::from(end) - 1));
        table[low as usize..=high as usize].fill(1);
    }
    table
}

fn compare(end: u64, shape: Shape, isa: Isa) -> Result<(), Box<dyn Error>> {
    let segment = &segment(end)?;
    let ranges = &shape.ranges(i128::from(end));
    let scan = Scan::new().with_isa(isa)?;
    let (mut selector, mut bits) = (Selector::from(scan), Selector::from(scan));
    let table = &verdicts(ranges, end, shape);
    let width = segment.codes().map_or(0, Codes::code_bytes);
    let what = format!("{width:>5} {:>8} {:>6}", isa.name(), shape.name());
    let mut contestants: Vec<Contestant<'_>> = vec![(
        "kernel",
        Box::new(|| Ok(by_kernel(segment, ranges, &mut selector))),
    )];
    if let Shape::PerMille(_) = shape {
        let range = ranges.as_slice()[0];
        let bytes = move || {
            by_bytes(segment, |codes, rows, mask| {
                with_codes!(codes, codes => restrict_to_range(&codes[rows], range, mask));
            })
        };
        contestants.push(("bytes", Box::new(move || Ok(bytes()))));
        let arrow = move || by_arrow(segment, |values| is_in_range(values, range));
        contestants.push(("decode, Arrow", Box::new(arrow)));
    }
    if !table.is_empty() {
        let bytes = move || {
            by_bytes(segment, |codes, rows, mask| {
                restrict_by_table(codes, rows, table, mask)
            })
        };
        contestants.push(("table to bytes", Box::new(move || Ok(bytes()))));
        contestants.push((
            "table to bits",
            Box::new(move || Ok(by_kernel_table(segment, table, &mut bits))),
        ));
    }
    if let Shape::In(_) = shape {
        let list: Vec<i128> = ranges.as_slice().iter().map(|(first, _)| *first).collect();
        let arrow = move || by_arrow(segment, |values| is_in_list(values, &list));
        contestants.push(("decode, Arrow", Box::new(arrow)));
    }
    contest(&what, contestants)
}

fn restrict_by_table(codes: &Codes, rows: Range<usize>, table: &[u8], mask: &mut [u8]) {
    with_codes!(codes, codes => {
        for (keep, code) in mask.iter_mut().zip(&codes[rows]) {
            *keep &= table[code.widen() as usize];
        }
    });
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("bytes      isa filter     contestant  ns/row  ratio");
    for isa in Isa::available() {
        for end in [1 << 8, 1 << 16, 1 << 32, 1 << 48] {
            for share in [1, 10, 100, 500, 1000] {
                compare(end, Shape::PerMille(share), isa)?;
            }
        }
        for end in [1 << 8, 1 << 16, TABLE_END, 1 << 48] {
            for shape in [Shape::NotOne, Shape::In(3), Shape::In(8), Shape::In(16)] {
                compare(end, shape, isa)?;
            }
        }
    }
    Ok(())
}
