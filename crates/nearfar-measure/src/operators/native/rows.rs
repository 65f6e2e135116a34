//! Queries of columns of keys and values: an aggregate, with groups and without, and a filter.

use std::hint::black_box;

use nearfar_kernels::{Aggregate, HashGroups, Matches, NoRoomForGroups, Scan, Selection, Summary};
use nearfar_model::Native;

use super::join::checksum;

/// Rows that are filtered into one selection, as in SQL's scans.
const RUN_ROWS: usize = 8192;
/// Rows that are added to groups between two calls, as in SQL's aggregates.
const BATCH_ROWS: usize = 8192;

/// Groups, and the sum of what was computed of them, which wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grouped {
    /// Number of groups.
    pub groups: usize,
    /// Sum of their keys, numbers, sums, smallest and largest values.
    pub checksum: i64,
}

/// Number, sum, smallest and largest of all values.
pub fn summary(values: &[i64]) -> Summary<i64> {
    black_box(Aggregate::new().summary(values, &Native))
}

/// Number, sum, smallest and largest of the values of each key, as columns.
///
/// # Errors
/// [`NoRoomForGroups`].
pub fn grouped(keys: &[i64], values: &[i64]) -> Result<Grouped, NoRoomForGroups> {
    let mut groups = HashGroups::new();
    for (keys, values) in keys.chunks(BATCH_ROWS).zip(values.chunks(BATCH_ROWS)) {
        groups.add(keys, values, &Native)?;
    }
    let mut columns = [const { Vec::new() }; 5];
    for (key, group) in groups.groups() {
        let (min, max) = (group.min.unwrap_or(0), group.max.unwrap_or(0));
        let row = [key, group.count.cast_signed(), group.sum as i64, min, max];
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value);
        }
    }
    let sums = columns.iter().map(|column: &Vec<i64>| checksum(column));
    Ok(black_box(Grouped {
        groups: groups.len(),
        checksum: sums.fold(0, i64::wrapping_add),
    }))
}

/// Number of values from 0 to `high`.
pub fn passed(values: &[i64], high: i64) -> usize {
    let (scan, mut selection) = (Scan::new(), Selection::default());
    let mut count = 0;
    for run in values.chunks(RUN_ROWS) {
        selection.reset_to_all(run.len());
        scan.within_signed(run, 0..=high, Matches::Keep, &mut selection, &Native);
        count += scan.count(&selection, &Native);
    }
    black_box(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_filters_agree_with_loops() {
        let keys: Vec<i64> = (0..20_000).map(|row| row % 777).collect();
        let values: Vec<i64> = (0..20_000).map(|row| row * 3 - 1000).collect();
        let found = grouped(&keys, &values).unwrap();
        let mut expected = 0;
        for key in 0..777 {
            let of_key = values.iter().skip(key).step_by(777);
            let (min, max) = (of_key.clone().min().unwrap(), of_key.clone().max().unwrap());
            let sums = of_key.clone().sum::<i64>() + of_key.count() as i64;
            expected += key as i64 + sums + min + max;
        }
        assert_eq!((found.groups, found.checksum), (777, expected));
        let count = values
            .iter()
            .filter(|value| (0..=50).contains(*value))
            .count();
        assert_eq!(passed(&values, 50), count);
        assert_eq!(summary(&values).count, 20_000);
    }
}
