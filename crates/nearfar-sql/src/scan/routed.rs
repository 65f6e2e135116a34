//! Tables whose rows are on several machines: who knows where makes the plans.

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use tokio::sync::OnceCell;

use super::charge::ScanCosts;
use super::source::{ScanFilters, ScannedRows, TableScan};
use nearfar_table::table::{Snapshot, Table};

/// What a scan of a table reads.
#[derive(Debug, Clone)]
pub struct RoutedScan {
    /// The columns.
    pub projection: Vec<usize>,
    /// What the rows have to pass, over all columns of the table.
    pub filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows of each partition that are enough.
    pub fetch: Option<usize>,
}

/// Who knows on which machines the rows of tables are.
#[async_trait]
pub trait TableRouter: fmt::Debug + Send + Sync {
    /// The plan that reads `table`, if its rows are not all here, or not only.
    ///
    /// # Errors
    /// A machine that can't be asked.
    async fn scan(
        &self,
        state: &dyn Session,
        table: &Arc<Table>,
        scan: RoutedScan,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>>;

    /// The plan that adds the rows of `input` to `table`, if these are not all for this machine alone.
    ///
    /// # Errors
    /// A transaction in which that can't be done.
    fn insert(
        &self,
        state: &dyn Session,
        table: &Arc<Table>,
        input: &Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>>;
}

/// The router of a session, as an extension of its settings.
#[derive(Debug, Clone)]
pub struct Routing(pub Arc<dyn TableRouter>);

/// What a router keeps while a statement is planned, as an extension of the settings: the state of all machines
/// that all scans of the statement see.
#[derive(Default)]
pub struct StatementPin(pub OnceCell<Arc<dyn Any + Send + Sync>>);

/// The scan of those rows of `table` that are on this machine and in `snapshot`, in `partitions` at most.
///
/// # Errors
/// A filter that can't be evaluated.
pub fn local_scan(
    table: &Arc<Table>,
    snapshot: Snapshot,
    scan: RoutedScan,
    partitions: usize,
    costs: &Arc<ScanCosts>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rows = ScannedRows::All { partitions };
    let RoutedScan {
        projection,
        filters,
        fetch,
    } = scan;
    let (schema, filters) = (table.schema(), ScanFilters::untried(&filters));
    let scan = TableScan::try_new(table, snapshot, schema, projection, filters, rows, costs)?;
    Ok(DataSourceExec::from_data_source(scan.limited(fetch)))
}
