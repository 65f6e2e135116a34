//! Files as plans whose rows can be loaded.

use datafusion::common::DataFusionError;
use datafusion::datasource::file_format::options::ArrowReadOptions;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionConfig, SessionContext};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::StoreError;

/// A file format that tables are loaded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    Parquet,
    Csv,
    /// Arrow IPC, file or stream.
    Arrow,
}

impl FileFormat {
    /// The format that a file's ending names.
    ///
    /// # Errors
    /// An ending that names none.
    pub fn of_path(path: &Path) -> Result<Self, StoreError> {
        let ending = path
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        ending.parse().map_err(|()| StoreError::UnknownFormat {
            path: path.to_owned(),
        })
    }
}

impl FromStr for FileFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.to_ascii_lowercase().as_str() {
            "parquet" => Ok(Self::Parquet),
            "csv" => Ok(Self::Csv),
            "arrow" | "ipc" | "feather" | "arrows" => Ok(Self::Arrow),
            _ => Err(()),
        }
    }
}

/// A plan that reads the file or folder `path` with `threads` threads, whose partitions follow each
/// other in the order of the rows.
///
/// # Errors
/// A path that is not there or not of `format`.
pub async fn file_plan(
    path: &Path,
    format: FileFormat,
    threads: usize,
) -> Result<(Arc<dyn ExecutionPlan>, SessionContext), StoreError> {
    let text = path.to_str().ok_or_else(|| StoreError::Unreadable {
        path: path.to_owned(),
        source: Box::new(DataFusionError::Configuration("the path is not UTF-8".to_owned()).into()),
    })?;
    let mut config = SessionConfig::new().with_target_partitions(threads);
    config
        .options_mut()
        .execution
        .enable_file_stream_work_stealing = false;
    let context = SessionContext::new_with_config(config);
    let unreadable = |source: DataFusionError| StoreError::Unreadable {
        path: path.to_owned(),
        source: Box::new(source.into()),
    };
    let frame = match format {
        FileFormat::Parquet => {
            context
                .read_parquet(text, ParquetReadOptions::default())
                .await
        }
        FileFormat::Csv => context.read_csv(text, CsvReadOptions::default()).await,
        FileFormat::Arrow => context.read_arrow(text, ArrowReadOptions::default()).await,
    };
    let frame = frame.map_err(unreadable)?;
    let plan = frame.create_physical_plan().await.map_err(unreadable)?;
    Ok((plan, context))
}
