//! Integers that are written out have the type `integer` if they fit, as in PostgreSQL; DataFusion's planner
//! makes `bigint` of all of them.

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Subquery, Values};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, DmlStatement, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, Union,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use super::named::{has_expr, have_same_types, replace_expressions};

/// The plan of a statement with its small integers as such. Its parameters are not filled in yet: their types
/// are their own.
///
/// # Errors
/// A plan whose types do not fit together then.
pub fn with_small_integers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_changed = false;
    let plan = plan.transform_down_up_with_subqueries(
        |plan| match is_settled(&plan) {
            true => Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump)),
            false => Ok(Transformed::no(plan)),
        },
        |plan| {
            // The types of whatever is not below follow from what is.
            if !has_changed && !is_concerned(&plan)? {
                return Ok(Transformed::no(plan));
            }
            let before = Arc::clone(plan.schema());
            let rewritten = rewrite_plan(plan)?;
            has_changed |= !have_same_types(&before, rewritten.data.schema());
            Ok(rewritten)
        },
    )?;
    Ok(plan.data)
}

/// Whether a node may be changed whose inputs have the types that they had.
fn is_concerned(plan: &LogicalPlan) -> Result<bool> {
    let is_concerned = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Int64(Some(_)), _));
    Ok(matches!(plan, LogicalPlan::Values(_) | LogicalPlan::Dml(_))
        || has_expr(plan, is_concerned)?)
}

/// Whether types can't change below: a recursive query reads itself with the types that it has, and the
/// rows of an `INSERT` have those of the table.
fn is_settled(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::RecursiveQuery(_) => true,
        LogicalPlan::Dml(dml) => match dml.input.as_ref() {
            LogicalPlan::Projection(rows) => matches!(rows.input.as_ref(), LogicalPlan::Values(_)),
            _ => false,
        },
        _ => false,
    }
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        // How many rows there are is a `bigint`.
        LogicalPlan::Limit(_) | LogicalPlan::RecursiveQuery(_) => return Ok(Transformed::no(plan)),
        LogicalPlan::Values(values) => LogicalPlan::Values(rewrite_values(values)?),
        LogicalPlan::Union(union) => LogicalPlan::Union(with_types_of_inputs(union)?),
        LogicalPlan::Dml(dml) => LogicalPlan::Dml(with_types_of_table(dml)?),
        plan => rewrite_expressions(plan)?,
    };
    Ok(Transformed::yes(plan))
}

/// A union whose columns have the types of its inputs, and their names as before.
pub(super) fn with_types_of_inputs(union: Union) -> Result<Union> {
    let names = union.schema;
    let Union { inputs, schema } = Union::try_new_with_loose_types(union.inputs)?;
    let fields = names
        .iter()
        .zip(schema.fields())
        .map(|((qualifier, name), field)| {
            let field = Field::clone(field).with_name(name.name());
            (qualifier.cloned(), Arc::new(field))
        });
    let schema = DFSchema::new_with_metadata(fields.collect(), names.metadata().clone())?;
    Ok(Union {
        inputs,
        schema: Arc::new(schema),
    })
}

fn rewrite_expressions(plan: LogicalPlan) -> Result<LogicalPlan> {
    let schema = merge_schema(&plan.inputs());
    let plan = replace_expressions(plan, |expr| {
        expr.transform_down(|expr| rewrite(expr, &schema))
    })?;
    Ok(plan.data)
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), metadata) => match i32::try_from(value) {
            Ok(small) => Transformed::yes(Expr::Literal(ScalarValue::Int32(Some(small)), metadata)),
            Err(_) => Transformed::no(Expr::Literal(ScalarValue::Int64(Some(value)), metadata)),
        },
        expr if takes_large(&expr) => Transformed::new(expr, false, TreeNodeRecursion::Jump),
        mut other => match subquery_of(&mut other) {
            Some(query) if has_other_types(query, schema) => {
                retype_references(query, schema)?;
                Transformed::yes(other)
            }
            _ => Transformed::no(other),
        },
    })
}

fn subquery_of(expr: &mut Expr) -> Option<&mut Subquery> {
    match expr {
        Expr::ScalarSubquery(query) => Some(query),
        Expr::Exists(exists) => Some(&mut exists.subquery),
        Expr::InSubquery(member) => Some(&mut member.subquery),
        Expr::SetComparison(comparison) => Some(&mut comparison.subquery),
        _ => None,
    }
}

/// The field that a column of the query around has now, if it has another type than a subquery knows.
fn other_type<'s>(expr: &Expr, schema: &'s DFSchema) -> Option<&'s FieldRef> {
    let Expr::OuterReferenceColumn(field, column) = expr else {
        return None;
    };
    let (_, known) = schema.qualified_field_from_column(column).ok()?;
    (known.data_type() != field.data_type()).then_some(known)
}

fn has_other_types(query: &Subquery, schema: &DFSchema) -> bool {
    let mut references = query.outer_ref_columns.iter();
    references.any(|reference| other_type(reference, schema).is_some())
}

/// Whether a function needs its integers as they are: `count(*)` is told by the literal that it counts, and
/// places in JSON are large.
fn takes_large(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.name().starts_with("json_"),
        Expr::AggregateFunction(call) => call.func.name() == "count",
        Expr::WindowFunction(call) => call.fun.name() == "count",
        _ => false,
    }
}

/// Has a subquery know the types that columns of the query around it have now.
fn retype_references(query: &mut Subquery, schema: &DFSchema) -> Result<()> {
    let retype = |expr: Expr| {
        Ok(match (other_type(&expr, schema), expr) {
            (Some(known), Expr::OuterReferenceColumn(_, column)) => {
                Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(known), column))
            }
            (_, expr) => Transformed::no(expr),
        })
    };
    let plan = Arc::unwrap_or_clone(Arc::clone(&query.subquery));
    let plan = plan.transform_up_with_subqueries(|plan| {
        replace_expressions(plan, |expr| expr.transform_up(retype))
    })?;
    query.subquery = Arc::new(plan.data);
    for reference in &mut query.outer_ref_columns {
        *reference = reference.clone().transform_up(retype)?.data;
    }
    Ok(())
}

/// Rows that are written out: a column of small integers, or of their sums, is one.
fn rewrite_values(values: Values) -> Result<Values> {
    let Values { schema, values } = values;
    let empty = DFSchema::empty();
    let rows = values.into_iter().map(|row| {
        let row = row.into_iter();
        row.map(|expr| Ok(expr.transform_down(|expr| rewrite(expr, &empty))?.data))
            .collect()
    });
    let mut rows = rows.collect::<Result<Vec<Vec<Expr>>>>()?;
    let mut fields = Vec::with_capacity(schema.fields().len());
    for (at, (qualifier, field)) in schema.iter().enumerate() {
        let kind = match field.data_type() {
            DataType::Int64 if is_small(&rows, at)? => DataType::Int32,
            kind => kind.clone(),
        };
        for row in &mut rows {
            settle(&mut row[at], &kind, &empty)?;
        }
        let field = Field::clone(field).with_data_type(kind);
        fields.push((qualifier.cloned(), Arc::new(field)));
    }
    let schema = DFSchema::new_with_metadata(fields, schema.metadata().clone())?;
    Ok(Values {
        schema: Arc::new(schema),
        values: rows,
    })
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// Whether all values of a column are small.
fn is_small(rows: &[Vec<Expr>], at: usize) -> Result<bool> {
    let empty = DFSchema::empty();
    let mut is_known = false;
    for expr in rows.iter().map(|row| &row[at]).filter(|it| !is_null(it)) {
        if expr.get_type(&empty)? != DataType::Int32 {
            return Ok(false);
        }
        is_known = true;
    }
    Ok(is_known)
}

/// Gives a value the type of its column.
fn settle(expr: &mut Expr, kind: &DataType, empty: &DFSchema) -> Result<()> {
    if is_null(expr) {
        *expr = Expr::Literal(ScalarValue::try_from(kind)?, None);
    } else if expr.get_type(empty)? != *kind {
        *expr = cast(std::mem::take(expr), kind);
    }
    Ok(())
}

fn cast(expr: Expr, kind: &DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), kind.clone()))
}

/// A statement that changes rows, with values as it had them for the columns of the table.
fn with_types_of_table(mut dml: DmlStatement) -> Result<DmlStatement> {
    let table = dml.target.schema();
    let is_same = |schema: &DFSchemaRef| {
        let types = schema.fields().iter().map(|field| field.data_type());
        types.eq(table.fields().iter().map(|field| field.data_type()))
    };
    if dml.input.schema().fields().len() != table.fields().len() || is_same(dml.input.schema()) {
        return Ok(dml);
    }
    let input = Arc::unwrap_or_clone(dml.input);
    let schema = Arc::clone(input.schema());
    let typed = |expr: Expr, at: usize| {
        let (qualifier, field) = schema.qualified_field(at);
        match table.field(at).data_type() {
            kind if kind == field.data_type() => expr,
            kind => cast(expr.unalias(), kind).alias_qualified(qualifier.cloned(), field.name()),
        }
    };
    let typed = |(at, expr)| typed(expr, at);
    dml.input = Arc::new(match input {
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let expr = expr.into_iter().enumerate().map(typed).collect();
            LogicalPlan::Projection(Projection::try_new(expr, input)?)
        }
        other => {
            let columns = other.schema().columns().into_iter().map(Expr::Column);
            let columns: Vec<Expr> = columns.enumerate().map(typed).collect();
            LogicalPlanBuilder::from(other).project(columns)?.build()?
        }
    });
    Ok(dml)
}
