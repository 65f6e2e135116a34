//! What a description of a statement was found out from.

use datafusion::common::config::ConfigOptions;
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::Statement as DfStatement;
use std::sync::{Arc, Weak};

use super::session::Session;
use crate::scan::table_of;
use nearfar_table::table::Table;

/// The tables and settings that a statement was described with. A table that is defined anew is another one.
#[derive(Debug, Clone)]
pub struct KnownDefinitions {
    tables: Vec<KnownTable>,
    options: Arc<ConfigOptions>,
}

#[derive(Debug, Clone)]
struct KnownTable {
    schema: String,
    name: String,
    /// One that is dropped gives back its memory.
    table: Weak<Table>,
}

impl KnownDefinitions {
    /// Those of a statement that names no tables.
    pub(super) fn none(session: &Session) -> Self {
        Self {
            tables: Vec::new(),
            options: session.config_options(),
        }
    }

    /// Those of a statement. None where it names anything but tables in memory: a view may stay while what it reads
    /// does not.
    pub(super) fn of(
        session: &Session,
        state: &SessionState,
        statement: &DfStatement,
    ) -> Option<Self> {
        let names = state.resolve_table_references(statement).ok()?.into_iter();
        let known = names.map(|name| {
            let (schema, name) = session.resolve(&name).ok()?;
            let provider = session.tables().get(&schema, &name)?;
            let table = Arc::downgrade(table_of(provider.as_ref())?);
            Some(KnownTable {
                schema,
                name,
                table,
            })
        });
        Some(Self {
            tables: known.collect::<Option<_>>()?,
            ..Self::none(session)
        })
    }
}

impl Session {
    /// Whether the session's statements meet these definitions still.
    pub fn has_definitions(&self, known: &KnownDefinitions) -> bool {
        let tables = self.tables();
        let is_same = |known: &KnownTable| {
            let provider = tables.get(&known.schema, &known.name);
            let table = provider.as_deref().and_then(table_of);
            table.is_some_and(|table| std::ptr::eq(known.table.as_ptr(), Arc::as_ptr(table)))
        };
        Arc::ptr_eq(&known.options, &self.config_options()) && known.tables.iter().all(is_same)
    }
}
