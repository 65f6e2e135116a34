//! The rule that puts operators into scopes.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use std::sync::Arc;

use super::concatenated::Concatenated;
use super::sizes::{is_copied, is_of_any_size, scalar_bytes};
use super::widths::{Repeats, WidthExec};
use super::{Guarded, MeteredExec, Role, SliceExec};
use crate::engine::compact::is_join;
use crate::operators::windows::NAME as SORTED_WINDOWS;
use crate::plan_rule::PlanRule;
use crate::scan::TableScan;

/// Rows of a batch for which functions without a bound are called.
const UNBOUNDED_ROWS: usize = 256;

/// A value is long from this size on: a batch that repeats it takes many megabytes.
const LONG_BYTES: u64 = 4 << 10;

/// What the repetitions of a long constant may take in a batch.
const REPEATED_BYTES: u64 = 8 << 20;

/// What the long texts of tables may take in a batch.
const ROWS_BYTES: u64 = 32 << 20;

/// Wraps the operators that evaluate expressions whose results can be large.
pub const METERING: PlanRule = PlanRule {
    name: "metering",
    rewrite: |plan| Ok(plan.transform_up(metered)?.data),
};

/// What the expressions of a node are like.
#[derive(Debug, Default)]
struct Found {
    is_growing: bool,
    is_unbounded: bool,
    longest_bytes: u64,
}

impl Found {
    fn in_node(node: &dyn ExecutionPlan) -> Result<Self> {
        let mut found = Self::default();
        node.apply_expressions(&mut |expr| {
            expr.apply(|expr| {
                found.look_at(expr.as_ref());
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(found)
    }

    fn look_at(&mut self, expr: &dyn PhysicalExpr) {
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            self.longest_bytes = self.longest_bytes.max(scalar_bytes(literal.value()));
        }
        let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() else {
            return;
        };
        let function = call.fun().inner();
        if let Some(guarded) = function.downcast_ref::<Guarded>() {
            self.is_growing = true;
            self.is_unbounded |= guarded.is_unbounded(call.args());
        }
        self.is_growing |= function.is::<Concatenated>();
    }

    /// To how many rows batches have to be cut.
    fn rows(&self, node: &dyn ExecutionPlan) -> Option<usize> {
        let of_functions = self.is_unbounded.then_some(UNBOUNDED_ROWS);
        // Comparisons repeat no constant.
        let is_long = self.longest_bytes >= LONG_BYTES && !node.is::<FilterExec>();
        let of_constants = is_long.then(|| (REPEATED_BYTES / self.longest_bytes).max(1) as usize);
        of_functions.into_iter().chain(of_constants).min()
    }
}

/// To how many rows the batches of a query have to be cut that runs `plan`: operators that put small batches together must
/// not make large ones of them again, and long texts of all tables may be in one row.
pub fn batch_rows(plan: &dyn ExecutionPlan) -> Option<usize> {
    let long_bytes = long_bytes(plan);
    let of_tables = (long_bytes > 0).then(|| (ROWS_BYTES / long_bytes).max(1) as usize);
    sliced_rows(plan).into_iter().chain(of_tables).min()
}

fn sliced_rows(plan: &dyn ExecutionPlan) -> Option<usize> {
    let own = plan.downcast_ref::<SliceExec>().map(SliceExec::rows);
    let below = plan.children().into_iter();
    let below = below.filter_map(|input| sliced_rows(input.as_ref()));
    below.chain(own).min()
}

/// What a row takes that has the long texts of all scans.
fn long_bytes(plan: &dyn ExecutionPlan) -> u64 {
    let own = TableScan::of(plan).map_or(0, |scan| scan.long_bytes(LONG_BYTES));
    let below = plan.children().into_iter();
    below.map(|input| long_bytes(input.as_ref())).sum::<u64>() + own
}

/// `node`, which repeats values of its inputs in its rows, with inputs whose widths are charged.
fn over_widths(
    node: Arc<dyn ExecutionPlan>,
    kind: Repeats,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let is_wide = |input: &&Arc<dyn ExecutionPlan>| {
        let schema = input.schema();
        let mut fields = schema.fields().iter();
        kind == Repeats::Lists || fields.any(|field| is_copied(field.data_type()))
    };
    if !node.children().iter().any(is_wide) {
        return Ok(Transformed::no(node));
    }
    let inputs = node
        .children()
        .into_iter()
        .map(|input| match is_wide(&input) {
            true => Arc::new(WidthExec::new(Arc::clone(input), kind, node.name())) as _,
            false => Arc::clone(input),
        });
    let inputs = inputs.collect();
    let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Ok(Transformed::yes(node.replace_children(inputs, same)?))
}

fn metered(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if node.children().is_empty() {
        return Ok(Transformed::no(node));
    }
    if is_join(node.as_ref()) {
        return over_widths(node, Repeats::Rows);
    }
    if node.is::<UnnestExec>() {
        return over_widths(node, Repeats::Lists);
    }
    let found = Found::in_node(node.as_ref())?;
    let rows = found.rows(node.as_ref());
    // Nearfar's operator, which stands for it, charges what it keeps itself.
    let keeps_all = node.is::<WindowAggExec>() && node.name() != SORTED_WINDOWS;
    let is_window = keeps_all || gives_large_values(node.as_ref());
    // Others take many batches before they give one: what they evaluate is kept for none of them.
    let has_scope = is_window || (found.is_growing && node.is::<ProjectionExec>());
    if !has_scope && rows.is_none() {
        return Ok(Transformed::no(node));
    }
    let inputs = node.children().into_iter().map(|input| {
        let mut input = Arc::clone(input);
        if let Some(rows) = rows {
            input = Arc::new(SliceExec::new(input, rows));
        }
        if has_scope {
            let keeps_rows = keeps_all;
            input = Arc::new(MeteredExec::new(input, Role::Input { keeps_rows }));
        }
        input
    });
    let inputs = inputs.collect();
    let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    let mut node = node.replace_children(inputs, same)?;
    if has_scope {
        node = Arc::new(MeteredExec::new(node, Role::Operator { keeps_all }));
    }
    Ok(Transformed::yes(node))
}

/// Whether a node gives every row a value of any size that it has from a window.
fn gives_large_values(node: &dyn ExecutionPlan) -> bool {
    let Some(windows) = node.downcast_ref::<BoundedWindowAggExec>() else {
        return false;
    };
    let mut fields = windows.window_expr().iter().map(|window| window.field());
    fields.any(|field| field.is_ok_and(|field| is_of_any_size(field.data_type())))
}
