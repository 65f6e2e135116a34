//! Rows that generators of benchmarks yield.

use arrow::array::RecordBatchReader;
use arrow::datatypes::SchemaRef;

use super::Batches;
use crate::error::EngineError;

/// Rows of one table at a scale factor, in `parts` generators that together yield them in order.
pub struct Rows {
    /// Their columns.
    pub schema: SchemaRef,
    /// The generators.
    pub parts: Vec<Batches>,
}

impl Rows {
    /// The rows of `generators`, of which there is at least one.
    pub(super) fn of<I>(generators: Vec<I>) -> Self
    where
        I: RecordBatchReader + Send + 'static,
    {
        let boxed = |generator: I| {
            Box::new(generator.map(|batch| batch.map_err(EngineError::from))) as Batches
        };
        Self {
            schema: generators[0].schema(),
            parts: generators.into_iter().map(boxed).collect(),
        }
    }
}
