//! How large a statement may be, so that it is planned in bounded time.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Select, Statement as Ast, Visit, Visitor};
use std::ops::ControlFlow;

use super::SqlError;
use super::repetition::{check_expressions, check_forms};

/// Columns of a result, and expressions of a select list: as many as PostgreSQL allows. Planning takes
/// time that grows with their square.
pub const COLUMNS_MAX: usize = 1_664;

/// Steps of a plan, each counted as often as it is used: a common table expression that is used twice by
/// another, that by a third and so on has twice as many steps each time.
pub const PLAN_STEPS_MAX: usize = 10_000;

/// Steps of a plan once subqueries are joins. Each correlated one has the rows of the query around it
/// again, to know which values it is asked for.
const GROWN_STEPS_MAX: usize = 100_000;

/// Refuses a statement one of whose select lists is too long, or that repeats operands too often.
///
/// # Errors
/// [`SqlError::TooManyColumns`], [`SqlError::TooManyOperators`].
pub fn check_statement(statement: &DfStatement) -> Result<(), SqlError> {
    match statement {
        DfStatement::Statement(ast) => check_ast(ast),
        DfStatement::Explain(explain) => check_statement(&explain.statement),
        _ => Ok(()),
    }
}

fn check_ast(ast: &Ast) -> Result<(), SqlError> {
    match ast.visit(&mut SelectLists) {
        ControlFlow::Break(columns) => check_columns(columns),
        ControlFlow::Continue(()) => check_forms(ast),
    }
}

/// Ends with the length of the first select list that is too long.
struct SelectLists;

impl Visitor for SelectLists {
    type Break = usize;

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<usize> {
        match select.projection.len() {
            columns if columns > COLUMNS_MAX => ControlFlow::Break(columns),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Refuses a plan of too many columns or steps, or with expressions of too many operators.
///
/// # Errors
/// [`SqlError::TooManyColumns`], [`SqlError::TooManySteps`], [`SqlError::TooManyOperators`].
pub fn check_plan(plan: &LogicalPlan) -> Result<(), SqlError> {
    check_columns(plan.schema().fields().len())?;
    check_steps(plan, PLAN_STEPS_MAX)
}

/// The same of a plan that rules have made, which may have more steps.
///
/// # Errors
/// [`SqlError::TooManySteps`], [`SqlError::TooManyOperators`].
pub fn check_grown_plan(plan: &LogicalPlan) -> Result<(), SqlError> {
    check_steps(plan, GROWN_STEPS_MAX)
}

fn check_steps(plan: &LogicalPlan, steps_max: usize) -> Result<(), SqlError> {
    let mut steps = 0;
    let mut checked = Ok(());
    // Nothing else ends it early.
    let _ = plan.apply_with_subqueries(|step| {
        steps += 1;
        checked = match steps > steps_max {
            true => Err(SqlError::TooManySteps { steps_max }),
            false => check_expressions(step),
        };
        Ok(match &checked {
            Ok(()) => TreeNodeRecursion::Continue,
            Err(_) => TreeNodeRecursion::Stop,
        })
    });
    checked
}

fn check_columns(columns: usize) -> Result<(), SqlError> {
    match columns > COLUMNS_MAX {
        true => Err(SqlError::TooManyColumns {
            columns,
            columns_max: COLUMNS_MAX,
        }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::statements;
    use datafusion::logical_expr::LogicalPlanBuilder;

    #[test]
    fn long_select_lists_are_refused_wherever_they_stand() {
        let list = |columns: usize| vec!["1"; columns].join(", ");
        for sql in ["SELECT {}", "EXPLAIN SELECT 1 FROM (SELECT {}) AS t"] {
            let of = |columns| statements(&sql.replace("{}", &list(columns)));
            assert!(of(COLUMNS_MAX).is_ok(), "{sql}");
            let refused = of(COLUMNS_MAX + 1).expect_err("too many columns");
            assert!(
                matches!(refused, SqlError::TooManyColumns { columns, .. } if columns == COLUMNS_MAX + 1),
                "{refused}"
            );
        }
    }

    #[test]
    fn steps_that_are_used_again_count_again() {
        let mut plan = LogicalPlanBuilder::empty(true).build().expect("a plan");
        for _ in 0..12 {
            let again = plan.clone();
            let both = LogicalPlanBuilder::from(plan).cross_join(again);
            plan = both.and_then(LogicalPlanBuilder::build).expect("a plan");
            assert_eq!(check_plan(&plan), Ok(()));
        }
        for _ in 0..60 {
            let again = plan.clone();
            let both = LogicalPlanBuilder::from(plan).cross_join(again);
            plan = both.and_then(LogicalPlanBuilder::build).expect("a plan");
        }
        let refused = check_plan(&plan).expect_err("too many steps");
        assert!(matches!(refused, SqlError::TooManySteps { .. }));
    }
}
