//! Names of rows that survive merges.

use std::ops::Range;

use crate::segment::RowSet;

/// The identity of a row within its table: given once, and kept when a merge moves the row while a
/// transaction is open that may know it.
pub type RowId = u64;

/// The identities of the rows of one segment, as runs of consecutive ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowIds {
    /// In the order of the rows; the first begins at row 0.
    runs: Vec<Run>,
    /// Positions in `runs`, in the order of the identities; none where the runs are in that order.
    by_id: Vec<u32>,
    rows: usize,
    /// All of them are in this range.
    range: Range<RowId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    row: u32,
    first: RowId,
}

impl RowIds {
    /// `rows` rows with identities from `first` on.
    pub fn consecutive(first: RowId, rows: usize) -> Self {
        let mut builder = RowIdsBuilder::default();
        builder.push(first, rows);
        builder.finish()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Runs of consecutive identities in the order of their rows: the first identity, and how many.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = (RowId, usize)> + '_ {
        let runs = self.runs.iter().enumerate();
        runs.map(|(index, run)| (run.first, self.run_rows(index)))
    }

    /// The identity of `row`.
    pub fn id(&self, row: usize) -> RowId {
        let run = self.runs.partition_point(|run| run.row as usize <= row) - 1;
        self.id_in(run, row)
    }

    /// The same with those of `other` behind them.
    #[must_use]
    pub fn appended(&self, other: &Self) -> Self {
        let mut runs = Vec::with_capacity(self.runs.len() + other.runs.len());
        runs.extend_from_slice(&self.runs);
        let mut builder = RowIdsBuilder {
            runs,
            rows: self.rows,
        };
        other
            .runs()
            .for_each(|(first, rows)| builder.push(first, rows));
        let range = match (self.rows, other.rows) {
            (0, _) => other.range.clone(),
            (_, 0) => self.range.clone(),
            _ => self.range.start.min(other.range.start)..self.range.end.max(other.range.end),
        };
        let mut ids = Self {
            runs: builder.runs,
            by_id: self.by_id.clone(),
            rows: builder.rows,
            range,
        };
        (self.runs.len()..ids.runs.len()).for_each(|run| ids.enter(run));
        ids
    }

    /// Puts a run behind those before it where its identities belong.
    fn enter(&mut self, run: usize) {
        let first_of = |run: usize| self.runs[run].first;
        let first = first_of(run);
        if self.by_id.is_empty() {
            if run
                .checked_sub(1)
                .is_none_or(|before| first_of(before) < first)
            {
                return;
            }
            self.by_id = (0..run as u32).collect();
        }
        let at = self
            .by_id
            .partition_point(|before| first_of(*before as usize) < first);
        self.by_id.insert(at, run as u32);
    }

    fn id_in(&self, run: usize, row: usize) -> RowId {
        let run = self.runs[run];
        run.first + (row - run.row as usize) as u64
    }

    fn run_rows(&self, run: usize) -> usize {
        let end = self.runs.get(run + 1).map_or(self.rows, |r| r.row as usize);
        end - self.runs[run].row as usize
    }

    /// The identities of `rows`, in their order.
    pub fn ids(&self, rows: RowSet<'_>) -> Vec<RowId> {
        match rows {
            RowSet::Run { start, len } => (start..start + len).map(|row| self.id(row)).collect(),
            RowSet::Positions(rows) => rows.iter().map(|row| self.id(*row as usize)).collect(),
        }
    }

    /// The row that has identity `id`.
    pub fn find(&self, id: RowId) -> Option<usize> {
        if !self.range.contains(&id) {
            return None;
        }
        let run = match self.by_id.is_empty() {
            true => self
                .runs
                .partition_point(|run| run.first <= id)
                .checked_sub(1)?,
            false => {
                let first_of = |position: &u32| self.runs[*position as usize].first;
                let after = self.by_id.partition_point(|p| first_of(p) <= id);
                *self.by_id.get(after.checked_sub(1)?)? as usize
            }
        };
        let offset = (id - self.runs[run].first) as usize;
        (offset < self.run_rows(run)).then(|| self.runs[run].row as usize + offset)
    }
}

/// Collects identities in the order of their rows.
#[derive(Debug, Default)]
pub struct RowIdsBuilder {
    runs: Vec<Run>,
    rows: usize,
}

impl RowIdsBuilder {
    /// Adds `rows` identities from `first` on.
    pub fn push(&mut self, first: RowId, rows: usize) {
        if rows == 0 {
            return;
        }
        let row = self.rows as u32;
        self.rows += rows;
        let goes_on = self
            .runs
            .last()
            .is_some_and(|run| run.first + u64::from(row - run.row) == first);
        if !goes_on {
            self.runs.push(Run { row, first });
        }
    }

    /// Adds those of `ids` for `rows`.
    pub fn extend(&mut self, ids: &RowIds, rows: RowSet<'_>) {
        match rows {
            RowSet::Run { mut start, len } => {
                let end = start + len;
                let mut run = ids.runs.partition_point(|r| r.row as usize <= start);
                while start < end {
                    let next = ids.runs.get(run).map_or(ids.rows, |r| r.row as usize);
                    let stop = next.min(end);
                    self.push(ids.id_in(run - 1, start), stop - start);
                    (start, run) = (stop, run + 1);
                }
            }
            RowSet::Positions(rows) => {
                rows.iter()
                    .for_each(|row| self.push(ids.id(*row as usize), 1));
            }
        }
    }

    /// Adds all those of `ids`.
    pub fn append(&mut self, ids: &RowIds) {
        let all = RowSet::Run {
            start: 0,
            len: ids.rows,
        };
        self.extend(ids, all);
    }

    /// All of them.
    pub fn finish(self) -> RowIds {
        let mut ids = RowIds {
            runs: self.runs,
            by_id: Vec::new(),
            rows: self.rows,
            range: 0..0,
        };
        if !ids.runs.is_sorted_by_key(|run| run.first) {
            ids.by_id = (0..ids.runs.len() as u32).collect();
            ids.by_id
                .sort_unstable_by_key(|run| ids.runs[*run as usize].first);
        }
        let first = ids.runs().map(|(first, _)| first).min();
        let end = ids.runs().map(|(first, rows)| first + rows as u64).max();
        ids.range = first.unwrap_or(0)..end.unwrap_or(0);
        ids
    }

    /// The first `rows` of them, which are taken out.
    pub fn take(&mut self, rows: usize) -> RowIds {
        let all = std::mem::take(self).finish();
        let mut first = Self::default();
        first.extend(
            &all,
            RowSet::Run {
                start: 0,
                len: rows,
            },
        );
        let rest = RowSet::Run {
            start: rows,
            len: all.rows - rows,
        };
        self.extend(&all, rest);
        first.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn identities_are_found_where_they_were_put(
            runs in prop::collection::vec(1usize..20, 1..20),
            order in any::<u64>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut starts: Vec<(u64, usize)> =
                runs.iter().enumerate().map(|(i, rows)| (i as u64 * 25, *rows)).collect();
            starts.sort_by_key(|(first, _)| (first + 1).wrapping_mul(order | 1));
            let mut builder = RowIdsBuilder::default();
            let mut plain = Vec::new();
            for (first, rows) in starts {
                builder.push(first, rows);
                plain.extend(first..first + rows as u64);
            }
            let at = cut.index(plain.len());
            let (head, tail) = (builder.take(at), builder.finish());
            let again = head.appended(&tail);
            prop_assert_eq!(again.ids(RowSet::Run { start: 0, len: plain.len() }), plain.clone());
            for id in 0..500 {
                let row = plain.iter().position(|known| *known == id);
                prop_assert_eq!(again.find(id), row);
            }
            prop_assert_eq!(head.ids(RowSet::Run { start: 0, len: at }), plain[..at].to_vec());
            prop_assert_eq!(tail.rows(), plain.len() - at);
            for (row, id) in plain[at..].iter().enumerate() {
                prop_assert_eq!(tail.id(row), *id);
                prop_assert_eq!(tail.find(*id), Some(row));
            }
            for id in 0..500 {
                prop_assert_eq!(tail.find(id).is_some(), plain[at..].contains(&id));
            }
        }
    }
}
