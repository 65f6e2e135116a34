//! The rule that puts arithmetic and casts with checks into plans whose types are known.
//!
//! It changes neither names nor types.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast, lit, not,
};
use datafusion::optimizer::AnalyzerRule;

use super::arithmetic::{Checked, Negated};
use super::cast::{Cast, CastName};
use super::interval::LENGTH;
use super::named::{has_expr, replace_named};

/// Replaces arithmetic and casts that would go around or cut off.
#[derive(Debug, Default)]
pub struct CheckedValues;

impl AnalyzerRule for CheckedValues {
    fn name(&self) -> &'static str {
        "nearfar_checked_values"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(rewrite_plan)?.data)
    }
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let sorts = matches!(plan, LogicalPlan::Sort(_));
    // The types of inputs, of which joins have many, are not needed for nothing.
    if !sorts && !has_expr(&plan, is_concerned)? {
        return Ok(Transformed::no(plan));
    }
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let source =
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&source);
    }
    let names = NamePreserver::new(&plan);
    let cast_name = match plan {
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) => CastName::Own,
        _ => CastName::OfValue,
    };
    plan.map_expressions(|expr| {
        if sorts && is_interval(&expr, &schema) {
            let expr = expr.transform_up(|expr| rewrite(expr, &schema, cast_name))?;
            return Ok(expr.update_data(|expr| LENGTH.udf().call(vec![expr])));
        }
        replace_named(expr, &names, &mut |expr| {
            expr.transform_up(|expr| rewrite(expr, &schema, cast_name))
        })
    })
}

/// Whether [`rewrite`] may change an expression itself, not its parts.
fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_checked(binary.op),
        Expr::InList(_) | Expr::Negative(_) | Expr::Cast(_) => true,
        _ => false,
    }
}

fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    let is_interval = |kind: DataType| matches!(kind, DataType::Interval(_));
    expr.get_type(schema).is_ok_and(is_interval)
}

fn rewrite(expr: Expr, schema: &DFSchema, cast_name: CastName) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_checked(op) => {
            let types = (left.get_type(schema)?, right.get_type(schema)?);
            if types.0 == types.1 && Checked::replaces(op, &types.0) {
                return Ok(Transformed::yes(Checked::expr(*left, op, *right)));
            }
            let may_be_left_out = op == Operator::Multiply
                && types.0.is_decimal()
                && [&left, &right].iter().any(|side| !side.any_column_refs());
            let operation = Expr::BinaryExpr(BinaryExpr { left, op, right });
            match may_be_left_out {
                true => with_own_type(operation, schema).map(Transformed::yes),
                false => Ok(Transformed::no(operation)),
            }
        }
        Expr::InList(list) if list.list.iter().any(is_varying) && !list.expr.is_volatile() => {
            Ok(Transformed::yes(with_constants_alone(list)))
        }
        Expr::Negative(value) => {
            let kind = value.get_type(schema)?;
            Ok(match kind.is_signed_integer() || kind.is_floating() {
                true => Transformed::yes(Negated::expr(*value)),
                false => Transformed::no(Expr::Negative(value)),
            })
        }
        Expr::Cast(cast) => {
            let given = cast.expr.get_type(schema)?;
            let target = cast.field.data_type().clone();
            Ok(match Cast::replaces(&given, &target) {
                true => Transformed::yes(Cast::expr(*cast.expr, target, cast_name)),
                false => Transformed::no(Expr::Cast(cast)),
            })
        }
        other => Ok(Transformed::no(other)),
    }
}

/// A search in a list of constants, and comparisons with what differs from row to row: DataFusion takes a
/// list for constant that is when there are no rows, as `CASE` can be.
fn with_constants_alone(list: InList) -> Expr {
    let sought = *list.expr;
    let (varying, constant): (Vec<_>, Vec<_>) = list.list.into_iter().partition(is_varying);
    let in_constants = (!constant.is_empty()).then(|| sought.clone().in_list(constant, false));
    let comparisons = varying.into_iter().map(|value| sought.clone().eq(value));
    let found = in_constants.into_iter().chain(comparisons).reduce(Expr::or);
    let found = found.unwrap_or_else(|| lit(false));
    match list.negated {
        true => not(found),
        false => found,
    }
}

/// Whether a value can differ from row to row, or is known only once the query runs.
fn is_varying(value: &Expr) -> bool {
    let is_known = |expr: &Expr| match expr {
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarSubquery(_)
        | Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_) => false,
        other => !other.is_volatile_node(),
    };
    value.exists(|expr| Ok(!is_known(expr))).unwrap_or(true)
}

/// An operation that keeps its type when DataFusion gives `x * 0` as the zero that is written there, which has
/// fewer digits behind the point.
fn with_own_type(operation: Expr, schema: &DFSchema) -> Result<Expr> {
    let data_type = operation.get_type(schema)?;
    Ok(cast(operation, data_type))
}

/// Whether arithmetic of an operator is checked for some type.
fn is_checked(operator: Operator) -> bool {
    Checked::replaces(operator, &DataType::Float64)
}
