//! Planning over files: their metadata is read for statistics.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::caught::caught;
use super::check::{check, unreadable};
use super::format::FileFormat;
use crate::error::Damage;
use crate::error::EngineError;

/// What `work` does that reads the files and folders `paths`, which are checked before.
///
/// # Errors
/// [`EngineError::Unreadable`] with `named` as the file, for whatever goes wrong.
pub async fn reading<T>(
    paths: &[PathBuf],
    format: Option<FileFormat>,
    named: &Path,
    work: impl Future<Output = Result<T>>,
) -> Result<T, EngineError> {
    let failed = |source| EngineError::Unreadable {
        path: named.to_owned(),
        source: Box::new(source),
    };
    check_all(paths.to_owned(), format).await?;
    match caught(work).await {
        Ok(done) => done.map_err(|error| failed(error.into())),
        Err(panicked) => Err(failed(Damage::Panicked(panicked).into())),
    }
}

/// The physical plan of `plan`.
///
/// # Errors
/// The planner's; [`EngineError::Unreadable`] where it reads files that are damaged.
pub async fn physical_plan(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>, EngineError> {
    let files = files(plan)?;
    let Some(named) = files.first().cloned() else {
        return Ok(state.create_physical_plan(plan).await?);
    };
    check_all(files, None).await?;
    match caught(state.create_physical_plan(plan)).await {
        Ok(planned) => Ok(planned?),
        Err(panicked) => Err(unreadable(&named, panicked.into())),
    }
}

/// Checks files and folders of `format`, or of the ones that their names say.
async fn check_all(paths: Vec<PathBuf>, format: Option<FileFormat>) -> Result<(), EngineError> {
    let checked = tokio::task::spawn_blocking(move || {
        paths.iter().try_for_each(|path| {
            let format = format.or_else(|| FileFormat::of_path(path).ok());
            format.map_or(Ok(()), |format| check(path, format))
        })
    });
    checked.await.map_err(|error| EngineError::Internal {
        message: error.to_string(),
    })?
}

/// The files and folders that a plan reads.
fn files(plan: &LogicalPlan) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        if let Ok(provider) = source_as_provider(&scan.source) {
            let listed = (provider.as_ref() as &dyn Any).downcast_ref::<ListingTable>();
            let urls = listed.map_or(&[][..], |table| table.table_paths());
            paths.extend(urls.iter().map(|url| format!("/{}", url.prefix()).into()));
            if let Some(view) = provider.get_logical_plan() {
                paths.extend(files(&view)?);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(paths)
}
