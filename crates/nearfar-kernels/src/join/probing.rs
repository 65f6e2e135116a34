//! Probes of a table, block by block.

use nearfar_model::Probe;

use super::BLOCK_ROWS;
use super::filter::BloomFilter;
use super::lookups::Lookups;
use super::matched::Matched;
use super::numbered::NumberedRows;
use super::table::{JoinError, JoinTable, check_cancel, check_side};
use crate::key::Key;
use crate::line::Line;
use crate::line_table::{NO_ROW, hash};
use crate::selection::Selection;
use crate::vectors::{self, Kernel, Vectors, prefetch};

/// What a join gives. The probe side is the left one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// A pair for each probe row and build row of the same key.
    Inner,
    /// The probe rows whose key the build side has, once each.
    Semi,
    /// The probe rows whose key the build side does not have, those without a key included.
    Anti,
    /// As inner, and probe rows that find nothing with [`NO_ROW`].
    Left,
}

/// How a probe goes about its lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probing {
    /// Lookups between the prefetch of a line and its use; 0 for no prefetches, which is the plain loop.
    pub distance: usize,
}

impl Probing {
    /// Nothing is asked for ahead of its use.
    pub const PLAIN: Self = Self { distance: 0 };
}

impl Default for Probing {
    /// 32 lookups ahead: twice what a core has of fill buffers.
    fn default() -> Self {
        Self { distance: 32 }
    }
}

/// How far a probe has got: it pauses when it has found enough.
#[derive(Debug, Clone, Default)]
pub struct ProbeCursor {
    /// Probe rows that were looked up.
    row: usize,
    /// Probe rows that have more matches, and the next of each.
    open: Vec<(u32, u32)>,
    /// Keys that a filter was asked for, and those that passed it.
    asked: usize,
    passed: usize,
}

/// Keys after which a filter that lets most of them pass is not asked any more.
const FILTER_TRIAL: usize = 16 * BLOCK_ROWS;
/// The share of keys that pass a filter which is not worth asking.
const FILTER_PASS_MAX: f64 = 0.8;
/// A probe pauses after the block or round with which it has found so many rows.
const PAUSE_ROWS: usize = 8 * BLOCK_ROWS;

impl<L: AsRef<[Line]>, N: AsRef<[u32]>> JoinTable<L, N> {
    /// Looks the keys up from where `cursor` stands, and adds rows to `matched`. Returns whether all keys
    /// were looked up; if not, it has paused with 8192 rows or a few more, and the next call goes on. The
    /// keys may not change between.
    ///
    /// # Errors
    /// [`JoinError::TooManyRows`] and [`JoinError::OtherRows`]; nothing was looked up. [`JoinError::Cancelled`],
    /// where the table was built so; `matched` has what was found before.
    #[allow(clippy::too_many_arguments)]
    pub fn probe<K: Key, P: Probe>(
        &self,
        kind: JoinKind,
        probing: Probing,
        keys: &[K],
        valid: Option<&Selection>,
        cursor: &mut ProbeCursor,
        matched: &mut Matched,
        probe: &P,
    ) -> Result<bool, JoinError> {
        check_side(keys.len(), valid)?;
        let pause_at = matched.probe_rows.len() + PAUSE_ROWS;
        loop {
            check_cancel(&self.cancel)?;
            self.follow(cursor, matched, pause_at, probe);
            if !cursor.open.is_empty() {
                return Ok(false);
            }
            if cursor.row == keys.len() {
                return Ok(true);
            }
            if matched.probe_rows.len() >= pause_at {
                return Ok(false);
            }
            let block = Block {
                join: self,
                kind,
                probing,
                keys: &keys[cursor.row..keys.len().min(cursor.row + BLOCK_ROWS)],
                valid,
                cursor,
                matched,
                probe,
            };
            vectors::run(self.isa, block);
        }
    }

    /// Takes one step of every open list in turn, until all have ended or enough was found. A step was
    /// asked for in the round before.
    fn follow<P: Probe>(
        &self,
        cursor: &mut ProbeCursor,
        matched: &mut Matched,
        pause_at: usize,
        probe: &P,
    ) {
        let next = self.next.as_ref();
        while !cursor.open.is_empty() && matched.probe_rows.len() < pause_at {
            cursor.open.retain_mut(|(probe_row, build_row)| {
                matched.push(*probe_row, *build_row);
                tell!(probe.read((&raw const next[*build_row as usize]).addr(), 4));
                *build_row = next[*build_row as usize];
                if *build_row == NO_ROW {
                    return false;
                }
                let link = &raw const next[*build_row as usize];
                tell!(probe.prefetch(link.addr(), 4));
                prefetch(link);
                true
            });
        }
        let _ = probe;
    }
}

/// A block of keys that are looked up together.
struct Block<'a, L, N, K, P> {
    join: &'a JoinTable<L, N>,
    kind: JoinKind,
    probing: Probing,
    keys: &'a [K],
    valid: Option<&'a Selection>,
    cursor: &'a mut ProbeCursor,
    matched: &'a mut Matched,
    probe: &'a P,
}

impl<'a, L: AsRef<[Line]>, N: AsRef<[u32]>, K: Key, P: Probe> Block<'a, L, N, K, P> {
    /// The filter, if there is one that is worth asking.
    #[inline(always)]
    fn filter(&self) -> Option<&'a BloomFilter> {
        let passed_max = self.cursor.asked as f64 * FILTER_PASS_MAX;
        let is_useless =
            self.cursor.asked >= FILTER_TRIAL && self.cursor.passed as f64 > passed_max;
        self.join.filter.as_ref().filter(|_| !is_useless)
    }

    /// Finds the first build row of each key of the block, or [`NO_ROW`].
    ///
    /// Arrays of a block are lent to what fills them, never returned: `memcpy` of some KiB is one instruction
    /// (`rep movsb`), which some cores, such as Zen 3, are so slow at that copies take longer than lookups.
    #[inline(always)]
    fn find<V: Vectors>(&mut self, found: &mut [u32]) {
        tell!(
            self.probe
                .stream(self.keys.as_ptr().addr(), size_of_val(self.keys))
        );
        if let Some(numbered) = &self.join.numbered {
            return self.find_numbered(numbered, found);
        }
        let filter = self.filter();
        if self.valid.is_some() || filter.is_some() {
            return self.find_some::<V>(filter, found);
        }
        let mut homes = [0; BLOCK_ROWS];
        for (home, key) in homes.iter_mut().zip(self.keys) {
            *home = self.join.table.home(hash(key.bits())) as u32;
        }
        self.look_up::<V>(&homes[..self.keys.len()], |index| index, found);
    }

    /// As [`Self::find`], by the numbers of keys. The lookups do not depend on each other: a core has as many of them on
    /// their way as it can.
    #[inline(always)]
    fn find_numbered(&self, numbered: &NumberedRows, found: &mut [u32]) {
        for (found, key) in found.iter_mut().zip(self.keys) {
            *found = numbered.find(key.bits(), self.probe);
        }
        if let Some(valid) = self.valid {
            for (row, found) in (self.cursor.row..).zip(found) {
                *found = if valid.contains(row) { *found } else { NO_ROW };
            }
        }
    }

    /// As [`Self::find`], of the keys that are not null and pass the filter.
    #[inline(always)]
    fn find_some<V: Vectors>(&mut self, filter: Option<&BloomFilter>, found: &mut [u32]) {
        let mut lookups = Lookups::new();
        lookups.reset_to_all(self.keys);
        if let Some(valid) = self.valid {
            let first = self.cursor.row;
            lookups.keep(|place, _| valid.contains(first + place as usize));
        }
        if let Some(filter) = filter {
            self.cursor.asked += lookups.len();
            let probe = self.probe;
            lookups.keep_ahead(
                self.probing.distance,
                |hash| filter.prefetch(filter.place(hash), probe),
                |_, hash| filter.probed(filter.place(hash), hash, probe),
            );
            self.cursor.passed += lookups.len();
        }
        let (mut homes, places) = ([0; BLOCK_ROWS], lookups.places());
        for (home, hash) in homes.iter_mut().zip(lookups.hashes()) {
            *home = self.join.table.home(*hash) as u32;
        }
        found.fill(NO_ROW);
        self.look_up::<V>(
            &homes[..places.len()],
            |index| places[index] as usize,
            found,
        );
    }

    /// Looks up keys whose ways begin at the lines `homes`; `place` says where each is in the block.
    #[inline(always)]
    fn look_up<V: Vectors>(
        &self,
        homes: &[u32],
        place: impl Fn(usize) -> usize,
        found: &mut [u32],
    ) {
        let (table, distance) = (&self.join.table, self.probing.distance);
        let (mut longer, mut longer_count) = ([0; BLOCK_ROWS], 0);
        for home in homes.iter().take(distance) {
            table.prefetch(*home as usize, self.probe);
        }
        for (index, home) in homes.iter().enumerate() {
            if distance > 0
                && let Some(ahead) = homes.get(index + distance)
            {
                table.prefetch(*ahead as usize, self.probe);
            }
            let place = place(index);
            let key = self.keys[place].bits();
            let (row, goes_on) = table.find_in::<V, P>(key, *home as usize, self.probe);
            found[place] = row;
            longer[longer_count] = index as u32;
            longer_count += usize::from(goes_on);
        }
        let longer = &longer[..longer_count];
        if distance > 0 {
            for index in longer {
                let home = homes[*index as usize] as usize;
                table.prefetch(table.behind(home), self.probe);
            }
        }
        for index in longer {
            let (place, home) = (place(*index as usize), homes[*index as usize]);
            let key = self.keys[place].bits();
            found[place] = table.find_behind::<V, P>(key, home as usize, self.probe);
        }
    }

    /// Adds what was found to the rows, or to the open lists.
    #[inline(always)]
    fn emit(&mut self, found: &[u32]) {
        let first = self.cursor.row as u32;
        let matched = &mut *self.matched;
        match self.kind {
            JoinKind::Semi => matched.keep_probe_rows(first, found, |row| row != NO_ROW),
            JoinKind::Anti => matched.keep_probe_rows(first, found, |row| row == NO_ROW),
            JoinKind::Inner if self.join.is_unique => matched.add_found(first, found),
            JoinKind::Left if self.join.is_unique => matched.add_all(first, found),
            JoinKind::Inner | JoinKind::Left => self.open(first, found),
        }
    }

    /// Opens the lists of the rows that were found.
    #[inline(always)]
    fn open(&mut self, first: u32, found: &[u32]) {
        let is_left = self.kind == JoinKind::Left;
        for (probe_row, build_row) in (first..).zip(found.iter().copied()) {
            if build_row != NO_ROW {
                let link = &raw const self.join.next.as_ref()[build_row as usize];
                tell!(self.probe.prefetch(link.addr(), 4));
                prefetch(link);
                self.cursor.open.push((probe_row, build_row));
            } else if is_left {
                self.matched.push(probe_row, build_row);
            }
        }
    }
}

impl<L: AsRef<[Line]>, N: AsRef<[u32]>, K: Key, P: Probe> Kernel for Block<'_, L, N, K, P> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(mut self) {
        let (rows, mut found) = (self.keys.len(), [0; BLOCK_ROWS]);
        self.find::<V>(&mut found[..rows]);
        self.emit(&found[..rows]);
        self.cursor.row += rows;
    }
}
