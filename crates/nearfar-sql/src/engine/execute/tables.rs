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
            TablesVerb::Truncate => {
                let tables = self.tables_in_memory(&names).await?;
                self.truncate(transaction, &tables).await
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
