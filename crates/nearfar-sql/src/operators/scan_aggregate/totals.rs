//! What is kept of each group's values.

/// Rows that are added together.
pub const CHUNK_ROWS: usize = 1024;

/// Up to so many groups have copies of their totals.
const FEW_GROUPS: usize = 64;

/// Rows that follow each other go to different copies: who adds one row after the other to the same total waits for the row
/// before.
const COPIES: usize = 4;

/// How values become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// Their sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

impl Fold {
    /// What changes no total.
    pub fn identity(self) -> i64 {
        match self {
            Self::Sum => 0,
            Self::Min => i64::MAX,
            Self::Max => i64::MIN,
        }
    }
}

/// What is to be made of a value of each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TotalPlan {
    /// The step of the program that gives the value.
    pub step: usize,
    /// What becomes of those of a group.
    pub fold: Fold,
    /// Of how many rows the sum is within 64 bits.
    pub rows_max: usize,
    /// Which of the counts is of the rows that have a value.
    pub count: usize,
}

/// One number for each group.
#[derive(Debug)]
pub struct Total {
    fold: Fold,
    /// Rows that may be added before `values` are added to `wide`.
    rows_left: usize,
    rows_max: usize,
    values: Vec<i64>,
    /// Sums of what `values` were. None of groups before there are any.
    wide: Vec<i128>,
}

impl Total {
    /// A total of values, the sum of `rows_max` of which is within 64 bits.
    pub fn new(fold: Fold, rows_max: usize) -> Self {
        Self {
            fold,
            rows_left: rows_max,
            rows_max,
            values: Vec::new(),
            wide: Vec::new(),
        }
    }

    /// Makes room for so many groups.
    pub fn resize(&mut self, groups: usize) {
        self.values.resize(groups, self.fold.identity());
    }

    /// Adds the values of [`CHUNK_ROWS`] rows at most to their `groups`, or where none is given, to the only one.
    pub fn add(&mut self, groups: Option<&[u32]>, values: &[i64]) {
        if self.fold == Fold::Sum {
            if self.rows_max < values.len() {
                return self.add_wide(groups, values);
            }
            if self.rows_left < values.len() {
                self.widen();
            }
            self.rows_left -= values.len();
        }
        let identity = self.fold.identity();
        match self.fold {
            Fold::Sum => add(
                &mut self.values,
                groups,
                values,
                identity,
                i64::wrapping_add,
            ),
            Fold::Min => add(&mut self.values, groups, values, identity, i64::min),
            Fold::Max => add(&mut self.values, groups, values, identity, i64::max),
        }
    }

    /// Adds values that are too large for sums of 64 bits.
    fn add_wide(&mut self, groups: Option<&[u32]>, values: &[i64]) {
        self.wide.resize(self.values.len(), 0);
        let values = values.iter().map(|value| i128::from(*value));
        match groups {
            None => self.wide[0] += values.sum::<i128>(),
            Some(groups) => {
                for (group, value) in groups.iter().zip(values) {
                    self.wide[*group as usize] += value;
                }
            }
        }
    }

    fn widen(&mut self) {
        self.wide.resize(self.values.len(), 0);
        for (wide, value) in self.wide.iter_mut().zip(&mut self.values) {
            *wide += i128::from(std::mem::take(value));
        }
        self.rows_left = self.rows_max;
    }

    /// What was made of each group's values, of which it then has none.
    pub fn take(&mut self) -> Vec<i128> {
        if self.fold == Fold::Sum {
            self.widen();
            self.values = Vec::new();
            return std::mem::take(&mut self.wide);
        }
        let values = std::mem::take(&mut self.values);
        values.into_iter().map(i128::from).collect()
    }

    /// Bytes of all groups.
    pub fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<i64>() + self.wide.capacity() * size_of::<i128>()
    }
}

#[inline(always)]
fn add(
    totals: &mut [i64],
    groups: Option<&[u32]>,
    values: &[i64],
    identity: i64,
    fold: impl Fn(i64, i64) -> i64,
) {
    let Some(groups) = groups else {
        totals[0] = values.iter().fold(totals[0], |a, b| fold(a, *b));
        return;
    };
    if totals.len() > FEW_GROUPS {
        for (group, value) in groups.iter().zip(values) {
            let total = &mut totals[*group as usize];
            *total = fold(*total, *value);
        }
        return;
    }
    let mut copies = [[identity; FEW_GROUPS]; COPIES];
    let (groups, last_groups) = groups.as_chunks::<COPIES>();
    let (values, last_values) = values.as_chunks::<COPIES>();
    for (groups, values) in groups.iter().zip(values) {
        for copy in 0..COPIES {
            let total = &mut copies[copy][groups[copy] as usize % FEW_GROUPS];
            *total = fold(*total, values[copy]);
        }
    }
    for (group, value) in last_groups.iter().zip(last_values) {
        let total = &mut copies[0][*group as usize % FEW_GROUPS];
        *total = fold(*total, *value);
    }
    for copy in copies {
        for (total, value) in totals.iter_mut().zip(copy) {
            *total = fold(*total, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The totals of rows of so many groups, and what they should be.
    fn both(fold: Fold, groups: usize, rows_max: usize) -> (Vec<i128>, Vec<i128>) {
        let mut total = Total::new(fold, rows_max);
        let mut expected = vec![i128::from(fold.identity()); groups];
        for chunk in 0..7_usize {
            // Groups come one after the other.
            let known = (groups * (chunk + 1)).div_ceil(7);
            total.resize(known);
            let rows = 0..CHUNK_ROWS - chunk;
            let ids: Vec<u32> = rows.map(|row| (row * row % known) as u32).collect();
            let value = |row: usize| (row as i64 * 7919 - 3_000_000) * (chunk as i64 - 3);
            let values: Vec<i64> = (0..ids.len()).map(value).collect();
            total.add(Some(&ids), &values);
            for (id, value) in ids.iter().zip(&values) {
                let expected = &mut expected[*id as usize];
                *expected = match fold {
                    Fold::Sum => *expected + i128::from(*value),
                    Fold::Min => (*expected).min((*value).into()),
                    Fold::Max => (*expected).max((*value).into()),
                };
            }
        }
        total.resize(groups);
        (total.take(), expected)
    }

    #[test]
    fn few_and_many_groups_have_their_totals() {
        for fold in [Fold::Sum, Fold::Min, Fold::Max] {
            for groups in [1, 3, FEW_GROUPS, FEW_GROUPS + 1, 500] {
                for rows_max in [3, CHUNK_ROWS, usize::MAX] {
                    let (given, expected) = both(fold, groups, rows_max);
                    assert_eq!(given, expected, "{fold:?} of {groups} groups");
                }
            }
        }
    }

    #[test]
    fn sums_beyond_64_bits_are_whole() {
        let mut total = Total::new(Fold::Sum, CHUNK_ROWS);
        total.resize(1);
        let largest = i64::MAX / CHUNK_ROWS as i64;
        for _ in 0..5 {
            total.add(None, &[largest; CHUNK_ROWS]);
        }
        assert_eq!(total.take(), [i128::from(largest) * 5 * CHUNK_ROWS as i128]);
        total.resize(1);
        assert_eq!(total.take(), [0]);
        let mut total = Total::new(Fold::Sum, 1);
        total.resize(1);
        total.add(None, &[i64::MIN; 3]);
        total.add(Some(&[0]), &[i64::MIN]);
        assert_eq!(total.take(), [i128::from(i64::MIN) * 4]);
    }
}
