//! Records as a fuzzer gives them.

use arrow::datatypes::SchemaRef;

use super::record::{Frame, Operation};
use super::rows::read_rows;

/// Reads a record's operations as recovery does, and all rows as those of `schema`.
///
/// # Errors
/// What is wrong with the first that is none.
pub fn read_record(bytes: &[u8], schema: &SchemaRef) -> Result<(), crate::manifest::ManifestError> {
    for operation in Frame::read(bytes)? {
        if let Operation::Insert { rows, .. } = operation? {
            let batch = read_rows(rows, schema)?;
            assert_eq!(batch.schema_ref(), schema);
        }
    }
    Ok(())
}
