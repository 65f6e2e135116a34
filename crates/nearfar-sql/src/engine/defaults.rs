//! Values of columns that statements leave to the table, put into their plans.

use arrow::datatypes::Field;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable, LogicalPlan, Projection, WriteOp, lit,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use std::sync::Arc;

use super::execute::table_reference;
use super::planning::typed_plan;
use crate::error::EngineError;
use crate::scan::table_of;
use crate::sql::{DefaultValues, SqlError, expression_query};
use nearfar_table::table::{Table, TableRules};

/// Of what an expression is.
const CLAUSE: &str = "DEFAULT expression";

/// The columns that an `INSERT` has no values for.
#[derive(Debug)]
pub(super) struct LeftOut {
    table: Arc<Table>,
    rules: Arc<TableRules>,
    columns: Vec<String>,
}

impl LeftOut {
    /// Those of `statement`, if it is one, in which values are put where it has the keyword `DEFAULT`.
    ///
    /// # Errors
    /// An expression that can't be read.
    pub async fn of(
        state: &SessionState,
        statement: &mut DfStatement,
    ) -> Result<Option<Self>, EngineError> {
        let Some(values) = DefaultValues::of(statement) else {
            return Ok(None);
        };
        let Some(table) = values.table() else {
            return Ok(None);
        };
        let reference = table_reference(table)?;
        // The planner has the errors of names that are not there.
        let Ok(schema) = state.schema_for_ref(reference.clone()) else {
            return Ok(None);
        };
        let Some(provider) = schema.table(reference.table()).await? else {
            return Ok(None);
        };
        let Some(table) = table_of(provider.as_ref()).cloned() else {
            return Ok(None);
        };
        let rules = table.rules();
        let fields = table.schema().fields().iter();
        let names: Vec<String> = fields.map(|field| field.name().clone()).collect();
        let columns = values.fill(&names, &rules)?;
        Ok(columns
            .iter()
            .any(|column| rules.defaults.contains_key(column))
            .then_some(Self {
                table,
                rules,
                columns,
            }))
    }

    /// `plan`, which adds rows, with the values in the place of nulls.
    ///
    /// # Errors
    /// An expression that can't be planned.
    pub async fn put_into(
        self,
        state: &SessionState,
        plan: LogicalPlan,
    ) -> Result<LogicalPlan, EngineError> {
        let mut values = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            if let Some(sql) = self.rules.defaults.get(column) {
                values.push((column.as_str(), planned(state, sql).await?));
            }
        }
        let plan = plan.transform_down(|node| match node {
            LogicalPlan::Dml(dml) if self.is_target(&dml)? => {
                with_values(dml, &values).map(Transformed::yes)
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(plan?.data)
    }

    fn is_target(&self, dml: &DmlStatement) -> PlanResult<bool> {
        let provider = source_as_provider(&dml.target)?;
        let table = table_of(provider.as_ref());
        let is_own = table.is_some_and(|table| Arc::ptr_eq(table, &self.table));
        Ok(is_own && matches!(dml.op, WriteOp::Insert(_)))
    }
}

/// The statement with values for columns that its rows have none for.
fn with_values(mut dml: DmlStatement, values: &[(&str, Expr)]) -> PlanResult<LogicalPlan> {
    let LogicalPlan::Projection(rows) = dml.input.as_ref() else {
        return Ok(LogicalPlan::Dml(dml));
    };
    let schema = dml.target.schema();
    let fields = schema.fields().iter();
    let columns = rows.expr.iter().zip(fields).map(|(column, field)| {
        match values.iter().find(|(name, _)| name == field.name()) {
            Some((name, value)) => {
                let value = value.clone();
                Ok(value
                    .cast_to(field.data_type(), &DFSchema::empty())?
                    .alias(*name))
            }
            None => Ok(column.clone()),
        }
    });
    let columns = columns.collect::<PlanResult<Vec<Expr>>>()?;
    let rows = Projection::try_new(columns, Arc::clone(&rows.input))?;
    dml.input = Arc::new(LogicalPlan::Projection(rows));
    Ok(LogicalPlan::Dml(dml))
}

/// The value that a column gets which is given none.
///
/// # Errors
/// An expression that can't be planned.
pub(super) async fn default_value(
    state: &SessionState,
    table: &Table,
    column: &str,
) -> Result<Expr, EngineError> {
    match table.rules().defaults.get(column) {
        Some(sql) => planned(state, sql).await,
        None => Ok(lit(ScalarValue::Null)),
    }
}

/// Whether an expression gives another value for each row.
///
/// # Errors
/// An expression that can't be planned.
pub(super) async fn differs_by_row(state: &SessionState, sql: &str) -> Result<bool, EngineError> {
    Ok(planned(state, sql).await?.is_volatile())
}

/// The plan of the expression of a default.
async fn planned(state: &SessionState, sql: &str) -> Result<Expr, EngineError> {
    let refused = |what| SqlError::InExpression {
        what,
        clause: CLAUSE,
    };
    let plan = typed_plan(state, expression_query(sql)?).await;
    let plan = plan.map_err(|error| match error {
        EngineError::DataFusion(error) if is_of_column(&error) => {
            refused("column reference").into()
        }
        other => other,
    })?;
    let LogicalPlan::Projection(projection) = plan else {
        return Err(refused("aggregate, window or set-returning function").into());
    };
    let is_plain = matches!(*projection.input, LogicalPlan::EmptyRelation(_));
    match <[Expr; 1]>::try_from(projection.expr) {
        Ok([expr]) if is_plain => match has_subquery(&expr)? {
            true => Err(refused("subquery").into()),
            false => Ok(expr.unalias()),
        },
        _ => Err(refused("aggregate, window or set-returning function").into()),
    }
}

fn is_of_column(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::SchemaError(..))
}

fn has_subquery(expr: &Expr) -> PlanResult<bool> {
    expr.exists(|node| {
        Ok(matches!(
            node,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_)
        ))
    })
}

/// Refuses an expression that can't be the default of a column.
///
/// # Errors
/// [`SqlError::InExpression`], [`SqlError::DefaultType`]; a text that is no value of the column's type.
pub(super) async fn check_default(
    state: &SessionState,
    field: &Field,
    sql: &str,
) -> Result<(), EngineError> {
    let value = planned(state, sql).await?;
    if let Expr::Literal(value, _) = &value {
        value.cast_to(field.data_type())?;
        return Ok(());
    }
    let given = value.get_type(&DFSchema::empty())?;
    let wanted = field.data_type();
    let is_text = given.is_string() && !wanted.is_string();
    let is_castable = value.cast_to(wanted, &DFSchema::empty()).is_ok();
    if is_text || !is_castable {
        return Err(SqlError::DefaultType {
            column: field.name().clone(),
            data_type: wanted.to_string(),
            given: given.to_string(),
        }
        .into());
    }
    Ok(())
}
