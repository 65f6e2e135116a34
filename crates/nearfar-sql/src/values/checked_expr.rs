//! Arithmetic with checks as an expression of its own, in place of a call.
//!
//! A call finds the fields of its arguments and results each time, with their names. Statements that are not planned
//! again evaluate expressions for single rows, of which that takes the larger part.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::arithmetic::Checked;

/// `expr` with all calls of checked operators as expressions of their own.
///
/// # Errors
/// Those of DataFusion, for an expression that was made wrong.
pub fn without_calls(expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = expr.transform_up(|expr| {
        let is_checked = Operation::of(&expr).is_some();
        Ok(match is_checked {
            true => Transformed::yes(Arc::new(CheckedExpr { call: expr }) as _),
            false => Transformed::no(expr),
        })
    });
    Ok(replaced?.data)
}

/// The operator that an expression calls, and what it calls it with.
struct Operation<'a> {
    checked: &'a Checked,
    left: &'a dyn PhysicalExpr,
    right: &'a dyn PhysicalExpr,
}

impl<'a> Operation<'a> {
    fn of(expr: &'a Arc<dyn PhysicalExpr>) -> Option<Self> {
        let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
        let checked = call.fun().inner().downcast_ref::<Checked>()?;
        match call.args() {
            [left, right] => Some(Self {
                checked,
                left: left.as_ref(),
                right: right.as_ref(),
            }),
            _ => None,
        }
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let (left, right) = (self.left.evaluate(batch)?, self.right.evaluate(batch)?);
        self.checked.compute(&left, &right)
    }
}

/// An operation on the values of two expressions of one type.
#[derive(Debug, Eq)]
pub(super) struct CheckedExpr {
    /// The call that it stands for.
    pub call: Arc<dyn PhysicalExpr>,
}

impl PartialEq for CheckedExpr {
    fn eq(&self, other: &Self) -> bool {
        self.call.eq(&other.call)
    }
}

impl Hash for CheckedExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.call.hash(state);
    }
}

impl fmt::Display for CheckedExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}

impl PhysicalExpr for CheckedExpr {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.call.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.call.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match Operation::of(&self.call) {
            Some(operation) => operation.evaluate(batch),
            None => self.call.evaluate(batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.call.children()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let call = Arc::clone(&self.call).with_new_children(children)?;
        Ok(Arc::new(Self { call }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt_sql(f)
    }
}
