//! A join that gives all columns of its rows.

use std::hint::black_box;

use nearfar_kernels::{HashJoin, JoinError, JoinKind, JoinPlan, JoinTier};
use nearfar_model::Native;

/// Bytes of a row: a key and a value.
pub const JOIN_ROW_BYTES: usize = 16;

/// Both sides of a join: keys and values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinColumns {
    /// Keys of the build side, all different.
    pub build_keys: Vec<i64>,
    /// Values of the build side.
    pub build_values: Vec<i64>,
    /// Keys of the probe side.
    pub probe_keys: Vec<i64>,
    /// Values of the probe side.
    pub probe_values: Vec<i64>,
}

impl JoinColumns {
    /// A build side of so many bytes, one row or more, and as many probe rows as asked for, all of which
    /// find one row.
    pub fn new(build_bytes: usize, probe_rows: usize) -> Self {
        let rows = (build_bytes / JOIN_ROW_BYTES).max(1) as u64;
        // An odd factor makes different keys of different rows.
        let key = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15).cast_signed();
        let place = |row: u64| (row.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 20) % rows;
        let probe_rows = probe_rows as u64;
        Self {
            build_keys: (0..rows).map(key).collect(),
            build_values: (0..rows).map(u64::cast_signed).collect(),
            probe_keys: (0..probe_rows).map(|row| key(place(row))).collect(),
            probe_values: (0..probe_rows).map(u64::cast_signed).collect(),
        }
    }
}

/// Rows of a join, and the sum of all their columns, which wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Joined {
    /// Number of rows.
    pub rows: usize,
    /// Sum of all columns.
    pub checksum: i64,
}

/// Joins two sides of a key and a value, makes all four columns of the rows, batch by batch, and sums them.
///
/// # Errors
/// [`JoinError`].
pub fn join(build: [&[i64]; 2], probed: [&[i64]; 2]) -> Result<Joined, JoinError> {
    let plan = JoinPlan::choose(build[0].len(), JoinTier::NEAR);
    let mut joined = Joined::default();
    HashJoin::new(JoinKind::Inner, plan).run(
        (build[0], None),
        (probed[0], None),
        &Native,
        |matched| {
            let columns = [
                taken(build[0], &matched.build_rows),
                taken(build[1], &matched.build_rows),
                taken(probed[0], &matched.probe_rows),
                taken(probed[1], &matched.probe_rows),
            ];
            joined.rows += matched.probe_rows.len();
            for column in &columns {
                joined.checksum = joined.checksum.wrapping_add(checksum(column));
            }
        },
    )?;
    Ok(black_box(joined))
}

fn taken(column: &[i64], rows: &[u32]) -> Vec<i64> {
    rows.iter().map(|row| column[*row as usize]).collect()
}

/// The sum of a column, which wraps.
pub fn checksum(column: &[i64]) -> i64 {
    column.iter().fold(0, |sum, value| sum.wrapping_add(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_row_finds_one_row() {
        for (build_bytes, probe_rows) in [(16, 10), (160_000, 20_000), (8 << 20, 5_000)] {
            let sides = JoinColumns::new(build_bytes, probe_rows);
            let build = [&sides.build_keys[..], &sides.build_values];
            let probed = [&sides.probe_keys[..], &sides.probe_values];
            let joined = join(build, probed).unwrap();
            assert_eq!(joined.rows, probe_rows);
            let keys = checksum(&sides.probe_keys).wrapping_mul(2);
            let mut rows = checksum(&sides.probe_values);
            for key in &sides.probe_keys {
                let row = key.wrapping_mul(INVERSE);
                rows = rows.wrapping_add(row);
            }
            assert_eq!(joined.checksum, keys.wrapping_add(rows));
        }
    }

    /// The inverse of the factor that makes keys of rows, modulo 2^64.
    const INVERSE: i64 = inverse(0x9E37_79B9_7F4A_7C15).cast_signed();

    /// Newton's iteration, which doubles the bits that are right.
    const fn inverse(odd: u64) -> u64 {
        let (mut inverse, mut bits) = (odd, 3);
        while bits < 64 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
            bits *= 2;
        }
        inverse
    }
}
