//! `CREATE`, `ALTER` and `DROP SEQUENCE`, and the sequences of new tables.

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::ObjectName;
use std::sync::Arc;

use super::alter::table_reference;
use super::done;
use super::index::is_taken;
use super::transaction::alone;
use crate::engine::catalog::{PUBLIC, TEMPORARY, TableMap};
use crate::engine::definitions::{NewSequence, Slot};
use crate::engine::sequences::{NamedSequence, find, sequence_of};
use crate::engine::session::Session;
use crate::engine::stream::StatementResult;
use crate::error::EngineError;
use crate::scan::table_of;
use crate::sql::{NumberedColumn, SequenceClauses, SequenceCommand, SqlError};
use nearfar_table::sequence::{Sequence, SequenceValue};
use nearfar_table::table::{Table, TableId, TableRules};

impl Session {
    /// A statement about sequences.
    pub(super) async fn run_on_sequences(
        &self,
        command: &SequenceCommand,
    ) -> Result<StatementResult, EngineError> {
        match command {
            SequenceCommand::Create {
                name,
                temporary,
                if_not_exists,
                options,
            } => {
                let slot = self.slot(&table_reference(name)?, *temporary, false)?;
                if slot.is_taken() && *if_not_exists {
                    return Ok(done("CREATE SEQUENCE"));
                }
                let mut definition = options.new_sequence()?;
                definition.owner = self.owner_of(options).await?.flatten();
                let sequence = Arc::new(Sequence::new(definition));
                self.engine()
                    .create_sequence(&self.gate, &slot, &sequence)?;
                Ok(done("CREATE SEQUENCE"))
            }
            SequenceCommand::Alter {
                name,
                if_exists,
                options,
            } => {
                let found = match self.sequence(name) {
                    Err(SqlError::UnknownTable { .. }) if *if_exists => {
                        return Ok(done("ALTER SEQUENCE"));
                    }
                    found => found?,
                };
                if !found.is_unlogged {
                    let transaction = self.current_transaction()?;
                    alone(&transaction, "ALTER SEQUENCE")?;
                }
                let owner = self.owner_of(options).await?;
                self.engine()
                    .alter_sequence(&self.gate, &found, |before, value| {
                        let (mut changed, value) = options.changed(before, value)?;
                        if let Some(owner) = owner {
                            changed.owner = owner;
                        }
                        Ok((changed, value))
                    })?;
                Ok(done("ALTER SEQUENCE"))
            }
            SequenceCommand::Drop { names, if_exists } => {
                self.drop_sequences(names, *if_exists)?;
                Ok(done("DROP SEQUENCE"))
            }
        }
    }

    fn sequence(&self, name: &ObjectName) -> Result<NamedSequence, SqlError> {
        let (schema, name) = self.resolve(&table_reference(name)?)?;
        find(self.engine(), self.tables(), Some(&schema), &name)
    }

    /// Drops sequences, or none of them where one can't be.
    fn drop_sequences(&self, names: &[ObjectName], if_exists: bool) -> Result<(), EngineError> {
        let mut dropped: Vec<TableReference> = Vec::new();
        for name in names {
            // A name may be written twice.
            if let Some(found) = self.dropped_sequence(name, if_exists)?
                && !dropped.contains(&found)
            {
                dropped.push(found);
            }
        }
        dropped.iter().try_for_each(|name| self.drop_provider(name))
    }

    /// The sequence that is to be dropped; none where there is none and none has to be.
    ///
    /// # Errors
    /// One that a column takes its values from; a name that is not that of a sequence, where one has to be.
    fn dropped_sequence(
        &self,
        name: &ObjectName,
        if_exists: bool,
    ) -> Result<Option<TableReference>, EngineError> {
        let found = match self.sequence(name) {
            Err(SqlError::UnknownTable { .. }) if if_exists => return Ok(None),
            found => found?,
        };
        let map = match found.is_temporary {
            true => Some(self.temporary()),
            false => self.permanent().schema(&found.schema),
        };
        let user = map.as_deref().and_then(|map| user_of(map, &found.name));
        if let Some((table, column)) = user {
            return Err(SqlError::SequenceInUse {
                sequence: found.name.clone(),
                table,
                column,
            }
            .into());
        }
        Ok(Some(TableReference::partial(found.schema, found.name)))
    }

    /// Has the sequences that are dropped with columns of `tables` begin again.
    pub(super) fn restart_sequences(&self, tables: &[Arc<Table>]) -> Result<(), EngineError> {
        let own = (TEMPORARY.to_owned(), self.temporary());
        let shared = self.engine().catalog().all().into_iter();
        for (schema, map) in shared.chain([own]) {
            for (name, provider) in map.all() {
                let Some(sequence) = sequence_of(provider.as_ref()) else {
                    continue;
                };
                let definition = sequence.definition();
                let owner = definition.owner.as_ref();
                if owner.is_some_and(|(id, _)| tables.iter().any(|table| table.id() == *id)) {
                    let found = find(self.engine(), self.tables(), Some(&schema), &name)?;
                    let value = SequenceValue {
                        last: definition.start,
                        is_called: false,
                    };
                    found.set(self.engine(), value)?;
                }
            }
        }
        Ok(())
    }

    /// The column that a sequence is said to be dropped with.
    async fn owner_of(
        &self,
        options: &SequenceClauses,
    ) -> Result<Option<Option<(TableId, String)>>, EngineError> {
        let Some(owner) = &options.owner else {
            return Ok(None);
        };
        let Some((table, column)) = owner else {
            return Ok(Some(None));
        };
        let table = self.memory_table(&table_reference(table)?).await?;
        let schema = table.schema();
        if schema.index_of(column).is_err() {
            return Err(SqlError::UnknownColumn {
                table: table.name().to_owned(),
                column: column.clone(),
                known: schema.fields().iter().map(|f| f.name().clone()).collect(),
            }
            .into());
        }
        Ok(Some(Some((table.id(), column.clone()))))
    }
}

/// A column that takes its values from a sequence.
fn user_of(map: &TableMap, sequence: &str) -> Option<(String, String)> {
    let name = quoted(sequence).replace('\'', "''");
    let names = [format!("'{name}'"), format!(".{name}'")];
    map.all().iter().find_map(|(name, provider)| {
        let rules = table_of(provider.as_ref())?.rules();
        let takes = |sql: &str| {
            sql.contains("nextval") && names.iter().any(|name| sql.contains(name.as_str()))
        };
        let mut defaults = rules.defaults.iter();
        let (column, _) = defaults.find(|(_, sql)| takes(sql))?;
        Some((name.clone(), column.clone()))
    })
}

/// The sequences of a new table, and what columns get from them.
///
/// # Errors
/// [`SqlError::SequenceOption`].
pub(super) fn numbered_columns(
    table: &Table,
    slot: &Slot,
    columns: &[NumberedColumn],
    rules: &mut TableRules,
) -> Result<Vec<NewSequence>, SqlError> {
    let mut sequences: Vec<NewSequence> = Vec::new();
    for column in columns {
        let base = format!("{}_{}_seq", slot.name, column.column);
        let numbered = (1..).map(|number| format!("{base}{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        let is_free = |name: &String| {
            !is_taken(&slot.schema, name) && !sequences.iter().any(|other| other.name == *name)
        };
        let name = match &column.sequence {
            Some(name) if is_free(name) => name.clone(),
            Some(name) => {
                return Err(SqlError::TableExists {
                    table: name.clone(),
                });
            }
            None => names.find(is_free).unwrap_or(base),
        };
        let mut definition = column.options.new_sequence()?;
        definition.owner = Some((table.id(), column.column.clone()));
        let qualified = match slot.is_temporary || slot.schema_name == PUBLIC {
            true => quoted(&name),
            false => format!("{}.{}", quoted(&slot.schema_name), quoted(&name)),
        };
        let call = format!("nextval('{}'::regclass)", qualified.replace('\'', "''"));
        rules.defaults.insert(column.column.clone(), call);
        if let Some(identity) = column.identity {
            rules.identities.insert(column.column.clone(), identity);
        }
        sequences.push(NewSequence {
            name,
            sequence: Arc::new(Sequence::new(definition)),
        });
    }
    Ok(sequences)
}

/// A name as it has to be written.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    match begins && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}
