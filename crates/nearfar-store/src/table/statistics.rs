//! What the planner is told of a table.

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use std::sync::Arc;

use super::facts::{ColumnFacts, Order};
use super::segment::Segment;
use super::sketch::DistinctSketch;
use crate::segment::scalar;

/// Facts about all rows of a table.
#[derive(Debug, Clone)]
pub struct TableSummary {
    pub rows: usize,
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
}

impl TableSummary {
    /// The summary of `segments`.
    pub fn of(schema: &SchemaRef, segments: &[Arc<Segment>]) -> Self {
        Self {
            rows: segments.iter().map(|s| s.rows()).sum(),
            columns: (0..schema.fields().len())
                .map(|column| ColumnSummary::of(column, segments))
                .collect(),
        }
    }

    /// The same for DataFusion's planner, columns as in `schema`.
    pub fn to_statistics(&self, schema: &Schema) -> Statistics {
        let columns = self.columns.iter().zip(schema.fields());
        Statistics {
            num_rows: Precision::Exact(self.rows),
            total_byte_size: Precision::Absent,
            column_statistics: columns
                .map(|(column, field)| column.to_statistics(field.data_type()))
                .collect(),
        }
    }
}

impl ColumnSummary {
    fn of(column: usize, segments: &[Arc<Segment>]) -> Self {
        let facts = || segments.iter().map(move |s| s.columns()[column].facts());
        let (estimate, exact) = distinct_values(facts());
        let order = overall_order(segments, column);
        let bounds = merge(facts().map(|f| f.bounds));
        let rows: usize = segments.iter().map(|s| s.rows()).sum();
        let possible = bounds.map_or(rows, |(low, high)| {
            let span = high
                .checked_sub(low)
                .and_then(|span| usize::try_from(span).ok());
            span.map_or(rows, |span| span.saturating_add(1).min(rows))
        });
        let unique = order == Order::Rising;
        Self {
            bounds,
            string_bounds: merge(facts().map(|f| f.string_bounds.clone())),
            null_count: facts().map(|f| f.null_count).sum(),
            distinct: if unique { rows } else { estimate.min(possible) },
            distinct_exact: unique || exact,
            order,
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

/// Distinct values over all segments, and whether the number is exact; none where they are unknown
/// for one segment.
fn distinct_values<'a>(facts: impl Iterator<Item = &'a ColumnFacts>) -> (usize, bool) {
    let mut all = DistinctSketch::default();
    for facts in facts {
        let Some(distinct) = &facts.distinct else {
            return (0, false);
        };
        all.merge(distinct);
    }
    all.count()
}

/// The order of a column over segments that follow each other.
fn overall_order(segments: &[Arc<Segment>], column: usize) -> Order {
    let mut order = Order::Rising;
    let mut last: Option<i128> = None;
    for facts in segments.iter().map(|s| s.columns()[column].facts()) {
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
    if segments.is_empty() {
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
