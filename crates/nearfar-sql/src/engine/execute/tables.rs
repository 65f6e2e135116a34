//! Statements that do one thing to several tables.

use datafusion::common::TableReference;
use std::sync::Arc;

use super::alter::table_reference;
use super::done;
use super::transaction::alone;
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::scan::table_of;
use crate::sql::{SqlError, TablesCommand, TablesVerb};
use nearfar_table::table::Table;
use nearfar_table::transaction::Transaction;

impl Session {
    pub(super) async fn run_on_tables(
        &self,
        transaction: &Arc<Transaction>,
        command: &TablesCommand,
    ) -> Result<StatementResult, EngineError> {
        let names = command.tables.iter().map(table_reference);
        let names = names.collect::<Result<Vec<TableReference>, _>>()?;
        match command.verb {
            TablesVerb::Drop {
                if_exists,
                is_cascade,
            } => {
                self.defining(transaction, "DROP TABLE")?;
                self.drop_tables(&names, if_exists, is_cascade).await
            }
            TablesVerb::Truncate {
                is_cascade,
                restarts,
            } => {
                let mut tables = self.tables_in_memory(&names).await?;
                if is_cascade {
                    self.add_referring(&mut tables);
                }
                if restarts {
                    alone(transaction, "TRUNCATE … RESTART IDENTITY")?;
                }
                let done = self.truncate(transaction, &tables).await?;
                if restarts {
                    self.restart_sequences(&tables)?;
                }
                Ok(done)
            }
            TablesVerb::Vacuum => {
                alone(transaction, "VACUUM")?;
                let tables = match names.is_empty() {
                    true => self.all_tables(),
                    false => self.tables_in_memory(&names).await?,
                };
                for table in tables {
                    self.merge_all(&table).await?;
                }
                Ok(done("VACUUM"))
            }
            TablesVerb::Analyze => {
                for name in &names {
                    self.known_provider(name).await?;
                }
                Ok(done("ANALYZE"))
            }
        }
    }

    /// Adds the tables whose foreign keys lead to `tables`, and those that lead to them.
    fn add_referring(&self, tables: &mut Vec<Arc<Table>>) {
        let references = self.references();
        let mut at = 0;
        while at < tables.len() {
            for child in references.children(tables[at].id()) {
                let is_known = tables.iter().any(|known| known.id() == child.table);
                if let Some((_, table)) = references.table(child.table).filter(|_| !is_known) {
                    tables.push(table);
                }
            }
            at += 1;
        }
    }

    /// Drops tables, or none of them where one can't be.
    async fn drop_tables(
        &self,
        names: &[TableReference],
        if_exists: bool,
        is_cascade: bool,
    ) -> Result<StatementResult, EngineError> {
        let (mut found, mut tables) = (Vec::new(), Vec::new());
        for name in names {
            if self.can_drop(name, if_exists).await? {
                found.push(name);
                let provider = self.provider(name).await?;
                tables.extend(provider.as_deref().and_then(table_of).cloned());
            }
        }
        if !is_cascade {
            self.references().check_unreferenced(&tables)?;
        }
        self.drop_references_to(&tables).await?;
        for name in found {
            // A name may be written twice.
            if self.provider(name).await?.is_some() {
                self.drop_provider(name)?;
            }
        }
        Ok(done("DROP TABLE"))
    }

    async fn tables_in_memory(
        &self,
        names: &[TableReference],
    ) -> Result<Vec<Arc<Table>>, EngineError> {
        let mut tables = Vec::new();
        for name in names {
            tables.push(self.memory_table(name).await?);
        }
        Ok(tables)
    }

    /// The tables in memory that the session sees.
    fn all_tables(&self) -> Vec<Arc<Table>> {
        let own = self.temporary().all().into_iter();
        let own = own.filter_map(|(_, provider)| table_of(provider.as_ref()).cloned());
        let shared = self.engine().tables().into_iter().map(|(_, table)| table);
        shared.chain(own).collect()
    }

    async fn known_provider(&self, name: &TableReference) -> Result<(), EngineError> {
        match self.provider(name).await? {
            Some(_) => Ok(()),
            None => Err(SqlError::UnknownTable {
                table: name.to_string(),
            }
            .into()),
        }
    }
}
