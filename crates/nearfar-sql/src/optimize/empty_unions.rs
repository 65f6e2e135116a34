//! What is left of a union whose other inputs have no rows keeps the union's names.
//!
//! `propagate_empty_relation` looks for the columns of the union, which have the names of its first input, in
//! the one that is left.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// That rule, but for such unions.
#[derive(Debug)]
pub struct EmptyUnions(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for EmptyUnions {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Union(union) = &plan
            && let Some(left) = only_input(union)
        {
            return under_names(left, union).map(Transformed::yes);
        }
        self.0.rewrite(plan, config)
    }
}

/// The only input that may have rows.
fn only_input(union: &Union) -> Option<&Arc<LogicalPlan>> {
    let may_have_rows = |input: &&Arc<LogicalPlan>| match input.as_ref() {
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => true,
    };
    let mut inputs = union.inputs.iter().filter(may_have_rows);
    match (inputs.next(), inputs.next()) {
        (only, None) => only,
        _ => None,
    }
}

fn under_names(input: &Arc<LogicalPlan>, union: &Union) -> Result<LogicalPlan> {
    let columns = input.schema().columns().into_iter();
    let named = columns
        .zip(union.schema.iter())
        .map(|(column, (relation, field))| {
            Expr::Column(column).alias_qualified(relation.cloned(), field.name())
        });
    let projection = Projection::try_new(named.collect(), Arc::clone(input))?;
    Ok(LogicalPlan::Projection(projection))
}
