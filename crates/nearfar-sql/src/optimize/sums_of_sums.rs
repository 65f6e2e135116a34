//! Sums of an aggregate in two steps keep their type.
//!
//! `single_distinct_aggregation_to_group_by` computes `sum(a), count(DISTINCT b)` from the sums of groups. As
//! in PostgreSQL, a sum of `integer` is `bigint` and one of `bigint` is `numeric`, so that the sum of
//! sums would have another type.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, AggregateUDF, Expr, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

use crate::values;

/// That rule, whose second step adds sums.
#[derive(Debug)]
pub struct SumsOfSums {
    rule: Arc<dyn OptimizerRule + Send + Sync>,
    sum_of_sums: Arc<AggregateUDF>,
}

impl SumsOfSums {
    pub fn new(rule: Arc<dyn OptimizerRule + Send + Sync>) -> Self {
        Self {
            rule,
            sum_of_sums: Arc::new(values::sum_of_sums()),
        }
    }

    fn second_step(&self, outer: &Aggregate) -> Result<Aggregate> {
        let LogicalPlan::Aggregate(inner) = outer.input.as_ref() else {
            return Ok(outer.clone());
        };
        let sums = &inner.schema.fields()[inner.group_expr.len()..];
        let is_sum = |argument: &Expr| {
            matches!(argument, Expr::Column(column)
                if sums.iter().any(|sum| *sum.name() == column.name))
        };
        let aggregates = outer.aggr_expr.iter().cloned().map(|expr| match expr {
            Expr::AggregateFunction(mut call)
                if call.func.name() == self.sum_of_sums.name()
                    && call.params.args.iter().all(is_sum) =>
            {
                call.func = Arc::clone(&self.sum_of_sums);
                Expr::AggregateFunction(call)
            }
            other => other,
        });
        let aggregates = aggregates.collect();
        Aggregate::try_new(
            Arc::clone(&outer.input),
            outer.group_expr.clone(),
            aggregates,
        )
    }
}

impl OptimizerRule for SumsOfSums {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let plan = self.rule.rewrite(plan, config)?;
        if !plan.transformed {
            return Ok(plan);
        }
        plan.map_data(|plan| {
            let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else {
                return Ok(plan);
            };
            let input = match input.as_ref() {
                LogicalPlan::Aggregate(outer) => {
                    Arc::new(LogicalPlan::Aggregate(self.second_step(outer)?))
                }
                _ => input,
            };
            Ok(LogicalPlan::Projection(Projection::try_new(expr, input)?))
        })
    }
}
