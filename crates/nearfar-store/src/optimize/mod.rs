//! Optimizer rules that use what Nearfar knows of its tables.

mod apart;
mod array_texts;
mod constant_member;
mod costly;
mod decimal;
mod estimate;
mod graph;
mod guarded;
mod interruptible;
mod join_order;
mod narrow;
mod settings;
mod subqueries;

pub use costly::is_costly;
pub use estimate::has_subquery;
pub use join_order::JoinOrder;
pub use settings::settings;
pub use subqueries::is_of_several_rows;

use datafusion::optimizer::{AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use interruptible::Interruptible;
use std::sync::Arc;

use crate::datafusion_names::{
    DECORRELATE_PREDICATE_SUBQUERY, FILTER_PUSHDOWN, OPTIMIZE_PROJECTIONS, PUSH_DOWN_FILTER,
};
use crate::values;

/// DataFusion's rules for plans as they come from SQL, with those for PostgreSQL's values among them, behind
/// those for subqueries.
pub fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = values::analyzer_rules();
    rules.insert(0, Arc::new(subqueries::UnnestSubqueries));
    rules.insert(1, Arc::new(array_texts::ReadArrayTexts));
    rules
        .into_iter()
        .map(|rule| Arc::new(Interruptible(rule)) as _)
        .collect()
}

/// DataFusion's logical rules with Nearfar's among them.
pub fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Vec::new();
    for rule in Optimizer::new().rules {
        if rule.name() == OPTIMIZE_PROJECTIONS {
            rules.push(Arc::new(apart::ApartProjections));
        }
        rules.push(rule);
    }
    // Before subqueries become joins.
    let before = rules
        .iter()
        .position(|rule| rule.name() == DECORRELATE_PREDICATE_SUBQUERY);
    rules.insert(
        before.unwrap_or(0),
        Arc::new(constant_member::ConstantMember),
    );
    // Join order needs filters to have reached the scans, and joins not yet to be separated by the
    // projections that the last rule puts between them.
    let after = rules
        .iter()
        .position(|rule| rule.name() == PUSH_DOWN_FILTER);
    rules.insert(after.map_or(rules.len(), |at| at + 1), Arc::new(JoinOrder));
    rules.push(Arc::new(guarded::GuardConditions));
    rules
        .into_iter()
        .map(|rule| Arc::new(Interruptible(rule)) as _)
        .collect()
}

/// DataFusion's physical rules with Nearfar's behind them.
pub fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    // It takes columns of two sides of a join for each other where they share a name. What can be
    // pushed down has been by the logical rules.
    rules.retain(|rule| rule.name() != FILTER_PUSHDOWN);
    rules.push(Arc::new(narrow::NarrowDecimals));
    rules
        .into_iter()
        .map(|rule| Arc::new(Interruptible(rule)) as _)
        .collect()
}
