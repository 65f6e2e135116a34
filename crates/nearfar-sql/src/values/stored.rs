//! Columns of tables that are made from queries: a decimal that was computed is kept with room for more
//! digits than its first values have.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder};
use std::borrow::Cow;

use super::decimal::FREE_SCALE;

/// The query whose rows a new table is made of, with the types that its columns have.
///
/// # Errors
/// None of its own.
pub fn with_room(input: &LogicalPlan) -> Result<Cow<'_, LogicalPlan>> {
    let wanted: Vec<Option<DataType>> = (0..input.schema().fields().len())
        .map(|column| wider(input, column))
        .collect();
    if wanted.iter().all(Option::is_none) {
        return Ok(Cow::Borrowed(input));
    }
    let columns = input.schema().iter().zip(wanted);
    let columns = columns.map(|((relation, field), wanted)| {
        let column = Expr::Column(Column::from((relation, field)));
        match wanted {
            Some(kind) => Expr::Cast(Cast::new(Box::new(column), kind))
                .alias_qualified(relation.cloned(), field.name()),
            None => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    let plan = LogicalPlanBuilder::from(input.clone()).project(columns)?;
    Ok(Cow::Owned(plan.build()?))
}

/// The type with room for more digits, of a decimal that neither a table nor a cast gave its type.
fn wider(input: &LogicalPlan, column: usize) -> Option<DataType> {
    let DataType::Decimal128(precision, scale) = *input.schema().field(column).data_type() else {
        return None;
    };
    if is_declared(input, column) {
        return None;
    }
    let whole = i16::from(precision) - i16::from(scale);
    let room = i16::from(DECIMAL128_MAX_PRECISION) - whole;
    let scale = i16::from(scale).max(room.min(i16::from(FREE_SCALE)));
    let kind = DataType::Decimal128(DECIMAL128_MAX_PRECISION, i8::try_from(scale).ok()?);
    (kind != *input.schema().field(column).data_type()).then_some(kind)
}

/// Whether a column is one of a table, or cast to its type.
fn is_declared(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        // A table that is declared column by column is made of nothing.
        LogicalPlan::TableScan(_) | LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Projection(projection) => {
            match projection.expr[column].clone().unalias_nested().data {
                Expr::Column(name) => projection
                    .input
                    .schema()
                    .maybe_index_of_column(&name)
                    .is_some_and(|at| is_declared(&projection.input, at)),
                Expr::Cast(_) => true,
                _ => false,
            }
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(_) => match plan.inputs()[..] {
            [input] if input.schema().fields().len() > column => is_declared(input, column),
            _ => false,
        },
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match column < left {
                true => is_declared(&join.left, column),
                false if column - left < join.right.schema().fields().len() => {
                    is_declared(&join.right, column - left)
                }
                false => false,
            }
        }
        _ => false,
    }
}
