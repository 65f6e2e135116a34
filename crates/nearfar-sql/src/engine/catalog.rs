//! The catalog: tables that all sessions share, and those of one session.
//!
//! There is one catalog, [`CATALOG`], with the schemas
//!
//! * `public`, where tables go that are created without a schema. A session's temporary tables are
//!   seen here too, by that session only, and hide permanent ones of the same name;
//! * `nearfar`, the system tables;
//! * whatever `CREATE SCHEMA` adds.

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::TableType;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::scan::table_of;

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
}

impl TableMap {
    /// The table of this name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.tables.read().get(name).cloned()
    }

    /// Enters a table, in place of one of the same name.
    pub fn replace(&self, name: String, table: Arc<dyn TableProvider>) {
        let replaced = self.tables.write().insert(name, table);
        replaced.iter().for_each(forget);
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
        removed.iter().for_each(forget);
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

/// Takes what is no longer in the catalog out of the database.
fn forget(provider: &Arc<dyn TableProvider>) {
    if let Some(table) = table_of(provider.as_ref()) {
        table.leave();
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
        schema.all().iter().for_each(|(_, table)| forget(table));
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

/// The catalog as one session sees it.
#[derive(Debug)]
pub struct SessionCatalog {
    shared: Arc<SharedCatalog>,
    temporary: Arc<TableMap>,
    public: Arc<Overlay>,
    system: Arc<dyn SchemaProvider>,
    /// Schemas of the session's own, by name.
    own: RwLock<BTreeMap<String, Arc<dyn SchemaProvider>>>,
}

impl SessionCatalog {
    /// The shared tables with a session's own and the system tables.
    pub fn new(
        shared: Arc<SharedCatalog>,
        temporary: Arc<TableMap>,
        system: Arc<dyn SchemaProvider>,
    ) -> Self {
        let public = Arc::new(Overlay {
            temporary: Arc::clone(&temporary),
            shared: Arc::clone(shared.public()),
        });
        Self {
            shared,
            temporary,
            public,
            system,
            own: RwLock::default(),
        }
    }

    /// Adds a schema that only this session sees, in place of one of the same name.
    pub fn add_own(&self, name: &str, schema: Arc<dyn SchemaProvider>) {
        self.own.write().insert(name.to_owned(), schema);
    }
}

impl CatalogProvider for SessionCatalog {
    fn schema_names(&self) -> Vec<String> {
        let own = [SYSTEM.to_owned(), TEMPORARY.to_owned()];
        let added: Vec<String> = self.own.read().keys().cloned().collect();
        own.into_iter()
            .chain(added)
            .chain(self.shared.all().into_iter().map(|(name, _)| name))
            .collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            PUBLIC => Some(Arc::clone(&self.public) as _),
            SYSTEM => Some(Arc::clone(&self.system)),
            TEMPORARY => Some(Arc::clone(&self.temporary) as _),
            _ => {
                let own = self.own.read().get(name).cloned();
                own.or_else(|| self.shared.schema(name).map(|schema| schema as _))
            }
        }
    }

    /// Adds an empty schema of this name; what `schema` holds is not looked at.
    fn register_schema(
        &self,
        name: &str,
        _schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.shared.add_schema(name);
        Ok(None)
    }

    fn deregister_schema(
        &self,
        name: &str,
        cascade: bool,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        if [PUBLIC, SYSTEM, TEMPORARY].contains(&name) || self.own.read().contains_key(name) {
            return exec_err!("schema `{name}` can't be dropped");
        }
        let Some(schema) = self.shared.schema(name) else {
            return Ok(None);
        };
        let tables = schema.table_names();
        if !tables.is_empty() && !cascade {
            return Err(exec_datafusion_err!(
                "schema `{name}` has tables ({}): drop them first, or use CASCADE",
                tables.join(", ")
            ));
        }
        Ok(self.shared.remove_schema(name).map(|schema| schema as _))
    }
}

/// `public` as a session sees it: its temporary tables before the shared ones.
#[derive(Debug)]
struct Overlay {
    temporary: Arc<TableMap>,
    shared: Arc<TableMap>,
}

impl Overlay {
    fn get(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.temporary.get(name).or_else(|| self.shared.get(name))
    }
}

#[async_trait]
impl SchemaProvider for Overlay {
    /// Shared tables only: temporary ones are listed under [`TEMPORARY`].
    fn table_names(&self) -> Vec<String> {
        self.shared.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(self.get(name))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.get(name).map(|table| table.table_type()))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.shared.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self
            .temporary
            .remove(name)
            .or_else(|| self.shared.remove(name)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}
