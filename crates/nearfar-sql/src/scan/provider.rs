//! A table as DataFusion's catalog holds it.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::common::Statistics;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr_rewriter::unnormalize_cols;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

use super::by_index::{NamedValues, found_rows};
use super::charge::ScanCosts;
use super::filter::{Filter, has_subquery};
use super::routed::{RoutedScan, Routing};
use super::selectivity::selectivity;
use super::shares::Shares;
use super::source::{ROW_ID, ScanFilters, ScannedRows, TableScan};
use super::statistics::statistics;
use crate::error::EngineError;
use crate::error::SqlError;
use crate::load::TableSink;
use crate::settings::Settings;
use nearfar_table::table::Table;
use nearfar_table::transaction::{Database, Transaction};

/// The provider of a [`Table`].
#[derive(Debug, Clone)]
pub struct NearfarTable {
    table: Arc<Table>,
    schema: SchemaRef,
    costs: Arc<ScanCosts>,
    database: Option<Arc<Database>>,
    shares: Arc<Shares>,
}

impl NearfarTable {
    /// A provider whose scans are charged to `costs`.
    pub fn new(table: Arc<Table>, costs: Arc<ScanCosts>) -> Self {
        Self {
            schema: Arc::clone(table.schema()),
            table,
            costs,
            database: None,
            shares: Arc::default(),
        }
    }

    /// The same provider of a table of `database`, into which rows can be inserted.
    #[must_use]
    pub fn writable(self, database: &Arc<Database>) -> Self {
        Self {
            database: Some(Arc::clone(database)),
            ..self
        }
    }

    /// The same provider with the column [`ROW_ID`] behind those of the table.
    #[must_use]
    pub fn with_row_ids(&self) -> Self {
        let id = Arc::new(Field::new(ROW_ID, DataType::UInt64, false));
        let fields = self.table.schema().fields().iter().cloned().chain([id]);
        Self {
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            ..self.clone()
        }
    }

    /// The table behind the provider.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The share of the table's rows that pass `filters`, tried on a sample of them. None where they can't be evaluated
    /// yet.
    pub fn share(&self, filters: &[Expr]) -> Option<f64> {
        if filters.is_empty() {
            return Some(1.0);
        }
        let snapshot = self.table.snapshot();
        let filters = unnormalize_cols(filters.iter().cloned());
        if let Some(known) = self.shares.get(snapshot.changes(), &filters) {
            return Some(known);
        }
        let compiled = self.compiled(&filters)?;
        let share = selectivity(&snapshot, self.table.schema(), &compiled).ok()?;
        // What takes long is tried for some time only, which may say little.
        if !compiled.iter().any(Filter::is_costly) {
            self.shares.keep(snapshot.changes(), filters, share);
        }
        Some(share)
    }

    /// The share of the rows which pass `filters` that pass `more` too. None where they can't be evaluated yet, or that takes
    /// long.
    pub fn share_among(
        &self,
        filters: &[Expr],
        more: impl IntoIterator<Item = Expr>,
    ) -> Option<f64> {
        let all = unnormalize_cols(filters.iter().cloned().chain(more));
        let known = self.shares.get(self.table.snapshot().changes(), &all);
        if known.is_none() && self.compiled(&all)?.iter().any(Filter::is_costly) {
            return None;
        }
        Some((self.share(&all)? / self.share(filters)?).min(1.0))
    }

    fn compiled(&self, filters: &[Expr]) -> Option<Vec<Filter>> {
        let schema = self.table.schema();
        let df_schema = DFSchema::try_from(schema.as_ref().clone()).ok()?;
        let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        let mut compiled = Vec::new();
        for filter in filters {
            if has_subquery(filter) {
                return None;
            }
            let expr = create_physical_expr(filter, &df_schema, &properties, &context).ok()?;
            compiled.extend(Filter::conjuncts(&expr, schema).ok()?);
        }
        Some(compiled)
    }
}

/// The provider of a Nearfar table that any provider is, if it is one.
pub fn provider_of(provider: &dyn TableProvider) -> Option<&NearfarTable> {
    (provider as &dyn std::any::Any).downcast_ref()
}

/// The Nearfar table behind any provider, if there is one.
pub fn table_of(provider: &dyn TableProvider) -> Option<&Arc<Table>> {
    provider_of(provider).map(NearfarTable::table)
}

#[async_trait]
impl TableProvider for NearfarTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        let columns = 0..self.schema.fields().len();
        let snapshot = self.table.snapshot();
        Some(statistics(snapshot.summary(), &self.schema, columns))
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
        let schema = &self.schema;
        let df_schema = DFSchema::try_from(schema.as_ref().clone())?;
        let logical = filters;
        let filters = filters
            .iter()
            .map(|filter| state.create_physical_expr(filter.clone(), &df_schema))
            .collect::<Result<Vec<_>>>()?;
        let projection = projection
            .cloned()
            .unwrap_or_else(|| (0..schema.fields().len()).collect());
        let config = state.config();
        let is_plain = schema.fields().len() == self.table.schema().fields().len();
        if let Some(routing) = config.get_extension::<Routing>().filter(|_| is_plain) {
            let routed = RoutedScan {
                projection: projection.clone(),
                filters: filters.clone(),
                fetch: limit,
            };
            if let Some(plan) = routing.0.scan(state, &self.table, routed).await? {
                return Ok(plan);
            }
        }
        let settings = config.options().extensions.get::<Settings>();
        let partitions = config.target_partitions();
        let (table, costs) = (&self.table, &self.costs);
        let (snapshot, rows) = match config.get_extension::<Transaction>() {
            Some(transaction) => {
                let snapshot = transaction.snapshot(table).map_err(EngineError::from)?;
                let named = NamedValues::of(&filters, table.schema());
                let found = found_rows(&transaction, table, &snapshot, &named)?;
                if found.is_none() {
                    transaction.reads_all(table);
                }
                (snapshot, ScannedRows::of(found, partitions))
            }
            None => (table.snapshot(), ScannedRows::All { partitions }),
        };
        let is_known = matches!(rows, ScannedRows::All { .. })
            && !logical.is_empty()
            && snapshot.is(&table.snapshot());
        let filters = ScanFilters {
            exprs: &filters,
            share: is_known.then(|| self.share(logical)).flatten(),
        };
        let scan = TableScan::try_new(table, snapshot, schema, projection, filters, rows, costs)?;
        let scan = scan
            .counting(settings.is_none_or(Settings::count_accesses))
            .limited(limit);
        Ok(DataSourceExec::from_data_source(scan))
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(routing) = state.config().get_extension::<Routing>()
            && matches!(insert_op, InsertOp::Append)
            && let Some(plan) = routing.0.insert(state, &self.table, &input)?
        {
            return Ok(plan);
        }
        let unsupported = |statement, instead| {
            Err(EngineError::from(SqlError::unsupported(statement, instead)).into())
        };
        match (&self.database, insert_op) {
            (Some(database), InsertOp::Append) => {
                let (table, storage) = (Arc::clone(&self.table), database.storage().clone());
                let sink = match state.config().get_extension::<Transaction>() {
                    Some(transaction) => TableSink::new(table, storage, transaction),
                    None => {
                        let own = Transaction::of_statement(database);
                        TableSink::new(table, storage, own).committing()
                    }
                };
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
