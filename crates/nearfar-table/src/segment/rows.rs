//! Which rows of a segment an operation is about.

use std::ops::Range;

/// Rows of one segment, ascending: a run, or single positions.
#[derive(Debug, Clone, Copy)]
pub enum RowSet<'a> {
    /// Every row of the range.
    Run {
        /// The first row.
        start: usize,
        /// How many rows.
        len: usize,
    },
    /// These rows, strictly ascending.
    Positions(&'a [u32]),
}

impl<'a> RowSet<'a> {
    /// The rows in sets of so many, the last of what is left.
    pub fn chunks(self, rows: usize) -> impl Iterator<Item = RowSet<'a>> {
        let starts = (0..self.len()).step_by(rows);
        starts.map(move |from| {
            let len = rows.min(self.len() - from);
            match self {
                Self::Run { start, .. } => RowSet::Run {
                    start: start + from,
                    len,
                },
                Self::Positions(positions) => RowSet::Positions(&positions[from..from + len]),
            }
        })
    }
}

impl RowSet<'_> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Run { len, .. } => *len,
            Self::Positions(positions) => positions.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row at a place below [`Self::len`].
    pub fn row(&self, at: usize) -> usize {
        match self {
            Self::Run { start, .. } => start + at,
            Self::Positions(positions) => positions[at] as usize,
        }
    }

    /// The smallest run that holds all rows.
    pub fn span(&self) -> Range<usize> {
        match self {
            Self::Run { start, len } => *start..start + len,
            Self::Positions(positions) => match (positions.first(), positions.last()) {
                (Some(first), Some(last)) => *first as usize..*last as usize + 1,
                _ => 0..0,
            },
        }
    }

    /// `values` of these rows, in order.
    pub fn gather<T: Copy, U>(&self, values: &[T], convert: impl Fn(T) -> U) -> Vec<U> {
        match self {
            Self::Run { start, len } => values[*start..start + len]
                .iter()
                .map(|v| convert(*v))
                .collect(),
            Self::Positions(positions) => positions
                .iter()
                .map(|p| convert(values[*p as usize]))
                .collect(),
        }
    }
}
