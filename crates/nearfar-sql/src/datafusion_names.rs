//! DataFusion's names of operators, memory consumers and rules, and words of its messages, that this crate looks
//! for where nothing else tells them. Running plans in the tests below shows an upgrade that changes one.

/// The consumer with which sorts keep rows until they are merged or spilled, one for each partition.
pub const SORTER: &str = "ExternalSorter[";

/// The consumer with which sorts merge, once for each sort. Of what was spilled it takes as many files
/// concurrently as it gets memory for; what it merges in memory it needs.
pub const SORT_MERGER: &str = "ExternalSorterMerge[";

/// What repartitions call the files that they spill batches to on their way between threads.
pub const REPARTITION_FILE: &str = "SpillPool";

/// The consumer with which hash joins keep the rows of the side that is looked up.
pub const HASH_JOIN_BUILD: &str = "HashJoinInput";

/// Operators with one input that pass its rows on as they are.
pub const PASSING_OPERATORS: [&str; 5] = [
    "CoalescePartitionsExec",
    "CooperativeExec",
    "RepartitionExec",
    "SortExec",
    "SortPreservingMergeExec",
];

/// The function that `value = ANY (array)` becomes.
pub const ARRAY_HAS: &str = "array_has";

/// The rule of the analyzer that settles types.
pub const TYPE_COERCION: &str = "type_coercion";

/// The logical rule that leaves out columns that nobody reads.
pub const OPTIMIZE_PROJECTIONS: &str = "optimize_projections";

/// The logical rule that makes joins of subqueries in conditions.
pub const DECORRELATE_PREDICATE_SUBQUERY: &str = "decorrelate_predicate_subquery";

/// The logical rule that computes what is constant.
pub const SIMPLIFY_EXPRESSIONS: &str = "simplify_expressions";

/// The logical rule that moves conditions towards scans.
pub const PUSH_DOWN_FILTER: &str = "push_down_filter";

/// The logical rule that moves limits towards scans.
pub const PUSH_DOWN_LIMIT: &str = "push_down_limit";

/// The logical rule that leaves out joins with nothing.
pub const ELIMINATE_JOIN: &str = "eliminate_join";

/// The logical rule that leaves out conditions that are always so, or never.
pub const ELIMINATE_FILTER: &str = "eliminate_filter";

/// The logical rule that makes outer joins inner whose missing rows a condition leaves out.
pub const ELIMINATE_OUTER_JOIN: &str = "eliminate_outer_join";

/// The logical rule that computes once what is there several times.
pub const COMMON_SUBEXPRESSIONS: &str = "common_sub_expression_eliminate";

/// The physical rule that moves conditions towards scans.
pub const FILTER_PUSHDOWN: &str = "FilterPushdown";

/// The physical rule that moves projections towards scans.
pub const PROJECTION_PUSHDOWN: &str = "ProjectionPushdown";

/// The physical rule that decides about sorts and partitions.
pub const ENSURE_REQUIREMENTS: &str = "EnsureRequirements";

/// The physical rule that hands filters that change while a query runs to scans.
pub const FILTER_PUSHDOWN_POST: &str = "FilterPushdown(Post)";

/// The physical rule that refuses plans whose operators do not get what they need.
pub const SANITY_CHECK: &str = "SanityCheckPlan";

/// The logical rule that makes keys of joins of their conditions.
pub const EXTRACT_EQUIJOIN_PREDICATE: &str = "extract_equijoin_predicate";

/// The logical rule that finds the keys of joins without any.
pub const ELIMINATE_CROSS_JOIN: &str = "eliminate_cross_join";

/// The logical rule that makes other conditions of comparisons with all or any values of a subquery.
pub const REWRITE_SET_COMPARISON: &str = "rewrite_set_comparison";

/// The logical rule that leaves out what has no rows.
pub const PROPAGATE_EMPTY_RELATION: &str = "propagate_empty_relation";

/// The logical rule that makes two aggregates of one over distinct values.
pub const SINGLE_DISTINCT: &str = "single_distinct_aggregation_to_group_by";

/// Functions whose arguments the logical rules repeat.
pub const REPEATING_FUNCTIONS: [&str; 3] = ["coalesce", "nvl", "nvl2"];

/// Aggregates whose result depends on the order of their rows, also where the statement gives none.
pub const ORDERED_AGGREGATES: [&str; 5] = [
    "array_agg",
    "string_agg",
    "first_value",
    "last_value",
    "nth_value",
];

/// How the message about a scalar subquery with several rows begins.
pub const SEVERAL_ROWS: &str = "Scalar subquery returned more than one row";

/// What the message about output columns of one name has in it.
pub const UNIQUE_NAMES: &str = "unique expression names";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fmt;
    use std::sync::Arc;

    use arrow::datatypes::Schema;
    use datafusion::error::{DataFusionError, Result};
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::optimizer::{Analyzer, Optimizer};
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
    use datafusion::physical_plan::coop::CooperativeExec;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::{ExecutionPlan, collect};
    use datafusion::prelude::{SessionConfig, SessionContext};
    use parking_lot::Mutex;

    /// Grants everything and keeps the names of who asks.
    #[derive(Debug, Default)]
    struct Names(Mutex<Vec<String>>);

    impl fmt::Display for Names {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.name())
        }
    }

    impl MemoryPool for Names {
        fn name(&self) -> &str {
            "names of consumers"
        }

        fn register(&self, consumer: &MemoryConsumer) {
            self.0.lock().push(consumer.name().to_owned());
        }

        fn grow(&self, _: &MemoryReservation, _: usize) {}

        fn shrink(&self, _: &MemoryReservation, _: usize) {}

        fn try_grow(&self, _: &MemoryReservation, _: usize) -> Result<()> {
            Ok(())
        }

        fn reserved(&self) -> usize {
            0
        }
    }

    /// Runs a query in DataFusion alone: its operators, its consumers of memory, and how it ended.
    async fn run(sql: &str) -> (BTreeSet<String>, Vec<String>, Result<()>) {
        let names = Arc::new(Names::default());
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&names) as Arc<dyn MemoryPool>)
            .build_arc()
            .expect("a runtime");
        let mut config = SessionConfig::new().with_target_partitions(2);
        config.options_mut().optimizer.repartition_aggregations = true;
        let context = SessionContext::new_with_config_rt(config, runtime);
        let plan = context.sql(sql).await.expect("a query");
        let plan = plan.create_physical_plan().await.expect("a plan");
        let mut operators = BTreeSet::new();
        add_names(plan.as_ref(), &mut operators);
        let ended = collect(plan, context.task_ctx()).await.map(|_| ());
        let consumers = std::mem::take(&mut *names.0.lock());
        (operators, consumers, ended)
    }

    fn add_names(plan: &dyn ExecutionPlan, names: &mut BTreeSet<String>) {
        names.insert(plan.name().to_owned());
        for child in plan.children() {
            add_names(child.as_ref(), names);
        }
    }

    #[tokio::test]
    async fn operators_and_consumers_have_these_names() {
        let grouped = "SELECT value % 7 AS k, count(*) AS n FROM generate_series(1, 100000)
             GROUP BY value % 7";
        let sorted = format!("{grouped} ORDER BY n, k");
        let counted = format!("SELECT count(*) FROM ({grouped})");
        let (mut operators, consumers, ended) = run(&sorted).await;
        ended.expect("rows");
        for consumer in [SORTER, SORT_MERGER] {
            let is_there = consumers.iter().any(|name| name.starts_with(consumer));
            assert!(is_there, "{consumer} is not among {consumers:?}");
        }
        operators.extend(run(&counted).await.0);
        let input = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        operators.insert(CooperativeExec::new(input).name().to_owned());
        for operator in PASSING_OPERATORS {
            assert!(operators.contains(operator), "{operator}: {operators:?}");
        }
    }

    #[tokio::test]
    async fn hash_joins_have_a_consumer_of_this_name() {
        let joined = "SELECT count(*) FROM generate_series(1, 10) a JOIN generate_series(1, 10) b \
                      ON a.value = b.value";
        let (_, consumers, ended) = run(joined).await;
        ended.expect("rows");
        let is_there = consumers.iter().any(|name| name.contains(HASH_JOIN_BUILD));
        assert!(is_there, "{consumers:?}");
    }

    #[tokio::test]
    async fn columns_of_one_name_are_refused_so() {
        let refused = SessionContext::new().sql("SELECT 1 AS a, 2 AS a").await;
        let error = refused.expect_err("two columns of one name");
        let root = error.find_root();
        assert!(
            matches!(root, DataFusionError::Plan(text) if text.contains(UNIQUE_NAMES)),
            "{root}"
        );
    }

    #[test]
    fn rules_have_these_names() {
        let analyzer = Analyzer::new();
        assert!(
            analyzer
                .rules
                .iter()
                .any(|rule| rule.name() == TYPE_COERCION)
        );
        let logical = Optimizer::new();
        for name in [
            OPTIMIZE_PROJECTIONS,
            DECORRELATE_PREDICATE_SUBQUERY,
            PUSH_DOWN_FILTER,
            EXTRACT_EQUIJOIN_PREDICATE,
            ELIMINATE_CROSS_JOIN,
            REWRITE_SET_COMPARISON,
            SIMPLIFY_EXPRESSIONS,
            PROPAGATE_EMPTY_RELATION,
            SINGLE_DISTINCT,
            PUSH_DOWN_LIMIT,
            ELIMINATE_JOIN,
            ELIMINATE_FILTER,
            ELIMINATE_OUTER_JOIN,
            COMMON_SUBEXPRESSIONS,
        ] {
            assert!(
                logical.rules.iter().any(|rule| rule.name() == name),
                "{name}"
            );
        }
        let physical = PhysicalOptimizer::new();
        for name in [
            PROJECTION_PUSHDOWN,
            ENSURE_REQUIREMENTS,
            FILTER_PUSHDOWN,
            FILTER_PUSHDOWN_POST,
            SANITY_CHECK,
        ] {
            assert!(
                physical.rules.iter().any(|rule| rule.name() == name),
                "{name}"
            );
        }
        let moves = physical.rules.iter();
        let moves = moves.filter(|rule| rule.name() == PROJECTION_PUSHDOWN);
        assert_eq!(moves.count(), 2, "one of them is moved");
    }

    #[test]
    fn aggregates_have_these_names() {
        let all = datafusion::functions_aggregate::all_default_aggregate_functions();
        for name in ORDERED_AGGREGATES {
            assert!(all.iter().any(|function| function.name() == name), "{name}");
        }
    }

    #[tokio::test]
    async fn a_scalar_subquery_with_several_rows_says_so() {
        let (.., ended) = run("SELECT (SELECT value FROM generate_series(1, 2))").await;
        let error = ended.expect_err("several rows");
        let root = error.find_root();
        assert!(
            matches!(root, DataFusionError::Execution(text) if text.starts_with(SEVERAL_ROWS)),
            "{root}"
        );
    }
}
