//! Filters on columns whose name another column shares, such as those of a table that is joined with itself.
//!
//! DataFusion hands filters that a join makes while it runs down to scans, and finds their columns by name on
//! the way. Where two columns of an operator's input share a name, a filter ends at the wrong side of a join
//! below. While filters are handed down, a node stands there that lets no such filter through.

use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::plan_rule::PlanRule;
use crate::transparent::{transparent, without};

/// Puts these nodes into a plan.
pub const BLOCK_SHARED_NAMES: PlanRule = PlanRule {
    name: "nearfar_block_shared_names",
    rewrite: |plan| {
        let blocked = plan.transform_up(|input| {
            let schema = input.schema();
            let clear = clear_columns(&schema);
            if clear.len() == schema.fields().len() {
                return Ok(Transformed::no(input));
            }
            Ok(Transformed::yes(
                Arc::new(SharedNamesExec { input }) as Arc<dyn ExecutionPlan>
            ))
        });
        blocked.data()
    },
};

/// Takes them out again.
pub const UNBLOCK_SHARED_NAMES: PlanRule = PlanRule {
    name: "nearfar_unblock_shared_names",
    rewrite: |plan| without::<SharedNamesExec>(plan),
};

/// The columns whose names no other has.
fn clear_columns(schema: &Schema) -> HashSet<usize> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for field in schema.fields() {
        *counts.entry(field.name()).or_default() += 1;
    }
    let fields = schema.fields().iter().enumerate();
    fields
        .filter(|(_, field)| counts[field.name().as_str()] == 1)
        .map(|(index, _)| index)
        .collect()
}

/// The rows of its input. Filters on its clear columns go through.
#[derive(Debug)]
struct SharedNamesExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for SharedNamesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedNamesExec")
    }
}

impl ExecutionPlan for SharedNamesExec {
    fn name(&self) -> &str {
        "SharedNamesExec"
    }

    transparent!(|_: &Self, input| Self { input });

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let clear = clear_columns(&self.input.schema());
        let child =
            ChildFilterDescription::from_child_with_allowed_indices(&filters, clear, &self.input)?;
        Ok(FilterDescription::new().with_child(child))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
