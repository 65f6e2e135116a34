//! Operands that are repeated.
//!
//! Some forms of SQL, such as `BETWEEN` and comparisons of rows, become others that have an operand
//! several times. Where such forms stand within each other, a short statement becomes one that no memory
//! holds. How large it would be is counted here, without making it.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Case, Expr as PlanExpr, ExprSchemable, GroupingSet, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, ObjectName, Statement as Ast, Visit, Visitor,
};
use std::ops::ControlFlow;

use super::SqlError;
use crate::datafusion_names::REPEATING_FUNCTIONS;

/// Operators and functions that a syntax tree may have more than there are in the text.
const REPEATED_MAX: u64 = 100_000;

/// Operators and functions that the expressions of one step of a plan may have.
const OPERATORS_MAX: u64 = 100_000;

/// How many of them a subquery is, which is several steps.
const SUBQUERY_OPERATORS: u64 = 100;

fn too_many(operators_max: u64) -> SqlError {
    SqlError::TooManyOperators { operators_max }
}

/// Refuses a statement that would have too many operators once its [forms](super::forms) are those that the
/// planner knows.
///
/// # Errors
/// [`SqlError::TooManyOperators`].
pub(super) fn check_forms(ast: &Ast) -> Result<(), SqlError> {
    match ast.visit(&mut Forms::default()) {
        ControlFlow::Break(()) => Err(too_many(REPEATED_MAX)),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// What has been counted of an expression, or of all of a statement.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    written: u64,
    /// With those that are repeated.
    made: u64,
    /// What is made of the first operand.
    first_made: Option<u64>,
}

impl Count {
    fn add(&mut self, operand: Self) {
        self.written = self.written.saturating_add(operand.written);
        self.made = self.made.saturating_add(operand.made);
        self.first_made.get_or_insert(operand.made);
    }
}

/// Counts expressions from the inside out.
#[derive(Default)]
struct Forms {
    statement: Count,
    /// The expressions that the visitor is in.
    open: Vec<Count>,
}

impl Visitor for Forms {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.open.push(Count::default());
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let mut count = self.open.pop().unwrap_or_default();
        count.made = count.made.saturating_add(repeated(expr, &count));
        if is_operator(expr) {
            count.written = count.written.saturating_add(1);
            count.made = count.made.saturating_add(1);
        }
        let around = self.open.last_mut().unwrap_or(&mut self.statement);
        around.add(count);
        match around.made - around.written > REPEATED_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Whether an expression is more than a value, a column, or some of them.
fn is_operator(expr: &Expr) -> bool {
    !matches!(
        expr,
        Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::Value(_)
            | Expr::Nested(_)
            | Expr::Tuple(_)
    )
}

/// What is made of an expression's operands once more than it is here.
fn repeated(expr: &Expr, operands: &Count) -> u64 {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    match expr {
        // Each value decides, or is equal and the next one decides.
        Expr::BinaryOp {
            left,
            op: Lt | LtEq | Gt | GtEq,
            ..
        } if is_row(left) => operands.made,
        Expr::InList { expr, list, .. } if is_row(expr) => {
            let times = (list.len() as u64).saturating_sub(1);
            operands.first_made.unwrap_or(0).saturating_mul(times)
        }
        // Whether a row of the query is equal, and whether that is not known of one.
        Expr::InSubquery { expr, .. } if is_row(expr) => operands.made,
        // These are `IN` and `NOT IN`.
        Expr::AnyOp {
            compare_op: Eq,
            right,
            ..
        }
        | Expr::AllOp {
            compare_op: NotEq,
            right,
            ..
        } if is_query(right) => 0,
        // The least value, the greatest, the number of values and that of nulls; of an array the planner
        // asks for as many and a little more.
        Expr::AnyOp { .. } | Expr::AllOp { .. } => operands.made.saturating_mul(5),
        Expr::Cube(keys) => keys_of_cube(keys.len()),
        _ => 0,
    }
}

/// The keys of all sets that a `CUBE` of so many stands for: each of its subsets.
fn keys_of_cube(keys: usize) -> u64 {
    let keys = keys as u64;
    let sets = u32::try_from(keys)
        .ok()
        .and_then(|keys| 2_u64.checked_pow(keys));
    sets.map_or(u64::MAX, |sets| sets.saturating_mul(keys))
}

fn is_row(expr: &Expr) -> bool {
    let is_named_so = |name: &ObjectName| {
        let name = name.0.last().and_then(|part| part.as_ident());
        name.is_some_and(|name| name.value.eq_ignore_ascii_case("row"))
    };
    match expr {
        Expr::Nested(inner) => is_row(inner),
        Expr::Tuple(_) => true,
        Expr::Function(function) => is_named_so(&function.name),
        _ => false,
    }
}

fn is_query(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_))
}

/// Refuses a step of a plan whose expressions have too many operators, or would have them once the rules of
/// the optimizer have repeated operands.
///
/// # Errors
/// [`SqlError::TooManyOperators`].
pub fn check_expressions(step: &LogicalPlan) -> Result<(), SqlError> {
    // Rows that are written out are as many as they are, and no rule repeats them.
    match !matches!(step, LogicalPlan::Values(_)) && has_more_operators(step, OPERATORS_MAX) {
        true => Err(too_many(OPERATORS_MAX)),
        false => Ok(()),
    }
}

/// Whether the expressions of a step have more than so many operators, each counted as often as the rules
/// of the optimizer repeat it.
pub fn has_more_operators(step: &LogicalPlan, operators_max: u64) -> bool {
    let mut operators = Operators {
        inputs: step.inputs(),
        left: operators_max,
    };
    let counted = step.apply_expressions(|expr| operators.take(expr, 1));
    matches!(counted, Ok(TreeNodeRecursion::Stop) | Err(_))
}

/// The operators that a step may still have.
struct Operators<'a> {
    inputs: Vec<&'a LogicalPlan>,
    left: u64,
}

impl Operators<'_> {
    /// Takes those of an expression that is there so many times. Stops where they are too many.
    fn take(
        &mut self,
        expr: &PlanExpr,
        times: u64,
    ) -> datafusion::error::Result<TreeNodeRecursion> {
        let own = match expr {
            PlanExpr::Column(_) | PlanExpr::Literal(..) | PlanExpr::Alias(_) => 0,
            // So are dates and the like in long lists.
            PlanExpr::Cast(cast) if matches!(*cast.expr, PlanExpr::Literal(..)) => 0,
            PlanExpr::InSubquery(_) | PlanExpr::Exists(_) | PlanExpr::ScalarSubquery(_) => {
                times.saturating_mul(SUBQUERY_OPERATORS)
            }
            PlanExpr::GroupingSet(GroupingSet::Cube(keys)) => keys_of_cube(keys.len()),
            _ => times,
        };
        let Some(left) = self.left.checked_sub(own) else {
            return Ok(TreeNodeRecursion::Stop);
        };
        self.left = left;
        let twice = times.saturating_mul(2);
        match expr {
            PlanExpr::Between(between) => self
                .take(&between.expr, twice)?
                .visit_sibling(|| self.take(&between.low, times))?
                .visit_sibling(|| self.take(&between.high, times)),
            // What is compared is computed for the rows, and for the values among them that are looked up.
            PlanExpr::InSubquery(member) => self.take(&member.expr, twice),
            PlanExpr::ScalarFunction(call) if REPEATING_FUNCTIONS.contains(&call.name()) => {
                expr.apply_children(|argument| self.take(argument, twice))
            }
            PlanExpr::Case(case) if self.becomes_logic(case) => {
                let mut going_on = TreeNodeRecursion::Continue;
                for (condition, result) in &case.when_then_expr {
                    going_on = going_on
                        .visit_sibling(|| self.take(condition, twice))?
                        .visit_sibling(|| self.take(result, times))?;
                }
                let mut otherwise = case.else_expr.iter();
                otherwise.try_fold(going_on, |going_on, expr| {
                    going_on.visit_sibling(|| self.take(expr, times))
                })
            }
            _ => expr.apply_children(|operand| self.take(operand, times)),
        }
    }

    /// Whether the optimizer makes `AND` and `OR` of it, which have its conditions twice: where its results
    /// are truths.
    fn becomes_logic(&self, case: &Case) -> bool {
        let Some((_, result)) = case.when_then_expr.first() else {
            return false;
        };
        let mut types = self
            .inputs
            .iter()
            .map(|input| result.get_type(input.schema()));
        let known = types.find_map(Result::ok);
        case.expr.is_none()
            && case.when_then_expr.len() < 3
            && known.is_none_or(|known| known == DataType::Boolean)
    }
}
