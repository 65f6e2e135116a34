//! Plans that are kept for when a statement runs again: those of queries without parameters, and generic plans of short
//! queries with parameters.
//!
//! A query without parameters has one plan, which is kept as it was optimized. A short query with parameters takes longer
//! to be planned than to be run. When one has run, its plan is kept as it was before it was optimized. When it runs again,
//! that plan is optimized for parameters of the same types, whatever their values are, and from then on their values are
//! put in, and what follows from them is simplified.
//!
//! Each time it is made sure that tables and settings are what they were, and that no table has grown or shrunk so much
//! that another order of joins may be the better one. How tables are read, by which index and in which parts, which side of
//! a join is built and what is computed once are decided each time.
//!
//! Plans hold no table: one that is dropped gives back its memory, whoever has a query over it prepared.

mod repeatable;
mod tables;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableSource};
use datafusion::optimizer::Optimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use std::sync::Arc;

use super::compiled::{Compiled, with_types};
use super::patterns::check_patterns;
use super::rejoin::Stage;
use crate::datafusion_names::{PUSH_DOWN_FILTER, SIMPLIFY_EXPRESSIONS};
use crate::engine::known_definitions::KnownDefinitions;
use crate::engine::lanes::is_short;
use crate::engine::metering::planned_bytes;
use crate::engine::planning::{physical_plan_of_optimized, planned};
use crate::engine::session::Session;
use crate::engine::stream::RowStream;
use crate::error::EngineError;
use crate::memory::Charge;
use crate::optimize::{GUARD_CONDITIONS, OPAQUE_CONDITIONS};
use crate::settings::PlanCacheMode;
use crate::sql::Statement;
use nearfar_table::transaction::Transaction;
use repeatable::{is_generic, is_repeatable, value_bytes};
use tables::{KnownTable, occupied, vacated};

/// The rules for what follows from the values of parameters. Conditions are guarded, and hidden from other rules, when
/// those have reached the scans that can be evaluated there.
const AFTER_VALUES: [&str; 4] = [
    SIMPLIFY_EXPRESSIONS,
    PUSH_DOWN_FILTER,
    GUARD_CONDITIONS,
    OPAQUE_CONDITIONS,
];

/// Bytes that the values of a plan have at most, beside those of its text.
const VALUE_BYTES_MAX: usize = 16 << 10;

/// What is kept of a statement.
#[derive(Debug)]
enum Kept {
    /// It has parameters and has run once, and this is its plan before it was optimized.
    Planned(Arc<Basis>),
    /// This is its plan, generic if it has parameters.
    Optimized(Arc<Basis>),
    /// With these settings, it is planned each time that it runs.
    Never(Arc<ConfigOptions>),
}

/// A plan, and what it holds for.
#[derive(Debug)]
struct Basis {
    /// Its tables are left out.
    plan: LogicalPlan,
    /// Of all that the statement names: the plan may not read all of it.
    definitions: KnownDefinitions,
    parameters: Vec<DataType>,
    /// The tables that the plan reads.
    tables: Vec<KnownTable>,
    /// What the plan takes as long as it is kept.
    charge: Arc<Charge>,
}

impl Session {
    /// Starts a query that has run before, by the plan that was kept. None where it has to be planned.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(super) async fn run_kept(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        (statement, parameters): (&Statement, &[ScalarValue]),
    ) -> Result<Option<RowStream>, EngineError> {
        let Some(kept) = statement.compiled::<Kept>() else {
            return Ok(None);
        };
        let never = || statement.keep_compiled(Kept::Never(self.config_options()));
        let basis = match kept.as_ref() {
            Kept::Never(_) => return Ok(None),
            Kept::Optimized(basis) => Arc::clone(basis),
            Kept::Planned(basis) => {
                let Some(sources) = self.sources_of(basis, parameters).await? else {
                    return Ok(None);
                };
                let optimized = planned(|| basis.optimized(state, parameters, &sources))?;
                let Some(optimized) = optimized else {
                    never();
                    return Ok(None);
                };
                Arc::new(optimized)
            }
        };
        let Some(sources) = self.sources_of(&basis, parameters).await? else {
            return Ok(None);
        };
        let plan = planned(|| basis.with_values(state, parameters, &sources))?;
        if !parameters.is_empty() {
            check_patterns(&plan)?;
        }
        self.wait_for_tables(transaction, &plan, false).await?;
        let physical = physical_plan_of_optimized(state, &plan).await?;
        if !parameters.is_empty() && !self.is_worth_it(physical.as_ref()) {
            never();
            return Ok(None);
        }
        if matches!(kept.as_ref(), Kept::Planned(_)) {
            statement.keep_compiled(Kept::Optimized(basis));
        }
        self.start_query(transaction, state, (&plan, Stage::Optimized), physical)
            .map(Some)
    }

    /// Starts a query without parameters, and keeps its plan for when it runs again. None for one that has to be planned
    /// each time, of which nothing is done.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(super) async fn run_and_keep(
        &self,
        transaction: &Arc<Transaction>,
        state: &SessionState,
        (statement, parsed): (&Statement, &DfStatement),
        plan: &LogicalPlan,
    ) -> Result<Option<RowStream>, EngineError> {
        let is_custom = self.settings().plan_cache_mode() == PlanCacheMode::Custom;
        if is_custom || self.is_left_alone(statement) {
            return Ok(None);
        }
        let never = || statement.keep_compiled(Kept::Never(self.config_options()));
        let definitions = match is_repeatable(plan)? {
            true => KnownDefinitions::of(self, state, parsed),
            false => None,
        };
        let Some(definitions) = definitions else {
            never();
            return Ok(None);
        };
        let optimized = planned(|| state.optimize(plan))?;
        let physical = physical_plan_of_optimized(state, &optimized).await?;
        // One for which there is no memory is planned each time.
        let basis = self.basis_of(statement.text(), (&optimized, &[]), definitions);
        match basis.ok().flatten() {
            Some(basis) => statement.keep_compiled(Kept::Optimized(Arc::new(basis))),
            None => never(),
        }
        self.start_query(transaction, state, (&optimized, Stage::Optimized), physical)
            .map(Some)
    }

    /// Keeps the plan of a query with parameters, which was carried out by `physical`, for when it runs again. One that
    /// can't be kept is planned each time.
    pub(super) fn keep_plan(
        &self,
        state: &SessionState,
        (statement, parsed): (&Statement, &DfStatement),
        given: (&LogicalPlan, &[ScalarValue]),
        physical: Arc<dyn ExecutionPlan>,
    ) {
        if self.is_left_alone(statement) || !self.is_worth_it(physical.as_ref()) {
            return;
        }
        let definitions = match is_generic(given.0) {
            Ok(true) => KnownDefinitions::of(self, state, parsed),
            _ => None,
        };
        let basis = definitions.and_then(|definitions| {
            let basis = self.basis_of(statement.text(), given, definitions);
            basis.ok().flatten()
        });
        statement.keep_compiled(match basis {
            Some(basis) => Kept::Planned(Arc::new(basis)),
            None => Kept::Never(self.config_options()),
        });
    }

    /// Whether it is known that no plan of the statement is to be kept.
    fn is_left_alone(&self, statement: &Statement) -> bool {
        // It may have been planned for other parameters only, or since others hold its rows.
        let is_compiled = statement.compiled::<Compiled>().is_some();
        let kept = statement.compiled::<Kept>();
        is_compiled
            || kept.is_some_and(|kept| match kept.as_ref() {
                Kept::Never(before) => Arc::ptr_eq(before, &self.config_options()),
                Kept::Planned(_) | Kept::Optimized(_) => false,
            })
    }

    /// What is kept of the plan of a statement. None for one with long values, which it may have
    /// got when it was optimized.
    fn basis_of(
        &self,
        text: &str,
        (plan, parameters): (&LogicalPlan, &[ScalarValue]),
        definitions: KnownDefinitions,
    ) -> Result<Option<Basis>, EngineError> {
        if value_bytes(plan)? > text.len() + VALUE_BYTES_MAX {
            return Ok(None);
        }
        let charge = Arc::new(self.charge("a plan that is kept", planned_bytes(text))?);
        let (plan, tables) = vacated(plan)?;
        Ok(Some(Basis {
            plan,
            definitions,
            parameters: parameters.iter().map(ScalarValue::data_type).collect(),
            tables,
            charge,
        }))
    }

    /// Whether the settings let a query that is carried out so have a generic plan: by default, one whose planning
    /// takes longer.
    fn is_worth_it(&self, physical: &dyn ExecutionPlan) -> bool {
        match self.settings().plan_cache_mode() {
            PlanCacheMode::Auto => is_short(physical),
            PlanCacheMode::Custom => false,
            PlanCacheMode::Generic => true,
        }
    }

    /// The tables of a plan as they are now. None where it does not hold for them, for the settings or the
    /// parameters.
    async fn sources_of(
        &self,
        basis: &Basis,
        parameters: &[ScalarValue],
    ) -> Result<Option<Vec<Arc<dyn TableSource>>>, EngineError> {
        let types = parameters.iter().map(ScalarValue::data_type);
        if !self.has_definitions(&basis.definitions) || !types.eq(basis.parameters.iter().cloned())
        {
            return Ok(None);
        }
        let mut sources = Vec::with_capacity(basis.tables.len());
        for known in &basis.tables {
            match self.provider(&known.name).await? {
                Some(provider) if known.is_of(provider.as_ref()) => {
                    sources.push(provider_as_source(provider));
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(sources))
    }
}

impl Basis {
    /// The same, optimized for any parameters of the types of these. None where that is not possible without their
    /// values.
    fn optimized(
        &self,
        state: &SessionState,
        parameters: &[ScalarValue],
        sources: &[Arc<dyn TableSource>],
    ) -> Result<Option<Self>> {
        let plan = occupied(self.plan.clone(), sources)?;
        let Some(plan) = with_types(state, &plan, parameters) else {
            return Ok(None);
        };
        let rules = |name: &str| ![GUARD_CONDITIONS, OPAQUE_CONDITIONS].contains(&name);
        let Ok(plan) = optimized_by(state, rules, plan) else {
            return Ok(None);
        };
        let (plan, tables) = vacated(&plan)?;
        Ok(Some(Self {
            plan,
            tables,
            definitions: self.definitions.clone(),
            parameters: self.parameters.clone(),
            charge: Arc::clone(&self.charge),
        }))
    }

    /// The plan with these values and tables.
    fn with_values(
        &self,
        state: &SessionState,
        parameters: &[ScalarValue],
        sources: &[Arc<dyn TableSource>],
    ) -> Result<LogicalPlan> {
        let plan = occupied(self.plan.clone(), sources)?;
        if parameters.is_empty() {
            return Ok(plan);
        }
        let plan = plan.with_param_values(parameters.to_vec())?;
        // Scans take conditions once their values are known.
        optimized_by(state, |name| AFTER_VALUES.contains(&name), plan)
    }
}

/// A plan, optimized by those of the session's rules whose names are wanted, in their order.
fn optimized_by(
    state: &SessionState,
    is_wanted: impl Fn(&str) -> bool,
    plan: LogicalPlan,
) -> Result<LogicalPlan> {
    let rules = state.optimizer().rules.iter();
    let rules = rules.filter(|rule| is_wanted(rule.name()));
    Optimizer::with_rules(rules.cloned().collect()).optimize(plan, state, |_, _| {})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, EngineOptions, StatementResult};
    use nearfar_topology::Topology;

    fn session() -> Session {
        let topology = Topology::this_machine().expect("this machine's topology");
        let engine = Engine::new(EngineOptions::new(topology)).expect("an engine");
        engine.session()
    }

    async fn run(session: &Session, statement: &Statement, value: i64) {
        let values = [ScalarValue::from(value)];
        let result = session.run_with(statement, &values);
        if let StatementResult::Rows(rows) = result.await.expect("rows") {
            rows.collect().await.expect("rows");
        }
    }

    async fn kept_after(session: &Session, sql: &str, values: &[i64]) -> &'static str {
        let statement = session.read(sql).expect(sql).remove(0);
        for value in values {
            run(session, &statement, *value).await;
        }
        kept_of(&statement)
    }

    fn kept_of(statement: &Statement) -> &'static str {
        match statement.compiled::<Kept>().as_deref() {
            None => "nothing",
            Some(Kept::Planned(_)) => "planned",
            Some(Kept::Optimized(_)) => "optimized",
            Some(Kept::Never(_)) => "never",
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_runs_twice_is_optimized_once() {
        let session = session();
        let tables = "CREATE TABLE t AS SELECT value AS k FROM generate_series(1, 100); \
                      CREATE TABLE long AS SELECT value AS k FROM generate_series(1, 1100000); \
                      CREATE VIEW v AS SELECT * FROM t";
        session.execute(tables).await.expect("tables");
        let joined = "SELECT count(*) FROM t a JOIN t b ON a.k = b.k WHERE a.k > $1";
        assert_eq!(kept_after(&session, joined, &[1]).await, "planned");
        assert_eq!(kept_after(&session, joined, &[1, 2]).await, "optimized");
        assert_eq!(kept_after(&session, joined, &[1, 2, 3]).await, "optimized");
        for other in [
            "SELECT count(*), now() FROM t WHERE k > $1",
            "SELECT count(*), random() FROM t WHERE k > $1",
            "SELECT count(*) FROM v WHERE k > $1",
            "SELECT count(*) FROM t WHERE k > $1 AND k IN (SELECT k FROM t)",
            "SELECT count(*) FROM nearfar.indexes WHERE levels > $1",
        ] {
            let kept = kept_after(&session, other, &[1, 2]).await;
            assert_eq!(kept, "never", "{other}");
        }
        let long = "SELECT count(*) FROM long WHERE k > $1";
        assert_eq!(kept_after(&session, long, &[1, 2]).await, "nothing");
        session
            .execute("SET plan_cache_mode = force_custom_plan")
            .await
            .expect("set");
        assert_eq!(kept_after(&session, joined, &[1, 2]).await, "nothing");
        session
            .execute("SET plan_cache_mode = force_generic_plan")
            .await
            .expect("set");
        assert_eq!(kept_after(&session, long, &[1, 2]).await, "optimized");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn plans_without_parameters_are_kept_with_their_texts() {
        let session = session();
        let tables = "CREATE TABLE t AS SELECT value AS k FROM generate_series(1, 100); \
                      CREATE VIEW v AS SELECT * FROM t";
        session.execute(tables).await.expect("tables");
        for (sql, kept) in [
            (
                "SELECT count(*) FROM t WHERE k IN (SELECT max(k) FROM t)",
                "optimized",
            ),
            (
                "WITH c AS (SELECT k % 3 AS g FROM t) SELECT g, count(*) FROM c GROUP BY g",
                "optimized",
            ),
            (
                "SELECT k, (SELECT count(*) FROM t u WHERE u.k < t.k) FROM t",
                "optimized",
            ),
            (
                "SELECT count(*) FROM t WHERE k IN (SELECT (random() * k)::int FROM t)",
                "never",
            ),
            ("SELECT count(*) FROM v", "never"),
            ("EXPLAIN SELECT count(*) FROM t", "never"),
            ("SELECT repeat('x', 20000000), count(*) FROM t", "never"),
            ("CREATE TABLE IF NOT EXISTS t (k INT)", "nothing"),
        ] {
            let mut plans = Vec::new();
            for _ in 0..2 {
                session.execute(sql).await.expect(sql);
                let statement = session.read_recent(sql).expect(sql).remove(0);
                assert_eq!(kept_of(&statement), kept, "{sql}");
                plans.push(statement.compiled::<Kept>());
            }
            let is_same = match &plans[..] {
                [Some(one), Some(other)] => Arc::ptr_eq(one, other),
                _ => kept == "nothing",
            };
            assert!(is_same, "{sql} is planned again");
        }
    }
}
