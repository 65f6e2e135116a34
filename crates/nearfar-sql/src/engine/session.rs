//! A session: what one client sees and has set.

use datafusion::catalog::SchemaProvider;
use datafusion::common::TableReference;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use nearfar_memory::TierId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Engine;
use super::catalog::{
    CATALOG, INFORMATION_SCHEMA, InformationSchema, PUBLIC, SessionCatalog, SessionTables,
    SharedCatalog, TableMap,
};
use super::compact::COMPACT_VIEWS;
use super::cursors::Cursors;
use super::distribution::Distribution;
use super::loading::Loading;
use super::metering::{GuardedCalls, METERING, batch_rows, guarded_functions, parsed_bytes};
use super::operator_memory::OperatorMemoryRule;
use super::options::SessionOptions;
use super::sequences;
use super::sleep::sleep_function;
use super::slicing::SLICED_INPUTS;
use super::spill::{SpillStore, SpillTier};
use super::stream::StatementResult;
use super::system::SystemTables;
use super::variables::{ClientSettings, Variables};
use super::wire::{shippable_rules, wired_functions};
use super::yielding::YIELDING_JOINS;
use crate::error::EngineError;
use crate::foreign::GUARDED_FILES;
use crate::interrupt;
use crate::memory::{Charge, QueryMemory};
use crate::operators::grouping_sets::GROUPING_SETS;
use crate::operators::key_join::KeyJoins;
use crate::operators::scan_aggregate::SCAN_AGGREGATES;
use crate::operators::windows::SORTED_WINDOWS;
use crate::optimize::{
    ScansInAnyOrder, analyzer_rules, joined_subplans, logical_rules, narrow_decimals,
    plannable_rules, settings, undivided_rules,
};
use crate::scan::Routing;
use crate::settings::Settings;
use crate::sql::{Recent, SqlError, Statement, statements};
use crate::values::{self, ValuePlanner};
use nearfar_table::table::Table;
use nearfar_table::traffic::TrafficAccount;
use nearfar_table::transaction::{CommitGate, Transaction};

/// A connection to an [`Engine`]: settings, temporary tables, and statements that run.
///
/// Permanent tables, views and tables on files are shared with all sessions of the engine; settings
/// and temporary tables are the session's own and end with it. A session is cheap to clone, and its
/// clones are the same session. Statements need a Tokio runtime with time and I/O enabled; work
/// runs on its worker threads.
///
/// ```no_run
/// # use nearfar_sql::engine::{Engine, EngineOptions, StatementResult};
/// # use nearfar_topology::Topology;
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::new(EngineOptions::new(Topology::this_machine()?))?;
/// let session = engine.session();
/// for result in session.execute("CREATE TABLE t AS SELECT 1 AS a; SELECT a FROM t").await? {
///     match result {
///         StatementResult::Command(tag) => eprintln!("{tag}"),
///         StatementResult::Rows(rows) => eprintln!("{:?}", rows.collect().await?),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    engine: Arc<Engine>,
    options: SessionOptions,
    context: SessionContext,
    catalog: Arc<SessionCatalog>,
    /// The tables that it sees.
    tables: Arc<SessionTables>,
    /// What the client keeps of it.
    kept: Arc<QueryMemory>,
    /// What it moves to and from the tiers.
    traffic: Arc<TrafficAccount>,
    pub(super) loading: Arc<Mutex<Option<Loading>>>,
    /// The cluster that statements run in.
    pub(super) distribution: Option<Arc<dyn Distribution>>,
    /// The transaction that `BEGIN` began.
    pub(super) open: Arc<Mutex<Option<Arc<Transaction>>>>,
    /// What the commit of the statement has to pass that runs in this clone.
    pub(super) gate: Arc<CommitGate>,
    /// Its settings by their names.
    pub(super) variables: Arc<Variables>,
    pub(super) cursors: Arc<Cursors>,
    /// The statements that `PREPARE` has prepared, by name, with the memory that their plans take.
    pub(super) prepared: Arc<Mutex<BTreeMap<String, Charge>>>,
    /// The last statements that came as texts.
    pub(super) recent: Arc<Mutex<Recent<Statement>>>,
}

/// What plans a session's statements, without the functions and tables that are its own.
fn planning_state(
    engine: &Arc<Engine>,
    config: SessionConfig,
    distribution: Option<&Arc<dyn Distribution>>,
) -> SessionState {
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(Arc::clone(engine.runtime()))
        .with_expr_planners(vec![Arc::new(ValuePlanner::default())])
        .with_default_features()
        .with_analyzer_rules(analyzer_rules())
        .with_optimizer_rules(match distribution {
            Some(_) => shippable_rules(logical_rules()),
            None => logical_rules(),
        })
        .with_physical_optimizer_rules(plannable_rules());
    // What the workers of a cluster do with their parts of a plan is up to them.
    match distribution {
        Some(distribution) => distribution.distributed(builder).build(),
        None => builder
            .with_physical_optimizer_rules(
                undivided_rules()
                    .into_iter()
                    .chain(machine_rules(engine))
                    .chain([joined_subplans()])
                    .collect(),
            )
            .build(),
    }
}

impl Session {
    pub(super) fn new(engine: Arc<Engine>, options: SessionOptions) -> Self {
        let distribution = engine.distribution().filter(|_| !options.is_local).cloned();
        let mut config = config(&engine, options);
        if let Some(distribution) = &distribution {
            config.set_extension(Arc::new(Routing(Arc::clone(distribution) as _)));
        }
        let divided = distribution.as_ref().filter(|it| !it.is_alone());
        let mut state = planning_state(&engine, config, divided);
        if let Err(error) = datafusion_functions_json::register_all(&mut state) {
            tracing::warn!(%error, "functions of JSON are missing");
        }
        guard(&mut state);
        let context = SessionContext::new_with_state(state);
        for function in values::functions() {
            context.register_udf(function);
        }
        context.register_udf(sleep_function());
        for function in values::aggregates() {
            context.register_udaf(function);
        }
        let open = Arc::default();
        let tables = SessionTables::new(Arc::clone(engine.catalog()), Arc::clone(&open));
        let tables = Arc::new(tables);
        let given = Arc::default();
        for function in sequences::functions(&engine, &tables, &given) {
            context.register_udf(function);
        }
        let variables = Arc::new(Variables::new(&context, engine.threads()));
        for function in variables.functions() {
            context.register_udf(function);
        }
        let system = Arc::new(SystemTables::new(&engine, &tables));
        let catalog = SessionCatalog::new(Arc::clone(&tables), system);
        let catalog = Arc::new(catalog);
        context.register_catalog(CATALOG, Arc::clone(&catalog) as _);
        let information = InformationSchema::new(&context);
        catalog.add_own(INFORMATION_SCHEMA, Arc::new(information));
        let settings = context
            .state_ref()
            .read()
            .config_options()
            .extensions
            .get::<Settings>()
            .cloned();
        let settings = settings.unwrap_or_else(|| engine.default_settings(options));
        let kept = engine
            .query_memory()
            .query(settings.memory(), TierId::NEAR, None);
        Self {
            kept,
            traffic: Arc::clone(settings.traffic()),
            engine,
            options,
            context,
            catalog,
            tables,
            loading: Arc::default(),
            distribution,
            open,
            gate: Arc::default(),
            variables,
            cursors: Arc::default(),
            prepared: Arc::default(),
            recent: Arc::default(),
        }
    }

    /// The same session for one statement, whose commit has to pass `gate`.
    pub(super) fn behind(&self, gate: &Arc<CommitGate>) -> Self {
        Self {
            gate: Arc::clone(gate),
            ..self.clone()
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// What the commit of the statement has to pass that runs in this session.
    pub fn gate(&self) -> &Arc<CommitGate> {
        &self.gate
    }

    /// What the session may do.
    pub fn options(&self) -> SessionOptions {
        self.options
    }

    /// DataFusion's own context, for what the session has no word for.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// The tables that it sees.
    pub(super) fn tables(&self) -> &Arc<SessionTables> {
        &self.tables
    }

    /// The permanent tables that it sees.
    pub(super) fn permanent(&self) -> Arc<SharedCatalog> {
        self.tables.permanent()
    }

    /// Its temporary tables.
    pub(super) fn temporary(&self) -> Arc<TableMap> {
        self.tables.temporary()
    }

    /// Adds a schema that only this session sees, such as one that a protocol's clients look for.
    pub fn add_schema(&self, name: &str, schema: Arc<dyn SchemaProvider>) {
        self.catalog.add_own(name, schema);
    }

    /// Has the settings of a client, such as those of a protocol, be among the session's, from now on: they are set,
    /// shown and undone with transactions as those of the engine are. A session has one client.
    pub fn add_settings(&self, settings: Arc<dyn ClientSettings>) {
        self.variables.add_client(settings);
    }

    /// Makes `table` known under its name, to all sessions.
    ///
    /// # Errors
    /// A name that is taken.
    pub fn register(&self, table: Arc<Table>) -> Result<(), EngineError> {
        self.engine.register(table)
    }

    /// Runs a script: its statements one after another, each to its end but for queries, of which
    /// the caller reads the rows. A single statement whose text comes again is not read again, nor is
    /// a query planned that [keeps its plan](Self::read_recent). Dropping the future, or a stream of rows, ends the work, as
    /// [`Self::run`] says.
    ///
    /// # Errors
    /// The first statement that fails; nothing has run if it is not SQL. To keep the results of
    /// those before it, [`Self::read`] the script and [`Self::run`] its statements one by one.
    pub async fn execute(&self, sql: &str) -> Result<Vec<StatementResult>, EngineError> {
        let mut results = Vec::new();
        for statement in self.read_recent(sql)? {
            results.push(self.run(&statement).await?);
        }
        Ok(results)
    }

    /// Reads a script. Nothing of it has run when a statement in it is wrong; a transaction that is
    /// open has failed then.
    ///
    /// # Errors
    /// The first statement that is not SQL, or that is known not to be supported; a text that the
    /// session has no memory for.
    pub fn read(&self, sql: &str) -> Result<Vec<Statement>, EngineError> {
        self.read_within_limits(sql).inspect_err(|_| {
            if let Some(transaction) = self.open.lock().as_ref() {
                transaction.fail();
            }
        })
    }

    /// The same for texts that come again: what was read of one of the last ones is given again, with what has been
    /// made of it since, such as a plan.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_recent(&self, sql: &str) -> Result<Vec<Statement>, EngineError> {
        if let Some(statement) = self.recent.lock().get(sql) {
            return Ok(vec![statement]);
        }
        let statements = self.read(sql)?;
        if let [statement] = &statements[..] {
            let made = statement.clone();
            self.recent
                .lock()
                .keep(&sql.into(), statement.is_query(), made);
        }
        Ok(statements)
    }

    fn read_within_limits(&self, sql: &str) -> Result<Vec<Statement>, EngineError> {
        let _planning = interrupt::planning();
        let charge = Arc::new(self.charge("the text of a statement", parsed_bytes(sql))?);
        let statements = statements(sql)?.into_iter();
        Ok(statements
            .map(|statement| statement.charged(&charge))
            .collect())
    }

    /// Takes memory of the session for something that its client keeps, until what is returned is
    /// dropped.
    ///
    /// # Errors
    /// More than the session, or the engine, may take.
    pub fn charge(&self, what: &str, bytes: u64) -> Result<Charge, EngineError> {
        Charge::new(&self.kept, what, bytes)
    }

    /// Has errors of the planner come with their place in the statement.
    pub fn tell_places(&self) {
        let state = self.context.state_ref();
        let mut state = state.write();
        let options = state.config_mut().options_mut();
        options.sql_parser.collect_spans = true;
    }

    /// The table that is being filled at this moment by a statement of this session.
    pub fn loading(&self) -> Option<Loading> {
        self.loading.lock().clone()
    }

    /// All settings, as one until one of them is set.
    pub(super) fn config_options(&self) -> Arc<ConfigOptions> {
        Arc::clone(self.context.state_ref().read().config().options())
    }

    /// Where what it moves to and from the tiers is counted.
    pub(super) fn traffic(&self) -> &Arc<TrafficAccount> {
        &self.traffic
    }

    /// Whether reads of columns are counted.
    pub(super) fn counts_accesses(&self) -> bool {
        let state = self.context.state_ref();
        let state = state.read();
        let own = state.config_options().extensions.get::<Settings>();
        own.is_none_or(Settings::count_accesses)
    }

    /// What has been set.
    pub fn settings(&self) -> Settings {
        self.settings_in(&self.context.state_ref().read())
    }

    /// What is read of the settings, which are not copied for it.
    pub(super) fn with_settings<T>(&self, read: impl FnOnce(&Settings) -> T) -> T {
        let state = self.context.state_ref();
        let state = state.read();
        match state.config_options().extensions.get::<Settings>() {
            Some(own) => read(own),
            None => read(&self.engine.default_settings(self.options)),
        }
    }

    pub(super) fn settings_in(&self, state: &SessionState) -> Settings {
        let extensions = &state.config_options().extensions;
        let own = extensions.get::<Settings>().cloned();
        own.unwrap_or_else(|| self.engine.default_settings(self.options))
    }

    /// Plans a statement of DataFusion's, without Nearfar's statements, without a memory budget of the
    /// query's own, and apart from a transaction that is open.
    ///
    /// # Errors
    /// A statement that is wrong, or names what is not there.
    pub async fn sql(&self, sql: &str) -> Result<DataFrame> {
        self.context.sql(sql).await
    }

    /// The context in which one query runs that has `plan`, and its memory.
    pub(super) fn query_context(
        &self,
        state: &SessionState,
        plan: &dyn ExecutionPlan,
    ) -> (Arc<TaskContext>, Arc<QueryMemory>) {
        let (runtime, memory) = self.query_runtime(state);
        let mut config = memory.fitted(state.config());
        if let Some(rows) = batch_rows(plan).filter(|rows| *rows < config.batch_size()) {
            config = config.with_batch_size(rows);
        }
        let context = TaskContext::from(state)
            .with_session_config(config)
            .with_runtime(runtime);
        (Arc::new(context), memory)
    }

    /// The state in which a part of another machine's plan runs here, with the budgets and the memory of this
    /// machine. `config` is what came with the plan.
    pub fn worker_state(&self, config: &SessionConfig) -> SessionState {
        let state = self.context.state();
        let (runtime, memory) = self.query_runtime(&state);
        let mut state = SessionStateBuilder::new_from_existing(state)
            .with_config(memory.fitted(config))
            .with_runtime_env(runtime)
            .build();
        for function in wired_functions() {
            // None of these names is taken, and nothing refuses them.
            let _replaced = state.register_udf(Arc::clone(function));
        }
        state
    }

    /// A part of another machine's plan as this machine runs it: with its own accounts of memory and its own
    /// tiers.
    ///
    /// # Errors
    /// A plan that a rule does not take.
    pub fn worker_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        machine_rules(&self.engine).try_fold(plan, |plan, rule| rule.optimize(plan, options))
    }

    /// Where one query runs, and its memory.
    fn query_runtime(&self, state: &SessionState) -> (Arc<RuntimeEnv>, Arc<QueryMemory>) {
        let settings = self.settings_in(state);
        let memory = self.engine.query_memory().query(
            settings.memory(),
            settings.heap_tier(),
            settings.memory_limit_bytes(),
        );
        let mut runtime = state.runtime_env().as_ref().clone();
        runtime.memory_pool = Arc::clone(&memory) as _;
        let tier = settings.spill_tier().map(|tier| SpillTier {
            system: Arc::clone(self.engine.system()),
            tier,
            model: self.engine.models().of(tier).cloned(),
            account: Arc::clone(settings.traffic()),
        });
        let disk = Arc::clone(&runtime.disk_manager);
        let store = SpillStore::new(tier, disk, Arc::clone(memory.spilled()));
        match store.into_disk_manager() {
            Ok(store) => runtime.disk_manager = store,
            Err(error) => tracing::warn!(%error, "the query spills to disk alone"),
        }
        (Arc::new(runtime), memory)
    }

    /// The schema and name of a table, which may be written without catalog and schema.
    ///
    /// # Errors
    /// Another catalog than the one there is.
    pub(super) fn resolve(&self, name: &TableReference) -> Result<(String, String), SqlError> {
        let state = self.context.state_ref();
        let state = state.read();
        let defaults = &state.config_options().catalog;
        let resolved = name
            .clone()
            .resolve(&defaults.default_catalog, &defaults.default_schema);
        if *resolved.catalog != *CATALOG {
            let schema = format!("{}.{}", resolved.catalog, resolved.schema);
            return Err(SqlError::UnknownSchema { schema });
        }
        Ok((resolved.schema.to_string(), resolved.table.to_string()))
    }
}

/// The settings of a session: the one place where they are made.
fn config(engine: &Arc<Engine>, options: SessionOptions) -> SessionConfig {
    settings(engine.threads())
        .with_default_catalog_and_schema(CATALOG, PUBLIC)
        .with_create_default_catalog_and_schema(false)
        .with_option_extension(engine.default_settings(options))
}

/// What is done to a plan for the machine that runs it, when it is complete.
fn machine_rules(
    engine: &Arc<Engine>,
) -> impl Iterator<Item = Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let rules: [Arc<dyn PhysicalOptimizerRule + Send + Sync>; 12] = [
        narrow_decimals(),
        Arc::new(KeyJoins::new(engine.models().clone())),
        Arc::new(SORTED_WINDOWS),
        Arc::new(GROUPING_SETS),
        Arc::new(ScansInAnyOrder),
        Arc::new(GUARDED_FILES),
        Arc::new(YIELDING_JOINS),
        Arc::new(SLICED_INPUTS),
        Arc::new(COMPACT_VIEWS),
        Arc::new(METERING),
        Arc::new(SCAN_AGGREGATES),
        Arc::new(operator_memory_rule(engine)),
    ];
    rules.into_iter()
}

/// Puts functions and operators that ask for memory in the place of those that do not.
fn guard(state: &mut SessionState) {
    for function in guarded_functions() {
        // What is replaced is DataFusion's own, and nothing refuses it.
        let _replaced = state.register_udf(Arc::clone(function));
    }
    let rewritten = state.register_function_rewrite(Arc::new(GuardedCalls));
    if let Err(error) = rewritten {
        tracing::warn!(%error, "some expressions take memory without asking");
    }
}

/// The rule for operator memory. It comes last: other rules look for the operators that it wraps.
fn operator_memory_rule(engine: &Engine) -> OperatorMemoryRule {
    OperatorMemoryRule::new(engine.models().clone())
}
