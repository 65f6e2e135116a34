//! Planning: the one place where statements become plans.

use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{LogicalPlan, Projection, Values};
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
use crate::values::{with_declared_cases, with_small_integers};

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
    let plan = with_declared_cases(with_small_integers(plan)?)?;
    Ok(with_nullable_values(plan)?)
}

/// An `INSERT` of given values whose nulls are told by who writes them, with table and column, and not by who puts the
/// values together.
fn with_nullable_values(plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    let LogicalPlan::Dml(mut dml) = plan else {
        return Ok(plan);
    };
    if let LogicalPlan::Projection(rows) = dml.input.as_ref()
        && let LogicalPlan::Values(values) = rows.input.as_ref()
    {
        let fields = values.schema.iter().map(|(qualifier, field)| {
            let nullable = field.as_ref().clone().with_nullable(true);
            (qualifier.cloned(), Arc::new(nullable))
        });
        let metadata = values.schema.metadata().clone();
        let schema = DFSchema::new_with_metadata(fields.collect(), metadata)?;
        let values = LogicalPlan::Values(Values {
            schema: Arc::new(schema),
            values: values.values.clone(),
        });
        let rows = Projection::try_new(rows.expr.clone(), Arc::new(values))?;
        dml.input = Arc::new(LogicalPlan::Projection(rows));
    }
    Ok(LogicalPlan::Dml(dml))
}

/// What planning makes of a plan, unless its statement was given up.
///
/// # Errors
/// That of `work`, and of a statement that was given up.
pub(super) fn planned<T>(work: impl FnOnce() -> Result<T>) -> Result<T, EngineError> {
    let _planning = interrupt::planning();
    interrupt::check()?;
    Ok(work()?)
}

/// How a plan is carried out.
///
/// # Errors
/// A plan that can't be carried out, reads files that are damaged, or whose statement was given up.
pub(super) async fn physical_plan(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>, EngineError> {
    let pinned = state.config().get_extension::<Routing>().map(|_| {
        let mut pinned = state.clone();
        pinned
            .config_mut()
            .set_extension(Arc::new(StatementPin::default()));
        pinned
    });
    let state = pinned.as_ref().unwrap_or(state);
    interruptible(foreign::physical_plan(state, plan)).await
}

/// The same for a plan that is optimized, and reads neither files nor other machines.
///
/// # Errors
/// As [`physical_plan`].
pub(super) async fn physical_plan_of_optimized(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>, EngineError> {
    let planner = state.query_planner();
    interruptible(async { Ok(planner.create_physical_plan(plan, state).await?) }).await
}

async fn interruptible<T>(
    planning: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let _planning = interrupt::planning();
    interrupt::check()?;
    let plan = polled_with_stack(planning).await?;
    interrupt::check()?;
    Ok(plan)
}
