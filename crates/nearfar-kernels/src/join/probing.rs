//! Probes of a table, block by block.

use nearfar_model::Probe;

use super::BLOCK_ROWS;
use super::table::{JoinError, JoinTable, check_side};
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

/// What a probe found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matched {
    /// Rows of the probe side. Those of one block of 1024 may be in any order.
    pub probe_rows: Vec<u32>,
    /// The build row of each; empty for [`JoinKind::Semi`] and [`JoinKind::Anti`].
    pub build_rows: Vec<u32>,
}

impl Matched {
    /// Forgets all rows, and keeps their memory.
    pub fn clear(&mut self) {
        self.probe_rows.clear();
        self.build_rows.clear();
    }

    fn push(&mut self, probe_row: u32, build_row: u32) {
        self.probe_rows.push(probe_row);
        self.build_rows.push(build_row);
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
    /// [`JoinError::TooManyRows`] and [`JoinError::OtherRows`]; nothing was looked up.
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

/// The keys of a block that are looked up.
struct Lookups {
    count: usize,
    /// Places of keys in the block.
    places: [u32; BLOCK_ROWS],
    hashes: [u64; BLOCK_ROWS],
}

impl<L: AsRef<[Line]>, N: AsRef<[u32]>, K: Key, P: Probe> Block<'_, L, N, K, P> {
    /// All keys that are not null, hashed.
    #[inline(always)]
    fn hashed(&self) -> Lookups {
        let mut lookups = Lookups {
            count: 0,
            places: [0; BLOCK_ROWS],
            hashes: [0; BLOCK_ROWS],
        };
        tell!(
            self.probe
                .stream(self.keys.as_ptr().addr(), size_of_val(self.keys))
        );
        for (place, key) in self.keys.iter().enumerate() {
            lookups.places[lookups.count] = place as u32;
            lookups.hashes[lookups.count] = hash(key.bits());
            let is_valid = |valid: &Selection| valid.contains(self.cursor.row + place);
            lookups.count += usize::from(self.valid.is_none_or(is_valid));
        }
        lookups
    }

    /// Leaves only those that pass the filter, if there is one that is worth asking.
    #[inline(always)]
    fn filter(&mut self, lookups: &mut Lookups) {
        let Some(filter) = &self.join.filter else {
            return;
        };
        let passed_max = self.cursor.asked as f64 * FILTER_PASS_MAX;
        if self.cursor.asked >= FILTER_TRIAL && self.cursor.passed as f64 > passed_max {
            return;
        }
        let (asked, distance) = (lookups.count, self.probing.distance);
        let mut passed = 0;
        for index in 0..asked {
            if distance > 0 && index + distance < asked {
                filter.prefetch(filter.place(lookups.hashes[index + distance]), self.probe);
            }
            let hash = lookups.hashes[index];
            lookups.places[passed] = lookups.places[index];
            lookups.hashes[passed] = hash;
            passed += usize::from(filter.probed(filter.place(hash), hash, self.probe));
        }
        lookups.count = passed;
        self.cursor.asked += asked;
        self.cursor.passed += passed;
    }

    /// The first build row of each key of the block.
    #[inline(always)]
    fn find<V: Vectors>(&self, lookups: &Lookups) -> [u32; BLOCK_ROWS] {
        let mut found = [NO_ROW; BLOCK_ROWS];
        let (table, distance) = (&self.join.table, self.probing.distance);
        let places = &lookups.places[..lookups.count];
        let hashes = &lookups.hashes[..lookups.count];
        for hash in hashes.iter().take(distance) {
            table.prefetch(table.home(*hash), self.probe);
        }
        for (index, (place, hash)) in places.iter().zip(hashes).enumerate() {
            if distance > 0
                && let Some(ahead) = hashes.get(index + distance)
            {
                table.prefetch(table.home(*ahead), self.probe);
            }
            let key = self.keys[*place as usize].bits();
            found[*place as usize] = table.find::<V, P>(key, table.home(*hash), self.probe);
        }
        found
    }

    /// Adds what was found to the rows, or to the open lists.
    #[inline(always)]
    fn emit(&mut self, found: &[u32]) {
        let first = self.cursor.row as u32;
        let rows = found.iter().enumerate();
        let rows = rows.map(|(place, build_row)| (first + place as u32, *build_row));
        let found = |row: &(u32, u32)| row.1 != NO_ROW;
        let matched = &mut *self.matched;
        match self.kind {
            JoinKind::Semi => matched
                .probe_rows
                .extend(rows.filter(found).map(|row| row.0)),
            JoinKind::Anti => {
                let lost = rows.filter(|row| !found(row));
                matched.probe_rows.extend(lost.map(|row| row.0));
            }
            JoinKind::Inner | JoinKind::Left => {
                let is_left = self.kind == JoinKind::Left;
                let is_unique = self.join.is_unique;
                for row in rows {
                    if !found(&row) {
                        if is_left {
                            matched.push(row.0, row.1);
                        }
                    } else if is_unique {
                        matched.push(row.0, row.1);
                    } else {
                        let link = &raw const self.join.next.as_ref()[row.1 as usize];
                        tell!(self.probe.prefetch(link.addr(), 4));
                        prefetch(link);
                        self.cursor.open.push(row);
                    }
                }
            }
        }
    }
}

impl<L: AsRef<[Line]>, N: AsRef<[u32]>, K: Key, P: Probe> Kernel for Block<'_, L, N, K, P> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(mut self) {
        let mut lookups = self.hashed();
        self.filter(&mut lookups);
        let found = self.find::<V>(&lookups);
        let rows = self.keys.len();
        self.emit(&found[..rows]);
        self.cursor.row += rows;
    }
}
