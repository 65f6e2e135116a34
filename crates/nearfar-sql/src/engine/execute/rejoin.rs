//! A query again, with joins that can spill.
//!
//! Hash joins have their table in memory or fail; joins of sorted inputs spill. So a query whose hash
//! join is refused memory, before it has given a row, is run once more without hash joins. The same goes
//! for a statement that adds rows, which adds them all at its end.

use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::FutureExt;
use std::sync::Arc;

use super::analyze;
use crate::engine::Engine;
use crate::engine::stream::Retry;
use crate::memory::QueryMemory;
use crate::optimize::forget_runs;
use crate::settings::Settings;

/// What was done to a logical plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing since it was made of a statement.
    Raw,
    /// It is optimized, which is done once.
    Optimized,
}

/// How to run `logical` without hash joins, where `physical`, its plan, has one.
pub(super) fn without_hash_joins(
    engine: &Arc<Engine>,
    state: &SessionState,
    (logical, stage): (&LogicalPlan, Stage),
    physical: &Arc<dyn ExecutionPlan>,
    (context, memory): (&Arc<TaskContext>, &Arc<QueryMemory>),
) -> Option<Retry> {
    if !has_hash_join(physical.as_ref()) {
        return None;
    }
    let (engine, logical, mut state) = (Arc::clone(engine), logical.clone(), state.clone());
    let (context, memory) = (Arc::clone(context), Arc::clone(memory));
    let physical = Arc::clone(physical);
    let again = async move {
        forget_runs(physical.as_ref());
        plan_without(&mut state);
        let planner = state.query_planner();
        let plan = match stage {
            Stage::Raw => state.create_physical_plan(&logical).await?,
            Stage::Optimized => planner.create_physical_plan(&logical, &state).await?,
        };
        memory.wait_for_operators().await;
        let batches = execute_stream(Arc::clone(&plan), context)?;
        Ok(analyze::with_summary(&engine, &plan, &memory, batches))
    };
    Some(again.boxed())
}

/// Has `state` plan no hash join any more.
pub(super) fn plan_without(state: &mut SessionState) {
    tracing::info!("a hash join does not fit in memory: the query runs with joins that spill");
    let optimizer = &mut state.config_mut().options_mut().optimizer;
    optimizer.prefer_hash_join = false;
    // Rows that are kept for several readers take memory, too.
    let extensions = &mut state.config_mut().options_mut().extensions;
    if let Some(settings) = extensions.get_mut::<Settings>() {
        settings.compute_subplans_apart();
    }
}

fn has_hash_join(plan: &dyn ExecutionPlan) -> bool {
    plan.downcast_ref::<HashJoinExec>().is_some()
        || plan
            .children()
            .into_iter()
            .any(|child| has_hash_join(child.as_ref()))
}
