//! The rule about numbers of several types, which comes before types are settled.
//!
//! What is chosen from decimals and floats becomes doubles, as in PostgreSQL; DataFusion would make decimals, which do
//! not hold all floats. Decimals are divided with PostgreSQL's digits. `nullif` gives its first argument.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Union,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

use super::decimal::{DIVIDE, exact};
use super::integers::with_types_of_inputs;
use super::named::{has_expr, have_same_types, replace_expressions};
use super::planner::type_of;

/// Functions that give one of their arguments.
const CHOICES: [&str; 5] = ["coalesce", "greatest", "least", "nullif", "nvl"];

/// Casts decimals to doubles where they stand beside floats.
#[derive(Debug, Default)]
pub struct MixedNumbers;

impl AnalyzerRule for MixedNumbers {
    fn name(&self) -> &'static str {
        "nearfar_mixed_numbers"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_changed = false;
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            // The types of whatever is not below follow from what is.
            if !has_changed && !is_concerned(&plan)? {
                return Ok(Transformed::no(plan));
            }
            let before = Arc::clone(plan.schema());
            let plan = rewrite_plan(plan)?;
            has_changed |= !have_same_types(&before, plan.data.schema());
            Ok(plan)
        });
        Ok(rewritten?.data)
    }
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Union(union) = plan {
        return rewrite_union(union);
    }
    let schema = merge_schema(&plan.inputs());
    replace_expressions(plan, |expr| {
        expr.transform_up(|expr| rewrite(expr, &schema))
    })
}

/// Whether a node may be changed that has the inputs that it had: if not, their types, of which joins have many, are not
/// needed.
fn is_concerned(plan: &LogicalPlan) -> Result<bool> {
    Ok(matches!(plan, LogicalPlan::Union(_)) || has_expr(plan, is_concerned_expr)?)
}

fn is_concerned_expr(expr: &Expr) -> bool {
    match expr {
        Expr::Case(_) | Expr::InList(_) | Expr::Between(_) => true,
        Expr::ScalarFunction(function) => CHOICES.contains(&function.func.name()),
        Expr::BinaryExpr(binary) => binary.op == Operator::Divide,
        _ => false,
    }
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, then)| then);
            let values: Vec<&Expr> = values.chain(&case.else_expr).map(AsRef::as_ref).collect();
            if !are_mixed(&values, schema) {
                return Ok(Transformed::no(Expr::Case(case)));
            }
            let cases = case.when_then_expr.into_iter();
            let cases = cases.map(|(when, then)| (when, Box::new(double(*then, schema))));
            Ok(Transformed::yes(Expr::Case(Case {
                expr: case.expr,
                when_then_expr: cases.collect(),
                else_expr: case.else_expr.map(|value| Box::new(double(*value, schema))),
            })))
        }
        Expr::ScalarFunction(mut function) if CHOICES.contains(&function.func.name()) => {
            let values: Vec<&Expr> = function.args.iter().collect();
            let are_mixed = are_mixed(&values, schema);
            if are_mixed {
                let arguments = function.args.into_iter();
                function.args = arguments.map(|value| double(value, schema)).collect();
            }
            if function.func.name() == "nullif" {
                let expr = as_first(function, schema);
                return Ok(Transformed::new_transformed(
                    expr.data,
                    are_mixed || expr.transformed,
                ));
            }
            let expr = Expr::ScalarFunction(function);
            Ok(Transformed::new_transformed(expr, are_mixed))
        }
        Expr::InList(mut list) => {
            let all: Vec<&Expr> = std::iter::once(list.expr.as_ref())
                .chain(&list.list)
                .collect();
            let are_mixed = are_mixed(&all, schema);
            if are_mixed {
                list.expr = Box::new(double(*list.expr, schema));
                let values = list.list.into_iter();
                list.list = values.map(|value| double(value, schema)).collect();
            }
            Ok(Transformed::new_transformed(Expr::InList(list), are_mixed))
        }
        Expr::Between(mut between) => {
            let all = [&*between.expr, &*between.low, &*between.high];
            let are_mixed = are_mixed(&all, schema);
            if are_mixed {
                between.expr = Box::new(double(*between.expr, schema));
                between.low = Box::new(double(*between.low, schema));
                between.high = Box::new(double(*between.high, schema));
            }
            Ok(Transformed::new_transformed(
                Expr::Between(between),
                are_mixed,
            ))
        }
        Expr::BinaryExpr(binary)
            if binary.op == Operator::Divide && are_decimals(&binary, schema) =>
        {
            let quotient = DIVIDE.udf().call(vec![*binary.left, *binary.right]);
            Ok(Transformed::yes(quotient))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether an operation is one on decimals.
fn are_decimals(binary: &BinaryExpr, schema: &DFSchema) -> bool {
    let types = [&binary.left, &binary.right].map(|value| type_of(value, schema));
    let [Some(left), Some(right)] = types else {
        return false;
    };
    (left.is_decimal() || right.is_decimal()) && exact(&left).is_some() && exact(&right).is_some()
}

/// `nullif` of numbers as the first of them.
fn as_first(call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    let types = call.args.iter().map(|value| type_of(value, schema));
    let first = match &types.collect::<Vec<_>>()[..] {
        [Some(first), Some(second)]
            if first != second && first.is_numeric() && second.is_numeric() =>
        {
            first.clone()
        }
        _ => return Transformed::no(Expr::ScalarFunction(call)),
    };
    let value = Box::new(Expr::ScalarFunction(call));
    Transformed::yes(Expr::Cast(Cast::new(value, first)))
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

fn are_mixed(values: &[&Expr], schema: &DFSchema) -> bool {
    let types = values.iter().map(|value| value.get_type(schema));
    let types: Vec<DataType> = types.flatten().collect();
    types.iter().any(is_float) && types.iter().any(DataType::is_decimal)
}

/// A number that is no double as one.
fn double(value: Expr, schema: &DFSchema) -> Expr {
    match value.get_type(schema) {
        Ok(kind) if kind.is_decimal() || kind == DataType::Float32 => {
            Expr::Cast(Cast::new(Box::new(value), DataType::Float64))
        }
        _ => value,
    }
}

/// The inputs of a union with doubles where one has floats and another has decimals.
fn rewrite_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let width = union.schema.fields().len();
    let is_mixed = |column: usize| {
        let types = union.inputs.iter().map(|input| {
            let fields = input.schema().fields();
            fields.get(column).map(|field| field.data_type().clone())
        });
        let types: Vec<DataType> = types.flatten().collect();
        types.iter().any(is_float) && types.iter().any(DataType::is_decimal)
    };
    let mixed: Vec<bool> = (0..width).map(is_mixed).collect();
    if !mixed.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.into_iter().map(|input| {
        let schema = Arc::clone(input.schema());
        let columns = schema
            .iter()
            .zip(&mixed)
            .map(|((relation, field), is_mixed)| {
                let column = Expr::Column(Column::from((relation, field)));
                match is_mixed {
                    true => {
                        double(column, &schema).alias_qualified(relation.cloned(), field.name())
                    }
                    false => column,
                }
            });
        let columns: Vec<Expr> = columns.collect();
        let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(input));
        Ok(Arc::new(input.project(columns)?.build()?))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let schema = union.schema;
    let union = with_types_of_inputs(Union { inputs, schema })?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}
