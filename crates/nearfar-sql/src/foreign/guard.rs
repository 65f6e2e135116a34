//! Plans that read files, watched.

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use futures::stream::try_unfold;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::caught::caught;
use super::check::{check_file, unreadable};
use super::format::FileFormat;
use crate::plan_rule::PlanRule;
use crate::transparent::transparent;

/// Has files checked when a plan begins to read them, and panics of their readers end in an error
/// that names them.
pub const GUARDED_FILES: PlanRule = PlanRule {
    name: "guarded_files",
    rewrite: |plan| {
        let guarded = plan.transform_up(|node| {
            Ok(match file_scan(node.as_ref()).is_some() {
                true => Transformed::yes(Arc::new(GuardedExec { input: node }) as _),
                false => Transformed::no(node),
            })
        })?;
        Ok(guarded.data)
    },
};

fn file_scan(node: &dyn ExecutionPlan) -> Option<&FileScanConfig> {
    let source = node.downcast_ref::<DataSourceExec>()?.data_source();
    source.downcast_ref::<FileScanConfig>()
}

/// Hands on what its input reads of files.
#[derive(Debug)]
struct GuardedExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for GuardedExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str("GuardedExec"),
        }
    }
}

impl ExecutionPlan for GuardedExec {
    fn name(&self) -> &str {
        "GuardedExec"
    }

    transparent!(|_this: &Self, input| Self { input });

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.input.schema();
        let files = Files::of(self.input.as_ref(), partition);
        let input = self.input.execute(partition, context)?;
        let guarded = guarded(&schema, files, input);
        Ok(guarded)
    }
}

fn guarded(
    schema: &SchemaRef,
    files: Files,
    input: SendableRecordBatchStream,
) -> SendableRecordBatchStream {
    let named = files.named();
    let batches = try_unfold((Some(files), input), move |(mut unchecked, mut input)| {
        let named = named.clone();
        async move {
            if let Some(files) = unchecked.take() {
                let checked = tokio::task::spawn_blocking(move || files.check());
                checked
                    .await
                    .map_err(|error| DataFusionError::External(Box::new(error)))??;
            }
            match caught(input.next()).await {
                Ok(next) => Ok(next.transpose()?.map(|batch| (batch, (None, input)))),
                Err(panicked) => Err(unreadable(&named, panicked.into()).into()),
            }
        }
    });
    // No batch follows an error: what its reader holds may be half done.
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), batches))
}

/// The files of one partition.
struct Files {
    paths: Vec<PathBuf>,
    format: Option<FileFormat>,
}

impl Files {
    fn of(node: &dyn ExecutionPlan, partition: usize) -> Self {
        let config = file_scan(node);
        let format = config.and_then(|config| match config.file_source().file_type() {
            "arrow_stream" => Some(FileFormat::Arrow),
            other => other.parse().ok(),
        });
        let groups = config.map_or(&[][..], |config| &config.file_groups);
        let group = groups.get(partition).into_iter();
        let files = group.flat_map(|group| group.iter());
        let paths = files.map(|file| format!("/{}", file.object_meta.location).into());
        Self {
            paths: paths.collect(),
            format,
        }
    }

    /// All of them as one path, for messages.
    fn named(&self) -> PathBuf {
        let names = self.paths.iter().map(|path| path.display().to_string());
        names.collect::<Vec<_>>().join(", ").into()
    }

    /// What lies elsewhere than in the file system is not there, and not checked.
    fn check(&self) -> Result<()> {
        let Some(format) = self.format else {
            return Ok(());
        };
        let checked = self
            .paths
            .iter()
            .try_for_each(|path: &PathBuf| check_file(Path::new(path), format));
        Ok(checked?)
    }
}
