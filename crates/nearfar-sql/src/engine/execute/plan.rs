//! Plans of statements whose columns may share names.

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use std::sync::Arc;

use super::change::change_plan;
use crate::datafusion_names::UNIQUE_NAMES;
use crate::engine::planning::logical_plan;
use crate::error::EngineError;
use crate::sql::{SqlError, shown, with_unique_names};

/// The plan of a statement.
///
/// # Errors
/// A statement that is wrong, or names what is not there or is ambiguous.
pub(in crate::engine) async fn plan(
    state: &SessionState,
    statement: &DfStatement,
) -> Result<LogicalPlan, EngineError> {
    match change_plan(state, statement).await? {
        Some(plan) => Ok(plan),
        None => whole_plan(state, statement).await,
    }
}

/// The plan of a statement that the planner takes as it is. Where it finds names that are the same although
/// they do not look so, such as one behind a `*`, all that could be are numbered.
///
/// # Errors
/// As [`plan`].
pub(super) async fn whole_plan(
    state: &SessionState,
    statement: &DfStatement,
) -> Result<LogicalPlan, EngineError> {
    let failed = match logical_plan(state, statement.clone()).await {
        Err(EngineError::DataFusion(error)) => error,
        planned => return planned,
    };
    if has_equal_names(&failed)
        && let Some(unique) = with_unique_names(statement)
        && let Ok(plan) = logical_plan(state, unique).await
    {
        return Ok(plan);
    }
    Err(ambiguous(&failed).map_or_else(|| failed.into(), EngineError::from))
}

/// Whether a statement was refused since two of its columns have one name.
fn has_equal_names(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => {
            !matches!(error.as_ref(), SchemaError::FieldNotFound { .. })
        }
        // The planner tells this by nothing but its words.
        DataFusionError::Plan(message) => message.contains(UNIQUE_NAMES),
        _ => false,
    }
}

/// The error of a name that is not found since several columns have it.
fn ambiguous(error: &DataFusionError) -> Option<SqlError> {
    let DataFusionError::SchemaError(error, _) = error.find_root() else {
        return None;
    };
    let SchemaError::FieldNotFound {
        field,
        valid_fields,
    } = error.as_ref()
    else {
        return None;
    };
    let is_meant = |known: &&datafusion::common::Column| {
        shown(&known.name) != known.name && shown(&known.name) == field.name
    };
    valid_fields.iter().find(is_meant)?;
    Some(SqlError::AmbiguousColumn {
        column: field.name.clone(),
    })
}

/// The columns as whoever reads the rows is told of them.
pub(in crate::engine) fn shown_schema(schema: &SchemaRef) -> SchemaRef {
    let is_shown = |field: &Arc<Field>| shown(field.name()).len() == field.name().len();
    if schema.fields().iter().all(is_shown) {
        return Arc::clone(schema);
    }
    let fields = schema.fields().iter().map(|field| {
        let name = shown(field.name()).to_owned();
        Arc::new(field.as_ref().clone().with_name(name))
    });
    let fields: Vec<Arc<Field>> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
