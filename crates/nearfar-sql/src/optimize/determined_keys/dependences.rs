//! Which columns determine others.

use datafusion::common::JoinType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use nearfar_table::table::Order;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::places::columns_of;
use crate::datafusion_names::PASSING_OPERATORS;
use crate::scan::TableScan;

type Plan = Arc<dyn ExecutionPlan>;
type Value = Arc<dyn PhysicalExpr>;

/// Columns that have the same values in all rows with the same value of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependence {
    by: usize,
    determined: BTreeSet<usize>,
}

impl Dependence {
    /// The same where this side's columns begin at `first`.
    fn behind(self, first: usize) -> Self {
        Self {
            by: self.by + first,
            determined: self.determined.iter().map(|c| c + first).collect(),
        }
    }
}

/// All of so many `columns` that those `from` determine, with these.
pub fn closure(
    known: &[Dependence],
    from: impl IntoIterator<Item = usize>,
    columns: usize,
) -> BTreeSet<usize> {
    let mut all: BTreeSet<usize> = from.into_iter().collect();
    let mut next: Vec<usize> = all.iter().copied().collect();
    while let Some(column) = next.pop().filter(|_| all.len() < columns) {
        for dependence in known.iter().filter(|dependence| dependence.by == column) {
            let determined = dependence.determined.iter();
            next.extend(determined.filter(|column| all.insert(**column)));
        }
    }
    all
}

/// What is known of the columns of `plan`, whose rows are those of the snapshots that its scans read.
pub fn dependences(plan: &Plan) -> Vec<Dependence> {
    if let Some(scan) = TableScan::of(plan.as_ref()) {
        let columns = 0..plan.schema().fields().len();
        let is_key = |column: &usize| {
            let known = scan.column(*column);
            known.is_some_and(|(_, _, known)| known.order == Order::Rising)
        };
        let of_key = |by| Dependence {
            by,
            determined: columns.clone().collect(),
        };
        return columns.clone().filter(is_key).map(of_key).collect();
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let values = projection.expr().iter();
        let values: Vec<_> = values.map(|given| Arc::clone(&given.expr)).collect();
        let below = projection.input().schema().fields().len();
        return over(&dependences(projection.input()), below, &values);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let known = dependences(filter.input());
        let below = filter.input().schema().fields().len();
        return kept(
            known,
            below,
            filter.projection().as_ref().map(AsRef::as_ref),
        );
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let sides = [join.left(), join.right()];
        let below = sides.map(|side| side.schema().fields().len()).iter().sum();
        return kept(
            of_join(join),
            below,
            join.projection.as_ref().map(AsRef::as_ref),
        );
    }
    let inputs = plan.children();
    match inputs.as_slice() {
        [input] if PASSING_OPERATORS.contains(&plan.name()) => dependences(input),
        _ => Vec::new(),
    }
}

/// What is known of `values` of rows of whose columns, so many `below`, this is `known`.
fn over(known: &[Dependence], below: usize, values: &[Value]) -> Vec<Dependence> {
    let columns: Vec<_> = values.iter().map(|value| columns_of([value])).collect();
    let of_column = values.iter().enumerate().filter_map(|(by, value)| {
        let column = value.downcast_ref::<Column>()?.index();
        let all = closure(known, [column], below);
        let is_determined = |value: &usize| {
            let mut columns = columns[*value].iter();
            columns.all(|column| all.contains(column)) && !is_volatile(&values[*value])
        };
        let determined: BTreeSet<_> = (0..values.len()).filter(is_determined).collect();
        (all.len() > 1).then_some(Dependence { by, determined })
    });
    of_column.collect()
}

/// The same where a `projection` leaves only some columns, if there is one.
fn kept(known: Vec<Dependence>, below: usize, projection: Option<&[usize]>) -> Vec<Dependence> {
    let Some(projection) = projection else {
        return known;
    };
    let columns = projection.iter().map(|column| {
        let column: Value = Arc::new(Column::new("", *column));
        column
    });
    over(&known, below, &columns.collect::<Vec<_>>())
}

/// What is known of both sides of a join, before its projection. A side whose columns are null in rows without a partner
/// tells nothing: an expression may have had a value for the nulls that there were before.
fn of_join(join: &HashJoinExec) -> Vec<Dependence> {
    let left = join.left().schema().fields().len();
    let of_left = || dependences(join.left());
    let of_right = |first| {
        let known = dependences(join.right()).into_iter();
        known.map(move |dependence| dependence.behind(first))
    };
    match join.join_type() {
        JoinType::Inner => {
            let mut known = of_left();
            known.extend(of_right(left));
            known.extend(equal_keys(join, left));
            known
        }
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => of_left(),
        JoinType::Right => of_right(left).collect(),
        JoinType::RightSemi | JoinType::RightAnti => of_right(0).collect(),
        JoinType::Full | JoinType::LeftMark | JoinType::RightMark => Vec::new(),
    }
}

/// Columns of both sides that are equal in all rows of an inner join.
fn equal_keys(join: &HashJoinExec, left: usize) -> Vec<Dependence> {
    let (left_schema, right_schema) = (join.left().schema(), join.right().schema());
    let keys = join.on().iter().filter_map(|(of_left, of_right)| {
        let of_left = of_left.downcast_ref::<Column>()?.index();
        let of_right = of_right.downcast_ref::<Column>()?.index();
        let data_type = left_schema.field(of_left).data_type();
        // Numbers with a point can be equal and not the same, as 0 and -0.
        let is_same = data_type == right_schema.field(of_right).data_type()
            && !data_type.is_floating()
            && !data_type.is_nested();
        is_same.then_some([of_left, left + of_right])
    });
    let pairs = keys.flat_map(|[one, other]| [(one, other), (other, one)]);
    let dependences = pairs.map(|(by, other)| Dependence {
        by,
        determined: BTreeSet::from([other]),
    });
    dependences.collect()
}
