//! Sequences: where they are found, how their numbers get to the log, and the functions that give them.

mod functions;
mod table;

pub(super) use functions::functions;
pub(super) use table::SequenceTable;
pub use table::sequence_of;

use std::sync::Arc;

use super::Engine;
use super::catalog::{PUBLIC, SessionTables, TEMPORARY};
use crate::error::EngineError;
use crate::sql::SqlError;
use nearfar_durable::error::DurableError;
use nearfar_durable::log::LogTransaction;
use nearfar_table::sequence::{Sequence, SequenceDefinition, SequenceEnd, SequenceValue};
use nearfar_table::transaction::CommitGate;

/// A sequence, by the name that it is kept under.
#[derive(Debug, Clone)]
pub(super) struct NamedSequence {
    pub schema: String,
    pub name: String,
    pub sequence: Arc<Sequence>,
    /// Whether it is a session's own.
    pub is_temporary: bool,
    /// Whether no log knows of it: it is a session's own, or its open transaction defines it.
    pub is_unlogged: bool,
}

impl NamedSequence {
    /// The next number.
    ///
    /// # Errors
    /// A sequence whose numbers are used up; a log that can't be written.
    pub fn next(&self, engine: &Engine) -> Result<i64, EngineError> {
        let next = self.sequence.next(|value| self.keep(engine, value));
        next.map_err(|end| match end {
            SequenceEnd::NotKept(error) => error,
            SequenceEnd::UsedUp(last) => SqlError::SequenceUsedUp {
                sequence: self.name.clone(),
                bound: if self.sequence.definition().increment > 0 {
                    "maximum"
                } else {
                    "minimum"
                },
                last,
            }
            .into(),
            SequenceEnd::OutOfBounds(min, max) => self.out_of_bounds(0, min, max),
        })
    }

    /// Sets where it is.
    ///
    /// # Errors
    /// A number that it never gives; a log that can't be written.
    pub fn set(&self, engine: &Engine, value: SequenceValue) -> Result<(), EngineError> {
        let set = self.sequence.set(value, |value| self.keep(engine, value));
        set.map_err(|end| match end {
            SequenceEnd::NotKept(error) => error,
            SequenceEnd::OutOfBounds(min, max) => self.out_of_bounds(value.last, min, max),
            SequenceEnd::UsedUp(last) => self.out_of_bounds(last, last, last),
        })
    }

    fn out_of_bounds(&self, value: i64, min: i64, max: i64) -> EngineError {
        SqlError::SequenceOutOfBounds {
            sequence: self.name.clone(),
            value,
            min,
            max,
        }
        .into()
    }

    /// Refuses to tell the log of a permanent sequence that was dropped, or is another one by now.
    pub fn check_known(&self, engine: &Engine) -> Result<(), SqlError> {
        let map = engine.catalog().schema(&self.schema);
        let known = map.and_then(|map| map.get(&self.name));
        let known = known.as_deref().and_then(sequence_of);
        match known.is_some_and(|known| Arc::ptr_eq(known, &self.sequence)) {
            true => Ok(()),
            false => Err(SqlError::UnknownTable {
                table: self.name.clone(),
            }),
        }
    }

    /// Has the log know where it is to be after a crash, and waits for the disk: what was given out must not
    /// be given out again.
    fn keep(&self, engine: &Engine, value: SequenceValue) -> Result<(), EngineError> {
        engine.database().check_owner()?;
        let Some(log) = engine.log().filter(|_| !self.is_unlogged) else {
            return Ok(());
        };
        let gate = CommitGate::default();
        let mut record = LogTransaction::new(log, &gate)?;
        record.sequence_value((&self.schema, &self.name), value)?;
        let position = {
            let _commits = engine.database().lock();
            self.check_known(engine)?;
            record.commit()?
        };
        if log.sync_setting().is_on() {
            log.sync_to(position)?;
        }
        Ok(())
    }
}

/// The sequence of this name, a session's own first. `schema` is where it is looked for, if it is said.
///
/// # Errors
/// A name of something else, or of nothing.
pub(super) fn find(
    engine: &Engine,
    tables: &SessionTables,
    schema: Option<&str>,
    name: &str,
) -> Result<NamedSequence, SqlError> {
    let is_own = schema.is_none_or(|schema| [PUBLIC, TEMPORARY].contains(&schema));
    let own = tables.temporary().get(name).filter(|_| is_own);
    let is_temporary = own.is_some();
    let in_schema = schema.unwrap_or(PUBLIC);
    let shared = || tables.permanent().schema(in_schema)?.get(name);
    let unknown = || SqlError::UnknownTable {
        table: match schema {
            Some(schema) => format!("{schema}.{name}"),
            None => name.to_owned(),
        },
    };
    let provider = own.or_else(shared).ok_or_else(unknown)?;
    match sequence_of(provider.as_ref()) {
        Some(sequence) => {
            let mut found = NamedSequence {
                schema: in_schema.to_owned(),
                name: name.to_owned(),
                sequence: Arc::clone(sequence),
                is_temporary,
                is_unlogged: is_temporary,
            };
            // The log is told of it when the transaction commits that defines it.
            found.is_unlogged |= tables.draft().is_some() && found.check_known(engine).is_err();
            Ok(found)
        }
        None => Err(SqlError::NoSequence {
            name: name.to_owned(),
        }),
    }
}

/// Writes a sequence that is new to the log.
pub(super) fn record(
    log: &mut LogTransaction<'_>,
    (schema, name): (&str, &str),
    sequence: &Sequence,
) -> Result<(), DurableError> {
    let definition: SequenceDefinition = sequence.definition().as_ref().clone();
    log.sequence((schema, name), definition, sequence.value())
}
