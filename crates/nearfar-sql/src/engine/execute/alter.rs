//! `ALTER TABLE`.

use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::done;
use super::modify::not_in_memory;
use super::transaction::{Closing, alone};
use crate::engine::catalog::CATALOG;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::scan::table_of;
use crate::sql::{AlterTable, AlteredColumn, SqlError};
use nearfar_table::placement::ColumnPlacements;
use nearfar_table::table::{Preload, Table};
use nearfar_table::transaction::{Isolation, Transaction, TransactionError};

impl Session {
    /// Moves a table or columns of it while queries run, or says when they are brought to memory.
    pub(super) async fn alter_table(
        &self,
        alter: &AlterTable,
    ) -> Result<StatementResult, EngineError> {
        let name = table_reference(&alter.table)?;
        let table = match self.memory_table(&name).await {
            Err(EngineError::Sql(SqlError::UnknownTable { .. })) if alter.if_exists => {
                return Ok(done("ALTER TABLE"));
            }
            table => table?,
        };
        if !alter.columns.is_empty() && self.distribution.is_some() {
            let what = "ALTER TABLE of columns and names in a cluster";
            return Err(SqlError::unsupported(what, "make another table").into());
        }
        if !alter.columns.is_empty() && self.tables().draft().is_none() {
            return self.alter_alone(alter).await;
        }
        let mut name = name;
        for change in &alter.columns {
            name = self.alter_column(&name, change).await?;
        }
        let table = match alter.columns.is_empty() {
            true => table,
            false => self.memory_table(&name).await?,
        };
        self.alter_keys(&name, &table, &alter.keys).await?;
        let table = self.memory_table(&name).await?;
        self.alter_defaults(&table, &alter.defaults).await?;
        if alter.changes.is_empty() {
            return Ok(done("ALTER TABLE"));
        }
        let transaction = self.current_transaction()?;
        alone(&transaction, "ALTER TABLE … SET")?;
        let placements = self.altered_placements(&table, alter)?;
        let preload = altered_preload(&table, alter)?;
        let storage = self.engine().storage().clone();
        let cancelled = CancelOnDrop::default();
        let stop = Arc::clone(&cancelled.0);
        let (engine, gate) = (Arc::clone(self.engine()), Arc::clone(&self.gate));
        let moved = tokio::task::spawn_blocking(move || {
            if let Some(placements) = placements {
                let go_on = || !stop.load(Ordering::Relaxed);
                table.migrate_while(&placements, &storage, go_on, &gate)?;
                engine.record_placements(&gate, &table)?;
            }
            match preload {
                Some(preload) => engine.set_preload(&gate, &table, preload),
                None => Ok(()),
            }
        });
        moved.await.map_err(|error| EngineError::Internal {
            message: error.to_string(),
        })??;
        Ok(done("ALTER TABLE"))
    }

    /// The same in a transaction of its own, again where others have changed the table meanwhile.
    async fn alter_alone(&self, alter: &AlterTable) -> Result<StatementResult, EngineError> {
        let mut attempts = ATTEMPTS_MAX;
        loop {
            attempts -= 1;
            let database = self.engine().database();
            let transaction = Transaction::explicit(database, Isolation::ReadCommitted, false);
            match self.alter_in(transaction, alter).await {
                Err(error) if attempts > 0 && is_conflict(&error) => {}
                altered => return altered,
            }
        }
    }

    async fn alter_in(
        &self,
        transaction: Arc<Transaction>,
        alter: &AlterTable,
    ) -> Result<StatementResult, EngineError> {
        *self.open.lock() = Some(Arc::clone(&transaction));
        let _closing = Closing(self);
        self.defining(&transaction, "ALTER TABLE")?;
        let altered = Box::pin(self.alter_table(alter)).await?;
        self.commit_open(transaction).await?;
        Ok(altered)
    }

    fn altered_placements(
        &self,
        table: &Table,
        alter: &AlterTable,
    ) -> Result<Option<ColumnPlacements>, EngineError> {
        let tablespaces = self.engine().tablespaces();
        let mut placements = None;
        for change in &alter.changes {
            let column = altered_column(table, change)?;
            let Some(place) = &change.options.place else {
                continue;
            };
            match column {
                None => placements = Some(tablespaces.column_placements(place, table)?),
                Some(column) => {
                    let placement = tablespaces.placement(place)?;
                    let placements = placements.get_or_insert_with(|| table.placements());
                    placements.columns.insert(column, placement);
                }
            }
        }
        Ok(placements)
    }

    /// The table in memory of this name.
    pub(super) async fn memory_table(
        &self,
        name: &TableReference,
    ) -> Result<Arc<Table>, EngineError> {
        let provider = self
            .provider(name)
            .await?
            .ok_or_else(|| SqlError::UnknownTable {
                table: name.to_string(),
            })?;
        match table_of(provider.as_ref()) {
            Some(table) => Ok(Arc::clone(table)),
            None => Err(not_in_memory(name, provider.as_ref()).into()),
        }
    }

    /// The table or view of this name, as the session sees it.
    pub(in crate::engine) async fn provider(
        &self,
        name: &TableReference,
    ) -> Result<Option<Arc<dyn TableProvider>>, EngineError> {
        let (schema, table) = self.resolve(name)?;
        let schema = self
            .context()
            .catalog(CATALOG)
            .and_then(|catalog| catalog.schema(&schema));
        match schema {
            Some(schema) => Ok(schema.table(&table).await?),
            None => Ok(None),
        }
    }
}

/// How often an `ALTER TABLE` is tried while others change the table beside it.
const ATTEMPTS_MAX: usize = 8;

fn is_conflict(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Transaction(TransactionError::Conflict { .. })
    )
}

fn altered_preload(table: &Table, alter: &AlterTable) -> Result<Option<Preload>, SqlError> {
    let mut preload = None;
    for change in &alter.changes {
        if let Some(priority) = change.options.preload {
            let column = altered_column(table, change)?;
            let preload = preload.get_or_insert_with(|| table.preload());
            preload.set(column.as_deref(), priority);
        }
    }
    Ok(preload)
}

/// The column that a clause names, which the table has.
fn altered_column(table: &Table, change: &AlteredColumn) -> Result<Option<String>, SqlError> {
    let column = change.column.as_ref();
    column.map(|column| column_of(table, column)).transpose()
}

/// The name of a column that a table has.
pub(super) fn column_of(table: &Table, column: &Ident) -> Result<String, SqlError> {
    let column = normalised(column);
    let schema = table.schema();
    match schema.index_of(&column) {
        Ok(_) => Ok(column),
        Err(_) => Err(SqlError::UnknownColumn {
            table: table.name().to_owned(),
            column,
            known: schema.fields().iter().map(|f| f.name().clone()).collect(),
        }),
    }
}

/// Tells work on another thread to stop when it is dropped.
#[derive(Default)]
pub(super) struct CancelOnDrop(pub Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A name as the planner sees it: unquoted parts in lower case.
pub(in crate::engine) fn table_reference(name: &ObjectName) -> Result<TableReference, SqlError> {
    let parts: Option<Vec<String>> = name
        .0
        .iter()
        .map(|part| part.as_ident().map(normalised))
        .collect();
    let unreadable = || SqlError::UnknownTable {
        table: name.to_string(),
    };
    Ok(match &parts.ok_or_else(unreadable)?[..] {
        [table] => TableReference::bare(table.as_str()),
        [schema, table] => TableReference::partial(schema.as_str(), table.as_str()),
        [catalog, schema, table] => {
            TableReference::full(catalog.as_str(), schema.as_str(), table.as_str())
        }
        _ => return Err(unreadable()),
    })
}

/// A name as the planner sees it.
pub(super) fn normalised(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}
