//! The build side.

use std::ops::{Range, RangeInclusive};

use nearfar_model::Probe;

use super::STEP_ROWS;
use super::filter::BloomFilter;
use super::numbered::NumberedRows;
use crate::cancel::Cancel;
use crate::isa::{Isa, UnsupportedIsa};
use crate::key::Key;
use crate::line::Line;
use crate::line_table::{LineTable, NO_ROW, hash};
use crate::memory::{NoMemory, zeros};
use crate::selection::Selection;
use crate::vectors::{self, Kernel, Vectors};

/// Lookups between the prefetch of a line and its use while a table is built.
const DISTANCE: usize = 24;

/// Why a join was not begun, or not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Rows have numbers of four bytes.
    #[error("{rows} rows on one side of a join, of which {} are possible: join in parts", NO_ROW - 1)]
    TooManyRows {
        /// Rows of that side.
        rows: usize,
    },
    /// The memory that the caller gave does not hold the table.
    #[error(
        "a build side of {rows} rows needs {lines_needed} lines of 64 bytes, not {lines}, and room for \
         {rows} links, not {links}: give more memory, or divide the build side"
    )]
    NoRoom {
        /// Rows of the build side.
        rows: usize,
        /// Lines that they need.
        lines_needed: usize,
        /// Lines that were given.
        lines: usize,
        /// Links between rows of equal keys that were given.
        links: usize,
    },
    /// The system does not give the memory that a side needs.
    #[error(
        "{rows} rows of a join need {bytes} bytes more, which the system does not give: join in parts, or free memory"
    )]
    NoMemory {
        /// Rows of the side.
        rows: usize,
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// The rows that have a key are of another number.
    #[error("{keys} keys, but {selected} rows that say which of them are null")]
    OtherRows {
        /// Number of keys.
        keys: usize,
        /// Rows of the selection.
        selected: usize,
    },
    /// The caller has cancelled.
    #[error("the join was cancelled")]
    Cancelled,
}

/// Rows of a build side by key.
///
/// ```
/// use nearfar_kernels::{JoinKind, JoinTable, Matched, ProbeCursor, Probing};
/// use nearfar_model::Native;
///
/// let table = JoinTable::build(&[10_i64, 20, 30], None, &Native)?;
/// let mut matched = Matched::default();
/// let (keys, probing) = ([30_i64, 5, 10], Probing::default());
/// table.probe(JoinKind::Inner, probing, &keys, None, &mut ProbeCursor::default(), &mut matched, &Native)?;
/// assert_eq!((&matched.probe_rows[..], &matched.build_rows[..]), (&[0, 2][..], &[2, 0][..]));
/// # Ok::<(), nearfar_kernels::JoinError>(())
/// ```
#[derive(Debug, Clone)]
pub struct JoinTable<L = Vec<Line>, N = Vec<u32>> {
    pub(super) isa: Isa,
    /// Of one empty line where the first rows of keys are `numbered`.
    pub(super) table: LineTable<L>,
    pub(super) numbered: Option<NumberedRows>,
    /// For each row the next one of the same key, or [`NO_ROW`]; unspecified where all keys differ.
    pub(super) next: N,
    pub(super) is_unique: bool,
    pub(super) filter: Option<BloomFilter>,
    pub(super) cancel: Cancel,
    rows: usize,
}

impl JoinTable {
    /// A table in memory of its own, near. Rows that are not in `valid` have no key.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn build<K: Key, P: Probe>(
        keys: &[K],
        valid: Option<&Selection>,
        probe: &P,
    ) -> Result<Self, JoinError> {
        Self::build_near(Isa::widest(), keys, valid, &Cancel::default(), probe)
    }

    /// A table without rows in memory of its own, with room for so many. [`Self::put`] gives it its rows. Where it is
    /// known between which numbers all `keys` are, and these are close together, lookups hash nothing.
    ///
    /// ```
    /// use nearfar_kernels::JoinTable;
    /// use nearfar_model::Native;
    ///
    /// let keys = [1_i64, 2, 3, 2];
    /// let mut table = JoinTable::with_room(keys.len(), Some(&(1..=3)))?;
    /// table.put(&keys, 0..2, None, &Native);
    /// table.put(&keys, 2..4, None, &Native);
    /// assert!(!table.is_unique());
    /// # Ok::<(), nearfar_kernels::JoinError>(())
    /// ```
    ///
    /// # Errors
    /// [`JoinError::TooManyRows`] and [`JoinError::NoMemory`].
    pub fn with_room(rows: usize, keys: Option<&RangeInclusive<i64>>) -> Result<Self, JoinError> {
        check_side(rows, None)?;
        let (lines, places) = Self::room_for(rows, keys);
        let (table, next) = room(lines, rows)?;
        let mut table = Self::empty(Isa::widest(), table, next, rows);
        if let (Some(places), Some(keys)) = (places, keys) {
            let numbered = NumberedRows::empty(*keys.start(), places);
            table.numbered = Some(numbered.map_err(|refused| no_memory(rows, refused))?);
        }
        Ok(table)
    }

    /// Bytes that a table [with room](Self::with_room) for so many rows takes.
    pub fn bytes_for(rows: usize, keys: Option<&RangeInclusive<i64>>) -> usize {
        let (lines, places) = Self::room_for(rows, keys);
        lines * size_of::<Line>() + (places.unwrap_or(0) + rows) * size_of::<u32>()
    }

    /// Lines of a table, and places by number where it has these.
    fn room_for(rows: usize, keys: Option<&RangeInclusive<i64>>) -> (usize, Option<usize>) {
        match keys.and_then(|keys| NumberedRows::places_for(rows, keys)) {
            Some(places) => (1, Some(places)),
            None => (Line::count_for(rows), None),
        }
    }

    pub(super) fn build_near<K: Key, P: Probe>(
        isa: Isa,
        keys: &[K],
        valid: Option<&Selection>,
        cancel: &Cancel,
        probe: &P,
    ) -> Result<Self, JoinError> {
        check_side(keys.len(), valid)?;
        let (table, next) = room(Line::count_for(keys.len()), keys.len())?;
        Self::filled(isa, table, next, keys, valid, cancel, probe)
    }
}

impl<L: AsRef<[Line]> + AsMut<[Line]>, N: AsRef<[u32]> + AsMut<[u32]>> JoinTable<L, N> {
    /// A table in memory of the caller's, on any tier: lines as many as [`Line::count_for`] says, and a
    /// link for each row. Rows that are not in `valid` have no key.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn build_in<K: Key, P: Probe>(
        lines: L,
        next: N,
        keys: &[K],
        valid: Option<&Selection>,
        probe: &P,
    ) -> Result<Self, JoinError> {
        Self::build_cancellable(lines, next, keys, valid, &Cancel::default(), probe)
    }

    /// As [`Self::build_in`], until `cancel` ends it, or a probe of the table, with [`JoinError::Cancelled`].
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn build_cancellable<K: Key, P: Probe>(
        lines: L,
        next: N,
        keys: &[K],
        valid: Option<&Selection>,
        cancel: &Cancel,
        probe: &P,
    ) -> Result<Self, JoinError> {
        Self::build_with(Isa::widest(), lines, next, keys, valid, cancel, probe)
    }

    pub(super) fn build_with<K: Key, P: Probe>(
        isa: Isa,
        mut lines: L,
        next: N,
        keys: &[K],
        valid: Option<&Selection>,
        cancel: &Cancel,
        probe: &P,
    ) -> Result<Self, JoinError> {
        check_side(keys.len(), valid)?;
        let (rows, links) = (keys.len(), next.as_ref().len());
        let (given, lines_needed) = (lines.as_ref().len(), Line::count_for(rows));
        if given < lines_needed || links < rows {
            return Err(JoinError::NoRoom {
                rows,
                lines_needed,
                lines: given,
                links,
            });
        }
        for lines in lines.as_mut().chunks_mut(STEP_ROWS) {
            check_cancel(cancel)?;
            lines.fill(Line::default());
        }
        let table = LineTable::of_empty(lines);
        Self::filled(isa, table, next, keys, valid, cancel, probe)
    }

    /// `table`, which is empty and has room, with all keys put in.
    fn filled<K: Key, P: Probe>(
        isa: Isa,
        table: LineTable<L>,
        next: N,
        keys: &[K],
        valid: Option<&Selection>,
        cancel: &Cancel,
        probe: &P,
    ) -> Result<Self, JoinError> {
        let mut table = Self::empty(isa, table, next, keys.len());
        table.cancel = cancel.clone();
        for begin in (0..keys.len()).step_by(STEP_ROWS) {
            check_cancel(cancel)?;
            let rows = begin..keys.len().min(begin + STEP_ROWS);
            table.put(keys, rows, valid, probe);
        }
        Ok(table)
    }

    /// A table without rows, of lines and links that have room for so many.
    fn empty(isa: Isa, table: LineTable<L>, next: N, rows: usize) -> Self {
        Self {
            isa,
            table,
            numbered: None,
            next,
            is_unique: true,
            filter: None,
            cancel: Cancel::default(),
            rows,
        }
    }

    /// Puts some `rows` of `keys` in, which are as many as the table has room for: all of them step by step, each
    /// once. Rows that are not in `valid` have no key.
    ///
    /// # Panics
    /// Rows beyond `keys`, keys of another number than there is room for, or outside of those that were announced.
    pub fn put<K: Key, P: Probe>(
        &mut self,
        keys: &[K],
        rows: Range<usize>,
        valid: Option<&Selection>,
        probe: &P,
    ) {
        assert_eq!(keys.len(), self.rows, "keys of a table with other room");
        let isa = self.isa;
        let build = Build {
            table: self,
            keys,
            rows,
            valid,
            probe,
        };
        vectors::run(isa, build);
    }
}

impl<L: AsRef<[Line]>, N: AsRef<[u32]>> JoinTable<L, N> {
    /// With these instructions for probes.
    ///
    /// # Errors
    /// [`UnsupportedIsa`] where the machine lacks them.
    pub fn with_isa(self, isa: Isa) -> Result<Self, UnsupportedIsa> {
        if isa.is_available() {
            Ok(Self { isa, ..self })
        } else {
            Err(UnsupportedIsa { isa })
        }
    }

    /// With a filter that probes ask first: worth it where the table is far or larger than the caches
    /// and many keys find nothing. It is made of the same keys as the table.
    #[must_use]
    pub fn with_filter(self, filter: BloomFilter) -> Self {
        Self {
            filter: Some(filter),
            ..self
        }
    }

    /// Whether no key has more than one row.
    pub fn is_unique(&self) -> bool {
        self.is_unique
    }

    /// Rows of the build side, those without a key included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of lines and links.
    pub fn bytes(&self) -> usize {
        let places = self.numbered.as_ref().map_or(0, NumberedRows::bytes);
        self.table.bytes() + places + size_of_val(self.next.as_ref())
    }
}

/// An empty table of so many lines, and links for so many rows.
fn room(lines: usize, rows: usize) -> Result<(LineTable<Vec<Line>>, Vec<u32>), JoinError> {
    let refused = |refused| no_memory(rows, refused);
    let lines = zeros(lines).map_err(refused)?;
    let next = zeros(rows).map_err(refused)?;
    Ok((LineTable::of_empty(lines), next))
}

/// So many rows do not get their memory.
pub(super) fn no_memory(rows: usize, NoMemory { bytes }: NoMemory) -> JoinError {
    JoinError::NoMemory { rows, bytes }
}

/// Refuses what rows cannot be numbered of, or have other nulls.
pub(super) fn check_side(keys: usize, valid: Option<&Selection>) -> Result<(), JoinError> {
    if keys >= NO_ROW as usize {
        return Err(JoinError::TooManyRows { rows: keys });
    }
    match valid {
        Some(valid) if valid.len() != keys => Err(JoinError::OtherRows {
            keys,
            selected: valid.len(),
        }),
        _ => Ok(()),
    }
}

/// Ends what somebody has cancelled.
#[inline]
pub(super) fn check_cancel(cancel: &Cancel) -> Result<(), JoinError> {
    match cancel.is_cancelled() {
        true => Err(JoinError::Cancelled),
        false => Ok(()),
    }
}

/// Puts some rows in.
struct Build<'a, L, N, K, P> {
    table: &'a mut JoinTable<L, N>,
    keys: &'a [K],
    rows: Range<usize>,
    valid: Option<&'a Selection>,
    probe: &'a P,
}

impl<L, N, K, P> Kernel for Build<'_, L, N, K, P>
where
    L: AsRef<[Line]> + AsMut<[Line]>,
    N: AsRef<[u32]> + AsMut<[u32]>,
    K: Key,
    P: Probe,
{
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let Self {
            table: join,
            keys,
            rows,
            valid,
            probe,
        } = self;
        let of_rows = &keys[rows.clone()];
        tell!(probe.stream(of_rows.as_ptr().addr(), size_of_val(of_rows)));
        for (row, key) in rows.zip(of_rows) {
            if join.numbered.is_none()
                && let Some(ahead) = keys.get(row + DISTANCE)
            {
                let home = join.table.home(hash(ahead.bits()));
                join.table.prefetch(home, probe);
            }
            if valid.is_some_and(|valid| !valid.contains(row)) {
                continue;
            }
            let bits = key.bits();
            let first = match &mut join.numbered {
                Some(numbered) => numbered.find_or_insert(bits, row as u32, probe),
                None => {
                    let home = join.table.home(hash(bits));
                    let table = &mut join.table;
                    table.find_or_insert::<V, P>(bits, home, row as u32, probe)
                }
            };
            if first != NO_ROW {
                if join.is_unique {
                    join.is_unique = false;
                    join.next.as_mut().fill(NO_ROW);
                }
                // Behind the first of the key, so that the line stays as it is.
                let next = join.next.as_mut();
                tell!(probe.write(next.as_ptr().addr() + first as usize * 4, 4));
                tell!(probe.write(next.as_ptr().addr() + row * 4, 4));
                next[row] = next[first as usize];
                next[first as usize] = row as u32;
            }
        }
    }
}
