//! Plans of statements that change rows and give some of them back, or look at other tables.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable, LogicalPlan, Prepare, Projection, Statement as Planned,
    WriteOp,
};
use datafusion::sql::parser::{ExplainStatement, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{DataType, Statement as Ast};
use std::sync::Arc;

use super::merging::{MergeAction, MergeClause, MergeInto};
use super::node::{ChangedRows, Upsert};
use super::prepared::PreparedChange;
use super::upsert::indexes_of;
use crate::engine::defaults::LeftOut;
use crate::engine::execute::modify::target;
use crate::engine::execute::plan::whole_plan;
use crate::error::EngineError;
use crate::sql::{
    BaseForm, ChangeForms, ConflictForm, JoinedForm, MergeActionForm, MergeForms, SqlError,
    cast_parameters, change_forms, merge_forms,
};

/// The plan of a statement that has clauses for which the planner has no words. None for all others.
///
/// # Errors
/// A statement that is wrong, or names what is not there or is ambiguous.
pub(in crate::engine::execute) async fn change_plan(
    state: &SessionState,
    statement: &DfStatement,
) -> Result<Option<LogicalPlan>, EngineError> {
    match statement {
        DfStatement::Statement(ast) => match ast.as_ref() {
            Ast::Prepare {
                statement: inner,
                data_types,
                ..
            } => prepared(state, statement, (inner, data_types)).await,
            ast => Box::pin(changing_plan(state, ast)).await,
        },
        DfStatement::Explain(explain) => explained(state, explain).await,
        _ => Ok(None),
    }
}

/// A statement that is prepared by SQL, whose parameters have the types that are given.
async fn prepared(
    state: &SessionState,
    whole: &DfStatement,
    (inner, types): (&Ast, &[DataType]),
) -> Result<Option<LogicalPlan>, EngineError> {
    if change_forms(inner)?.is_none() && merge_forms(inner)?.is_none() {
        return Ok(None);
    }
    let inner = DfStatement::Statement(Box::new(inner.clone()));
    let kind = |number: usize| types.get(number.checked_sub(1)?).cloned();
    let inner = cast_parameters(&inner, kind).unwrap_or(inner);
    let DfStatement::Statement(inner) = &inner else {
        return Ok(None);
    };
    let Some(input) = Box::pin(changing_plan(state, inner)).await? else {
        return Ok(None);
    };
    let outer = whole_plan(state, &with_inner(whole.clone())?).await?;
    let LogicalPlan::Statement(Planned::Prepare(Prepare {
        name, mut fields, ..
    })) = outer
    else {
        return Ok(None);
    };
    if fields.is_empty() {
        let known = input.get_parameter_fields()?;
        let numbers = (1..=known.len()).map(|number| format!("${number}"));
        fields.extend(numbers.filter_map(|name| known.get(&name)?.clone()));
    }
    let prepare = Prepare {
        name,
        fields,
        input: Arc::new(PreparedChange::hide(input)?),
    };
    Ok(Some(LogicalPlan::Statement(Planned::Prepare(prepare))))
}

/// What is explained of a statement: what changes the rows.
async fn explained(
    state: &SessionState,
    explain: &ExplainStatement,
) -> Result<Option<LogicalPlan>, EngineError> {
    let DfStatement::Statement(inner) = explain.statement.as_ref() else {
        return Ok(None);
    };
    let Some(plan) = Box::pin(changing_plan(state, inner)).await? else {
        return Ok(None);
    };
    let change = match ChangedRows::of(plan.inputs().first().copied().unwrap_or(&plan)) {
        Some(node) => node.change().clone(),
        None => plan,
    };
    let change = match (Upsert::of(&change), MergeInto::of(&change)) {
        (Some(upsert), _) => upsert.insert().clone(),
        (None, Some(merge)) => merge.rows().clone(),
        (None, None) => change,
    };
    let mut explain = explain.clone();
    *explain.statement = with_inner(*explain.statement)?;
    Ok(Some(
        match whole_plan(state, &DfStatement::Explain(explain)).await? {
            LogicalPlan::Explain(outer) => {
                LogicalPlan::Explain(datafusion::logical_expr::Explain {
                    plan: Arc::new(change),
                    stringified_plans: Vec::new(),
                    ..outer
                })
            }
            LogicalPlan::Analyze(outer) => {
                LogicalPlan::Analyze(datafusion::logical_expr::Analyze {
                    input: Arc::new(change),
                    ..outer
                })
            }
            other => other,
        },
    ))
}

/// A statement with a query of nothing within it or in its place.
fn with_inner(statement: DfStatement) -> Result<DfStatement, SqlError> {
    let nothing = crate::sql::statements("SELECT 1")?.remove(0);
    let crate::sql::StatementKind::DataFusion {
        statement: nothing, ..
    } = nothing.kind()
    else {
        return Ok(statement);
    };
    Ok(match (statement, nothing.as_ref()) {
        (DfStatement::Statement(mut ast), DfStatement::Statement(nothing)) => {
            match ast.as_mut() {
                Ast::Prepare { statement, .. } => statement.clone_from(nothing),
                other => other.clone_from(nothing),
            }
            DfStatement::Statement(ast)
        }
        (other, _) => other,
    })
}

/// The plan of a statement by itself that has such clauses. None for all others.
async fn changing_plan(
    state: &SessionState,
    ast: &Ast,
) -> Result<Option<LogicalPlan>, EngineError> {
    if let Some(forms) = merge_forms(ast)? {
        return merge_plan(state, forms).await.map(Some);
    }
    let Some(forms) = change_forms(ast)? else {
        return Ok(None);
    };
    let is_in_parts = matches!(ast, Ast::Update(_)) && matches!(forms.base, BaseForm::Joined(_));
    if !is_in_parts {
        return of_forms(state, forms).await.map(Some);
    }
    // Parts of an `UPDATE` have no place for the keyword `DEFAULT`.
    let mut statement = DfStatement::Statement(Box::new(ast.clone()));
    LeftOut::of(state, &mut statement).await?;
    let DfStatement::Statement(ast) = &statement else {
        return Ok(None);
    };
    match change_forms(ast)? {
        Some(forms) => of_forms(state, forms).await.map(Some),
        None => Ok(None),
    }
}

async fn of_forms(state: &SessionState, forms: ChangeForms) -> Result<LogicalPlan, EngineError> {
    let change = match forms.base {
        BaseForm::Whole(statement) => whole_plan(state, &statement).await?,
        BaseForm::Joined(joined) => joined_plan(state, *joined).await?,
    };
    let change = match forms.conflict {
        Some(conflict) => upsert_plan(state, change, conflict).await?,
        None => change,
    };
    let Some(returning) = forms.returning else {
        return Ok(change);
    };
    let returning = projection(whole_plan(state, &returning).await?, "RETURNING")?;
    let columns = Arc::clone(returning.input.schema());
    let rows = ChangedRows::new(change, columns).into_plan();
    let (exprs, schema) = (returning.expr, returning.schema);
    let returning = Projection::try_new_with_schema(exprs, Arc::new(rows), schema)?;
    Ok(LogicalPlan::Projection(returning))
}

/// An `INSERT` that looks whether rows are in the way.
async fn upsert_plan(
    state: &SessionState,
    insert: LogicalPlan,
    conflict: ConflictForm,
) -> Result<LogicalPlan, EngineError> {
    let LogicalPlan::Dml(dml) = &insert else {
        let message = "an insertion into no table".to_owned();
        return Err(EngineError::Internal { message });
    };
    let table = target(dml)?;
    let table = table.table();
    // What names no key is wrong now.
    indexes_of(&conflict.target, table.name(), &table.snapshot())?;
    let update = match conflict.update {
        None => None,
        Some(update) => {
            let rows = projection(whole_plan(state, &update.rows).await?, "ON CONFLICT")?;
            let values = new_values(dml, &update.assigned, &rows)?;
            let values = Projection::try_new(values, rows.input)?;
            Some(LogicalPlan::Projection(values))
        }
    };
    Ok(Upsert::new(insert, conflict.target, update).into_plan())
}

/// An `UPDATE` or `DELETE` whose rows and values come from a query.
async fn joined_plan(state: &SessionState, joined: JoinedForm) -> Result<LogicalPlan, EngineError> {
    let LogicalPlan::Dml(of_table) = whole_plan(state, &joined.of_table).await? else {
        let message = "a change of no table".to_owned();
        return Err(EngineError::Internal { message });
    };
    let statement = match joined.assigned {
        Some(_) => "UPDATE",
        None => "DELETE",
    };
    let rows = projection(whole_plan(state, &joined.rows).await?, statement)?;
    let (op, input) = match joined.assigned {
        None => (WriteOp::Delete, rows.input),
        Some(assigned) => {
            let values = new_values(&of_table, &assigned, &rows)?;
            let values = Projection::try_new(values, rows.input)?;
            let values = LogicalPlan::Projection(values);
            (WriteOp::Update, Arc::new(values))
        }
    };
    let (name, target) = (of_table.table_name, of_table.target);
    Ok(LogicalPlan::Dml(DmlStatement::new(name, target, op, input)))
}

async fn merge_plan(state: &SessionState, forms: MergeForms) -> Result<LogicalPlan, EngineError> {
    let of_table = whole_plan(state, &forms.of_table).await?;
    let LogicalPlan::Dml(dml) = &of_table else {
        let message = "a MERGE into no table".to_owned();
        return Err(EngineError::Internal { message });
    };
    let table = Arc::clone(target(dml)?.table());
    let joined = optional_plan(state, forms.joined).await?;
    let alone = optional_plan(state, forms.alone).await?;
    let mut clauses = Vec::with_capacity(forms.clauses.len());
    for clause in forms.clauses {
        let condition = match optional_plan(state, clause.condition).await? {
            Some(condition) => {
                let condition = projection(condition, "MERGE WHEN conditions")?;
                Some(LogicalPlan::Projection(condition))
            }
            None => None,
        };
        let action = match clause.action {
            MergeActionForm::Nothing => MergeAction::Nothing,
            MergeActionForm::Delete => MergeAction::Delete(of_table.clone()),
            MergeActionForm::Update(update) => {
                MergeAction::Update(statement_plan(state, *update).await?)
            }
            MergeActionForm::Insert(insert) => {
                let fields = table.schema().fields().iter();
                let columns: Vec<String> = fields.map(|field| field.name().clone()).collect();
                let insert = insert.statement(&columns, &table.rules())?;
                let insert = statement_plan(state, insert).await?;
                if let LogicalPlan::Dml(dml) = &insert {
                    projection(dml.input.as_ref().clone(), "MERGE")?;
                }
                MergeAction::Insert(insert)
            }
        };
        clauses.push(MergeClause {
            when: clause.when,
            condition,
            action,
        });
    }
    Ok(MergeInto::new(of_table, (joined, alone), clauses).into_plan())
}

async fn optional_plan(
    state: &SessionState,
    query: Option<DfStatement>,
) -> Result<Option<LogicalPlan>, EngineError> {
    match query {
        Some(query) => whole_plan(state, &query).await.map(Some),
        None => Ok(None),
    }
}

/// The plan of an `UPDATE` or `INSERT` that is a part of another statement.
async fn statement_plan(state: &SessionState, ast: Ast) -> Result<LogicalPlan, EngineError> {
    match Box::pin(changing_plan(state, &ast)).await? {
        Some(plan) => Ok(plan),
        None => whole_plan(state, &DfStatement::Statement(Box::new(ast))).await,
    }
}

/// The values of all columns of a table, some of which are `assigned` those of `rows`, whose first columns are
/// the table's.
fn new_values(
    of_table: &DmlStatement,
    assigned: &[String],
    rows: &Projection,
) -> Result<Vec<Expr>, EngineError> {
    let schema: &DFSchema = rows.input.schema();
    let fields = of_table.target.schema();
    let is_known = |column: &&String| fields.index_of(column).is_ok();
    if let Some(column) = assigned.iter().find(|column| !is_known(column)) {
        let known = fields.fields().iter();
        return Err(SqlError::UnknownColumn {
            table: of_table.table_name.table().to_owned(),
            column: column.clone(),
            known: known.map(|field| field.name().clone()).collect(),
        }
        .into());
    }
    let values = fields.fields().iter().enumerate().map(|(at, field)| {
        let value = match assigned.iter().position(|column| column == field.name()) {
            None => Expr::Column(Column::from(schema.qualified_field(at))),
            Some(at) => {
                let mut value = rows.expr[at].clone().unalias();
                if let Expr::Placeholder(placeholder) = &mut value {
                    placeholder.field.get_or_insert_with(|| Arc::clone(field));
                }
                value.cast_to(field.data_type(), schema)?
            }
        };
        Ok(value.alias(field.name()))
    });
    values.collect()
}

/// The values that a query computes for each row of its tables by itself.
fn projection(plan: LogicalPlan, clause: &'static str) -> Result<Projection, EngineError> {
    let misplaced = |what| SqlError::Misplaced { what, clause };
    let mut found = None;
    // Nothing else ends it early.
    let _ = plan.apply(|node| {
        found = match node {
            LogicalPlan::Aggregate(_) => Some("aggregate functions"),
            LogicalPlan::Window(_) => Some("window functions"),
            LogicalPlan::Unnest(_) => Some("set-returning functions"),
            // Of other queries.
            LogicalPlan::SubqueryAlias(_) => return Ok(TreeNodeRecursion::Jump),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    });
    match (plan, found) {
        (_, Some(what)) => Err(misplaced(what).into()),
        (LogicalPlan::Projection(projection), None) => Ok(projection),
        (_, None) => Err(misplaced("such expressions").into()),
    }
}
