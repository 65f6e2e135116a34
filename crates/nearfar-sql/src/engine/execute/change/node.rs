//! The rows that a statement has changed, as the input of the query for what is given back of them.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNodeCore,
};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::sql::KeyTarget;

/// The rows that a statement has changed: the columns of its table as they are after it, or before it where they
/// are deleted, and those of other tables that it looks at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChangedRows {
    change: LogicalPlan,
    columns: DFSchemaRef,
}

impl PartialOrd for ChangedRows {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.change.partial_cmp(&other.change)
    }
}

impl ChangedRows {
    /// The rows that `change` changes, which have `columns`.
    pub fn new(change: LogicalPlan, columns: DFSchemaRef) -> Self {
        Self { change, columns }
    }

    /// As a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension {
            node: Arc::new(self),
        })
    }

    /// The node that a plan is, if it is one.
    pub fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => {
                let node: &dyn std::any::Any = extension.node.as_any();
                node.downcast_ref()
            }
            _ => None,
        }
    }

    /// What changes the rows.
    pub fn change(&self) -> &LogicalPlan {
        &self.change
    }

    /// Their columns.
    pub fn columns(&self) -> &DFSchemaRef {
        &self.columns
    }
}

impl UserDefinedLogicalNodeCore for ChangedRows {
    fn name(&self) -> &'static str {
        "ChangedRows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.change]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.columns
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChangedRows")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let [change] = <[LogicalPlan; 1]>::try_from(inputs)
            .map_err(|_| DataFusionError::Internal("a change has one input".to_owned()))?;
        Ok(Self {
            change,
            columns: Arc::clone(&self.columns),
        })
    }
}

/// An `INSERT` that looks whether rows are in the way of those that it adds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Upsert {
    insert: LogicalPlan,
    /// The new values of all columns, over the rows in the way and those that were to be added.
    update: Option<LogicalPlan>,
    target: KeyTarget,
    columns: DFSchemaRef,
}

impl PartialOrd for Upsert {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.insert.partial_cmp(&other.insert)
    }
}

impl Upsert {
    /// One that looks at the keys of `target`, and updates the rows in the way or leaves them as they are.
    pub fn new(insert: LogicalPlan, target: KeyTarget, update: Option<LogicalPlan>) -> Self {
        Self {
            insert,
            update,
            target,
            columns: Arc::new(DFSchema::empty()),
        }
    }

    /// As a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension {
            node: Arc::new(self),
        })
    }

    /// The node that a plan is, if it is one.
    pub fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => {
                let node: &dyn std::any::Any = extension.node.as_any();
                node.downcast_ref()
            }
            _ => None,
        }
    }

    /// What adds the rows.
    pub fn insert(&self) -> &LogicalPlan {
        &self.insert
    }

    /// The new values of the rows in the way, if they get any.
    pub fn update(&self) -> Option<&LogicalPlan> {
        self.update.as_ref()
    }

    /// Whose keys are looked at.
    pub fn target(&self) -> &KeyTarget {
        &self.target
    }
}

impl UserDefinedLogicalNodeCore for Upsert {
    fn name(&self) -> &'static str {
        "Upsert"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        std::iter::once(&self.insert).chain(&self.update).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.columns
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upsert")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut inputs = inputs.into_iter();
        let insert = inputs.next();
        let insert = insert
            .ok_or_else(|| DataFusionError::Internal("an upsert has an insert".to_owned()))?;
        Ok(Self {
            insert,
            update: inputs.next(),
            target: self.target.clone(),
            columns: Arc::clone(&self.columns),
        })
    }
}

/// Rows that are there, as a plan that has `columns`.
///
/// # Errors
/// Rows of other types.
pub fn rows_plan(columns: &DFSchemaRef, rows: Vec<RecordBatch>) -> Result<LogicalPlan> {
    // Several of the columns can have one name.
    let fields = columns.fields().iter().enumerate();
    let fields = fields.map(|(at, field)| Field::clone(field).with_name(format!("c{at}")));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let rows = rows.into_iter().map(|batch| {
        let arrays = batch.columns().iter().zip(schema.fields());
        let arrays = arrays.map(|(array, field)| Ok(cast(array, field.data_type())?));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let count = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::clone(&schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &count)?)
    });
    let rows = rows.collect::<Result<Vec<_>>>()?;
    let table = MemTable::try_new(Arc::clone(&schema), vec![rows])?;
    let scan = LogicalPlanBuilder::scan("changed", provider_as_source(Arc::new(table)), None)?;
    let named = columns.iter().enumerate().map(|(at, (qualifier, field))| {
        let column = Expr::Column(Column::new(Some("changed"), format!("c{at}")));
        column.alias_qualified(qualifier.cloned(), field.name())
    });
    scan.project(named.collect::<Vec<_>>())?.build()
}
