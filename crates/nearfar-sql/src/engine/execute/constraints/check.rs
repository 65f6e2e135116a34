//! Conditions of rows.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    EmptyRelation, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::sql::sqlparser::ast::ExprWithAlias;
use std::error::Error;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::execute::compiled::{RowValues, with_types};
use crate::engine::session::Session;
use crate::error::EngineError;
use crate::sql::{SqlError, call_by_own_names, expression_query, only_expression};
use crate::values::with_small_integers;
use nearfar_table::error::TableName;
use nearfar_table::table::{CheckRule, RowCheck, Table, TableRules};

/// Of what an expression is.
const CLAUSE: &str = "CHECK constraint";

/// The conditions of a table's rows, made to be evaluated.
#[derive(Debug)]
pub struct RowConditions {
    table: TableName,
    /// By the names of their constraints.
    conditions: Vec<(String, RowValues)>,
}

impl RowConditions {
    /// The conditions `checks` of the rows of a table with these columns.
    ///
    /// # Errors
    /// An expression that is no condition of one row.
    pub fn of(
        state: &SessionState,
        (table, schema): (TableName, &SchemaRef),
        checks: &[CheckRule],
    ) -> Result<Self, EngineError> {
        let columns = DFSchema::try_from_qualified_schema(table.name.as_str(), schema)?;
        let conditions = checks.iter().map(|check| {
            let condition = condition(state, &columns, &check.sql)?;
            Ok((check.name.clone(), condition))
        });
        Ok(Self {
            table,
            conditions: conditions.collect::<Result<_, EngineError>>()?,
        })
    }

    /// The first row that fails a condition, and which.
    fn failing(&self, rows: &RecordBatch) -> Result<Option<(usize, &str)>, EngineError> {
        for (name, condition) in &self.conditions {
            let columns = condition.columns().iter();
            let columns: Vec<ArrayRef> = columns.map(|at| Arc::clone(rows.column(*at))).collect();
            let values = condition.evaluate((&columns, rows.num_rows()), &[])?;
            let verdicts = values.first().and_then(|values| values.as_boolean_opt());
            let failing = verdicts.and_then(|verdicts| {
                let mut verdicts = verdicts.iter();
                verdicts.position(|verdict| verdict == Some(false))
            });
            if let Some(row) = failing {
                return Ok(Some((row, name)));
            }
        }
        Ok(None)
    }
}

impl RowCheck for RowConditions {
    fn check(&self, rows: &RecordBatch) -> Result<(), Box<dyn Error + Send + Sync>> {
        match self.failing(rows)? {
            Some((row, constraint)) => Err(Box::new(EngineError::from(SqlError::CheckViolated {
                table: Box::new(self.table.clone()),
                constraint: constraint.to_owned(),
                row: shown(rows, row),
            }))),
            None => Ok(()),
        }
    }
}

/// Refuses all rows of a table whose conditions can't be planned.
#[derive(Debug)]
struct Unplanned {
    message: String,
}

impl RowCheck for Unplanned {
    fn check(&self, _: &RecordBatch) -> Result<(), Box<dyn Error + Send + Sync>> {
        let message = self.message.clone();
        Err(Box::new(EngineError::Internal { message }))
    }
}

/// The values of a row.
fn shown(rows: &RecordBatch, row: usize) -> String {
    let values = rows
        .columns()
        .iter()
        .map(|values| match values.is_null(row) {
            true => "null".to_owned(),
            false => array_value_to_string(values, row).unwrap_or_default(),
        });
    values.collect::<Vec<_>>().join(", ")
}

/// A condition of rows of these columns.
fn condition(
    state: &SessionState,
    columns: &DFSchema,
    sql: &str,
) -> Result<RowValues, EngineError> {
    let mut query = expression_query(sql)?;
    let functions = state.scalar_functions();
    call_by_own_names(&mut query, |name| {
        functions.get(name).map(|function| function.name())
    });
    let expr = only_expression(query).ok_or_else(|| SqlError::Syntax {
        message: format!("`{sql}` is no expression"),
    })?;
    let expr = ExprWithAlias { expr, alias: None };
    let expr = state.create_logical_expr_from_sql_expr(expr, columns)?;
    check_kind(&expr)?;
    let rows = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(columns.clone()),
    });
    let plan = LogicalPlanBuilder::from(rows).project([expr])?.build()?;
    let plan = with_small_integers(plan)?;
    let unplanned = || SqlError::InExpression {
        what: "parameter or expression of this kind",
        clause: CLAUSE,
    };
    let Some(LogicalPlan::Projection(projection)) = with_types(state, &plan, &[]) else {
        // What is wrong with its types is told by who decides them.
        let analyzed = state
            .analyzer()
            .execute_and_check(plan, state.config_options(), |_, _| {});
        analyzed?;
        return Err(unplanned().into());
    };
    let Some(expr) = projection.expr.first() else {
        return Err(unplanned().into());
    };
    let given = expr.get_type(columns)?;
    if !matches!(given, DataType::Boolean | DataType::Null) {
        return Err(SqlError::CheckType {
            sql: sql.to_owned(),
            given: given.to_string(),
        }
        .into());
    }
    let condition = RowValues::of(state, [expr], columns);
    Ok(condition.ok_or_else(unplanned)?)
}

/// Refuses expressions over more than one row.
fn check_kind(expr: &Expr) -> Result<(), EngineError> {
    let mut what = None;
    expr.apply(|node| {
        let found = match node {
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) => Some("subquery"),
            Expr::AggregateFunction(_) => Some("aggregate function"),
            Expr::WindowFunction(_) => Some("window function"),
            _ => None,
        };
        what = what.or(found);
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    })?;
    match what {
        Some(what) => Err(SqlError::InExpression {
            what,
            clause: CLAUSE,
        }
        .into()),
        None => Ok(()),
    }
}

impl Session {
    /// Has the rows of a table held against its conditions from now on.
    ///
    /// # Errors
    /// As [`RowConditions::of`].
    pub(in crate::engine) fn attach_checks(&self, table: &Table) -> Result<(), EngineError> {
        table.set_row_check(self.row_check(table, &table.rules())?);
        Ok(())
    }

    /// What looks at the rows of a table of which `rules` are declared.
    ///
    /// # Errors
    /// As [`RowConditions::of`].
    pub(super) fn row_check(
        &self,
        table: &Table,
        rules: &TableRules,
    ) -> Result<Option<Arc<dyn RowCheck>>, EngineError> {
        if rules.checks.is_empty() {
            return Ok(None);
        }
        let state = self.context().state();
        let columns = (table.full_name(), table.schema());
        let conditions = RowConditions::of(&state, columns, &rules.checks)?;
        Ok(Some(Arc::new(conditions)))
    }
}

impl Engine {
    /// Plans conditions of rows again. A table whose conditions can't be planned takes no rows.
    pub(in crate::engine) fn restore_checks(self: &Arc<Self>) {
        let mut tables = self.tables();
        tables.retain(|(_, table)| !table.rules().checks.is_empty());
        if tables.is_empty() {
            return;
        }
        let session = self.session();
        for (_, table) in tables {
            if let Err(error) = session.attach_checks(&table) {
                let table_name = table.name();
                tracing::error!(table = table_name, %error, "a CHECK constraint can't be planned");
                let message = format!("CHECK constraints of table `{table_name}`: {error}");
                table.set_row_check(Some(Arc::new(Unplanned { message })));
            }
        }
    }
}
