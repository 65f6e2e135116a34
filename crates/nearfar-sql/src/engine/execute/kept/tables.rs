//! Plans without the tables that they read, and with them again.

use arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{TableProvider, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, TableSource};
use std::any::Any;
use std::sync::{Arc, Weak};

use crate::scan::table_of;
use nearfar_table::table::Table;

/// Rows that a table gets or loses without another plan, whatever it had.
const ROWS_CHANGED: u64 = 1000;

/// A table that a plan reads.
#[derive(Debug, Clone)]
pub(super) struct KnownTable {
    pub name: TableReference,
    table: Weak<Table>,
    rows: u64,
    /// With another index, the statement may be one that is not planned at all.
    indexes: usize,
}

impl KnownTable {
    /// The one of a name, if it is one that Nearfar has.
    pub fn of(name: TableReference, provider: &dyn TableProvider) -> Option<Self> {
        let table = table_of(provider)?;
        let snapshot = table.snapshot();
        Some(Self {
            name,
            table: Arc::downgrade(table),
            rows: snapshot.rows() as u64,
            indexes: snapshot.indexes().len(),
        })
    }

    /// Whether `provider` is of the same table, of about as many rows and with as many indexes.
    pub fn is_of(&self, provider: &dyn TableProvider) -> bool {
        table_of(provider).is_some_and(|table| {
            let snapshot = table.snapshot();
            let rows = snapshot.rows() as u64;
            std::ptr::eq(Weak::as_ptr(&self.table), Arc::as_ptr(table))
                && snapshot.indexes().len() == self.indexes
                && rows / 2 <= self.rows + ROWS_CHANGED
                && self.rows / 2 <= rows + ROWS_CHANGED
        })
    }
}

/// The place of a table in a plan that is kept.
#[derive(Debug)]
struct Vacant {
    schema: SchemaRef,
    /// Which of the plan's tables.
    place: usize,
}

impl TableSource for Vacant {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A plan without its tables, and these in the order of their places.
pub(super) fn vacated(plan: &LogicalPlan) -> Result<(LogicalPlan, Vec<KnownTable>)> {
    let mut tables = Vec::new();
    let plan = plan.clone().transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else {
            return Ok(Transformed::no(node));
        };
        let provider = source_as_provider(&scan.source)?;
        let Some(known) = KnownTable::of(scan.table_name.clone(), provider.as_ref()) else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        let place = tables.len();
        tables.push(known);
        let schema = scan.source.schema();
        scan.source = Arc::new(Vacant { schema, place });
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    Ok((plan.data, tables))
}

/// A plan with its tables again.
pub(super) fn occupied(plan: LogicalPlan, sources: &[Arc<dyn TableSource>]) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else {
            return Ok(Transformed::no(node));
        };
        let source: &dyn Any = scan.source.as_ref();
        let place = source.downcast_ref::<Vacant>().map(|vacant| vacant.place);
        if let Some(source) = place.and_then(|place| sources.get(place)) {
            scan.source = Arc::clone(source);
        }
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    Ok(plan.data)
}
