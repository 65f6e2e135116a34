//! Definitions within a transaction.
//!
//! A statement that defines something works on a [`Draft`] there, which the session sees in place of what is
//! committed. A table that was there before gets another definition of the same identity, whose columns share what they
//! have with those of the one before.

use arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::datasource::{ViewTable, provider_as_source, source_as_provider};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{LogicalPlan, TableScan};
use std::sync::Arc;

use super::transaction::alone;
use crate::engine::catalog::{Draft, Origin, Redefined, TableMap};
use crate::engine::references::ReferenceMap;
use crate::engine::session::Session;
use crate::error::EngineError;
use crate::scan::table_of;
use crate::sql::{SqlError, selects_all};
use nearfar_table::table::{ColumnSource, Snapshot, Table, TableIndex, TableRules};
use nearfar_table::transaction::{ReplacedTable, TableLockMode, Transaction, TransactionError};

/// Another definition of a table.
pub(super) struct Redefinition<'a> {
    pub name: &'a str,
    pub schema: &'a Schema,
    pub sources: &'a [ColumnSource],
    pub rules: TableRules,
    /// Whether its rows are left out, to be written again.
    pub is_emptied: bool,
}

impl Session {
    /// Has a statement define something: within a transaction of several statements in a copy of what that has defined so
    /// far.
    ///
    /// # Errors
    /// Such a transaction in a cluster.
    pub(super) fn defining(
        &self,
        transaction: &Transaction,
        statement: &str,
    ) -> Result<(), EngineError> {
        if !transaction.is_explicit() {
            return Ok(());
        }
        if self.distribution.is_some() {
            return Ok(alone(transaction, statement)?);
        }
        transaction.check_writable("a definition")?;
        let draft = match self.tables().draft() {
            Some(draft) => draft.next(),
            None => {
                let engine = self.engine();
                let temporary = self.tables().committed_temporary();
                Draft::of(&self.permanent(), temporary, engine.references())
            }
        };
        transaction.define(Arc::new(draft));
        Ok(())
    }

    /// Refuses a plan that was made before, of a table that has another definition by now, or is gone.
    ///
    /// # Errors
    /// Such a plan.
    pub(super) async fn check_current(&self, plan: &LogicalPlan) -> Result<(), EngineError> {
        let mut tables = Vec::new();
        plan.apply_with_subqueries(|node| {
            let (name, source) = match node {
                LogicalPlan::TableScan(scan) => (&scan.table_name, &scan.source),
                LogicalPlan::Dml(dml) => (&dml.table_name, &dml.target),
                _ => return Ok(TreeNodeRecursion::Continue),
            };
            let provider = source_as_provider(source)?;
            if let Some(table) = table_of(provider.as_ref()) {
                tables.push((name.clone(), Arc::clone(table)));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        for (name, table) in tables {
            let known = self.provider(&name).await?;
            let known = known.as_deref().and_then(table_of);
            if !known.is_some_and(|known| Arc::ptr_eq(known, &table)) {
                let what = format!(
                    "a statement that was prepared before table `{}` had another definition",
                    name.table()
                );
                return Err(SqlError::unsupported(what, "DEALLOCATE and PREPARE it again").into());
            }
        }
        Ok(())
    }

    /// The foreign keys of the permanent tables that the session sees.
    pub(in crate::engine) fn references(&self) -> Arc<ReferenceMap> {
        match self.tables().draft() {
            Some(draft) => Arc::clone(&draft.references.lock()),
            None => self.engine().references(),
        }
    }

    /// Finds foreign keys again, after something was defined.
    pub(super) fn note_references(&self) {
        let open = self.open.lock().clone();
        let draft = open
            .as_ref()
            .and_then(|open| open.definitions_as::<Draft>());
        let Some((transaction, draft)) = open.as_ref().zip(draft) else {
            return self.engine().note_references();
        };
        let map = Arc::new(ReferenceMap::of(&draft.permanent));
        *draft.references.lock() = Arc::clone(&map);
        for table in map.parents() {
            match table.is_draft() {
                true => table.set_referenced(true),
                // Others know nothing of it yet.
                false => transaction.begins_to_be_referenced(table.id()),
            }
        }
    }

    /// Gives a table indexes, which `change` makes of its rows. Nobody else commits meanwhile, or sees them before the
    /// open transaction commits.
    ///
    /// # Errors
    /// Those of `change`; a table that was dropped; a log that can't be written.
    pub(super) async fn change_indexes<F>(
        &self,
        table: Arc<Table>,
        change: F,
    ) -> Result<(), EngineError>
    where
        F: FnOnce(&Table, &Snapshot) -> Result<Vec<Arc<TableIndex>>, EngineError> + Send + 'static,
    {
        let (engine, gate) = (Arc::clone(self.engine()), Arc::clone(&self.gate));
        let changing = match self.tables().draft() {
            None => tokio::task::spawn_blocking(move || {
                engine.change_indexes(&gate, &table, |snapshot| change(&table, snapshot))
            }),
            Some(_) => {
                let table = self.redefined_as_it_is(&table).await?;
                tokio::task::spawn_blocking(move || {
                    let snapshot = table.snapshot();
                    let changed = snapshot.with_indexes(change(&table, &snapshot)?);
                    engine.database().lock().install(&table, changed);
                    Ok(())
                })
            }
        };
        changing.await.map_err(|error| EngineError::Internal {
            message: error.to_string(),
        })?
    }

    /// Declares something else of the rows of a table, which all of them meet that are there.
    ///
    /// # Errors
    /// A table that was dropped; a log that can't be written.
    pub(super) async fn change_rules<F>(
        &self,
        table: &Arc<Table>,
        change: F,
    ) -> Result<(), EngineError>
    where
        F: FnOnce(&mut TableRules) + Send + 'static,
    {
        if self.tables().draft().is_some() {
            let table = self.redefined_as_it_is(table).await?;
            let mut rules = table.rules().as_ref().clone();
            change(&mut rules);
            table.set_rules(rules);
            self.attach_checks(&table)?;
            self.note_references();
            return Ok(());
        }
        let (engine, gate) = (Arc::clone(self.engine()), Arc::clone(&self.gate));
        let changed = Arc::clone(table);
        let changing = tokio::task::spawn_blocking(move || {
            engine.change_rules(&gate, &changed, |_, mut rules| {
                change(&mut rules);
                Ok(rules)
            })
        });
        changing.await.map_err(|error| EngineError::Internal {
            message: error.to_string(),
        })??;
        self.attach_checks(table)
    }

    /// Another definition of a table that has all that it had, and can be changed.
    pub(super) async fn redefined_as_it_is(
        &self,
        table: &Arc<Table>,
    ) -> Result<Arc<Table>, EngineError> {
        let sources = 0..table.schema().fields().len();
        let sources: Vec<ColumnSource> = sources.map(ColumnSource::Kept).collect();
        self.redefine(
            table,
            Redefinition {
                name: table.name(),
                schema: table.schema(),
                sources: &sources,
                rules: table.rules().as_ref().clone(),
                is_emptied: false,
            },
        )
        .await
    }

    /// Gives a table another definition, within the open transaction. Others that want to change its rows wait for that.
    ///
    /// # Errors
    /// Views that read columns which do not stay; a tier without room.
    pub(super) async fn redefine(
        &self,
        table: &Arc<Table>,
        given: Redefinition<'_>,
    ) -> Result<Arc<Table>, EngineError> {
        let transaction = self.current_transaction()?;
        let draft = self.tables().draft().ok_or_else(|| EngineError::Internal {
            message: "a table is redefined outside of a transaction".to_owned(),
        })?;
        self.keep_from_others(&transaction, table).await?;
        let taken = transaction.take_table(table)?;
        let storage = self.engine().storage();
        let columns = (given.name, given.schema);
        let rows = match given.is_emptied {
            true => taken.rows.truncated()?,
            false => taken.rows,
        };
        let after = table.redefined(columns, given.sources, (&rows, storage))?;
        let origin = match taken.is_changed || given.is_emptied {
            true => Origin::Rows,
            false => Origin::Columns(given.sources.to_vec()),
        };
        let origin = note_origin(&draft, table, (origin, given.sources), taken.base);
        if matches!(origin, Some(Origin::Columns(_))) {
            after.keep();
        }
        after.set_rules(given.rules);
        after.set_referenced(table.is_referenced());
        let after = Arc::new(after);
        self.attach_checks(&after)?;
        self.exchange(&draft, table, &after)?;
        self.note_references();
        Ok(after)
    }

    /// Has the sequences of a column go by its new name, once the open transaction commits.
    pub(super) fn rename_owner(&self, table: &Table, (from, to): (&str, &str)) {
        if let Some(draft) = self.tables().draft() {
            let renamed = (table.id(), from.to_owned(), to.to_owned());
            draft.renamed.lock().push(renamed);
        }
    }

    /// Has others that want to change rows of a table wait until the transaction ends.
    pub(super) async fn keep_from_others(
        &self,
        transaction: &Transaction,
        table: &Arc<Table>,
    ) -> Result<(), EngineError> {
        let mode = TableLockMode::AccessExclusive;
        self.wait_for_table(transaction, table, mode).await?;
        while !table.is_draft() {
            let lock = transaction.lock_all(table)?;
            if self.waited(lock, table).await? {
                break;
            }
            transaction.refresh()?;
        }
        Ok(())
    }

    /// Enters another definition of a table, in the views that read it too.
    fn exchange(
        &self,
        draft: &Draft,
        before: &Arc<Table>,
        after: &Arc<Table>,
    ) -> Result<(), EngineError> {
        let gone = || TransactionError::Conflict {
            table: before.name().to_owned(),
        };
        let (map, name) = place_of(draft, before).ok_or_else(gone)?;
        let old = map.get(&name).ok_or_else(gone)?;
        let new: Arc<dyn TableProvider> = self.engine().provider_of(Arc::clone(after));
        map.remove(&name);
        map.replace(after.name().to_owned(), Arc::clone(&new));
        let (columns, kept) = (before.schema().fields(), after.schema().fields());
        let is_prefix = kept.len() >= columns.len() && kept[..columns.len()] == columns[..];
        let change = match (is_prefix, kept.len() == columns.len()) {
            (true, true) => ColumnsAre::Same,
            (true, false) => ColumnsAre::More,
            (false, _) => ColumnsAre::Others,
        };
        exchange_in_views(draft, (&name, change), (&old, &new))
    }
}

/// Where the rows of a definition come from, noted in the draft if the table is one that is committed.
fn note_origin(
    draft: &Draft,
    table: &Arc<Table>,
    (origin, sources): (Origin, &[ColumnSource]),
    base: Snapshot,
) -> Option<Origin> {
    let mut redefined = draft.redefined.lock();
    if let Some(known) = redefined.get_mut(&table.id()) {
        known.origin = match origin {
            Origin::Rows => Origin::Rows,
            Origin::Columns(_) => known.origin.then(sources),
        };
        return Some(known.origin.clone());
    }
    if table.is_draft() {
        return None;
    }
    let replaced = ReplacedTable {
        table: Arc::clone(table),
        snapshot: base,
        rules: table.rules(),
    };
    let known = Redefined {
        replaced,
        origin: origin.clone(),
    };
    redefined.insert(table.id(), known);
    Some(origin)
}

/// Where a table is, and its name there.
fn place_of(draft: &Draft, table: &Arc<Table>) -> Option<(Arc<TableMap>, String)> {
    let permanent = draft.permanent.all().into_iter().map(|(_, map)| map);
    let mut maps = permanent.chain([Arc::clone(&draft.temporary)]);
    maps.find_map(|map| {
        let all = map.all();
        let mut tables = all.iter();
        let (name, _) = tables.find(|(_, provider)| {
            table_of(provider.as_ref()).is_some_and(|known| Arc::ptr_eq(known, table))
        })?;
        Some((Arc::clone(&map), name.clone()))
    })
}

/// The columns of a table's definition, beside those of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnsAre {
    Same,
    /// With others behind them.
    More,
    Others,
}

/// Has views read `new` in place of `old`, and those that read them too.
///
/// # Errors
/// [`SqlError::InUse`] where the columns are others.
fn exchange_in_views(
    draft: &Draft,
    (name, columns): (&str, ColumnsAre),
    (old, new): (&Arc<dyn TableProvider>, &Arc<dyn TableProvider>),
) -> Result<(), EngineError> {
    let mut exchanged = vec![(Arc::clone(old), Arc::clone(new))];
    while let Some((old, new)) = exchanged.pop() {
        let permanent = draft.permanent.all().into_iter().map(|(_, map)| map);
        for map in permanent.chain([Arc::clone(&draft.temporary)]) {
            for (view_name, provider) in map.all() {
                let Some(view) =
                    (provider.as_ref() as &dyn std::any::Any).downcast_ref::<ViewTable>()
                else {
                    continue;
                };
                let Some(plan) = with_provider(view.logical_plan(), &old, &new)? else {
                    continue;
                };
                // It is planned again from its text after a restart.
                let selects_all = view.definition().is_some_and(|sql| selects_all(sql));
                if columns == ColumnsAre::Others || columns == ColumnsAre::More && selects_all {
                    return Err(SqlError::InUse {
                        table: name.to_owned(),
                        view: view_name,
                    }
                    .into());
                }
                let changed = ViewTable::new(plan, view.definition().cloned());
                let changed: Arc<dyn TableProvider> = Arc::new(changed);
                map.replace(view_name, Arc::clone(&changed));
                exchanged.push((provider, changed));
            }
        }
    }
    Ok(())
}

/// A plan that reads `new` where `plan` reads `old`, if it does.
fn with_provider(
    plan: &LogicalPlan,
    old: &Arc<dyn TableProvider>,
    new: &Arc<dyn TableProvider>,
) -> Result<Option<LogicalPlan>, DataFusionError> {
    let exchanged = plan
        .clone()
        .transform_up_with_subqueries(|node| match node {
            LogicalPlan::TableScan(scan)
                if Arc::ptr_eq(&source_as_provider(&scan.source)?, old) =>
            {
                let columns = (0..old.schema().fields().len()).collect();
                let scan = TableScan {
                    source: provider_as_source(Arc::clone(new)),
                    projection: scan.projection.or(Some(columns)),
                    ..scan
                };
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            node => Ok(Transformed::no(node)),
        })?;
    Ok(exchanged.transformed.then_some(exchanged.data))
}
