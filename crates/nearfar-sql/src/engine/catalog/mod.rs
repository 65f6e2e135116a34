//! The catalog: tables that all sessions share, and those of one session.
//!
//! There is one catalog, [`CATALOG`], with the schemas
//!
//! * `public`, where tables go that are created without a schema. A session's temporary tables are
//!   seen here too, by that session only, and hide permanent ones of the same name;
//! * `nearfar`, the system tables;
//! * whatever `CREATE SCHEMA` adds.
//!
//! A transaction that defines something does that in a [`Draft`], which its session sees in place of what is
//! committed.

mod draft;
mod information;
mod session;

pub use draft::{Changed, Draft, Origin, Redefined};
pub use information::{INFORMATION_SCHEMA, InformationSchema};
pub use session::{SessionCatalog, SessionTables};

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::TableType;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::sequences::sequence_of;
use crate::scan::table_of;

/// As what `information_schema` lists something; sequences it does not.
fn listed_as(provider: &dyn TableProvider) -> Option<TableType> {
    let is_sequence = sequence_of(provider).is_some();
    (!is_sequence).then(|| provider.table_type())
}

/// The name of the catalog.
pub const CATALOG: &str = "nearfar";
/// The schema of tables that name none.
pub const PUBLIC: &str = "public";
/// The schema of the system tables.
pub const SYSTEM: &str = "nearfar";
/// The schema under which a session's temporary tables are listed.
pub const TEMPORARY: &str = "temporary";

/// Tables by name.
#[derive(Debug, Default)]
pub struct TableMap {
    tables: RwLock<BTreeMap<String, Arc<dyn TableProvider>>>,
    /// Whether it is a transaction's own: what leaves it is still part of the database.
    is_draft: bool,
}

impl TableMap {
    /// A copy for a transaction that changes it.
    fn draft(&self) -> Arc<Self> {
        Arc::new(Self {
            tables: RwLock::new(self.tables.read().clone()),
            is_draft: true,
        })
    }

    /// Takes what leaves the catalog out of the database.
    fn forget(&self, provider: &Arc<dyn TableProvider>) {
        let table = table_of(provider.as_ref()).filter(|_| !self.is_draft);
        if let Some(table) = table {
            table.leave();
        }
    }

    /// The table of this name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.tables.read().get(name).cloned()
    }

    /// Enters a table, in place of one of the same name.
    pub fn replace(&self, name: String, table: Arc<dyn TableProvider>) {
        let replaced = self.tables.write().insert(name, table);
        replaced.iter().for_each(|replaced| self.forget(replaced));
    }

    /// Enters a table unless there is one of the same name; whether it did.
    pub fn insert(&self, name: &str, table: Arc<dyn TableProvider>) -> bool {
        let mut tables = self.tables.write();
        let free = !tables.contains_key(name);
        if free {
            tables.insert(name.to_owned(), table);
        }
        free
    }

    /// Takes a table out.
    pub fn remove(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let removed = self.tables.write().remove(name);
        removed.iter().for_each(|removed| self.forget(removed));
        removed
    }

    /// All tables, by name.
    pub fn all(&self) -> Vec<(String, Arc<dyn TableProvider>)> {
        let tables = self.tables.read();
        tables
            .iter()
            .map(|(name, table)| (name.clone(), Arc::clone(table)))
            .collect()
    }
}

#[async_trait]
impl SchemaProvider for TableMap {
    fn table_names(&self) -> Vec<String> {
        self.tables.read().keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(self.get(name))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.get(name).as_deref().and_then(listed_as))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.insert(&name, table) {
            Ok(None)
        } else {
            exec_err!("table `{name}` already exists")
        }
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.remove(name))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.read().contains_key(name)
    }
}

/// The schemas that all sessions of an engine share.
#[derive(Debug)]
pub struct SharedCatalog {
    public: Arc<TableMap>,
    schemas: RwLock<BTreeMap<String, Arc<TableMap>>>,
}

impl Default for SharedCatalog {
    fn default() -> Self {
        let public = Arc::new(TableMap::default());
        let schemas = BTreeMap::from([(PUBLIC.to_owned(), Arc::clone(&public))]);
        Self {
            public,
            schemas: RwLock::new(schemas),
        }
    }
}

impl SharedCatalog {
    /// A copy for a transaction that changes it.
    fn draft(&self) -> Arc<Self> {
        let schemas = self.all().into_iter();
        let mut schemas: BTreeMap<String, Arc<TableMap>> =
            schemas.map(|(name, map)| (name, map.draft())).collect();
        let public = Arc::clone(schemas.entry(PUBLIC.to_owned()).or_default());
        Arc::new(Self {
            public,
            schemas: RwLock::new(schemas),
        })
    }

    /// The schema of tables that name none.
    pub fn public(&self) -> &Arc<TableMap> {
        &self.public
    }

    /// The schema of this name.
    pub fn schema(&self, name: &str) -> Option<Arc<TableMap>> {
        self.schemas.read().get(name).cloned()
    }

    /// The schema of this name, which is made where there is none.
    pub fn add_schema(&self, name: &str) -> Arc<TableMap> {
        let mut schemas = self.schemas.write();
        Arc::clone(schemas.entry(name.to_owned()).or_default())
    }

    /// Takes a schema out with its tables.
    pub fn remove_schema(&self, name: &str) -> Option<Arc<TableMap>> {
        let schema = self.schemas.write().remove(name)?;
        schema
            .all()
            .iter()
            .for_each(|(_, table)| schema.forget(table));
        Some(schema)
    }

    /// All schemas, by name.
    pub fn all(&self) -> Vec<(String, Arc<TableMap>)> {
        let schemas = self.schemas.read();
        schemas
            .iter()
            .map(|(name, schema)| (name.clone(), Arc::clone(schema)))
            .collect()
    }
}
