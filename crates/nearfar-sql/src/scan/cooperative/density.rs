//! Of which columns a scan reads most.

/// A scan that reads at least this part of a column's rows reads most of them.
const DENSE_PART: f64 = 0.5;

/// How much of each column a scan reads, as far as it is known.
#[derive(Debug)]
pub struct Density {
    /// What was expected, by column.
    expected: Vec<bool>,
    /// Rows that were passed over.
    rows: usize,
    /// Of these, by column, rows that were read.
    read: Vec<usize>,
}

impl Density {
    /// Of a scan that is `expected` to read most of these columns.
    pub fn new(expected: Vec<bool>) -> Self {
        Self {
            rows: 0,
            read: vec![0; expected.len()],
            expected,
        }
    }

    /// Adds `rows` rows, of which so many were `read` of each column. One that was read twice is one.
    pub fn add(&mut self, rows: usize, read: &[usize]) {
        self.rows += rows;
        for (sum, read) in self.read.iter_mut().zip(read) {
            *sum += rows.min(*read);
        }
    }

    /// What was expected, by column.
    pub fn expected(&self) -> &[bool] {
        &self.expected
    }

    /// Whether anything was read, with what [`Self::add`] would add.
    pub fn is_known(&self, read: &[usize]) -> bool {
        self.read.iter().chain(read).any(|read| *read > 0)
    }

    /// By column, whether most of its rows are read.
    pub fn dense(&self) -> Vec<bool> {
        self.with(0, &[])
    }

    /// The same with what [`Self::add`] would add.
    pub fn with(&self, rows: usize, read: &[usize]) -> Vec<bool> {
        if self.rows + rows == 0 {
            return self.expected.clone();
        }
        let least = (self.rows + rows) as f64 * DENSE_PART;
        let more = read.iter().map(|read| rows.min(*read));
        let all = self.read.iter().zip(more.chain(std::iter::repeat(0)));
        all.map(|(read, more)| (read + more) as f64 >= least)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_counts_more_than_what_was_expected() {
        let mut density = Density::new(vec![true, false, false]);
        assert_eq!(density.dense(), [true, false, false]);
        assert!(!density.is_known(&[0, 0, 0]) && density.is_known(&[0, 1, 0]));
        density.add(100, &[10, 100, 40]);
        assert_eq!(density.dense(), [false, true, false]);
        density.add(100, &[100, 100, 70]);
        assert_eq!(density.dense(), [true, true, true]);
    }
}
