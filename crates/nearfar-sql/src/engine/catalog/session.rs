//! The catalog as one session sees it.

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::TableType;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::draft::Draft;
use super::{PUBLIC, SYSTEM, SharedCatalog, TEMPORARY, TableMap, listed_as};
use nearfar_table::transaction::Transaction;

/// The tables that a session sees: permanent ones and its own, as they are committed, or as its open transaction
/// defines them.
#[derive(Debug)]
pub struct SessionTables {
    permanent: Arc<SharedCatalog>,
    temporary: Arc<TableMap>,
    open: Arc<Mutex<Option<Arc<Transaction>>>>,
}

impl SessionTables {
    /// Those of a session without tables of its own, whose open transaction is in `open`.
    pub fn new(permanent: Arc<SharedCatalog>, open: Arc<Mutex<Option<Arc<Transaction>>>>) -> Self {
        Self {
            permanent,
            temporary: Arc::default(),
            open,
        }
    }

    /// What the open transaction defines, if it does.
    pub fn draft(&self) -> Option<Arc<Draft>> {
        self.open.lock().as_ref()?.definitions_as()
    }

    /// The tables that are shared.
    pub fn permanent(&self) -> Arc<SharedCatalog> {
        match self.draft() {
            Some(draft) => Arc::clone(&draft.permanent),
            None => Arc::clone(&self.permanent),
        }
    }

    /// The session's own.
    pub fn temporary(&self) -> Arc<TableMap> {
        match self.draft() {
            Some(draft) => Arc::clone(&draft.temporary),
            None => Arc::clone(&self.temporary),
        }
    }

    /// The table or view of a name, the session's own first where the schema is one in which those are seen.
    pub fn get(&self, schema: &str, name: &str) -> Option<Arc<dyn TableProvider>> {
        let draft = self.draft();
        let (permanent, temporary) = match &draft {
            Some(draft) => (&draft.permanent, &draft.temporary),
            None => (&self.permanent, &self.temporary),
        };
        let is_own = [PUBLIC, TEMPORARY].contains(&schema);
        let own = temporary.get(name).filter(|_| is_own);
        own.or_else(|| permanent.schema(schema)?.get(name))
    }

    /// The session's own, as they were before the open transaction.
    pub fn committed_temporary(&self) -> &Arc<TableMap> {
        &self.temporary
    }
}

/// The catalog as one session sees it.
#[derive(Debug)]
pub struct SessionCatalog {
    tables: Arc<SessionTables>,
    public: Arc<Overlay>,
    system: Arc<dyn SchemaProvider>,
    /// Schemas of the session's own, by name.
    own: RwLock<BTreeMap<String, Arc<dyn SchemaProvider>>>,
}

impl SessionCatalog {
    /// The shared tables with a session's own and the system tables.
    pub fn new(tables: Arc<SessionTables>, system: Arc<dyn SchemaProvider>) -> Self {
        let public = Arc::new(Overlay(Arc::clone(&tables)));
        Self {
            tables,
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
            .chain(
                self.tables
                    .permanent()
                    .all()
                    .into_iter()
                    .map(|(name, _)| name),
            )
            .collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            PUBLIC => Some(Arc::clone(&self.public) as _),
            SYSTEM => Some(Arc::clone(&self.system)),
            TEMPORARY => Some(self.tables.temporary() as _),
            _ => {
                let own = self.own.read().get(name).cloned();
                own.or_else(|| {
                    self.tables
                        .permanent()
                        .schema(name)
                        .map(|schema| schema as _)
                })
            }
        }
    }

    /// Adds an empty schema of this name; what `schema` holds is not looked at.
    fn register_schema(
        &self,
        name: &str,
        _schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.tables.permanent().add_schema(name);
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
        let permanent = self.tables.permanent();
        let Some(schema) = permanent.schema(name) else {
            return Ok(None);
        };
        let tables = schema.table_names();
        if !tables.is_empty() && !cascade {
            return Err(exec_datafusion_err!(
                "schema `{name}` has tables ({}): drop them first, or use CASCADE",
                tables.join(", ")
            ));
        }
        Ok(permanent.remove_schema(name).map(|schema| schema as _))
    }
}

/// `public` as a session sees it: its temporary tables before the shared ones.
#[derive(Debug)]
struct Overlay(Arc<SessionTables>);

impl Overlay {
    fn get(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.0.get(PUBLIC, name)
    }
}

#[async_trait]
impl SchemaProvider for Overlay {
    /// Shared tables only: temporary ones are listed under [`TEMPORARY`].
    fn table_names(&self) -> Vec<String> {
        self.0.permanent().public().table_names()
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
        self.0.permanent().public().register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let own = self.0.temporary().remove(name);
        Ok(own.or_else(|| self.0.permanent().public().remove(name)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}
