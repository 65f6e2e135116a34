//! Optimizer rules that use what Nearfar knows of its tables.

mod aggregates;
mod any_order;
mod apart;
mod array_texts;
mod bounded;
mod condition_rule;
mod connected;
mod constant_member;
mod cross_joins;
mod decimal;
mod determined_keys;
mod early_groups;
mod empty_unions;
mod estimate;
mod fails;
mod finest_groups;
mod float_limits;
mod global_filters;
mod graph;
mod guarded;
mod join_order;
mod long_filters;
mod matched_rows;
mod merge_filters;
mod missing_orders;
mod multisets;
mod named_members;
mod narrow;
mod null_safe;
mod opaque;
mod order_needs;
mod outer_constants;
mod places;
mod settings;
mod shared;
mod shared_names;
mod states;
mod subqueries;
mod sums_of_sums;
mod unless;
mod whole_orders;

pub use any_order::ScansInAnyOrder;
pub use decimal::{Bounds, NarrowDecimal, Node, Operation};
pub use finest_groups::FINEST_GROUPS;
pub use join_order::JoinOrder;
pub use order_needs::replaced_by_need;
pub use settings::settings;
pub use shared::forget_runs;
pub use states::{merged, over_states};
pub use subqueries::{has_any as has_subqueries, is_of_several_rows};

use bounded::Bounded;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use std::sync::Arc;
use unless::Unless;

use crate::datafusion_names::{
    COMMON_SUBEXPRESSIONS, DECORRELATE_PREDICATE_SUBQUERY, ELIMINATE_CROSS_JOIN, ELIMINATE_FILTER,
    ELIMINATE_JOIN, ELIMINATE_OUTER_JOIN, ENSURE_REQUIREMENTS, EXTRACT_EQUIJOIN_PREDICATE,
    FILTER_PUSHDOWN, FILTER_PUSHDOWN_POST, OPTIMIZE_PROJECTIONS, PROJECTION_PUSHDOWN,
    PROPAGATE_EMPTY_RELATION, PUSH_DOWN_FILTER, PUSH_DOWN_LIMIT, REWRITE_SET_COMPARISON,
    SANITY_CHECK, SIMPLIFY_EXPRESSIONS, SINGLE_DISTINCT,
};
use crate::values;

/// DataFusion's rules for plans as they come from SQL, with those for PostgreSQL's values among them, behind
/// those for subqueries.
pub fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = values::analyzer_rules();
    rules.insert(0, Arc::new(multisets::NumberMultisets));
    rules.insert(1, Arc::new(subqueries::UnnestSubqueries));
    rules.insert(2, Arc::new(array_texts::ReadArrayTexts));
    rules
        .into_iter()
        .map(|rule| Arc::new(Bounded(rule)) as _)
        .collect()
}

/// Rules that find more to do once all have been applied: conditions of joins have become those of their inputs, which may
/// have subqueries, and what subqueries have become is ordered, and tells of its columns. All others find nothing in a
/// second pass in the queries of TPC-H and TPC-DS, and take as long for that as in the first one.
const AGAIN: [&str; 17] = [
    named_members::NAMED_MEMBERS.name,
    constant_member::CONSTANT_MEMBER.name,
    DECORRELATE_PREDICATE_SUBQUERY,
    SIMPLIFY_EXPRESSIONS,
    ELIMINATE_JOIN,
    EXTRACT_EQUIJOIN_PREDICATE,
    ELIMINATE_FILTER,
    ELIMINATE_CROSS_JOIN,
    PROPAGATE_EMPTY_RELATION,
    ELIMINATE_OUTER_JOIN,
    PUSH_DOWN_LIMIT,
    PUSH_DOWN_FILTER,
    matched_rows::NAME,
    join_order::NAME,
    COMMON_SUBEXPRESSIONS,
    apart::NAME,
    OPTIMIZE_PROJECTIONS,
];

/// DataFusion's logical rules with Nearfar's among them.
pub fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Vec::new();
    for rule in Optimizer::new().rules {
        if rule.name() == OPTIMIZE_PROJECTIONS {
            rules.push(Arc::new(apart::ApartProjections));
        }
        rules.push(match rule.name() {
            EXTRACT_EQUIJOIN_PREDICATE => unless(rule, null_safe::is_null_safe),
            ELIMINATE_CROSS_JOIN => unless(rule, |plan| {
                !cross_joins::has_any(plan) || null_safe::has_null_safe_inner_join(plan)
            }),
            PUSH_DOWN_FILTER => unless(rule, |plan| {
                global_filters::is_of_all_rows(plan) || long_filters::is_long_on_computed(plan)
            }),
            REWRITE_SET_COMPARISON => unless(rule, |plan| {
                subqueries::has_any(plan).is_ok_and(|has_subquery| !has_subquery)
            }),
            PROPAGATE_EMPTY_RELATION => Arc::new(empty_unions::EmptyUnions(rule)),
            SINGLE_DISTINCT => Arc::new(sums_of_sums::SumsOfSums::new(rule)),
            _ => rule,
        });
    }
    // Before subqueries become joins.
    let before = rules
        .iter()
        .position(|rule| rule.name() == DECORRELATE_PREDICATE_SUBQUERY);
    let before = before.unwrap_or(0);
    rules.insert(before, Arc::new(constant_member::CONSTANT_MEMBER));
    rules.insert(before, Arc::new(named_members::NAMED_MEMBERS));
    // Join order needs filters to have reached the scans, and joins not yet to be separated by the
    // projections that the last rule puts between them.
    let after = rules
        .iter()
        .position(|rule| rule.name() == PUSH_DOWN_FILTER);
    let after = after.map_or(rules.len(), |at| at + 1);
    rules.insert(after, Arc::new(JoinOrder));
    // Inner joins can be ordered, outer ones can't.
    rules.insert(after, Arc::new(matched_rows::MatchedRows));
    let again: Vec<_> = rules
        .iter()
        .filter(|rule| AGAIN.contains(&rule.name()))
        .map(|rule| match rule.name() {
            // What filters have become is new, and where they have gone.
            SIMPLIFY_EXPRESSIONS => unless(Arc::clone(rule), |plan| !has_conditions(plan)),
            _ => Arc::clone(rule),
        })
        .collect();
    rules.extend(again);
    rules.push(Arc::new(guarded::GUARD_CONDITIONS));
    rules.push(Arc::new(opaque::OPAQUE_CONDITIONS));
    rules
        .into_iter()
        .map(|rule| Arc::new(Bounded(rule)) as _)
        .collect()
}

/// Whether a node has conditions that rows must pass.
fn has_conditions(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(_) => true,
        LogicalPlan::Join(join) => join.filter.is_some(),
        LogicalPlan::TableScan(scan) => !scan.filters.is_empty(),
        _ => false,
    }
}

/// The rule that guards conditions that can fail, by its name.
pub const GUARD_CONDITIONS: &str = guarded::GUARD_CONDITIONS.name;
/// The rule that hides conditions from others, by its name.
pub const OPAQUE_CONDITIONS: &str = opaque::OPAQUE_CONDITIONS.name;

fn unless(
    rule: Arc<dyn OptimizerRule + Send + Sync>,
    is_left_out: fn(&LogicalPlan) -> bool,
) -> Arc<dyn OptimizerRule + Send + Sync> {
    Arc::new(Unless { rule, is_left_out })
}

pub use outer_constants::{varying, varying_order};
pub use subqueries::single_row;

/// Decimals that fit are computed in 64 bits, by the machine that runs a plan.
pub fn narrow_decimals() -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    let rule: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(narrow::NARROW_DECIMALS);
    Arc::new(Bounded(rule))
}

/// [`plannable_rules`] where all of a plan runs on one machine.
pub fn undivided_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = plannable_rules();
    let filters = rules
        .iter()
        .position(|rule| rule.name() == whole_orders::WHOLE_ORDERS.name)
        .unwrap_or(rules.len());
    let own: [Arc<dyn PhysicalOptimizerRule + Send + Sync>; 3] = [
        Arc::new(FINEST_GROUPS),
        Arc::new(early_groups::EARLY_GROUPS),
        Arc::new(shared::ShareSubplans),
    ];
    let own = own.into_iter().map(|rule| Arc::new(Bounded(rule)) as _);
    rules.splice(filters..filters, own);
    rules
}

/// Leaves one of equal subplans, when all else has been done to them.
pub fn joined_subplans() -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    Arc::new(shared::JOIN_SHARED)
}

/// DataFusion's physical rules with Nearfar's behind them. Behind them, the machine that runs the plan
/// has rules of its own.
pub fn plannable_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    // It takes columns of two sides of a join for each other where they share a name. What can be
    // pushed down has been by the logical rules.
    rules.retain(|rule| rule.name() != FILTER_PUSHDOWN);
    let at = |rules: &[Arc<dyn PhysicalOptimizerRule + Send + Sync>], name: &str| {
        let at = rules.iter().position(|rule| rule.name() == name);
        at.unwrap_or(rules.len())
    };
    // Of the two times that projections are moved, the second one is for batches that were put together by operators of
    // their own, which there are none of. What joins take in earlier has not to be moved through sorts and partitions.
    let moves =
        |rule: &Arc<dyn PhysicalOptimizerRule + Send + Sync>| rule.name() == PROJECTION_PUSHDOWN;
    if let Some(second) = rules.iter().rposition(moves) {
        let projections = rules.remove(second);
        let sorts = at(&rules, ENSURE_REQUIREMENTS);
        rules.insert(sorts, projections);
    }
    let places = (0..rules.len()).filter(|at| moves(&rules[*at]));
    for at in places.rev().collect::<Vec<_>>() {
        rules.insert(at + 1, Arc::new(merge_filters::UNBLOCK_MERGE_FILTERS));
        rules.insert(at, Arc::new(merge_filters::BLOCK_MERGE_FILTERS));
    }
    // Before projections reach joins, and before rows are partitioned by keys.
    let projections = at(&rules, merge_filters::BLOCK_MERGE_FILTERS.name);
    rules.insert(projections, Arc::new(determined_keys::DETERMINED_KEYS));
    // Around what leaves out sorts.
    let sorts = at(&rules, ENSURE_REQUIREMENTS);
    rules.insert(sorts, Arc::new(outer_constants::HIDE_CONSTANTS));
    // Before filters are made of what sorts keep.
    let filters = at(&rules, FILTER_PUSHDOWN_POST);
    let behind = rules.len().min(filters + 1);
    rules.insert(behind, Arc::new(shared_names::UNBLOCK_SHARED_NAMES));
    rules.insert(filters, Arc::new(shared_names::BLOCK_SHARED_NAMES));
    rules.insert(filters, Arc::new(whole_orders::WHOLE_ORDERS));
    let check = at(&rules, SANITY_CHECK);
    rules.insert(check, Arc::new(missing_orders::MISSING_ORDERS));
    rules.insert(check, Arc::new(float_limits::FLOAT_LIMITS));
    rules
        .into_iter()
        .map(|rule| Arc::new(Bounded(rule)) as _)
        .collect()
}
