//! Plan nodes that change nothing about the rows of their input.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// The methods of [`ExecutionPlan`](datafusion::physical_plan::ExecutionPlan) that are the same for
/// every node with one field `input` whose rows it hands on. `$with_input` makes the node again over
/// another input.
///
/// The properties are those of the input itself, so that putting such a node into a plan does not
/// have the nodes above it computed anew, which would cut off the filters that some of them update
/// while the query runs. A node with other properties says
/// `but properties` first, and gives them itself.
macro_rules! transparent {
    ($with_input:expr) => {
        fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
            self.input.properties()
        }

        crate::transparent::transparent!(but properties, $with_input);
    };
    (but properties, $with_input:expr) => {
        fn maintains_input_order(&self) -> Vec<bool> {
            vec![true]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }

        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            vec![&self.input]
        }

        fn apply_expressions(
            &self,
            _f: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::error::Result<
                datafusion::common::tree_node::TreeNodeRecursion,
            >,
        ) -> datafusion::error::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }

        fn with_new_children(
            self: std::sync::Arc<Self>,
            mut children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
        ) -> datafusion::error::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>
        {
            let input = children
                .pop()
                .unwrap_or_else(|| std::sync::Arc::clone(&self.input));
            Ok(std::sync::Arc::new($with_input(self.as_ref(), input)))
        }

        fn replace_children(
            self: std::sync::Arc<Self>,
            mut children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            _options: datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> datafusion::error::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>
        {
            let input = children
                .pop()
                .unwrap_or_else(|| std::sync::Arc::clone(&self.input));
            Ok(std::sync::Arc::new($with_input(self.as_ref(), input)))
        }

        fn child_stats_requests(
            &self,
            partition: Option<usize>,
        ) -> Vec<datafusion::physical_plan::statistics::ChildStats> {
            vec![datafusion::physical_plan::statistics::ChildStats::At(
                partition,
            )]
        }

        fn statistics_from_inputs(
            &self,
            inputs: &[std::sync::Arc<datafusion::common::Statistics>],
            _args: &datafusion::physical_plan::statistics::StatisticsArgs,
        ) -> datafusion::error::Result<std::sync::Arc<datafusion::common::Statistics>> {
            Ok(std::sync::Arc::clone(&inputs[0]))
        }
    };
}

pub(crate) use transparent;

/// A plan without its nodes of the type `T`, each of which hands on the rows of its only input.
pub fn without<T: ExecutionPlan>(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let without = plan.transform_up(|node| {
        Ok(match (node.is::<T>(), &node.children()[..]) {
            (true, [input]) => Transformed::yes(Arc::clone(input)),
            _ => Transformed::no(node),
        })
    });
    without.data()
}
