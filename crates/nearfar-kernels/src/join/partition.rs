//! Both sides of a join divided by the hash of their keys.

use nearfar_model::Probe;

use super::STEP_ROWS;
use super::table::{JoinError, check_cancel, check_side, no_memory};
use crate::cancel::Cancel;
use crate::key::Key;
use crate::line_table::hash;
use crate::memory::{reserve, zeros};
use crate::selection::Selection;

/// The binary logarithm of the most partitions: more than a core's caches have lines for lose what
/// writing them in one pass gains.
pub const PARTITIONS_LOG2_MAX: u32 = 11;

/// Keys and rows of one side, those of one partition together.
///
/// Keys of a partition have hashes that begin alike, which would have them crowd in a table's first lines.
/// So they are kept in another form, one to one, whose hashes have nothing in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partitions {
    keys: Vec<u64>,
    rows: Vec<u32>,
    /// Where each partition ends.
    ends: Vec<usize>,
    /// Rows without a key.
    null_rows: Vec<u32>,
}

impl Partitions {
    /// Divides `keys` into `1 << partitions_log2` partitions, of at most [`PARTITIONS_LOG2_MAX`]. Both
    /// sides of a join are divided alike. Rows that are not in `valid` have no key.
    ///
    /// # Errors
    /// [`JoinError::TooManyRows`], [`JoinError::OtherRows`] and [`JoinError::NoMemory`].
    pub fn of<K: Key, P: Probe>(
        keys: &[K],
        valid: Option<&Selection>,
        partitions_log2: u32,
        probe: &P,
    ) -> Result<Self, JoinError> {
        Self::of_cancellable(keys, valid, partitions_log2, &Cancel::default(), probe)
    }

    /// As [`Self::of`], until `cancel` ends it.
    pub(super) fn of_cancellable<K: Key, P: Probe>(
        keys: &[K],
        valid: Option<&Selection>,
        partitions_log2: u32,
        cancel: &Cancel,
        probe: &P,
    ) -> Result<Self, JoinError> {
        check_side(keys.len(), valid)?;
        let shift = 64 - partitions_log2.min(PARTITIONS_LOG2_MAX);
        let part = |key: K| hash(key.bits()).checked_shr(shift).unwrap_or(0) as usize;
        let is_valid = |row| valid.is_none_or(|valid| valid.contains(row));
        let mut ends = vec![0; 1 << partitions_log2.min(PARTITIONS_LOG2_MAX)];
        tell!(probe.stream(keys.as_ptr().addr(), size_of_val(keys)));
        for (row, key) in keys.iter().enumerate() {
            if row % STEP_ROWS == 0 {
                check_cancel(cancel)?;
            }
            ends[part(*key)] += usize::from(is_valid(row));
        }
        let mut count = 0;
        // What a partition has becomes where it begins.
        for end in &mut ends {
            count += std::mem::replace(end, count);
        }
        let refused = |refused| no_memory(keys.len(), refused);
        let mut out_keys = zeros(count).map_err(refused)?;
        let mut out_rows = zeros(count).map_err(refused)?;
        let mut null_rows = Vec::new();
        reserve(&mut null_rows, keys.len() - count).map_err(refused)?;
        tell!(probe.stream(keys.as_ptr().addr(), size_of_val(keys)));
        for (row, key) in keys.iter().enumerate() {
            if row % STEP_ROWS == 0 {
                check_cancel(cancel)?;
            }
            if !is_valid(row) {
                null_rows.push(row as u32);
                continue;
            }
            let at = &mut ends[part(*key)];
            out_keys[*at] = other_form(key.bits());
            out_rows[*at] = row as u32;
            tell!(probe.write((&raw const out_keys[*at]).addr(), 8));
            tell!(probe.write((&raw const out_rows[*at]).addr(), 4));
            *at += 1;
        }
        let _ = probe;
        Ok(Self {
            keys: out_keys,
            rows: out_rows,
            ends,
            null_rows,
        })
    }

    /// Number of partitions.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether no row has a key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Keys, in their other form, and rows of a partition, in the order of rows.
    pub fn partition(&self, index: usize) -> (&[u64], &[u32]) {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        let range = begin..self.ends[index];
        (&self.keys[range.clone()], &self.rows[range])
    }

    /// Rows without a key.
    pub fn null_rows(&self) -> &[u32] {
        &self.null_rows
    }
}

/// Another number for each: a product with an odd number, and its halves mixed.
#[inline(always)]
fn other_form(bits: u64) -> u64 {
    let product = bits.wrapping_mul(0xd6e8_feb8_6659_fd93);
    product ^ (product >> 32)
}
