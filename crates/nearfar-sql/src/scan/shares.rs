//! What share of a table's rows passes which filters, as it was found last.
//!
//! Joins are ordered more than once for a statement, and its scans are estimated besides: the filters of a table are tried
//! once for all of them.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr_rewriter::unnormalize_cols;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Lists of filters whose shares are kept of a table.
const KEPT_MAX: usize = 16;

/// Expressions of a list of filters that is kept.
const EXPRESSIONS_MAX: usize = 64;

/// The shares that were found of a table's rows.
#[derive(Debug, Default)]
pub struct Shares(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The changes of the table that they were found after.
    changes: u64,
    /// Filters whose columns have no qualifiers, and the share of rows that pass all of them; the newest last.
    found: VecDeque<(Vec<Expr>, f64)>,
}

impl Shares {
    /// The share of rows that pass `filters`, of a table that was changed so often, as it was found before.
    pub fn get(&self, changes: u64, filters: &[Expr]) -> Option<f64> {
        let kept = self.0.lock();
        let mut found = kept.found.iter().filter(|_| kept.changes == changes);
        found.find_map(|(known, share)| (known == filters).then_some(*share))
    }

    /// The same, or what `find` finds. Columns may have qualifiers.
    pub fn get_or_find(
        &self,
        changes: u64,
        filters: &[Expr],
        find: impl FnOnce() -> Option<f64>,
    ) -> Option<f64> {
        let filters = unnormalize_cols(filters.iter().cloned());
        if let Some(known) = self.get(changes, &filters) {
            return Some(known);
        }
        let share = find()?;
        if are_few(&filters) {
            let mut kept = self.0.lock();
            if kept.changes != changes {
                kept.found.clear();
                kept.changes = changes;
            }
            if kept.found.len() == KEPT_MAX {
                kept.found.pop_front();
            }
            kept.found.push_back((filters, share));
        }
        Some(share)
    }
}

/// Whether the expressions in `filters` are few enough to be kept.
fn are_few(filters: &[Expr]) -> bool {
    let mut left = EXPRESSIONS_MAX;
    let mut count = |filter: &Expr| {
        filter.apply(|_| {
            left = left.saturating_sub(1);
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
    fn what_was_found_is_not_looked_for_again_until_rows_change() {
        let shares = Shares::default();
        let filters = [col("t.a").gt(lit(1)), col("t.b").eq(lit("x"))];
        assert_eq!(shares.get_or_find(1, &filters, || Some(0.25)), Some(0.25));
        assert_eq!(shares.get_or_find(1, &filters, || None), Some(0.25));
        let plain = [col("a").gt(lit(1)), col("b").eq(lit("x"))];
        assert_eq!(shares.get(1, &plain), Some(0.25));
        assert_eq!(shares.get(1, &plain[..1]), None);
        assert_eq!(shares.get(2, &plain), None);
        assert_eq!(shares.get_or_find(2, &filters, || Some(0.5)), Some(0.5));
        assert_eq!(shares.get(1, &plain), None, "of other rows");
        assert_eq!(shares.get_or_find(2, &filters[1..], || None), None);
    }

    #[test]
    fn a_table_keeps_few_and_short_filters() {
        let shares = Shares::default();
        let filters: Vec<[Expr; 1]> = (0..=KEPT_MAX)
            .map(|at| [col("a").gt(lit(at as i64))])
            .collect();
        for filter in &filters {
            shares.get_or_find(1, filter, || Some(0.5));
        }
        assert_eq!(shares.get(1, &filters[0]), None, "the oldest one");
        assert!(
            filters[1..]
                .iter()
                .all(|filter| shares.get(1, filter).is_some())
        );
        let long = [col("a").in_list((0..1000_i64).map(lit).collect(), false)];
        assert_eq!(shares.get_or_find(1, &long, || Some(0.1)), Some(0.1));
        assert_eq!(shares.get(1, &long), None);
    }
}
