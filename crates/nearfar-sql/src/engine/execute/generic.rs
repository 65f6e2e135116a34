//! Generic plans: those of short queries that run again and again, optimized once with their parameters left open.
//!
//! A short query takes longer to be planned than to be run. When one has run, its plan is kept as it was before it was
//! optimized. When it runs again, that plan is optimized for parameters of the same types, whatever their values are, and
//! from then on their values are put in, and what follows from them is simplified. Each time it is made sure that tables
//! and settings are what they were, and that no table has grown or shrunk so much that another order of joins may be the
//! better one. How tables are read, by which index and in which parts, is decided each time.
//!
//! Plans hold no table: one that is dropped gives back its memory, whoever has a query over it prepared.

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::TableReference;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::{TableProvider, provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource, Volatility};
use datafusion::optimizer::Optimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use std::sync::{Arc, Weak};

use super::compiled::{Compiled, with_types};
use super::patterns::check_patterns;
use super::rejoin::Stage;
use crate::datafusion_names::{PUSH_DOWN_FILTER, SIMPLIFY_EXPRESSIONS};
use crate::engine::lanes::is_short;
use crate::engine::metering::planned_bytes;
use crate::engine::planning::{physical_plan_of_optimized, planned};
use crate::engine::session::Session;
use crate::engine::stream::RowStream;
use crate::error::EngineError;
use crate::memory::Charge;
use crate::optimize::{GUARD_CONDITIONS, OPAQUE_CONDITIONS, has_subqueries};
use crate::scan::table_of;
use crate::settings::PlanCacheMode;
use crate::sql::Statement;
use nearfar_table::table::Table;
use nearfar_table::transaction::Transaction;

/// The rules for what follows from the values of parameters. Conditions are guarded, and hidden from other rules, when
/// those have reached the scans that can be evaluated there.
const AFTER_VALUES: [&str; 4] = [
    SIMPLIFY_EXPRESSIONS,
    PUSH_DOWN_FILTER,
    GUARD_CONDITIONS,
    OPAQUE_CONDITIONS,
];

/// Functions whose type follows from the values of their arguments.
const TYPED_BY_VALUE: [&str; 2] = ["round", "trunc"];

/// Rows that a table gets or loses without another plan, whatever it had.
const ROWS_CHANGED: u64 = 1000;

/// What is kept of a statement.
#[derive(Debug)]
enum Kept {
    /// It has run once, and this is its plan before it was optimized.
    Planned(Arc<Basis>),
    /// It has run again, and this is its generic plan.
    Optimized(Arc<Basis>),
    /// With these settings, it is planned each time that it runs.
    Never(Arc<ConfigOptions>),
}

/// A plan, and what it holds for.
#[derive(Debug)]
struct Basis {
    /// Its tables are [`Vacant`].
    plan: LogicalPlan,
    options: Arc<ConfigOptions>,
    parameters: Vec<DataType>,
    tables: Vec<KnownTable>,
    /// What the plan takes as long as it is kept.
    charge: Arc<Charge>,
}

/// A table that a plan reads.
#[derive(Debug, Clone)]
struct KnownTable {
    name: TableReference,
    table: Weak<Table>,
    rows: u64,
}

impl KnownTable {
    /// Whether `provider` is of the same table, of about as many rows.
    fn is_of(&self, provider: &dyn TableProvider) -> bool {
        table_of(provider).is_some_and(|table| {
            let rows = table.snapshot().rows() as u64;
            std::ptr::eq(Weak::as_ptr(&self.table), Arc::as_ptr(table))
                && rows / 2 <= self.rows + ROWS_CHANGED
                && self.rows / 2 <= rows + ROWS_CHANGED
        })
    }
}

/// The place of a table in a plan that is kept.
#[derive(Debug)]
struct Vacant {
    schema: SchemaRef,
    /// Which of the plan's tables.
    place: usize,
}

impl TableSource for Vacant {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Session {
    /// Starts a query that has run before, by its generic plan. None where it has to be planned.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(super) async fn run_generic(
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
        check_patterns(&plan)?;
        self.wait_for_tables(transaction, &plan, false).await?;
        let physical = physical_plan_of_optimized(state, &plan).await?;
        if !self.is_worth_it(physical.as_ref()) {
            never();
            return Ok(None);
        }
        if matches!(kept.as_ref(), Kept::Planned(_)) {
            statement.keep_compiled(Kept::Optimized(basis));
        }
        self.start_query(transaction, state, (&plan, Stage::Optimized), physical)
            .map(Some)
    }

    /// Keeps the plan of a query, which was carried out by `physical`, for when it runs again. One that can't be kept is
    /// planned each time.
    pub(super) async fn keep_plan(
        &self,
        state: &SessionState,
        (statement, parsed): (&Statement, &DfStatement),
        given: (&LogicalPlan, &[ScalarValue]),
        physical: Arc<dyn ExecutionPlan>,
    ) {
        let options = self.config_options();
        let is_refused = statement.compiled::<Kept>().is_some_and(
            |kept| matches!(kept.as_ref(), Kept::Never(before) if Arc::ptr_eq(before, &options)),
        );
        // One that is compiled may have been planned for other parameters only.
        let is_compiled = statement.compiled::<Compiled>().is_some();
        if is_compiled || is_refused || !self.is_worth_it(physical.as_ref()) {
            return;
        }
        let bytes = planned_bytes(statement.text());
        statement.keep_compiled(match self.basis_of(state, parsed, given, bytes).await {
            Ok(Some(basis)) => Kept::Planned(Arc::new(basis)),
            _ => Kept::Never(options),
        });
    }

    /// What is kept of a plan, which takes so many bytes. None for one that does not mean the same each time.
    async fn basis_of(
        &self,
        state: &SessionState,
        parsed: &DfStatement,
        (plan, parameters): (&LogicalPlan, &[ScalarValue]),
        bytes: u64,
    ) -> Result<Option<Basis>, EngineError> {
        if !is_reusable(plan)? || !self.names_tables_only(state, parsed).await? {
            return Ok(None);
        }
        let charge = Arc::new(self.charge("a generic plan", bytes)?);
        let (plan, tables) = vacated(plan)?;
        Ok(Some(Basis {
            plan,
            options: self.config_options(),
            parameters: parameters.iter().map(ScalarValue::data_type).collect(),
            tables,
            charge,
        }))
    }

    /// Whether all that a statement names are tables that Nearfar has: a plan does not tell of views that were put into
    /// it.
    async fn names_tables_only(
        &self,
        state: &SessionState,
        parsed: &DfStatement,
    ) -> Result<bool, EngineError> {
        for name in state.resolve_table_references(parsed)? {
            let provider = self.provider(&name).await?;
            if provider.is_none_or(|provider| table_of(provider.as_ref()).is_none()) {
                return Ok(false);
            }
        }
        Ok(true)
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
        if !Arc::ptr_eq(&basis.options, &self.config_options())
            || !types.eq(basis.parameters.iter().cloned())
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
            options: Arc::clone(&self.options),
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

/// Whether a plan, as it was before it was optimized, means the same each time that it runs: a query of tables that
/// Nearfar has, all of whose functions give the same for the same arguments.
fn is_reusable(plan: &LogicalPlan) -> Result<bool> {
    if has_subqueries(plan)? {
        return Ok(false);
    }
    let mut is_reusable = true;
    plan.apply(|node| {
        is_reusable = match node {
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source)?;
                table_of(provider.as_ref()).is_some()
            }
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::EmptyRelation(_) => true,
            _ => false,
        };
        let is_condition = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
        node.apply_expressions(|expr| {
            let hinders =
                |expr: &Expr| Ok(varies(expr) || (is_condition && fails_for_some_rows(expr)));
            is_reusable &= !expr.exists(hinders)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match is_reusable {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(is_reusable)
}

/// Whether a part of a condition may fail for some rows, from which the conditions before it keep it: these may come to
/// the scan later.
fn fails_for_some_rows(expr: &Expr) -> bool {
    let may_fail = match expr {
        Expr::BinaryExpr(binary) => binary.op.is_numerical_operators(),
        Expr::Negative(_) | Expr::Cast(_) | Expr::TryCast(_) | Expr::ScalarFunction(_) => true,
        _ => false,
    };
    may_fail && expr.any_column_refs()
}

/// Whether an expression gives another value in another statement, or one of another type with other parameters.
fn varies(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(function) => {
            let is_open = |argument: &Expr| {
                let found = argument.exists(|part| Ok(matches!(part, Expr::Placeholder(_))));
                found.unwrap_or(true)
            };
            function.func.signature().volatility != Volatility::Immutable
                || (TYPED_BY_VALUE.contains(&function.func.name())
                    && function.args.iter().skip(1).any(is_open))
        }
        Expr::ScalarVariable(..) => true,
        _ => false,
    }
}

/// A plan without its tables, and these in the order of their places.
fn vacated(plan: &LogicalPlan) -> Result<(LogicalPlan, Vec<KnownTable>)> {
    let mut tables = Vec::new();
    let plan = plan.clone().transform_up(|node| {
        let LogicalPlan::TableScan(mut scan) = node else {
            return Ok(Transformed::no(node));
        };
        let provider = source_as_provider(&scan.source)?;
        let Some(table) = table_of(provider.as_ref()) else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        let place = tables.len();
        tables.push(KnownTable {
            name: scan.table_name.clone(),
            table: Arc::downgrade(table),
            rows: table.snapshot().rows() as u64,
        });
        let schema = scan.source.schema();
        scan.source = Arc::new(Vacant { schema, place });
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    Ok((plan.data, tables))
}

/// A plan with its tables again.
fn occupied(plan: LogicalPlan, sources: &[Arc<dyn TableSource>]) -> Result<LogicalPlan> {
    let plan = plan.transform_up(|node| {
        let LogicalPlan::TableScan(mut scan) = node else {
            return Ok(Transformed::no(node));
        };
        let source: &dyn std::any::Any = scan.source.as_ref();
        let place = source.downcast_ref::<Vacant>().map(|vacant| vacant.place);
        if let Some(source) = place.and_then(|place| sources.get(place)) {
            scan.source = Arc::clone(source);
        }
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    Ok(plan.data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, EngineOptions, StatementResult};
    use nearfar_topology::Topology;

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
        match statement.compiled::<Kept>().as_deref() {
            None => "nothing",
            Some(Kept::Planned(_)) => "planned",
            Some(Kept::Optimized(_)) => "optimized",
            Some(Kept::Never(_)) => "never",
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_runs_twice_is_optimized_once() {
        let topology = Topology::this_machine().expect("this machine's topology");
        let engine = Engine::new(EngineOptions::new(topology)).expect("an engine");
        let session = engine.session();
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
}
