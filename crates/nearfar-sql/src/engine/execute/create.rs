//! `CREATE TABLE`, `CREATE VIEW`, `CREATE EXTERNAL TABLE`.

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{TableReference, ToDFSchema};
use datafusion::datasource::{ViewTable, source_as_provider};
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    CreateExternalTable, CreateMemoryTable, CreateView, DdlStatement, EmptyRelation, LogicalPlan,
};
use datafusion::optimizer::Analyzer;
use datafusion::physical_plan::ExecutionPlan;
use nearfar_memory::Placement;
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::constraints::Declared;
use super::create_remote::Making;
use super::index::with_keys;
use super::sequence::numbered_columns;
use super::{done, rejoin};
use crate::engine::catalog::{SYSTEM, TEMPORARY};
use crate::engine::defaults::check_default;
use crate::engine::definitions::{NewSequence, Slot};
use crate::engine::fault::{is_of_hash_join, query_error};
use crate::engine::loading::Loading;
use crate::engine::planning::physical_plan;
use crate::engine::session::Session;
use crate::engine::stream::{CommandTag, StatementResult};
use crate::error::EngineError;
use crate::foreign::reading;
use crate::load::{Load, Progress};
use crate::memory::CancelOnDrop;
use crate::optimize::analyzer_rules;
use crate::scan::table_of;
use crate::sql::{CreateClauses, SqlError, shown};
use crate::values::Declared as DeclaredLength;
use crate::values::stored::with_room;
use nearfar_table::placement::ColumnPlacements;
use nearfar_table::placement::TemporaryBudget;
use nearfar_table::table::{Preload, Table, TableIndex, TableRules, stored_schema};

impl Session {
    /// `CREATE TABLE`: empty, or with the rows of a query. The table is entered when all its rows
    /// are in.
    pub(super) async fn create_table(
        &self,
        state: &SessionState,
        cmd: CreateMemoryTable,
        clauses: &CreateClauses,
        making: Making<'_>,
    ) -> Result<StatementResult, EngineError> {
        let slot = self.slot(&cmd.name, clauses.temporary, cmd.or_replace)?;
        if slot.is_taken() {
            return if cmd.if_not_exists {
                Ok(done("CREATE TABLE"))
            } else {
                Err(slot.taken().into())
            };
        }
        self.check_replaced(&slot)?;
        self.check_replaced_key(&slot)?;
        check_columns(&slot, &cmd.input)?;
        if let Some(host) = self.memory_host(clauses, &cmd.input)? {
            let place = (slot, host);
            return self
                .create_remote_table(state, place, &cmd.input, making)
                .await;
        }
        let placement = match &clauses.options.place {
            Some(place) => self.engine().tablespaces().placement(place)?,
            None => self.settings().table_placement(clauses.temporary).clone(),
        };
        let empty = matches!(*cmd.input, LogicalPlan::EmptyRelation(_));
        let input = with_lengths(&cmd.input, &clauses.declared)?;
        let input = with_room(&input)?;
        check_defaults(state, input.schema().as_arrow(), &clauses.defaults).await?;
        let temporary = slot.is_temporary.then(|| self.settings());
        let temporary = temporary.map(|settings| Arc::clone(settings.temporary()));
        let table = self.load(state, &slot.name, &input, placement, temporary);
        let table = table.await?;
        if let Some(priority) = clauses.options.preload {
            let mut preload = Preload::default();
            preload.set(None, priority);
            table.set_preload(preload);
        }
        let sequences = self.declare(&table, &slot, clauses).await?;
        let rows = table.snapshot().rows() as u64;
        let (engine, gate) = (Arc::clone(self.engine()), Arc::clone(&self.gate));
        // The rows go to the log, if there is one.
        let entered = tokio::task::spawn_blocking(move || {
            engine.create_table(&gate, &slot, table, &sequences)
        });
        entered.await.map_err(|error| EngineError::Internal {
            message: error.to_string(),
        })??;
        if self.tables().draft().is_some() {
            self.note_references();
        }
        Ok(match empty {
            true => done("CREATE TABLE"),
            false => StatementResult::Command(CommandTag {
                command: "SELECT",
                rows: Some(rows),
            }),
        })
    }

    /// Declares of a new table what `clauses` say of its rows. The sequences of its columns.
    async fn declare(
        &self,
        table: &Arc<Table>,
        slot: &Slot,
        clauses: &CreateClauses,
    ) -> Result<Vec<NewSequence>, EngineError> {
        table.set_schema_name(match slot.is_temporary {
            true => TEMPORARY,
            false => &slot.schema_name,
        });
        let mut rules = TableRules {
            defaults: clauses.defaults.iter().cloned().collect(),
            ..TableRules::default()
        };
        let sequences = numbered_columns(table, slot, &clauses.numbered, &mut rules)?;
        if !clauses.keys.is_empty() {
            let snapshot = table.snapshot();
            let storage = self.engine().storage();
            let places = (&**table, &*slot.schema, &self.engine().tablespaces());
            let indexes = with_keys(&snapshot, places, &clauses.keys, |key| {
                let made = TableIndex::filled(key, &snapshot, storage);
                made.map_err(|error| error.of_table(table.full_name()))
            })?;
            self.engine()
                .database()
                .lock()
                .install(table, snapshot.with_indexes(indexes));
        }
        let declared = Declared {
            table,
            schema: &slot.schema_name,
            name: &slot.name,
            is_temporary: slot.is_temporary,
        };
        let constraints = (clauses.constraints.as_slice(), &mut rules);
        self.declare_constraints(&declared, &table.snapshot(), constraints)
            .await?;
        table.set_rules(rules);
        self.attach_checks(table)?;
        Ok(sequences)
    }

    async fn load(
        &self,
        state: &SessionState,
        name: &str,
        input: &LogicalPlan,
        placement: Placement,
        temporary: Option<Arc<TemporaryBudget>>,
    ) -> Result<Arc<Table>, EngineError> {
        self.filled(state, input, |plan, context| {
            let progress = Arc::new(Progress::default());
            let shown = self.show_loading(Loading::new(name, &progress));
            let load = Load {
                storage: self.engine().storage().clone(),
                name: name.to_owned(),
                placements: ColumnPlacements::all(placement.clone()),
                progress,
            };
            let temporary = temporary.clone();
            async move {
                let _shown = shown;
                load.plan_charged(plan, context, temporary).await
            }
        })
        .await
    }

    /// What `fill` makes of the rows of `input`: again, without joins by hash, where one of those has no memory.
    pub(super) async fn filled<T, F: Future<Output = Result<T, EngineError>> + Send>(
        &self,
        state: &SessionState,
        input: &LogicalPlan,
        fill: impl Fn(Arc<dyn ExecutionPlan>, Arc<TaskContext>) -> F,
    ) -> Result<T, EngineError> {
        let mut state = state.clone();
        // Partitions that follow each other in the order of a file's rows: sorted columns stay so.
        let execution = &mut state.config_mut().options_mut().execution;
        execution.enable_file_stream_work_stealing = false;
        let mut may_spill = false;
        loop {
            let plan = physical_plan(&state, input).await?;
            let (context, memory) = self.query_context(&state, plan.as_ref());
            let _given_up = CancelOnDrop(Arc::clone(&memory));
            match fill(Arc::clone(&plan), context).await {
                Err(EngineError::DataFusion(error)) if !may_spill && is_of_hash_join(&error) => {
                    rejoin::plan_without(&mut state);
                    may_spill = true;
                }
                filled => {
                    return filled.map_err(|error| query_error(error, &memory, plan.as_ref()));
                }
            }
        }
    }

    /// Shows that a table is being filled until the guard is dropped.
    pub(super) fn show_loading(&self, loading: Loading) -> impl Drop + use<> {
        *self.loading.lock() = Some(loading);
        let shown = Arc::clone(&self.loading);
        OnDrop(move || *shown.lock() = None)
    }

    /// `CREATE VIEW`. A view of a temporary table is temporary itself.
    pub(super) async fn create_view(
        &self,
        cmd: CreateView,
        clauses: &CreateClauses,
    ) -> Result<StatementResult, EngineError> {
        let temporary = clauses.temporary || self.reads_temporary(&cmd.input)?;
        let slot = self.slot(&cmd.name, temporary, cmd.or_replace)?;
        if slot.is_taken() {
            return Err(slot.taken().into());
        }
        self.check_replaced(&slot)?;
        check_columns(&slot, &cmd.input)?;
        let coercion = Analyzer::with_rules(analyzer_rules());
        let input = Arc::unwrap_or_clone(cmd.input);
        let input = coercion.execute_and_check(input, &ConfigOptions::default(), |_, _| {})?;
        let view = Arc::new(ViewTable::new(input, cmd.definition));
        self.engine().create_view(&self.gate, &slot, view)?;
        Ok(done("CREATE VIEW"))
    }

    /// Refuses to replace a table that a view reads: the view would go on with the old one.
    fn check_replaced(&self, slot: &Slot) -> Result<(), EngineError> {
        let replaced = slot.schema.get(&slot.name).filter(|_| slot.or_replace);
        let view = replaced
            .map(|replaced| self.view_of(&replaced))
            .transpose()?
            .flatten();
        match view {
            Some(view) => Err(SqlError::InUse {
                table: slot.name.clone(),
                view,
            }
            .into()),
            None => Ok(()),
        }
    }

    /// Refuses to replace a table that others refer to.
    fn check_replaced_key(&self, slot: &Slot) -> Result<(), EngineError> {
        let replaced = slot.schema.get(&slot.name).filter(|_| slot.or_replace);
        let table = replaced
            .as_deref()
            .and_then(|replaced| table_of(replaced).cloned());
        Ok(self.references().check_unreferenced(table.as_slice())?)
    }

    pub(super) fn reads_temporary(&self, plan: &LogicalPlan) -> Result<bool, EngineError> {
        let own = self.temporary().all();
        reads(plan, |read| {
            own.iter().any(|(_, table)| Arc::ptr_eq(table, read))
        })
    }

    /// `CREATE EXTERNAL TABLE`: DataFusion's table on files.
    pub(super) async fn create_external_table(
        &self,
        cmd: Box<CreateExternalTable>,
    ) -> Result<StatementResult, EngineError> {
        let slot = self.slot(&cmd.name, false, cmd.or_replace)?;
        if slot.is_taken() && !cmd.if_not_exists {
            return Err(slot.taken().into());
        }
        self.check_replaced(&slot)?;
        let replaced = slot.schema.get(&slot.name).filter(|_| slot.or_replace);
        if replaced.is_some() && self.engine().data_directory().is_some() {
            let what = "CREATE OR REPLACE EXTERNAL TABLE with a data directory";
            return Err(SqlError::unsupported(what, "DROP the old one first").into());
        }
        let paths = cmd.locations.iter().map(PathBuf::from).collect::<Vec<_>>();
        let format = cmd.file_type.parse().ok();
        let named: PathBuf = cmd.locations.join(", ").into();
        let plan = LogicalPlan::Ddl(DdlStatement::CreateExternalTable(cmd));
        let created = self.context().execute_logical_plan(plan);
        reading(&paths, format, &named, created).await?;
        Ok(done("CREATE EXTERNAL TABLE"))
    }

    pub(super) fn slot(
        &self,
        name: &TableReference,
        temporary: bool,
        or_replace: bool,
    ) -> Result<Slot, EngineError> {
        let (schema_name, name) = self.resolve(name)?;
        let is_temporary = temporary || schema_name == TEMPORARY;
        let schema = match schema_name.as_str() {
            SYSTEM => {
                return Err(SqlError::unsupported(
                    format!("CREATE in schema `{SYSTEM}`"),
                    "it has the system tables; choose another schema",
                )
                .into());
            }
            _ if is_temporary => self.temporary(),
            other => {
                let known = self.permanent().schema(other);
                known.ok_or_else(|| SqlError::UnknownSchema {
                    schema: other.to_owned(),
                })?
            }
        };
        Ok(Slot {
            schema,
            schema_name,
            name,
            or_replace,
            is_temporary,
            is_draft: self.tables().draft().is_some(),
        })
    }
}

/// Whether a plan reads one of the tables that `is_wanted` knows.
pub(super) fn reads(
    plan: &LogicalPlan,
    is_wanted: impl Fn(&Arc<dyn TableProvider>) -> bool,
) -> Result<bool, EngineError> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
        {
            found |= is_wanted(&provider);
        }
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// The columns that a `CREATE TABLE` declares, as they are stored.
pub(super) fn declared_columns(
    cmd: &CreateMemoryTable,
    clauses: &CreateClauses,
) -> Result<SchemaRef, EngineError> {
    let input = with_lengths(&cmd.input, &clauses.declared)?;
    let input = with_room(&input)?;
    Ok(stored_schema(&Arc::new(input.schema().as_arrow().clone())))
}

/// A query may yield two columns of one name, from two tables; a table can't have them.
fn check_columns(slot: &Slot, input: &LogicalPlan) -> Result<(), SqlError> {
    let mut names = HashSet::new();
    let mut columns = input
        .schema()
        .fields()
        .iter()
        .map(|field| shown(field.name()));
    match columns.find(|name| !names.insert(*name)) {
        Some(column) => Err(SqlError::DuplicateColumn {
            table: slot.name.clone(),
            column: column.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Refuses defaults that columns can't have.
async fn check_defaults(
    state: &SessionState,
    schema: &Schema,
    defaults: &[(String, String)],
) -> Result<(), EngineError> {
    for (column, sql) in defaults {
        check_default(state, schema.field_with_name(column)?, sql).await?;
    }
    Ok(())
}

/// The columns of a new table with the lengths that they were declared with.
fn with_lengths<'a>(
    input: &'a LogicalPlan,
    declared: &[(String, DeclaredLength)],
) -> Result<Cow<'a, LogicalPlan>, EngineError> {
    if declared.is_empty() {
        return Ok(Cow::Borrowed(input));
    }
    let LogicalPlan::EmptyRelation(empty) = input else {
        let what = "a length of a column in CREATE TABLE … AS";
        return Err(SqlError::unsupported(what, "cast in the query, to varchar(n)").into());
    };
    let fields = empty.schema.fields().iter().map(|field| {
        let field = field.as_ref().clone();
        let length = declared.iter().find(|(name, _)| name == field.name());
        match length {
            Some((_, declared)) => declared.mark(field),
            None => field,
        }
    });
    let schema = Schema::new(fields.collect::<Vec<_>>());
    Ok(Cow::Owned(LogicalPlan::EmptyRelation(EmptyRelation {
        schema: Arc::new(schema.to_dfschema()?),
        ..empty.clone()
    })))
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
