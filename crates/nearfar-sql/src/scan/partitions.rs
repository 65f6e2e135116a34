//! How the rows of a table are divided among the threads of a scan.

use arrow::datatypes::Schema;
use std::ops::Range;

use crate::error::EngineError;
use nearfar_table::segment::{Code, Encoding, ZONE_ROWS, with_codes};
use nearfar_table::table::{Order, Part, Snapshot, TableSummary};

/// A run of rows of one part of a table, the deleted ones included.
#[derive(Debug, Clone)]
pub struct Piece {
    pub part: usize,
    pub rows: Range<usize>,
}

/// The pieces of every partition, and what is known of them.
#[derive(Debug, Clone)]
pub struct Partitions {
    pub pieces: Vec<Vec<Piece>>,
    /// The column the table is sorted by, and the first value of every partition but the first.
    pub sorted: Option<SortedBy>,
}

/// A table's order.
#[derive(Debug, Clone)]
pub struct SortedBy {
    pub column: usize,
    /// Values at which partitions begin; nothing where partitions do not begin at chosen values.
    pub splits: Option<Vec<i128>>,
}

/// A partition may exceed its fair share of rows by this much before rows are divided evenly.
const IMBALANCE: f64 = 1.3;

/// Keys that lie further apart are not divided by value, so that no product of them overflows.
const SPAN_MAX: i128 = 1 << 64;

/// Tables with fewer rows than this are read by one thread.
const MIN_ROWS_PER_PARTITION: usize = 2 * ZONE_ROWS;

impl Partitions {
    /// Divides the rows of `snapshot` in `count` at most. Where the table is sorted by a column,
    /// the division is at values of that column that depend on its bounds and on the number of
    /// partitions only, so that two tables sorted by the same key are divided alike and can be joined
    /// without moving rows.
    pub fn of(snapshot: &Snapshot, schema: &Schema, count: usize) -> Self {
        let rows = snapshot.rows() + snapshot.deleted_rows();
        let summary = snapshot.summary();
        let count = count.min(rows / MIN_ROWS_PER_PARTITION).max(1);
        let column = sort_column(summary, schema);
        if let Some(column) = column
            && count > 1
            && let Some(bounds) = summary.columns[column].bounds
            && bounds
                .1
                .checked_sub(bounds.0)
                .is_some_and(|span| span < SPAN_MAX)
        {
            let splits = split_values(bounds, count);
            let starts = splits.iter().map(|v| first_row_at(snapshot, column, *v));
            // Values that can't be read are the scan's to report.
            let starts: Result<Vec<usize>, EngineError> = starts.chain([Ok(rows)]).collect();
            if let Ok(starts) = starts
                && is_balanced(&starts, rows, count)
            {
                return Self {
                    pieces: pieces(snapshot.parts(), &starts),
                    sorted: Some(SortedBy {
                        column,
                        splits: Some(splits),
                    }),
                };
            }
        }
        let starts: Vec<usize> = (1..=count).map(|i| rows * i / count).collect();
        Self {
            pieces: pieces(snapshot.parts(), &starts),
            sorted: column.map(|column| SortedBy {
                column,
                splits: None,
            }),
        }
    }
}

impl Partitions {
    /// One, of rows at these places.
    pub fn of_places(places: &[(usize, usize)]) -> Self {
        Self {
            pieces: vec![pieces_at(places)],
            sorted: None,
        }
    }
}

/// The pieces that rows at these places are, which are ascending.
pub fn pieces_at(places: &[(usize, usize)]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (part, row) in places {
        match pieces.last_mut() {
            Some(piece) if piece.part == *part && piece.rows.end == *row => piece.rows.end += 1,
            _ => pieces.push(Piece {
                part: *part,
                rows: *row..*row + 1,
            }),
        }
    }
    pieces
}

/// The column a table is sorted by; of several, the one with most distinct values.
fn sort_column(summary: &TableSummary, schema: &Schema) -> Option<usize> {
    let columns = &summary.columns;
    (0..schema.fields().len())
        .filter(|c| columns[*c].order > Order::Unordered && columns[*c].distinct > 1)
        .max_by_key(|c| (columns[*c].distinct, usize::MAX - c))
}

/// `count - 1` values that divide `low..=high`. The bounds are first rounded outwards to 1/64 of
/// their distance, so that tables whose outermost keys differ a little are divided alike.
fn split_values((low, high): (i128, i128), count: usize) -> Vec<i128> {
    let span = (high - low + 1).max(1);
    let granule = 1i128 << (127 - span.leading_zeros()).saturating_sub(6);
    let low = low.div_euclid(granule) * granule;
    let high = (high.div_euclid(granule) + 1) * granule;
    let splits = (1..count as i128).map(|i| low + (high - low) * i / count as i128);
    splits.collect()
}

/// The first row, over all segments, whose value of a sorted column is at least `value`.
fn first_row_at(snapshot: &Snapshot, column: usize, value: i128) -> Result<usize, EngineError> {
    let mut before = 0;
    for part in snapshot.parts() {
        let segment = &part.segment;
        let slot = &segment.columns()[column];
        match slot.facts().bounds {
            Some((_, high)) if high < value => before += segment.rows(),
            Some((low, _)) if low >= value => break,
            _ => {
                if let Encoding::Narrow { base, codes } = slot.current()?.encoding() {
                    before += with_codes!(codes, codes => {
                        codes.partition_point(|c| base + i128::from(c.widen()) < value)
                    });
                }
                break;
            }
        }
    }
    Ok(before)
}

fn is_balanced(ends: &[usize], rows: usize, count: usize) -> bool {
    let limit = rows as f64 / count as f64 * IMBALANCE;
    let mut start = 0;
    ends.iter().all(|end| {
        let size = end - start;
        start = *end;
        size as f64 <= limit
    })
}

/// The pieces between consecutive `ends`, from row 0 on.
fn pieces(parts: &[Part], ends: &[usize]) -> Vec<Vec<Piece>> {
    let mut start = 0;
    ends.iter()
        .map(|end| {
            let rows = start..*end;
            start = *end;
            pieces_of(parts, &rows)
        })
        .collect()
}

fn pieces_of(parts: &[Part], rows: &Range<usize>) -> Vec<Piece> {
    let mut before = 0;
    let mut pieces = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let size = part.segment.rows();
        let start = rows.start.clamp(before, before + size) - before;
        let end = rows.end.clamp(before, before + size) - before;
        if start < end {
            pieces.push(Piece {
                part: index,
                rows: start..end,
            });
        }
        before += size;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_with_nearly_the_same_keys_are_divided_alike() {
        assert_eq!(
            split_values((1, 6_000_000), 2),
            split_values((7, 5_999_900), 2)
        );
        assert_eq!(split_values((0, 0), 2).len(), 1);
        assert_eq!(split_values((-10, 9), 4).len(), 3);
    }

    #[test]
    fn splits_rise() {
        for count in 2..9 {
            let splits = split_values((-1000, 1_000_000), count);
            assert!(splits.is_sorted_by(|a, b| a < b), "{splits:?}");
        }
    }
}
