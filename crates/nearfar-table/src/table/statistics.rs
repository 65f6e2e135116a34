//! What is known of a table's values.

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use std::sync::OnceLock;

use super::facts::{ColumnFacts, Order};
use super::sketch::DistinctSketch;
use super::sketches::ColumnSketches;
use super::snapshot::Part;

/// Of a delta of one row for so many of the main storage, or fewer, it is not asked which values it has: their number is
/// an estimate already, and looking at them takes as long as many a query.
const DELTA_SHARE: usize = 8;

/// Numbers of distinct values are counted anew once the delta has changed by one row of so many: one more among many
/// changes little, and counting takes as long as a query of a few rows.
const GROWTH_SHARE: usize = 8;

/// A number of distinct values that are not null, 0 where it is unknown, and whether it is exact.
pub type DistinctCount = (usize, bool);

/// The numbers of distinct values of a table as they were counted last with its delta, shared by its versions with one
/// main storage.
#[derive(Debug, Default)]
pub struct CountedDistinct(Mutex<Option<Counted>>);

#[derive(Debug)]
struct Counted {
    delta_rows: usize,
    columns: Vec<DistinctCount>,
}

impl CountedDistinct {
    /// The numbers for a delta of so many rows: as they were counted for one of about as many, and so not exact, or
    /// else as `count` gives them.
    fn of(
        &self,
        delta_rows: usize,
        count: impl FnOnce() -> Vec<DistinctCount>,
    ) -> Vec<DistinctCount> {
        let is_near = |counted: &&Counted| {
            let change_rows = delta_rows.abs_diff(counted.delta_rows);
            change_rows.saturating_mul(GROWTH_SHARE) <= counted.delta_rows
        };
        if let Some(counted) = self.0.lock().as_ref().filter(is_near) {
            let counts = counted.columns.iter();
            return counts.map(|(count, _)| (*count, false)).collect();
        }
        let columns = count();
        *self.0.lock() = Some(Counted {
            delta_rows,
            columns: columns.clone(),
        });
        columns
    }
}

/// Facts about all rows of a table.
#[derive(Debug, Clone)]
pub struct TableSummary {
    /// Rows of the table.
    pub rows: usize,
    /// Whether the columns' facts are about just these rows, and not about deleted ones as well.
    pub is_exact: bool,
    /// Facts about each column.
    pub columns: Vec<ColumnSummary>,
    /// Those of all parts together, once they are needed.
    sketches: OnceLock<ColumnSketches>,
    /// Whether the sketches of all parts could be read when distinct values were counted.
    is_whole: bool,
}

/// Facts about all values of one column.
#[derive(Debug, Clone)]
pub struct ColumnSummary {
    /// Smallest and largest value, for integer-like columns.
    pub bounds: Option<(i128, i128)>,
    /// Smallest and largest string, for dictionaries.
    pub string_bounds: Option<(String, String)>,
    /// Rows without a value.
    pub null_count: usize,
    /// Distinct values that are not null; exact where `distinct_exact` says so, 0 where unknown.
    pub distinct: usize,
    /// Whether `distinct` is exact.
    pub distinct_exact: bool,
    /// Order over the whole table, segment after segment.
    pub order: Order,
}

impl TableSummary {
    /// The summary of `parts`, with their deleted rows.
    pub fn of(schema: &SchemaRef, parts: &[Part]) -> Self {
        let empty = vec![Some(DistinctSketch::default()); schema.fields().len()];
        let (sketches, is_whole) = add_sketches(empty, parts);
        let counted = |column: usize| count(sketches[column].as_ref());
        let columns = columns(parts, sketches.len(), counted);
        Self {
            rows: rows(parts),
            is_exact: true,
            columns,
            sketches: OnceLock::from(sketches),
            is_whole,
        }
    }

    /// The same where distinct values were counted before.
    pub fn with_distinct(parts: &[Part], distinct: &[DistinctCount]) -> Self {
        Self {
            rows: rows(parts),
            is_exact: true,
            columns: columns(parts, distinct.len(), |column| distinct[column]),
            sketches: OnceLock::new(),
            is_whole: true,
        }
    }

    /// The numbers of distinct values, for [`Self::with_distinct`]; nothing where sketches could not
    /// be read.
    pub fn distinct(&self) -> Option<Vec<DistinctCount>> {
        let columns = self.columns.iter();
        let counts = columns.map(|column| (column.distinct, column.distinct_exact));
        self.is_whole.then(|| counts.collect())
    }

    /// The summary of a table of `rows` rows: `main` is that of its main storage, of which rows may
    /// be deleted, and `delta` is what was written since. `counted` is kept from one version to the next.
    pub fn changed(
        (main, parts): (&Self, &[Part]),
        delta: &[Part],
        rows: usize,
        counted: &CountedDistinct,
    ) -> Self {
        let delta_rows = self::rows(delta);
        let is_small = delta_rows.saturating_mul(DELTA_SHARE) <= main.rows;
        let count_all = || {
            let (sketches, _) = add_sketches(main.sketches(parts), delta);
            sketches
                .iter()
                .map(|sketch| count(sketch.as_ref()))
                .collect()
        };
        let all = (!is_small).then(|| counted.of(delta_rows, count_all));
        let of = |(index, column): (usize, &ColumnSummary)| {
            let of_main = (!parts.is_empty()).then_some((column, main.rows));
            let estimate = match &all {
                Some(counts) => counts[index],
                None => (column.distinct, column.distinct_exact && delta.is_empty()),
            };
            ColumnSummary::changed((of_main, column.order), index, delta, (rows, estimate))
        };
        Self {
            rows,
            is_exact: parts
                .iter()
                .chain(delta)
                .all(|part| part.delete_vector.is_none()),
            columns: main.columns.iter().enumerate().map(of).collect(),
            sketches: OnceLock::new(),
            is_whole: main.is_whole,
        }
    }

    /// The sketches of `parts`, whose summary this is.
    fn sketches(&self, parts: &[Part]) -> ColumnSketches {
        let empty = || vec![Some(DistinctSketch::default()); self.columns.len()];
        let known = self.sketches.get_or_init(|| add_sketches(empty(), parts).0);
        known.clone()
    }
}

impl ColumnSummary {
    fn of(column: usize, parts: &[Part], estimate: DistinctCount) -> Self {
        let facts = || facts(column, parts);
        let order = overall_order(parts, column);
        let valued = || facts_of_values(column, parts);
        let bounds = merge(valued().map(|f| f.bounds));
        let (distinct, distinct_exact) = distinct(estimate, order, bounds, rows(parts));
        Self {
            bounds,
            string_bounds: merge(valued().map(|f| f.string_bounds.clone())),
            null_count: facts().map(|f| f.null_count).sum(),
            distinct,
            distinct_exact,
            order,
        }
    }

    fn changed(
        (main, order): (Option<(&Self, usize)>, Order),
        column: usize,
        delta: &[Part],
        (rows, estimate): (usize, DistinctCount),
    ) -> Self {
        let valued = || facts_of_values(column, delta);
        let main_valued = main.filter(|(main, rows)| main.null_count < *rows);
        let main_bounds = main_valued.map(|(main, _)| main.bounds);
        let bounds = merge(main_bounds.into_iter().chain(valued().map(|f| f.bounds)));
        let main_strings = main_valued.map(|(main, _)| main.string_bounds.clone());
        let strings = valued().map(|f| f.string_bounds.clone());
        let order = match delta.is_empty() {
            true => order,
            false => Order::Unordered,
        };
        let (distinct, distinct_exact) = distinct(estimate, order, bounds, rows);
        let main_nulls = main.map_or(0, |(main, _)| main.null_count);
        let delta_nulls = facts(column, delta).map(|f| f.null_count);
        Self {
            bounds,
            string_bounds: merge(main_strings.into_iter().chain(strings)),
            null_count: main_nulls + delta_nulls.sum::<usize>(),
            distinct,
            distinct_exact,
            order,
        }
    }
}

fn facts(column: usize, parts: &[Part]) -> impl Iterator<Item = &ColumnFacts> {
    parts
        .iter()
        .map(move |part| part.segment.columns()[column].facts())
}

/// The facts of those parts that have any value: parts of nulls alone have no bounds, and change those of no others.
fn facts_of_values(column: usize, parts: &[Part]) -> impl Iterator<Item = &ColumnFacts> {
    let facts = parts.iter().map(move |part| {
        let facts = part.segment.columns()[column].facts();
        (facts, part.segment.rows())
    });
    let valued = facts.filter(|(facts, rows)| facts.null_count < *rows);
    valued.map(|(facts, _)| facts)
}

fn rows(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.segment.rows()).sum()
}

fn columns(
    parts: &[Part],
    count: usize,
    distinct: impl Fn(usize) -> DistinctCount,
) -> Vec<ColumnSummary> {
    let of = |column| ColumnSummary::of(column, parts, distinct(column));
    (0..count).map(of).collect()
}

/// `sketches` and what `parts` add to them, column by column; nothing where that is unknown of a part.
/// Also whether those of all could be read.
fn add_sketches(mut sketches: ColumnSketches, parts: &[Part]) -> (ColumnSketches, bool) {
    let mut is_whole = true;
    for part in parts {
        let own = part.segment.sketches().all().unwrap_or_else(|error| {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "numbers of distinct values are not known");
            is_whole = false;
            &[]
        });
        for (column, all) in sketches.iter_mut().enumerate() {
            match (all.as_mut(), own.get(column).and_then(Option::as_ref)) {
                (Some(all), Some(own)) => all.merge(own),
                _ => *all = None,
            }
        }
    }
    (sketches, is_whole)
}

fn count(sketch: Option<&DistinctSketch>) -> DistinctCount {
    sketch.map_or((0, false), DistinctSketch::count)
}

/// Distinct values of a column of `rows` rows, of which `estimate` is known.
fn distinct(
    (estimate, exact): DistinctCount,
    order: Order,
    bounds: Option<(i128, i128)>,
    rows: usize,
) -> DistinctCount {
    if order == Order::Rising {
        return (rows, true);
    }
    let possible = bounds.map_or(rows, |(low, high)| {
        let span = high
            .checked_sub(low)
            .and_then(|span| usize::try_from(span).ok());
        span.map_or(rows, |span| span.saturating_add(1).min(rows))
    });
    (estimate.min(possible), exact)
}

/// The order of a column over parts that follow each other.
fn overall_order(parts: &[Part], column: usize) -> Order {
    let mut order = Order::Rising;
    let mut last: Option<i128> = None;
    for facts in facts(column, parts) {
        let Some((low, high)) = facts.bounds else {
            return Order::Unordered;
        };
        order = order.min(facts.order).min(match last {
            Some(last) if low < last => Order::Unordered,
            Some(last) if low == last => Order::Ascending,
            _ => Order::Rising,
        });
        last = Some(high);
    }
    if parts.is_empty() {
        Order::Unordered
    } else {
        order
    }
}

/// The bounds of all; unknown for all where they are unknown for one.
fn merge<T: Ord + Clone>(bounds: impl Iterator<Item = Option<(T, T)>>) -> Option<(T, T)> {
    let all: Option<Vec<_>> = bounds.collect();
    all?.into_iter()
        .reduce(|(low, high), (l, h)| (low.min(l), high.max(h)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_values_are_counted_again_when_the_delta_has_grown_by_an_eighth() {
        let counted = CountedDistinct::default();
        let exactly = |count: usize| move || vec![(count, true)];
        let unasked = || -> Vec<DistinctCount> { panic!("counted again") };
        assert_eq!(counted.of(80, exactly(7)), [(7, true)]);
        // Those of about as many rows, which may be other ones.
        assert_eq!(counted.of(80, unasked), [(7, false)]);
        assert_eq!(counted.of(90, unasked), [(7, false)]);
        assert_eq!(counted.of(70, unasked), [(7, false)]);
        assert_eq!(counted.of(91, exactly(8)), [(8, true)]);
        assert_eq!(counted.of(1, exactly(1)), [(1, true)]);
        assert_eq!(counted.of(2, exactly(2)), [(2, true)]);
    }
}
