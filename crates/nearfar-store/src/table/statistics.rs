//! What the planner is told of a table.

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};

use super::facts::{ColumnFacts, Order};
use super::sketch::DistinctSketch;
use super::snapshot::Part;
use crate::segment::scalar;

/// Facts about all rows of a table.
#[derive(Debug, Clone)]
pub struct TableSummary {
    pub rows: usize,
    /// Whether the columns' facts are about just these rows, and not about deleted ones as well.
    pub is_exact: bool,
    pub columns: Vec<ColumnSummary>,
}

/// Facts about all values of one column.
#[derive(Debug, Clone)]
pub struct ColumnSummary {
    /// Smallest and largest value, for integer-like columns.
    pub bounds: Option<(i128, i128)>,
    pub string_bounds: Option<(String, String)>,
    pub null_count: usize,
    /// Distinct values that are not null; exact where `distinct_exact` says so, 0 where unknown.
    pub distinct: usize,
    pub distinct_exact: bool,
    /// Order over the whole table, segment after segment.
    pub order: Order,
    /// Nothing where the values of a segment were not looked at.
    pub sketch: Option<DistinctSketch>,
}

impl TableSummary {
    /// The summary of `parts`, with their deleted rows.
    pub fn of(schema: &SchemaRef, parts: &[Part]) -> Self {
        let rows = parts.iter().map(|part| part.segment.rows()).sum();
        Self {
            rows,
            is_exact: true,
            columns: (0..schema.fields().len())
                .map(|column| ColumnSummary::of(column, parts, rows))
                .collect(),
        }
    }

    /// The summary of a table of `rows` rows: `main` is that of its main storage, of which rows may
    /// be deleted, and `delta` is what was written since.
    pub fn changed((main, parts): (&Self, &[Part]), delta: &[Part], rows: usize) -> Self {
        let of = |(index, column): (usize, &ColumnSummary)| {
            let has_main = !parts.is_empty();
            column.changed(index, has_main, delta, rows)
        };
        Self {
            rows,
            is_exact: parts.iter().chain(delta).all(|part| part.marks.is_none()),
            columns: main.columns.iter().enumerate().map(of).collect(),
        }
    }

    /// The same for DataFusion's planner, columns as in `schema`; of those that `schema` has besides,
    /// nothing is known.
    pub fn to_statistics(&self, schema: &Schema) -> Statistics {
        let columns = schema.fields().iter().enumerate().map(|(index, field)| {
            let known = self.columns.get(index);
            let statistics = known.map(|column| column.to_statistics(field.data_type()));
            let statistics = statistics.unwrap_or_else(ColumnStatistics::new_unknown);
            match self.is_exact {
                true => statistics,
                false => statistics.to_inexact(),
            }
        });
        Statistics {
            num_rows: Precision::Exact(self.rows),
            total_byte_size: Precision::Absent,
            column_statistics: columns.collect(),
        }
    }
}

impl ColumnSummary {
    fn of(column: usize, parts: &[Part], rows: usize) -> Self {
        let facts = || facts(column, parts);
        let order = overall_order(parts, column);
        let bounds = merge(facts().map(|f| f.bounds));
        let sketch = add_sketches(Some(DistinctSketch::default()), column, parts);
        let (distinct, distinct_exact) = distinct(sketch.as_ref(), order, bounds, rows);
        Self {
            bounds,
            string_bounds: merge(facts().map(|f| f.string_bounds.clone())),
            null_count: facts().map(|f| f.null_count).sum(),
            distinct,
            distinct_exact,
            order,
            sketch,
        }
    }

    fn changed(&self, column: usize, has_main: bool, delta: &[Part], rows: usize) -> Self {
        let facts = || facts(column, delta);
        let main = has_main.then_some(self);
        let bounds = merge(
            main.map(|m| m.bounds)
                .into_iter()
                .chain(facts().map(|f| f.bounds)),
        );
        let main_strings = main.map(|m| m.string_bounds.clone());
        let strings = facts().map(|f| f.string_bounds.clone());
        let sketch = add_sketches(self.sketch.clone(), column, delta);
        let order = match delta.is_empty() {
            true => self.order,
            false => Order::Unordered,
        };
        let (distinct, distinct_exact) = distinct(sketch.as_ref(), order, bounds, rows);
        Self {
            bounds,
            string_bounds: merge(main_strings.into_iter().chain(strings)),
            null_count: self.null_count + facts().map(|f| f.null_count).sum::<usize>(),
            distinct,
            distinct_exact,
            order,
            sketch,
        }
    }

    fn to_statistics(&self, data_type: &arrow::datatypes::DataType) -> ColumnStatistics {
        let precise =
            |value: Option<ScalarValue>| value.map_or(Precision::Absent, Precision::Exact);
        let text = |value: &String| ScalarValue::Utf8View(Some(value.clone()));
        let (low, high) = match (&self.bounds, &self.string_bounds) {
            (Some((low, high)), _) => (scalar(*low, data_type), scalar(*high, data_type)),
            (None, Some((low, high))) => (Some(text(low)), Some(text(high))),
            (None, None) => (None, None),
        };
        let mut statistics = ColumnStatistics::new_unknown();
        statistics.null_count = Precision::Exact(self.null_count);
        statistics.min_value = precise(low);
        statistics.max_value = precise(high);
        statistics.distinct_count = match (self.distinct, self.distinct_exact) {
            (0, _) => Precision::Absent,
            (count, true) => Precision::Exact(count),
            (count, false) => Precision::Inexact(count),
        };
        statistics
    }
}

fn facts(column: usize, parts: &[Part]) -> impl Iterator<Item = &ColumnFacts> {
    parts
        .iter()
        .map(move |part| part.segment.columns()[column].facts())
}

/// `sketch` and what a column of `parts` adds to it; nothing where one of them is unknown.
fn add_sketches(
    sketch: Option<DistinctSketch>,
    column: usize,
    parts: &[Part],
) -> Option<DistinctSketch> {
    let mut all = sketch?;
    for part in parts {
        all.merge(part.segment.sketches().of_column(column)?);
    }
    Some(all)
}

/// Distinct values of a column of `rows` rows, and whether the number is exact.
fn distinct(
    sketch: Option<&DistinctSketch>,
    order: Order,
    bounds: Option<(i128, i128)>,
    rows: usize,
) -> (usize, bool) {
    if order == Order::Rising {
        return (rows, true);
    }
    let (estimate, exact) = sketch.map_or((0, false), DistinctSketch::count);
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
