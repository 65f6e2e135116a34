//! A sequence as what is selected from.

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

use nearfar_table::sequence::Sequence;

/// The one row of a sequence: its last number, and whether it was given out.
#[derive(Debug)]
pub struct SequenceTable {
    sequence: Arc<Sequence>,
    schema: SchemaRef,
}

impl SequenceTable {
    /// That of `sequence`.
    pub fn new(sequence: Arc<Sequence>) -> Self {
        let fields = [
            ("last_value", DataType::Int64),
            ("log_cnt", DataType::Int64),
            ("is_called", DataType::Boolean),
        ];
        let fields = fields.map(|(name, kind)| Field::new(name, kind, false));
        Self {
            sequence,
            schema: Arc::new(Schema::new(fields.to_vec())),
        }
    }
}

/// The sequence behind any provider, if there is one.
pub fn sequence_of(provider: &dyn TableProvider) -> Option<&Arc<Sequence>> {
    let table = (provider as &dyn std::any::Any).downcast_ref::<SequenceTable>()?;
    Some(&table.sequence)
}

#[async_trait]
impl TableProvider for SequenceTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let value = self.sequence.value();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![value.last])),
            Arc::new(Int64Array::from(vec![0])),
            Arc::new(BooleanArray::from(vec![value.is_called])),
        ];
        let row = RecordBatch::try_new(self.schema(), columns)?;
        let rows = MemTable::try_new(self.schema(), vec![vec![row]])?;
        rows.scan(state, projection, filters, limit).await
    }
}
