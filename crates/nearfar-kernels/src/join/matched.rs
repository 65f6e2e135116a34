//! The rows that a probe found.

use crate::line_table::NO_ROW;

/// What a probe found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matched {
    /// Rows of the probe side. Those of one block of 1024 may be in any order.
    pub probe_rows: Vec<u32>,
    /// The build row of each; empty for [`JoinKind::Semi`](super::JoinKind::Semi) and
    /// [`JoinKind::Anti`](super::JoinKind::Anti).
    pub build_rows: Vec<u32>,
}

impl Matched {
    /// Forgets all rows, and keeps their memory.
    pub fn clear(&mut self) {
        self.probe_rows.clear();
        self.build_rows.clear();
    }

    #[inline(always)]
    pub(super) fn push(&mut self, probe_row: u32, build_row: u32) {
        self.probe_rows.push(probe_row);
        self.build_rows.push(build_row);
    }

    /// Adds the probe rows from `first` on, with the build row of each or [`NO_ROW`].
    #[inline(always)]
    pub(super) fn add_all(&mut self, first: u32, build_rows: &[u32]) {
        self.probe_rows
            .extend(first..first + build_rows.len() as u32);
        self.build_rows.extend_from_slice(build_rows);
    }

    /// As [`Self::add_all`], but for the rows that found nothing.
    #[inline(always)]
    pub(super) fn add_found(&mut self, first: u32, build_rows: &[u32]) {
        if !build_rows
            .iter()
            .fold(false, |any, row| any | (*row == NO_ROW))
        {
            self.add_all(first, build_rows);
            return;
        }
        self.keep_probe_rows(first, build_rows, |row| row != NO_ROW);
        keep(&mut self.build_rows, build_rows.len(), |index| {
            (build_rows[index], build_rows[index] != NO_ROW)
        });
    }

    /// Adds the probe rows from `first` on whose build row is to be kept.
    #[inline(always)]
    pub(super) fn keep_probe_rows(
        &mut self,
        first: u32,
        build_rows: &[u32],
        is_kept: impl Fn(u32) -> bool,
    ) {
        keep(&mut self.probe_rows, build_rows.len(), |index| {
            (first + index as u32, is_kept(build_rows[index]))
        });
    }
}

/// Adds the first of each of `count` pairs whose second is true. Nothing is decided by a branch: all are written,
/// and what is not kept is overwritten.
#[inline(always)]
fn keep(rows: &mut Vec<u32>, count: usize, pair: impl Fn(usize) -> (u32, bool)) {
    let before = rows.len();
    rows.resize(before + count, 0);
    let room = &mut rows[before..];
    let mut kept = 0;
    for index in 0..count {
        let (row, is_kept) = pair(index);
        room[kept] = row;
        kept += usize::from(is_kept);
    }
    rows.truncate(before + kept);
}
