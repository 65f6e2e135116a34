//! Optimizer rules that use what Nearfar knows of its tables.

mod decimal;
mod estimate;
mod graph;
mod join_order;
mod narrow;
mod settings;

pub use estimate::has_subquery;
pub use join_order::JoinOrder;
pub use settings::settings;

use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use std::sync::Arc;

/// DataFusion's logical rules with Nearfar's among them.
pub fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    // Join order needs filters to have reached the scans, and joins not yet to be separated by the
    // projections that the last rule puts between them.
    let after = rules
        .iter()
        .position(|rule| rule.name() == "push_down_filter");
    rules.insert(after.map_or(rules.len(), |at| at + 1), Arc::new(JoinOrder));
    rules
}

/// DataFusion's physical rules with Nearfar's behind them.
pub fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.push(Arc::new(narrow::NarrowDecimals));
    rules
}
