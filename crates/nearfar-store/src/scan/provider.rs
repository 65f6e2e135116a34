//! A table as DataFusion's catalog holds it.

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::common::Statistics;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

use super::charge::ScanCosts;
use super::source::TableScan;
use crate::engine::Settings;
use crate::error::StoreError;
use crate::load::TableSink;
use crate::optimize::has_subquery;
use crate::placement::Storage;
use crate::sql::SqlError;
use crate::table::Table;

/// The provider of a [`Table`].
#[derive(Debug)]
pub struct NearfarTable {
    table: Arc<Table>,
    costs: Arc<ScanCosts>,
    storage: Option<Storage>,
}

impl NearfarTable {
    /// A provider whose scans are charged to `costs`.
    pub fn new(table: Arc<Table>, costs: Arc<ScanCosts>) -> Self {
        Self {
            table,
            costs,
            storage: None,
        }
    }

    /// The same provider, which puts inserted rows into `storage`.
    #[must_use]
    pub fn writable(self, storage: Storage) -> Self {
        Self {
            storage: Some(storage),
            ..self
        }
    }

    /// The table behind the provider.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

/// The Nearfar table behind any provider, if there is one.
pub fn table_of(provider: &dyn TableProvider) -> Option<&Arc<Table>> {
    (provider as &dyn std::any::Any)
        .downcast_ref::<NearfarTable>()
        .map(NearfarTable::table)
}

#[async_trait]
impl TableProvider for NearfarTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(
            self.table
                .snapshot()
                .summary
                .to_statistics(self.table.schema()),
        )
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| {
                if filter.is_volatile() || has_subquery(filter) {
                    TableProviderFilterPushDown::Unsupported
                } else {
                    TableProviderFilterPushDown::Exact
                }
            })
            .collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.table.schema();
        let df_schema = DFSchema::try_from(schema.as_ref().clone())?;
        let filters = filters
            .iter()
            .map(|filter| state.create_physical_expr(filter.clone(), &df_schema))
            .collect::<Result<Vec<_>>>()?;
        let projection = projection
            .cloned()
            .unwrap_or_else(|| (0..schema.fields().len()).collect());
        let config = state.config();
        let settings = config.options().extensions.get::<Settings>();
        let partitions = config.target_partitions();
        let scan = TableScan::try_new(&self.table, projection, &filters, partitions, &self.costs)?
            .counting(settings.is_none_or(Settings::count_accesses))
            .limited(limit);
        Ok(DataSourceExec::from_data_source(scan))
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let unsupported = |statement, instead| {
            Err(StoreError::from(SqlError::unsupported(statement, instead)).into())
        };
        match (&self.storage, insert_op) {
            (Some(storage), InsertOp::Append) => {
                let sink = TableSink::new(Arc::clone(&self.table), storage.clone());
                Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
            }
            (Some(_), _) => unsupported(
                "INSERT OVERWRITE",
                "use CREATE OR REPLACE TABLE … AS SELECT",
            ),
            (None, _) => unsupported("INSERT", "the table was registered for reading only"),
        }
    }
}
