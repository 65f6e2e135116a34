//! What a server needs of a session beside running statements: parameters and columns of a statement
//! before it runs, and the state of the transaction.

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Statement as Planned};
use std::sync::Arc;

use super::Engine;
use super::execute::{PreparedChange, parameter_of};
use super::known_definitions::KnownDefinitions;
use super::session::Session;
use crate::datafusion_names::ARRAY_HAS;
use crate::error::EngineError;
use crate::scan::table_of;
use crate::sql::{CursorCommand, SqlError, Statement, StatementKind};
use nearfar_table::table::Table;

/// Where a session is with its transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionState {
    /// Every statement is a transaction of its own.
    Idle,
    /// Within a transaction that `BEGIN` began.
    Open,
    /// Within a transaction of which a statement has failed.
    Failed,
}

/// What is known of a statement before it runs.
#[derive(Debug, Clone, Default)]
pub struct Described {
    /// The types of `$1` and so on, where its place in the statement tells.
    pub parameters: Vec<Option<DataType>>,
    /// The types that they are cast to where they stand, as in `CAST($1 AS INT)`: a client that gives
    /// no type for one has that in mind.
    pub casts: Vec<Option<DataType>>,
    /// The columns of its rows, if it is a query.
    pub columns: Option<SchemaRef>,
    /// What this was found out from, if it is known whole: with the same, the statement is described the same.
    pub definitions: Option<KnownDefinitions>,
}

/// More parameters than the wire protocol can number.
const PARAMETERS_MAX: usize = 65_535;

impl Session {
    /// Where the session is with its transactions.
    pub fn transaction_state(&self) -> TransactionState {
        match self.open.lock().as_ref() {
            None => TransactionState::Idle,
            Some(transaction) if transaction.has_failed() => TransactionState::Failed,
            Some(_) => TransactionState::Open,
        }
    }

    /// Fails the transaction that `BEGIN` began, if there is one: its client was told of an error.
    pub fn fail_transaction(&self) {
        if let Some(transaction) = self.open.lock().as_ref() {
            transaction.fail();
        }
    }

    /// The parameters and columns of a statement.
    ///
    /// # Errors
    /// A statement that is wrong or names what is not there; one of a transaction that has failed.
    pub async fn describe(&self, statement: &Statement) -> Result<Described, EngineError> {
        let (parsed, is_query) = match statement.kind() {
            StatementKind::DataFusion {
                statement: parsed, ..
            } => (parsed, true),
            StatementKind::CopyOut(copy) => (&copy.query, false),
            StatementKind::Cursor(CursorCommand::Declare { query, .. }) => match query.kind() {
                StatementKind::DataFusion { statement, .. } => (statement, false),
                _ => return Ok(Described::default()),
            },
            StatementKind::Transaction(_) => {
                return Ok(Described {
                    definitions: Some(KnownDefinitions::none(self)),
                    ..Described::default()
                });
            }
            StatementKind::Cursor(CursorCommand::Fetch {
                name,
                is_move: false,
                ..
            }) => {
                let name = name.clone();
                let columns = self.cursor_columns(&name);
                return Ok(Described {
                    columns: Some(columns.ok_or(SqlError::UnknownCursor { name })?),
                    ..Described::default()
                });
            }
            StatementKind::CopyIn(_) => {
                self.copied_columns(statement).await?;
                return Ok(Described::default());
            }
            _ => return Ok(Described::default()),
        };
        let transaction = self.current_transaction()?;
        let state = super::execute::within(&transaction, self.context().state());
        // Before it is planned: what others define meanwhile is noticed.
        let definitions = KnownDefinitions::of(self, &state, parsed);
        let plan = super::execute::plan(&state, parsed).await?;
        let is_of_rows = !matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_));
        let parameters = parameters(&plan)?;
        let casts = casts(&plan, parameters.len())?;
        let plan = self.executed(plan).await?;
        Ok(Described {
            casts,
            parameters,
            columns: columns(&settled(&state, &plan)).filter(|_| is_query),
            definitions: definitions.filter(|_| is_query && is_of_rows),
        })
    }

    /// The plan that an `EXECUTE` names; any other as it is.
    async fn executed(&self, plan: LogicalPlan) -> Result<LogicalPlan, EngineError> {
        let LogicalPlan::Statement(Planned::Execute(execute)) = &plan else {
            return Ok(plan);
        };
        self.check_prepared(&execute.name)?;
        let prepared = self.context().execute_logical_plan(plan).await?;
        Ok(PreparedChange::show(prepared.into_unoptimized_plan())?)
    }
}

/// The types of the parameters, by their number.
fn parameters(plan: &LogicalPlan) -> Result<Vec<Option<DataType>>, EngineError> {
    let mut types = Vec::new();
    for (name, data_type) in plan.get_parameter_types()? {
        let number = name.trim_start_matches('$').parse::<usize>().ok();
        let Some(index) = number
            .and_then(|n| n.checked_sub(1))
            .filter(|n| *n < PARAMETERS_MAX)
        else {
            let message = format!("parameter {name}: parameters are numbered, from $1");
            return Err(datafusion::error::DataFusionError::Plan(message).into());
        };
        if types.len() <= index {
            types.resize(index + 1, None);
        }
        types[index] = data_type;
    }
    if types.contains(&None) {
        give_arrays(plan, &mut types)?;
    }
    Ok(types)
}

/// Gives parameters that have no type yet that of arrays, where `value = ANY ($1)` has them.
fn give_arrays(plan: &LogicalPlan, types: &mut [Option<DataType>]) -> Result<(), EngineError> {
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(function) = expr
                    && function.name() == ARRAY_HAS
                    && let [Expr::Placeholder(parameter), value] = &function.args[..]
                    && let Some(number) = parameter_of(parameter)
                    && let Some(slot @ None) = types.get_mut(number)
                    && let Ok(element) = value.get_type(&schema)
                {
                    *slot = Some(DataType::new_list(element, true));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// The types that parameters are cast to, the first where there are several.
fn casts(plan: &LogicalPlan, count: usize) -> Result<Vec<Option<DataType>>, EngineError> {
    let mut types = vec![None; count];
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Cast(cast) = expr
                    && let Expr::Placeholder(parameter) = cast.expr.as_ref()
                    && let Some(number) = parameter_of(parameter)
                    && let Some(slot) = types.get_mut(number)
                {
                    slot.get_or_insert_with(|| cast.field.data_type().clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(types)
}

/// The plan with the types that its columns will have, where its parameters let it be known.
fn settled(state: &SessionState, plan: &LogicalPlan) -> LogicalPlan {
    let analyzed =
        state
            .analyzer()
            .execute_and_check(plan.clone(), state.config_options(), |_, _| {});
    analyzed.unwrap_or_else(|_| plan.clone())
}

fn columns(plan: &LogicalPlan) -> Option<SchemaRef> {
    let is_query = super::execute::Upsert::of(plan).is_none()
        && super::execute::MergeInto::of(plan).is_none()
        && !matches!(
            plan,
            LogicalPlan::Ddl(_)
                | LogicalPlan::Dml(_)
                | LogicalPlan::Copy(_)
                | LogicalPlan::Statement(_)
        );
    let schema: &Schema = plan.schema().as_arrow();
    is_query.then(|| super::execute::shown_schema(&Arc::new(schema.clone())))
}

impl Engine {
    /// The permanent tables in memory, with their schemas.
    pub fn tables(&self) -> Vec<(String, Arc<Table>)> {
        let schemas = self.catalog().all().into_iter();
        let tables = schemas.flat_map(|(schema, map)| {
            let tables = map.all().into_iter();
            let tables = tables.filter_map(|(_, provider)| table_of(provider.as_ref()).cloned());
            tables
                .map(move |table| (schema.clone(), table))
                .collect::<Vec<_>>()
        });
        tables.collect()
    }
}
