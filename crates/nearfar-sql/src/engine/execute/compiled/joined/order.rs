//! The order in which tables are joined by their indexes.

use datafusion::common::DFSchema;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::StepValue;
use super::tables::{JoinedTable, JoinedTables};
use crate::engine::execute::compiled::expressions::is_plain;
use crate::engine::execute::compiled::key::{
    KeyValue, KeyedRows, are_alike, is_compared_as_stored,
};
use crate::engine::execute::compiled::shape::{RowPlan, Verb};
use crate::scan::{IndexRank, best_index};
use nearfar_table::table::IndexDefinition;

/// An order in which tables are joined by their indexes.
pub struct TableOrder<'a> {
    pub joined: JoinedTables<'a>,
    schema: &'a DFSchema,
    /// The tables, by their places in the plan.
    pub tables: Vec<usize>,
    /// How the rows of each table but the first are found.
    pub steps: Vec<Found>,
    /// Conditions that hold for all rows that are looked up.
    used: BTreeSet<usize>,
}

/// The index of a step, and the values of its first columns.
pub type Found = (Arc<IndexDefinition>, Vec<StepValue>);

/// The same, with the conditions that say so, and how well they lead to rows.
type FoundBy = (Arc<IndexDefinition>, Vec<(StepValue, usize)>, IndexRank);

impl<'a> TableOrder<'a> {
    /// The rows to begin with, and the order in which others are put to them. `plan` is as it was before types were
    /// decided. None for what is not nothing but a join of tables to whose rows indexes lead.
    pub fn of(plan: &RowPlan<'a>) -> Option<(KeyedRows, Self)> {
        if plan.verb != Verb::Read {
            return None;
        }
        let mut order = Self {
            joined: JoinedTables::of(plan.input, plan.predicate)?,
            schema: plan.input.schema(),
            tables: Vec::new(),
            steps: Vec::new(),
            used: BTreeSet::new(),
        };
        let mut conditions = order.joined.conditions.iter();
        if !conditions.all(|condition| is_plain(&condition.expr)) {
            return None;
        }
        let rows = order.begin()?;
        while order.tables.len() < order.joined.tables.len() {
            let next = order.follow()?;
            order.steps.push(next);
        }
        Some((rows, order))
    }

    fn place(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Column(column) => self.schema.index_of_column(column).ok(),
            _ => None,
        }
    }

    /// The rows to begin with: those of the table whose index most conditions lead to.
    fn begin(&mut self) -> Option<KeyedRows> {
        let tables = self.joined.tables.iter().enumerate();
        let found = tables.filter(|(_, joined)| !joined.is_optional);
        let found = found.filter_map(|(at, joined)| {
            let conditions = self.joined.conditions.iter().enumerate();
            let conditions = conditions.filter(|(_, condition)| condition.of.is_none());
            let conditions = conditions.map(|(at, condition)| (at, &condition.expr));
            let place = |column: &_| {
                let place = self.schema.index_of_column(column).ok()?;
                let is_own = joined.columns.contains(&place);
                is_own.then(|| place - joined.columns.start)
            };
            let found = KeyedRows::best((joined.name, &joined.table), conditions, place)?;
            Some((at, found))
        });
        let (at, (rows, used, _)) = found.max_by_key(|(_, (_, _, rank))| *rank)?;
        self.tables.push(at);
        self.used.extend(used);
        Some(rows)
    }

    /// How the rows of the next table are found. None where no index leads to rows of those that are left.
    fn follow(&mut self) -> Option<Found> {
        let tables = self.joined.tables.iter().enumerate();
        let found = tables.filter_map(|(at, joined)| {
            let is_first = || (0..at).all(|before| self.tables.contains(&before));
            let is_next = !self.tables.contains(&at) && (!joined.is_optional || is_first());
            if !is_next {
                return None;
            }
            let of = joined.is_optional.then_some(at);
            Some((at, self.step(joined, of)?))
        });
        let (at, (index, key, _)) = found.max_by_key(|(_, (_, _, rank))| *rank)?;
        self.tables.push(at);
        self.used
            .extend(key.iter().map(|(_, condition)| *condition));
        let key = key.into_iter().map(|(value, _)| value);
        Some((index, key.collect()))
    }

    /// The index that leads to rows of a table by values that are given and those of tables before.
    fn step(&self, joined: &JoinedTable<'_>, of: Option<usize>) -> Option<FoundBy> {
        let fields = joined.table.schema().fields();
        let value = |column: usize| {
            if !is_compared_as_stored(&fields[column]) {
                return None;
            }
            let place = joined.columns.start + column;
            let mut conditions = self.joined.conditions.iter().enumerate();
            conditions.find_map(|(at, condition)| {
                let value = self.value_of(place, &condition.expr)?;
                (condition.of == of).then_some((value, at))
            })
        };
        let snapshot = joined.table.snapshot();
        let found = best_index(&snapshot, value, |_| (None, None))?;
        let definition = Arc::clone(found.index.definition());
        Some((definition, found.key, found.rank))
    }

    /// The value that a condition says the column at `place` has.
    fn value_of(&self, place: usize, condition: &Expr) -> Option<StepValue> {
        let Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) = condition
        else {
            return None;
        };
        let other = match (self.place(left), self.place(right)) {
            (Some(own), _) if own == place => right,
            (_, Some(own)) if own == place => left,
            _ => return None,
        };
        if let Some(value) = KeyValue::of(other) {
            return Some(StepValue::Given(value));
        }
        let other = self.place(other)?;
        let mut before = self.tables.iter();
        let is_before = before.any(|at| self.joined.tables[*at].columns.contains(&other));
        let (own, field) = (self.schema.field(place), self.schema.field(other));
        let is_comparable =
            are_alike(field.data_type(), own.data_type()) && is_compared_as_stored(field);
        (is_before && is_comparable).then_some(StepValue::Column(other))
    }

    /// The conditions that are looked at when the table that is joined at `at` has its rows: those for rows of the
    /// optional table `of`, or those for all.
    pub fn left_at(&self, at: usize, of: Option<usize>) -> impl Iterator<Item = usize> {
        let conditions = self.joined.conditions.iter().enumerate();
        conditions.filter_map(move |(number, condition)| {
            let is_here = match of {
                Some(_) => true,
                None => self.joined_at(&condition.expr) == at,
            };
            (condition.of == of && is_here && !self.used.contains(&number)).then_some(number)
        })
    }

    /// When the last of the tables of a condition's columns is joined.
    fn joined_at(&self, condition: &Expr) -> usize {
        let columns = condition.column_refs();
        let places = columns.iter().filter_map(|column| {
            let place = self.schema.index_of_column(column).ok()?;
            let is_of = |table: &usize| self.joined.tables[*table].columns.contains(&place);
            self.tables.iter().position(is_of)
        });
        places.max().unwrap_or(0)
    }
}
