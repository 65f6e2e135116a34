//! Rules that stop once their statement was given up, or has become too complex.
//!
//! DataFusion applies its rules one after the other, each to a whole plan or node by node, and looks at
//! nothing in between. Each of these rules looks first, and at what has come of it then: rules repeat
//! expressions and inputs, and each may repeat what another has repeated before.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

use crate::error::EngineError;
use crate::interrupt;
use crate::sql::{check_expressions, check_grown_plan};

/// A rule that is applied as it would be without this, unless the statement was given up or is too complex.
#[derive(Debug)]
pub struct Bounded<R: ?Sized>(pub Arc<R>);

impl AnalyzerRule for Bounded<dyn AnalyzerRule + Send + Sync> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        interrupt::check()?;
        let plan = self.0.analyze(plan, config)?;
        check_grown_plan(&plan).map_err(EngineError::from)?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

impl OptimizerRule for Bounded<dyn OptimizerRule + Send + Sync> {
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
        interrupt::check()?;
        let done = self.0.rewrite(plan, config)?;
        if done.transformed {
            let checked = match self.0.apply_order() {
                // One node, and what has been put below it.
                Some(_) => {
                    let inputs = done.data.inputs();
                    let mut nodes = inputs.into_iter().chain([&done.data]);
                    nodes.try_for_each(check_expressions)
                }
                None => check_grown_plan(&done.data),
            };
            checked.map_err(EngineError::from)?;
        }
        Ok(done)
    }
}

impl PhysicalOptimizerRule for Bounded<dyn PhysicalOptimizerRule + Send + Sync> {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        interrupt::check()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        interrupt::check()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::{Interrupt, PlanningTurns};
    use crate::optimize::{analyzer_rules, logical_rules, plannable_rules};
    use arrow::datatypes::Schema;
    use datafusion::optimizer::OptimizerContext;
    use datafusion::physical_plan::empty::EmptyExec;

    #[tokio::test]
    async fn no_rule_begins_after_the_statement_was_given_up() {
        let interrupt = Interrupt::new(&PlanningTurns::new(2));
        let own = Arc::clone(&interrupt);
        let work = async move {
            own.give_up();
            let (options, context) = (ConfigOptions::new(), OptimizerContext::new());
            for rule in analyzer_rules() {
                let applied = rule.analyze(LogicalPlan::default(), &options);
                assert!(applied.is_err(), "{}", rule.name());
            }
            for rule in logical_rules() {
                let applied = rule.rewrite(LogicalPlan::default(), &context);
                assert!(applied.is_err(), "{}", rule.name());
            }
            for rule in plannable_rules() {
                let plan = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
                let applied = rule.optimize(plan, &options);
                assert!(applied.is_err(), "{}", rule.name());
            }
            Ok::<_, EngineError>(())
        };
        // The steps above ran, and the statement has failed nevertheless or ended before it noticed.
        let _ = interrupt.run(work).await;
    }
}
