//! Statements that change rows, while they are prepared.

use datafusion::common::DFSchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::scalar::ScalarValue;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The plan of a statement that SQL's `PREPARE` prepares. The optimizer, which runs then, does not see what it is made
/// of: parts of such a plan are carried out by themselves, and are to be what they were planned as.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PreparedChange {
    plan: LogicalPlan,
    /// Its parameters by their numbers, of which `EXECUTE` makes values.
    parameters: Vec<Expr>,
}

impl PartialOrd for PreparedChange {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.plan.partial_cmp(&other.plan)
    }
}

impl PreparedChange {
    /// `plan`, hidden.
    ///
    /// # Errors
    /// Parameters that have several types.
    pub fn hide(plan: LogicalPlan) -> Result<LogicalPlan> {
        let known = plan.get_parameter_fields()?;
        let numbers = (1..=known.len()).map(|number| format!("${number}"));
        let parameters = numbers.map(|id| {
            let field = known.get(&id).cloned().flatten();
            Expr::Placeholder(Placeholder::new_with_field(id, field))
        });
        let node = Self {
            parameters: parameters.collect(),
            plan,
        };
        Ok(LogicalPlan::Extension(Extension {
            node: Arc::new(node),
        }))
    }

    /// The plan that is hidden, with the values that its parameters were given; any other plan as it is.
    ///
    /// # Errors
    /// Values of other types.
    pub fn show(plan: LogicalPlan) -> Result<LogicalPlan> {
        let LogicalPlan::Extension(extension) = &plan else {
            return Ok(plan);
        };
        let node: &dyn std::any::Any = extension.node.as_any();
        let Some(own) = node.downcast_ref::<Self>() else {
            return Ok(plan);
        };
        let given = own.parameters.iter().cloned().map(Expr::unalias);
        let values = given.map(|parameter| match parameter {
            Expr::Literal(value, _) => Ok(value),
            other => Err(DataFusionError::Plan(format!("{other} has no value"))),
        });
        let values = values.collect::<Result<Vec<ScalarValue>>>()?;
        match values.is_empty() {
            true => Ok(own.plan.clone()),
            false => own.plan.clone().with_param_values(values),
        }
    }
}

impl UserDefinedLogicalNodeCore for PreparedChange {
    fn name(&self) -> &'static str {
        "PreparedChange"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        self.plan.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.parameters.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreparedChange")
    }

    fn with_exprs_and_inputs(&self, parameters: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Self> {
        Ok(Self {
            plan: self.plan.clone(),
            parameters,
        })
    }
}
