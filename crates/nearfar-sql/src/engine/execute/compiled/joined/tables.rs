//! The tables that a plan joins, and the conditions that it joins them by.

use datafusion::common::{NullEquality, TableReference};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan};
use nearfar_table::table::Table;
use std::ops::Range;
use std::sync::Arc;

use crate::engine::execute::compiled::key::scanned;

/// Tables at most that are joined without a plan: statements keep the thread that has read them.
const TABLES_MAX: usize = 8;

/// Tables that a plan joins, in the order of their columns.
#[derive(Default)]
pub struct JoinedTables<'a> {
    pub tables: Vec<JoinedTable<'a>>,
    pub conditions: Vec<JoinCondition>,
}

/// One of the tables that a plan joins.
pub struct JoinedTable<'a> {
    pub name: &'a TableReference,
    pub table: Arc<Table>,
    /// The places of its columns among those of all.
    pub columns: Range<usize>,
    /// Whether its columns are null where it has no row for one of the tables before it.
    pub is_optional: bool,
}

/// What rows have to pass.
pub struct JoinCondition {
    pub expr: Expr,
    /// The optional table, by its place, for whose rows the condition is: it leaves no row of others out.
    pub of: Option<usize>,
}

impl<'a> JoinedTables<'a> {
    /// What a plan joins whose rows have to pass `predicate`. None where it has more than inner joins of tables, and
    /// left joins with one table each.
    pub fn of(input: &'a LogicalPlan, predicate: &Expr) -> Option<Self> {
        let LogicalPlan::Join(join) = input else {
            return None;
        };
        let mut joined = Self::default();
        joined.add_join(join)?;
        joined.add_conditions(predicate, None);
        Some(joined)
    }

    fn add(&mut self, plan: &'a LogicalPlan) -> Option<()> {
        match plan {
            LogicalPlan::Join(join) => self.add_join(join),
            scan => self.add_table(scan, false),
        }
    }

    fn add_table(&mut self, scan: &'a LogicalPlan, is_optional: bool) -> Option<()> {
        if self.tables.len() == TABLES_MAX {
            return None;
        }
        let (name, table) = scanned(scan)?;
        let first = self.tables.last().map_or(0, |last| last.columns.end);
        self.tables.push(JoinedTable {
            name,
            columns: first..first + table.schema().fields().len(),
            table,
            is_optional,
        });
        Some(())
    }

    fn add_join(&mut self, join: &'a Join) -> Option<()> {
        if join.null_equality != NullEquality::NullEqualsNothing {
            return None;
        }
        self.add(&join.left)?;
        let of = match join.join_type {
            JoinType::Inner => {
                self.add(&join.right)?;
                None
            }
            JoinType::Left => {
                self.add_table(&join.right, true)?;
                Some(self.tables.len() - 1)
            }
            _ => return None,
        };
        for (left, right) in &join.on {
            self.add_conditions(&left.clone().eq(right.clone()), of);
        }
        if let Some(filter) = &join.filter {
            self.add_conditions(filter, of);
        }
        Some(())
    }

    fn add_conditions(&mut self, predicate: &Expr, of: Option<usize>) {
        let conditions = split_conjunction(predicate).into_iter();
        self.conditions.extend(conditions.map(|expr| JoinCondition {
            expr: expr.clone(),
            of,
        }));
    }
}
