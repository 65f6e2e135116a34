//! What share of a table's rows passes which filters, as it was found last.
//!
//! Joins are ordered more than once for a statement, and its scans are estimated besides: the filters of a table are tried
//! once for all of them.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Lists of filters whose shares are kept of a table.
const KEPT_MAX: usize = 16;

/// Bytes of a list of filters that is kept.
const BYTES_MAX: usize = 16 << 10;

/// The shares that were found of a table's rows.
#[derive(Debug, Default)]
pub struct Shares(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The changes of the table that they were found after.
    changes: u64,
    /// Filters, and the share of rows that pass all of them; the newest last.
    found: VecDeque<(Vec<Expr>, f64)>,
}

impl Shares {
    /// The share of rows that pass `filters`, of a table that was changed so often, as it was found before.
    pub fn get(&self, changes: u64, filters: &[Expr]) -> Option<f64> {
        let kept = self.0.lock();
        if kept.changes != changes {
            return None;
        }
        let mut found = kept.found.iter();
        found.find_map(|(known, share)| (known == filters).then_some(*share))
    }

    /// Keeps what was found, and nothing of the table as it was before.
    pub fn keep(&self, changes: u64, filters: Vec<Expr>, share: f64) {
        let mut kept = self.0.lock();
        if kept.changes != changes {
            kept.found.clear();
            kept.changes = changes;
        }
        if !are_small(&filters) {
            return;
        }
        if kept.found.len() == KEPT_MAX {
            kept.found.pop_front();
        }
        kept.found.push_back((filters, share));
    }
}

/// Whether filters are small enough to be kept.
fn are_small(filters: &[Expr]) -> bool {
    let mut left = BYTES_MAX;
    let mut count = |filter: &Expr| {
        filter.apply(|expr| {
            let value = match expr {
                Expr::Literal(value, _) => value.size(),
                _ => 0,
            };
            left = left.saturating_sub(size_of::<Expr>() + value);
            Ok(match left {
                0 => TreeNodeRecursion::Stop,
                _ => TreeNodeRecursion::Continue,
            })
        })
    };
    filters
        .iter()
        .all(|filter| matches!(count(filter), Ok(TreeNodeRecursion::Continue)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{col, lit};

    #[test]
    fn what_was_found_is_kept_until_rows_change() {
        let shares = Shares::default();
        let filters = [col("a").gt(lit(1)), col("b").eq(lit("x"))];
        assert_eq!(shares.get(1, &filters), None);
        shares.keep(1, filters.to_vec(), 0.25);
        assert_eq!(shares.get(1, &filters), Some(0.25));
        assert_eq!(shares.get(1, &filters[..1]), None);
        assert_eq!(shares.get(2, &filters), None);
        shares.keep(2, filters.to_vec(), 0.5);
        assert_eq!(shares.get(2, &filters), Some(0.5));
        assert_eq!(shares.get(1, &filters), None, "of other rows");
    }

    #[test]
    fn a_table_keeps_few_and_small_filters() {
        let shares = Shares::default();
        let filters: Vec<[Expr; 1]> = (0..=KEPT_MAX)
            .map(|at| [col("a").gt(lit(at as i64))])
            .collect();
        for filter in &filters {
            shares.keep(1, filter.to_vec(), 0.5);
        }
        assert_eq!(shares.get(1, &filters[0]), None, "the oldest one");
        assert!(
            filters[1..]
                .iter()
                .all(|filter| shares.get(1, filter).is_some())
        );
        let many = [col("a").in_list((0..1000_i64).map(lit).collect(), false)];
        let long = [col("b").eq(lit("x".repeat(BYTES_MAX)))];
        for filters in [many, long] {
            shares.keep(1, filters.to_vec(), 0.1);
            assert_eq!(shares.get(1, &filters), None);
        }
    }
}
