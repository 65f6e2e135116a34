//! Plans of which not all columns are needed.

use datafusion::common::JoinType;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

use super::super::fails::never_fails;
use super::super::places::{columns_of, moved, place};

type Plan = Arc<dyn ExecutionPlan>;
type Value = Arc<dyn PhysicalExpr>;

/// The rows of `plan` with these of its columns, rising; inputs of its projections and joins have those only that they need.
pub fn with_columns_only(plan: &Plan, columns: &[usize]) -> Result<Plan> {
    if columns.len() == plan.schema().fields().len() {
        return Ok(Arc::clone(plan));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return of_projection(projection, columns);
    }
    if let Some(join) = narrowed_join(plan) {
        return of_join(join, columns);
    }
    let schema = plan.schema();
    let columns = columns.iter().map(|column| {
        let name = schema.field(*column).name();
        ProjectionExpr {
            expr: Arc::new(Column::new(name, *column)),
            alias: name.clone(),
        }
    });
    let columns: Vec<_> = columns.collect();
    let projection = ProjectionExec::try_new(columns, Arc::clone(plan))?;
    Ok(Arc::new(projection))
}

/// Whether computing `value` of rows of `plan` fails for none, and neither does what it is computed of and would be left out
/// with it.
pub fn can_be_left_out(value: &Value, plan: &Plan) -> bool {
    never_fails(value, plan)
        && columns_of([value])
            .into_iter()
            .all(|column| is_column_left_out(plan, column))
}

fn is_column_left_out(plan: &Plan, column: usize) -> bool {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return can_be_left_out(&projection.expr()[column].expr, projection.input());
    }
    let Some(join) = narrowed_join(plan) else {
        return true;
    };
    let left = join.left().schema().fields().len();
    match column.checked_sub(left) {
        Some(column) => is_column_left_out(join.right(), column),
        None => is_column_left_out(join.left(), column),
    }
}

/// The join that a plan is, if it can have fewer columns.
fn narrowed_join(plan: &Plan) -> Option<&HashJoinExec> {
    let join = plan.downcast_ref::<HashJoinExec>()?;
    let is_plain = *join.join_type() == JoinType::Inner
        && join.projection.is_none()
        && join.filter().is_none();
    is_plain.then_some(join)
}

fn of_projection(projection: &ProjectionExec, columns: &[usize]) -> Result<Plan> {
    let given = columns.iter().map(|column| &projection.expr()[*column]);
    let needed = columns_of(given.clone().map(|given| &given.expr));
    let input = with_columns_only(projection.input(), &needed)?;
    let given = given.map(|given| {
        Ok(ProjectionExpr {
            expr: moved(&given.expr, &needed)?,
            alias: given.alias.clone(),
        })
    });
    let given = given.collect::<Result<Vec<_>>>()?;
    let schema = projection.schema().project(columns)?;
    let projection = ProjectionExec::try_new_with_schema_metadata(given, input, &schema)?;
    Ok(Arc::new(projection))
}

fn of_join(join: &HashJoinExec, columns: &[usize]) -> Result<Plan> {
    let left = join.left().schema().fields().len();
    let (keys_left, keys_right): (Vec<_>, Vec<_>) = join.on().iter().cloned().unzip();
    let with_keys = |columns: Vec<usize>, keys| {
        let mut needed = columns_of(keys);
        needed.extend(columns);
        needed.sort_unstable();
        needed.dedup();
        needed
    };
    let (of_left, of_right) = columns.iter().partition(|column| **column < left);
    let (of_left, of_right): (Vec<usize>, Vec<usize>) = (of_left, of_right);
    let needed_left = with_keys(of_left.clone(), &keys_left);
    let of_right: Vec<usize> = of_right.iter().map(|column| column - left).collect();
    let needed_right = with_keys(of_right.clone(), &keys_right);
    let projection = of_left.iter().map(|column| place(*column, &needed_left));
    let behind = of_right.iter().map(|column| {
        let place = place(*column, &needed_right)?;
        Ok(needed_left.len() + place)
    });
    let projection = projection.chain(behind).collect::<Result<Vec<_>>>()?;
    let on = keys_left
        .iter()
        .zip(&keys_right)
        .map(|(of_left, of_right)| {
            let of_left = moved(of_left, &needed_left)?;
            Ok((of_left, moved(of_right, &needed_right)?))
        });
    let on = on.collect::<Result<Vec<_>>>()?;
    let inputs = vec![
        with_columns_only(join.left(), &needed_left)?,
        with_columns_only(join.right(), &needed_right)?,
    ];
    let builder = join.builder().reset_state().with_new_children(inputs)?;
    builder
        .with_on(on)
        .with_projection(Some(projection))
        .build_exec()
}
