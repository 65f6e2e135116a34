//! Planning: the one place where statements become plans.

use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as DfStatement;
use std::sync::Arc;

use super::defaults::LeftOut;
use crate::error::EngineError;
use crate::foreign;
use crate::interrupt;
use crate::scan::{Routing, StatementPin};
use crate::sql::{call_by_own_names, check_plan};
use crate::stack::polled_with_stack;
use crate::values::with_small_integers;

/// The plan of a statement.
///
/// # Errors
/// A statement that is wrong, names what is not there, is too large, or was given up.
pub(super) async fn logical_plan(
    state: &SessionState,
    mut statement: DfStatement,
) -> Result<LogicalPlan, EngineError> {
    let _planning = interrupt::planning();
    interrupt::check()?;
    let left_out = LeftOut::of(state, &mut statement).await?;
    let plan = typed_plan(state, statement).await?;
    match left_out {
        Some(left_out) => left_out.put_into(state, plan).await,
        None => Ok(plan),
    }
}

/// The plan of a statement all of whose values are there.
pub(super) async fn typed_plan(
    state: &SessionState,
    mut statement: DfStatement,
) -> Result<LogicalPlan, EngineError> {
    let functions = state.scalar_functions();
    call_by_own_names(&mut statement, |name| {
        functions.get(name).map(|function| function.name())
    });
    let plan = polled_with_stack(state.statement_to_plan(statement)).await?;
    interrupt::check()?;
    check_plan(&plan)?;
    Ok(with_small_integers(plan)?)
}

/// How a plan is carried out.
///
/// # Errors
/// A plan that can't be carried out, reads files that are damaged, or whose statement was given up.
pub(super) async fn physical_plan(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>, EngineError> {
    let _planning = interrupt::planning();
    interrupt::check()?;
    let pinned = state.config().get_extension::<Routing>().map(|_| {
        let mut pinned = state.clone();
        pinned
            .config_mut()
            .set_extension(Arc::new(StatementPin::default()));
        pinned
    });
    let state = pinned.as_ref().unwrap_or(state);
    let plan = polled_with_stack(foreign::physical_plan(state, plan)).await?;
    interrupt::check()?;
    Ok(plan)
}
