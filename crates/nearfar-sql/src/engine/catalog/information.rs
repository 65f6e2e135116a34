//! `information_schema`: DataFusion's, without the sequences, which are no tables there.

use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::{SessionContext, SessionState};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, TableType, col, lit};
use parking_lot::RwLock;
use std::fmt;
use std::sync::{Arc, Weak};

use super::CATALOG;
use crate::engine::sequences::sequence_of;

/// The schema's name.
pub const INFORMATION_SCHEMA: &str = "information_schema";
/// Its table of columns.
const COLUMNS: &str = "columns";

/// The schema as one session sees it.
pub struct InformationSchema {
    /// The session's state, which has this schema and is not kept alive by it.
    state: Weak<RwLock<SessionState>>,
}

impl fmt::Debug for InformationSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformationSchema").finish_non_exhaustive()
    }
}

impl InformationSchema {
    /// That of a session.
    pub fn new(context: &SessionContext) -> Self {
        Self {
            state: Arc::downgrade(&context.state_ref()),
        }
    }

    fn inner(&self) -> Option<InformationSchemaProvider> {
        let state = self.state.upgrade()?;
        let state = state.read();
        let inner = InformationSchemaProvider::new(Arc::clone(state.catalog_list()));
        Some(inner.with_table_functions(state.table_functions().clone()))
    }

    /// `columns` without those of sequences.
    async fn of_tables(&self, columns: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
        let state = self.state.upgrade();
        let catalog = state.and_then(|state| state.read().catalog_list().catalog(CATALOG));
        let mut others: Vec<Expr> = Vec::new();
        for schema in catalog.iter().flat_map(|catalog| catalog.schema_names()) {
            let provider = catalog
                .as_ref()
                .and_then(|catalog| catalog.schema(&schema))
                .filter(|_| schema != INFORMATION_SCHEMA);
            let Some(provider) = provider else { continue };
            for name in provider.table_names() {
                let table = provider.table(&name).await?;
                if table.is_some_and(|table| sequence_of(table.as_ref()).is_some()) {
                    let is_in = col("table_schema").eq(lit(schema.as_str()));
                    others.push(is_in.and(col("table_name").eq(lit(name))));
                }
            }
        }
        let Some(others) = others.into_iter().reduce(Expr::or) else {
            return Ok(columns);
        };
        let all = LogicalPlanBuilder::scan(COLUMNS, provider_as_source(columns), None)?;
        let plan = all.filter(Expr::Not(Box::new(others)))?.build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        self.inner()
            .map(|inner| inner.table_names())
            .unwrap_or_default()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let Some(inner) = self.inner() else {
            return Ok(None);
        };
        match inner.table(name).await? {
            Some(columns) if name == COLUMNS => self.of_tables(columns).await.map(Some),
            other => Ok(other),
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.table_exist(name).then_some(TableType::View))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner().is_some_and(|inner| inner.table_exist(name))
    }
}
