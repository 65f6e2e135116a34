//! Files as plans whose rows can be loaded.

use datafusion::common::DataFusionError;
use datafusion::datasource::file_format::options::ArrowReadOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionConfig, SessionContext};
use std::path::Path;
use std::sync::Arc;

use crate::error::EngineError;
use crate::foreign::{FileFormat, GUARDED_FILES, reading};

/// A plan that reads the file or folder `path` with `threads` threads, whose partitions follow each
/// other in the order of the rows.
///
/// # Errors
/// A path that is not there or not of `format`.
pub async fn file_plan(
    path: &Path,
    format: FileFormat,
    threads: usize,
) -> Result<(Arc<dyn ExecutionPlan>, SessionContext), EngineError> {
    let text = path.to_str().ok_or_else(|| EngineError::Unreadable {
        path: path.to_owned(),
        source: Box::new(DataFusionError::Configuration("the path is not UTF-8".to_owned()).into()),
    })?;
    let mut config = SessionConfig::new().with_target_partitions(threads);
    config
        .options_mut()
        .execution
        .enable_file_stream_work_stealing = false;
    let context = SessionContext::new_with_config(config);
    let ending = path.extension().and_then(|ending| ending.to_str());
    let ending = ending.map_or_else(String::new, |ending| format!(".{ending}"));
    let plan = async {
        let frame = match format {
            FileFormat::Parquet => {
                let options = ParquetReadOptions {
                    file_extension: &ending,
                    ..Default::default()
                };
                context.read_parquet(text, options).await?
            }
            FileFormat::Csv => {
                let options = CsvReadOptions::new().file_extension(&ending);
                context.read_csv(text, options).await?
            }
            FileFormat::Arrow => {
                let options = ArrowReadOptions {
                    file_extension: &ending,
                    ..Default::default()
                };
                context.read_arrow(text, options).await?
            }
        };
        let plan = frame.create_physical_plan().await?;
        GUARDED_FILES.optimize(plan, context.state().config_options())
    };
    let plan = reading(&[path.to_owned()], Some(format), path, plan).await?;
    Ok((plan, context))
}
