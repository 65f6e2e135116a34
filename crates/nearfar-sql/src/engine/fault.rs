//! Errors of running queries, told in terms of the query.

use arrow::error::ArrowError;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use std::path::PathBuf;

use crate::datafusion_names::HASH_JOIN_BUILD;
use crate::error::{EngineError, is_disk_full};
use crate::memory::QueryMemory;
use crate::optimize::is_of_several_rows;
use crate::sql::SqlError;

/// Files named in one message.
const NAMED_FILES_MAX: usize = 3;

/// What a query reports, with the operator that was refused memory, and with the files that it
/// reads where one of them can't be.
pub fn query_error(
    error: EngineError,
    memory: &QueryMemory,
    plan: &dyn ExecutionPlan,
) -> EngineError {
    let EngineError::DataFusion(inner) = &error else {
        return error;
    };
    match (inner.find_root(), memory.refusal()) {
        (DataFusionError::ResourcesExhausted(_), Some(refusal)) => refusal.into(),
        (root, _) if is_of_several_rows(root) => SqlError::SeveralRows.into(),
        (root, _) if is_of_files(root) && !is_disk_full(inner) => match files(plan) {
            Some(path) => EngineError::Unreadable {
                path,
                source: Box::new(error),
            },
            None => error,
        },
        _ => error,
    }
}

/// Whether a hash join was refused memory for its table.
pub fn is_of_hash_join(error: &DataFusionError) -> bool {
    match error.find_root() {
        // As the operator names itself where it asks for memory.
        DataFusionError::ResourcesExhausted(message) => message.contains(HASH_JOIN_BUILD),
        _ => false,
    }
}

/// Whether an error comes from reading a file.
fn is_of_files(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::ParquetError(_)
        | DataFusionError::ObjectStore(_)
        | DataFusionError::IoError(_) => true,
        DataFusionError::ArrowError(error, _) => matches!(
            **error,
            ArrowError::ParquetError(_)
                | ArrowError::CsvError(_)
                | ArrowError::JsonError(_)
                | ArrowError::IpcError(_)
                | ArrowError::IoError(..)
                | ArrowError::ParseError(_)
        ),
        _ => false,
    }
}

/// The files that a plan reads, the first few by name.
fn files(plan: &dyn ExecutionPlan) -> Option<PathBuf> {
    let mut names = Vec::new();
    collect_files(plan, &mut names);
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(NAMED_FILES_MAX);
    names.truncate(NAMED_FILES_MAX);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    (!names.is_empty()).then(|| names.join(", ").into())
}

fn collect_files(plan: &dyn ExecutionPlan, names: &mut Vec<String>) {
    let source = plan
        .downcast_ref::<DataSourceExec>()
        .map(DataSourceExec::data_source);
    if let Some(config) = source.and_then(|source| source.downcast_ref::<FileScanConfig>()) {
        let files = config.file_groups.iter().flat_map(|group| group.iter());
        names.extend(files.map(|file| format!("/{}", file.object_meta.location)));
    }
    plan.children()
        .into_iter()
        .for_each(|child| collect_files(child.as_ref(), names));
}
