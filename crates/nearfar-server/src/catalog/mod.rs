//! PostgreSQL's system catalogs, for clients that look for tables in them: the schema `pg_catalog` of a
//! session, and the functions that queries of it call.
//!
//! The catalogs are made anew for every query of what the session sees ([`contents`]). They have the columns
//! that psql and drivers read. Of things that Nearfar has none of, such as collations, there are no rows.

mod classes;
mod constraints;
mod contents;
mod dependencies;
mod empty;
mod functions;
mod information;
mod information_columns;
mod keys;
mod sequences;
mod settings;
mod tables;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, Session as PlanSession, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use nearfar_sql::engine::{CATALOG, INFORMATION_SCHEMA, Session};
use nearfar_sql::sql::PG_CATALOG;

use contents::Contents;
use information::InformationSchema;
use settings::Setting;
use tables::{TABLES, Table};

/// The version of PostgreSQL whose catalogs, protocol and manners are followed. `pg_dump` dumps no server that is newer
/// than itself.
pub const SERVER_VERSION: &str = "15.0 (Nearfar)";
/// The same as one number.
pub const SERVER_VERSION_NUMBER: &str = "150000";

/// Gives a session of `user` the catalogs and their functions.
pub fn add(session: &Session, user: &str, database: &str) {
    let tiers = session.engine().system().tiers();
    let catalogs = Arc::new(Catalogs {
        user: user.to_owned(),
        database: database.to_owned(),
        tiers: tiers.map(|(_, tier)| tier.name.clone()).collect(),
    });
    session.add_schema(PG_CATALOG, Arc::clone(&catalogs) as _);
    let catalog = session.context().catalog(CATALOG);
    let inner = catalog
        .as_ref()
        .and_then(|catalog| catalog.schema(INFORMATION_SCHEMA));
    if let Some(inner) = inner {
        let schema = InformationSchema { inner, catalogs };
        session.add_schema(INFORMATION_SCHEMA, Arc::new(schema));
    }
    let classes = catalog.iter().flat_map(classes::all);
    for function in functions::all(user, database).into_iter().chain(classes) {
        session.context().register_udf(function);
    }
}

/// The schema `pg_catalog` of one session.
#[derive(Debug)]
struct Catalogs {
    user: String,
    database: String,
    tiers: Vec<String>,
}

#[async_trait]
impl SchemaProvider for Catalogs {
    fn table_names(&self) -> Vec<String> {
        TABLES.iter().map(|table| table.name.to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let found = TABLES.iter().find(|table| table.name == name);
        Ok(found.map(|table| Arc::new(Catalog::new(table, self)) as _))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.iter().any(|table| table.name == name)
    }
}

/// One catalog.
#[derive(Debug)]
struct Catalog {
    table: &'static Table,
    user: String,
    database: String,
    tiers: Vec<String>,
}

impl Catalog {
    /// One of a session with these.
    fn new(table: &'static Table, catalogs: &Catalogs) -> Self {
        Self {
            table,
            user: catalogs.user.clone(),
            database: catalogs.database.clone(),
            tiers: catalogs.tiers.clone(),
        }
    }

    /// Its rows at this moment.
    async fn batch(&self, state: &dyn PlanSession) -> Result<RecordBatch> {
        let state = state.as_any().downcast_ref::<SessionState>();
        let catalog = state.and_then(|state| state.catalog_list().catalog(CATALOG));
        let mut contents = Contents::new(&self.user, &self.database);
        contents.tiers.clone_from(&self.tiers);
        contents.settings = state.map(settings_of).unwrap_or_default();
        if let Some(catalog) = catalog {
            contents.add(catalog.as_ref()).await?;
        }
        Ok((self.table.batch)(&contents)?)
    }
}

/// The settings of the store that sessions can set.
fn settings_of(state: &SessionState) -> Vec<Setting> {
    let all = state.config_options().entries().into_iter();
    let own = all.filter(|entry| entry.key.starts_with("nearfar."));
    own.map(|entry| Setting {
        name: entry.key,
        value: entry.value,
        description: entry.description.to_owned(),
        can_be_set: true,
    })
    .collect()
}

#[async_trait]
impl TableProvider for Catalog {
    fn schema(&self) -> SchemaRef {
        (self.table.schema)()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn PlanSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batch = self.batch(state).await?;
        let table = MemTable::try_new(self.schema(), vec![vec![batch]])?;
        table.scan(state, projection, filters, limit).await
    }
}
