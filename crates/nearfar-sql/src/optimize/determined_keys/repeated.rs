//! What a plan has more than once, and computes once if it stays the same.

use datafusion::physical_plan::displayable;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use std::collections::HashMap;

use super::super::places::columns_of;
use super::{Groups, Plan};

/// Parts of a plan, by their text.
#[derive(Default)]
pub struct Repeated {
    /// Of groups, each time that they are there, their columns that are read.
    groups: HashMap<String, Vec<Vec<usize>>>,
    /// How often joins are there.
    joins: HashMap<String, usize>,
}

impl Repeated {
    /// The parts of `plan`.
    pub fn of(plan: &Plan) -> Self {
        let mut parts = Self::default();
        parts.add(plan, None);
        parts
    }

    fn add(&mut self, plan: &Plan, read: Option<Vec<usize>>) {
        if Groups::of(plan).is_some() {
            let all = 0..plan.schema().fields().len();
            let read = read.unwrap_or_else(|| all.collect());
            self.groups.entry(text(plan)).or_default().push(read);
        } else if plan.is::<HashJoinExec>() {
            *self.joins.entry(text(plan)).or_default() += 1;
        }
        let read = plan.downcast_ref::<ProjectionExec>().map(read_by);
        for input in plan.children() {
            self.add(input, read.clone());
        }
    }

    /// Whether somebody else reads other columns of the same `groups` than those that are `read`.
    pub fn reads_others(&self, groups: &Plan, read: &[usize]) -> bool {
        let same = self.groups.get(&text(groups));
        same.is_some_and(|same| same.len() > 1 && same.iter().any(|other| other != read))
    }

    /// Whether the join that `groups` are made of, if they are of `rows` of one, is there without them.
    pub fn has_join_alone(&self, groups: &Plan, rows: &Plan) -> bool {
        let mut rows = rows;
        while let Some(projection) = rows.downcast_ref::<ProjectionExec>() {
            rows = projection.input();
        }
        let joins = self.joins.get(&text(rows)).copied().unwrap_or_default();
        let of_groups = self.groups.get(&text(groups)).map_or(0, Vec::len);
        joins > of_groups
    }
}

fn text(plan: &Plan) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

/// The columns that a projection reads.
pub fn read_by(projection: &ProjectionExec) -> Vec<usize> {
    columns_of(projection.expr().iter().map(|given| &given.expr))
}
