//! What DataFusion's planner is told of a table.

use arrow::datatypes::{DataType, Schema};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};

use super::literals::scalar;
use nearfar_table::table::{ColumnSummary, TableSummary};

/// `summary` for DataFusion's planner, of these `columns` of `schema`; of those that the table has not, nothing is known.
pub fn statistics(
    summary: &TableSummary,
    schema: &Schema,
    columns: impl IntoIterator<Item = usize>,
) -> Statistics {
    let columns = columns.into_iter().map(|index| {
        let known = summary.columns.get(index);
        let data_type = schema.field(index).data_type();
        let statistics = known.map(|column| column_statistics(column, data_type));
        let statistics = statistics.unwrap_or_else(ColumnStatistics::new_unknown);
        match summary.is_exact {
            true => statistics,
            false => statistics.to_inexact(),
        }
    });
    Statistics {
        num_rows: Precision::Exact(summary.rows),
        total_byte_size: Precision::Absent,
        column_statistics: columns.collect(),
    }
}

fn column_statistics(column: &ColumnSummary, data_type: &DataType) -> ColumnStatistics {
    let precise = |value: Option<ScalarValue>| value.map_or(Precision::Absent, Precision::Exact);
    let text = |value: &String| ScalarValue::Utf8View(Some(value.clone()));
    let (low, high) = match (&column.bounds, &column.string_bounds) {
        (Some((low, high)), _) => (scalar(*low, data_type), scalar(*high, data_type)),
        (None, Some((low, high))) => (Some(text(low)), Some(text(high))),
        (None, None) => (None, None),
    };
    let mut statistics = ColumnStatistics::new_unknown();
    statistics.null_count = Precision::Exact(column.null_count);
    statistics.min_value = precise(low);
    statistics.max_value = precise(high);
    statistics.distinct_count = match (column.distinct, column.distinct_exact) {
        (0, _) => Precision::Absent,
        (count, true) => Precision::Exact(count),
        (count, false) => Precision::Inexact(count),
    };
    statistics
}
