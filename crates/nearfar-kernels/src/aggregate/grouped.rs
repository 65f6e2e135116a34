//! Aggregates by group.

use nearfar_model::Probe;

use super::{Aggregate, GroupsError, Number, Summary};
use crate::cancel::{Cancel, PART_ROWS};
use crate::isa::Isa;
use crate::key::Key;
use crate::line::Line;
use crate::line_table::{LineTable, NO_ROW, hash};
use crate::memory::{NoMemory, reserve, zeros};
use crate::selection::Selection;
use crate::vectors::{self, Kernel, Vectors, prefetch};

/// Rows whose groups are looked up before any of them is aggregated.
const BLOCK_ROWS: usize = 1024;
/// Lookups between the prefetch of a line and its use.
const DISTANCE: usize = 24;
/// Up to so many groups have [`COPIES`] summaries each while rows are read.
const FEW_GROUPS: usize = 128;
/// Rows that follow each other go to different summaries of a group, so that none waits for the one
/// before.
const COPIES: usize = 4;

/// A code that no group stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("row {row} has the code {code}, but there are {groups} groups: codes begin at 0")]
pub struct CodeTooLarge {
    /// The first such row.
    pub row: usize,
    /// Its code.
    pub code: u32,
    /// Number of groups.
    pub groups: usize,
}

/// The system gives no memory for more groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "more than {groups} groups need {bytes} bytes more, which the system does not give: aggregate in parts, or free memory"
)]
pub struct NoRoomForGroups {
    /// Groups that there are.
    pub groups: usize,
    /// Bytes that were asked for.
    pub bytes: usize,
}

impl Aggregate {
    /// Adds every value to the group of its code: for keys that are codes of a dictionary or few small
    /// numbers.
    ///
    /// # Errors
    /// [`CodeTooLarge`], with nothing added.
    ///
    /// # Panics
    /// Where there are not as many codes as values.
    ///
    /// ```
    /// use nearfar_kernels::{Aggregate, Summary};
    /// use nearfar_model::Native;
    ///
    /// let mut groups = [Summary::default(); 2];
    /// Aggregate::new().by_code(&[1, 0, 1], &[5_i32, 6, 7], &mut groups, &Native)?;
    /// assert_eq!(groups.map(|group| group.sum), [6, 12]);
    /// # Ok::<(), nearfar_kernels::CodeTooLarge>(())
    /// ```
    pub fn by_code<T: Number, P: Probe>(
        &self,
        codes: &[u32],
        column: &[T],
        groups: &mut [Summary<T>],
        probe: &P,
    ) -> Result<(), CodeTooLarge> {
        assert_eq!(codes.len(), column.len(), "a code for each value");
        let by_code = ByCode {
            codes,
            column,
            groups,
            probe,
        };
        vectors::run(self.isa(), by_code)
    }
}

struct ByCode<'a, T, P> {
    codes: &'a [u32],
    column: &'a [T],
    groups: &'a mut [Summary<T>],
    probe: &'a P,
}

impl<T: Number, P: Probe> ByCode<'_, T, P> {
    /// The first code that has no group. All codes are read once more for it, which the caches make up
    /// for where columns are aggregated in parts.
    #[inline(always)]
    fn check(&self) -> Result<(), CodeTooLarge> {
        let groups = self.groups.len();
        tell!(
            self.probe
                .stream(self.codes.as_ptr().addr(), size_of_val(self.codes))
        );
        let largest = self.codes.iter().copied().fold(0, u32::max);
        if (largest as usize) < groups || self.codes.is_empty() {
            return Ok(());
        }
        let mut rows = self.codes.iter().copied().enumerate();
        let found = rows.find(|(_, code)| *code as usize >= groups);
        found.map_or(Ok(()), |(row, code)| {
            Err(CodeTooLarge { row, code, groups })
        })
    }
}

impl<T: Number, P: Probe> Kernel for ByCode<'_, T, P> {
    type Output = Result<(), CodeTooLarge>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Self::Output {
        self.check()?;
        let Self {
            codes,
            column,
            groups,
            probe,
        } = self;
        tell!(probe.stream(codes.as_ptr().addr(), size_of_val(codes)));
        tell!(probe.stream(column.as_ptr().addr(), size_of_val(column)));
        let _ = probe;
        if groups.len() > FEW_GROUPS {
            for (code, value) in codes.iter().zip(column) {
                groups[*code as usize].add(*value);
            }
            return Ok(());
        }
        let mut copies = [[Summary::default(); FEW_GROUPS]; COPIES];
        let (fours, rest) = codes.as_chunks::<COPIES>();
        let (values, values_rest) = column.as_chunks::<COPIES>();
        for (codes, values) in fours.iter().zip(values) {
            for copy in 0..COPIES {
                copies[copy][codes[copy] as usize].add(values[copy]);
            }
        }
        for (code, value) in rest.iter().zip(values_rest) {
            copies[0][*code as usize].add(*value);
        }
        for copy in copies {
            for (group, part) in groups.iter_mut().zip(copy) {
                *group = group.merged(part);
            }
        }
        Ok(())
    }
}

/// Groups by keys of any size, found as rows are added.
///
/// ```
/// use nearfar_kernels::HashGroups;
/// use nearfar_model::Native;
///
/// let mut groups = HashGroups::new();
/// groups.add(&[70_000_i64, -3, 70_000], &[1_i64, 2, 3], &Native)?;
/// let sums: Vec<_> = groups.groups().map(|(key, group)| (key, group.sum)).collect();
/// assert_eq!(sums, [(70_000, 4), (-3, 2)]);
/// # Ok::<(), nearfar_kernels::NoRoomForGroups>(())
/// ```
///
/// Rows whose key is null are a group of their own ([`Self::add_valid`]).
#[derive(Debug, Clone)]
pub struct HashGroups<K, T> {
    isa: Isa,
    table: LineTable<Vec<Line>>,
    keys: Vec<K>,
    summaries: Vec<Summary<T>>,
    /// Of rows without a key.
    nulls: Summary<T>,
}

impl<K: Key, T: Number> Default for HashGroups<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, T: Number> HashGroups<K, T> {
    /// No groups, with the widest instructions of the machine.
    pub fn new() -> Self {
        Self::of(Aggregate::new())
    }

    /// No groups, with the instructions of `aggregate`.
    pub fn of(aggregate: Aggregate) -> Self {
        Self {
            isa: aggregate.isa(),
            table: LineTable::of_empty(vec![Line::default(); Line::count_for(BLOCK_ROWS)]),
            keys: Vec::new(),
            summaries: Vec::new(),
            nulls: Summary::default(),
        }
    }

    /// Adds every value to the group of its key.
    ///
    /// # Errors
    /// [`NoRoomForGroups`], with some of the rows added: the groups are of no use then.
    ///
    /// # Panics
    /// Where there are not as many keys as values, or more than `u32::MAX - 1` groups.
    pub fn add<P: Probe>(
        &mut self,
        keys: &[K],
        column: &[T],
        probe: &P,
    ) -> Result<(), NoRoomForGroups> {
        self.add_rows(keys, None, column, || Ok(()), probe)
    }

    /// Adds every value to the group of its key, and those of rows that are not in `valid`, whose key is null, to a
    /// group of their own, as `GROUP BY` has it.
    ///
    /// ```
    /// use nearfar_kernels::{HashGroups, Selection};
    /// use nearfar_model::Native;
    ///
    /// let mut valid = Selection::all(3);
    /// valid.remove([0b010]);
    /// let mut groups = HashGroups::new();
    /// groups.add_valid(&[7_i64, 7, 7], &valid, &[1_i64, 2, 3], &Native)?;
    /// let sums: Vec<_> = groups.groups().map(|(key, group)| (key, group.sum)).collect();
    /// assert_eq!(sums, [(7, 4)]);
    /// assert_eq!(groups.null_group().map(|group| group.sum), Some(2));
    /// # Ok::<(), nearfar_kernels::NoRoomForGroups>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::add`].
    ///
    /// # Panics
    /// As [`Self::add`], and where `valid` is of another number of rows.
    pub fn add_valid<P: Probe>(
        &mut self,
        keys: &[K],
        valid: &Selection,
        column: &[T],
        probe: &P,
    ) -> Result<(), NoRoomForGroups> {
        self.add_rows(keys, Some(valid), column, || Ok(()), probe)
    }

    /// As [`Self::add`], and as [`Self::add_valid`] where some rows may have no key, until `cancel` ends it.
    ///
    /// # Errors
    /// [`GroupsError::Cancelled`] and [`GroupsError::NoRoom`], with some of the rows added: the groups are of no use
    /// then.
    ///
    /// # Panics
    /// As [`Self::add_valid`].
    pub fn add_cancellable<P: Probe>(
        &mut self,
        keys: &[K],
        valid: Option<&Selection>,
        column: &[T],
        cancel: &Cancel,
        probe: &P,
    ) -> Result<(), GroupsError> {
        self.add_rows(keys, valid, column, || Ok(cancel.check()?), probe)
    }

    /// Adds rows block by block, and looks at whether to `go_on` before each.
    fn add_rows<E: From<NoRoomForGroups>, P: Probe>(
        &mut self,
        keys: &[K],
        valid: Option<&Selection>,
        column: &[T],
        go_on: impl Fn() -> Result<(), E>,
        probe: &P,
    ) -> Result<(), E> {
        assert_eq!(keys.len(), column.len(), "a key for each value");
        let is_of_rows = valid.is_none_or(|valid| keys.len() == valid.len());
        assert!(is_of_rows, "a selection of other rows");
        let blocks = keys.chunks(BLOCK_ROWS).zip(column.chunks(BLOCK_ROWS));
        for (index, (keys, column)) in blocks.enumerate() {
            go_on()?;
            self.make_room(keys.len(), &go_on, probe)?;
            let isa = self.isa;
            let block = Block {
                groups: &mut *self,
                begin: index * BLOCK_ROWS,
                keys,
                valid,
                column,
                probe,
            };
            vectors::run(isa, block);
        }
        Ok(())
    }

    /// The groups in the order in which they were found.
    pub fn groups(&self) -> impl Iterator<Item = (K, &Summary<T>)> {
        self.keys.iter().copied().zip(&self.summaries)
    }

    /// The group of rows whose key is null; `None` where there was no such row.
    pub fn null_group(&self) -> Option<&Summary<T>> {
        (self.nulls.count > 0).then_some(&self.nulls)
    }

    /// Number of groups with a key.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no group with a key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Makes a table of twice the size where so many more keys might not fit.
    fn make_room<E: From<NoRoomForGroups>, P: Probe>(
        &mut self,
        keys: usize,
        go_on: impl Fn() -> Result<(), E>,
        probe: &P,
    ) -> Result<(), E> {
        let (found, groups) = (self.table.len(), self.table.len() + keys);
        assert!(groups < NO_ROW as usize, "groups have numbers of 32 bits");
        let refused = |NoMemory { bytes }| NoRoomForGroups {
            groups: found,
            bytes,
        };
        reserve(&mut self.keys, keys).map_err(refused)?;
        reserve(&mut self.summaries, keys).map_err(refused)?;
        if !self.table.has_room_for(keys) {
            let lines = zeros(Line::count_for(groups * 2)).map_err(refused)?;
            self.table = LineTable::of_empty(lines);
            for (index, keys) in self.keys.chunks(PART_ROWS).enumerate() {
                go_on()?;
                let again = Again {
                    table: &mut self.table,
                    begin: index * PART_ROWS,
                    keys,
                    probe,
                };
                vectors::run(self.isa, again);
            }
        }
        Ok(())
    }
}

/// Puts the keys of groups from `begin` on into a new table.
struct Again<'a, K, P> {
    table: &'a mut LineTable<Vec<Line>>,
    begin: usize,
    keys: &'a [K],
    probe: &'a P,
}

impl<K: Key, P: Probe> Kernel for Again<'_, K, P> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        for (group, key) in self.keys.iter().enumerate() {
            if let Some(ahead) = self.keys.get(group + DISTANCE) {
                let home = self.table.home(hash(ahead.bits()));
                self.table.prefetch(home, self.probe);
            }
            let bits = key.bits();
            let home = self.table.home(hash(bits));
            self.table
                .find_or_insert::<V, P>(bits, home, (self.begin + group) as u32, self.probe);
        }
    }
}

struct Block<'a, K, T, P> {
    groups: &'a mut HashGroups<K, T>,
    /// The first of its rows, as `valid` counts them.
    begin: usize,
    keys: &'a [K],
    valid: Option<&'a Selection>,
    column: &'a [T],
    probe: &'a P,
}

impl<K: Key, T: Number, P: Probe> Kernel for Block<'_, K, T, P> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let Self {
            groups,
            begin,
            keys,
            valid,
            column,
            probe,
        } = self;
        tell!(probe.stream(keys.as_ptr().addr(), size_of_val(keys)));
        tell!(probe.stream(column.as_ptr().addr(), size_of_val(column)));
        let mut homes = [0_usize; BLOCK_ROWS];
        for (home, key) in homes.iter_mut().zip(keys) {
            *home = groups.table.home(hash(key.bits()));
        }
        let mut found = [0_u32; BLOCK_ROWS];
        for (row, key) in keys.iter().enumerate() {
            if row + DISTANCE < keys.len() {
                groups.table.prefetch(homes[row + DISTANCE], probe);
            }
            if valid.is_some_and(|valid| !valid.contains(begin + row)) {
                found[row] = NO_ROW;
                continue;
            }
            let next = groups.keys.len() as u32;
            let (bits, home) = (key.bits(), homes[row]);
            let group = groups.table.find_or_insert::<V, P>(bits, home, next, probe);
            found[row] = if group == NO_ROW {
                groups.keys.push(*key);
                groups.summaries.push(Summary::default());
                next
            } else {
                prefetch(&raw const groups.summaries[group as usize]);
                group
            };
        }
        for (group, value) in found.iter().zip(column) {
            let summary = match *group {
                NO_ROW => &mut groups.nulls,
                group => &mut groups.summaries[group as usize],
            };
            tell!(probe.write(std::ptr::from_ref(summary).addr(), size_of_val(summary)));
            summary.add(*value);
        }
    }
}
