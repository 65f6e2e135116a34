//! Loading: from files, plans and generators into tables.
//!
//! A load keeps the rows of at most one segment per thread besides what it has already stored, encoded as they come, and
//! makes a table only when all rows are in: one that fails leaves nothing behind.

mod files;
mod generated;
mod load_turns;
mod packed;
mod progress;
mod sink;
pub mod tpcds;
pub mod tpch;

pub use crate::foreign::FileFormat;
pub use files::file_plan;
pub use generated::Rows;
pub use packed::{AddedRow, NewValue, added_row, packs, updated_rows};
pub use progress::Progress;
pub use sink::{RowWriter, TableSink};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use std::sync::Arc;

use crate::error::EngineError;
use load_turns::LoadTurns;
use nearfar_table::placement::{ColumnPlacements, Storage, TemporaryBudget};
use nearfar_table::table::{Segment, Table, TableBuilder, stored_schema};

/// A table that is being loaded: its name, where its columns go, and whom to tell.
#[derive(Debug, Clone)]
pub struct Load {
    /// Where its segments are put.
    pub storage: Storage,
    /// What the table is called.
    pub name: String,
    /// Where its columns go.
    pub placements: ColumnPlacements,
    /// How far it has come.
    pub progress: Arc<Progress>,
}

/// Rows of one thread.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, EngineError>> + Send>;

impl Load {
    fn builder(
        &self,
        schema: &SchemaRef,
        temporary: Option<&Arc<TemporaryBudget>>,
    ) -> TableBuilder {
        let storage = Storage {
            temporary: temporary.cloned(),
            ..self.storage.clone()
        };
        TableBuilder::new(Arc::clone(schema), self.placements.clone(), storage)
    }

    fn table(self, schema: SchemaRef, parts: Vec<Vec<Arc<Segment>>>) -> Table {
        let segments = parts.into_iter().flatten().collect();
        Table::new(self.name, schema, segments, self.placements)
    }

    /// Loads the rows of every partition of `plan`, in the partitions' order.
    ///
    /// # Errors
    /// What the plan reports; a segment that is refused.
    pub async fn plan(
        self,
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> Result<Arc<Table>, EngineError> {
        self.plan_charged(plan, context, None).await
    }

    /// As [`Self::plan`], into a temporary table of the session whose budget is given.
    ///
    /// # Errors
    /// As [`Self::plan`], and [`SqlError::TemporaryLimit`](crate::sql::SqlError::TemporaryLimit).
    pub async fn plan_charged(
        self,
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        temporary: Option<Arc<TemporaryBudget>>,
    ) -> Result<Arc<Table>, EngineError> {
        let schema = stored_schema(&plan.schema());
        let partitions = plan.output_partitioning().partition_count();
        let tasks = (0..partitions).map(|partition| {
            let (plan, context) = (Arc::clone(&plan), Arc::clone(&context));
            let mut builder = self.builder(&schema, temporary.as_ref());
            let progress = Arc::clone(&self.progress);
            tokio::spawn(async move {
                let mut turns = LoadTurns::of(&context);
                let mut batches = plan.execute(partition, context)?;
                while let Some(batch) = batches.next().await {
                    let batch = batch?;
                    progress.add(&batch);
                    builder.push(&batch)?;
                    turns.wrote(builder.take_written()).await;
                }
                let segments = builder.finish()?;
                turns.wrote_all(&segments).await;
                Ok(segments)
            })
        });
        let tasks = AbortOnDrop(tasks.collect());
        let mut parts = Vec::with_capacity(partitions);
        for task in tasks.join().await {
            parts.push(task?);
        }
        Ok(Arc::new(self.table(schema, parts).charged_to(temporary)))
    }

    /// Loads the rows of every part on a thread of its own, in the parts' order.
    ///
    /// # Errors
    /// What a part reports; a segment that is refused.
    pub fn batches(
        self,
        schema: &SchemaRef,
        parts: Vec<Batches>,
    ) -> Result<Arc<Table>, EngineError> {
        let schema = stored_schema(schema);
        let load = |part: Batches| {
            let mut builder = self.builder(&schema, None);
            for batch in part {
                let batch = batch?;
                self.progress.add(&batch);
                builder.push(&batch)?;
            }
            Ok(builder.finish()?)
        };
        let loaded: Vec<Result<Vec<Arc<Segment>>, EngineError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = parts
                .into_iter()
                .map(|part| scope.spawn(|| load(part)))
                .collect();
            threads.into_iter().map(join_thread).collect()
        });
        let parts = loaded.into_iter().collect::<Result<_, _>>()?;
        Ok(Arc::new(self.table(schema, parts)))
    }
}

fn join_thread<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

type Task = tokio::task::JoinHandle<Result<Vec<Arc<Segment>>, EngineError>>;

/// Tasks that end when the load is given up, by an error or by Ctrl-C.
struct AbortOnDrop(Vec<Task>);

impl AbortOnDrop {
    async fn join(mut self) -> Vec<Result<Vec<Arc<Segment>>, EngineError>> {
        let mut results = Vec::with_capacity(self.0.len());
        for task in &mut self.0 {
            let result = match task.await {
                Ok(result) => result,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(EngineError::Cancelled {
                        what: "loading".to_owned(),
                    }),
                },
            };
            let failed = result.is_err();
            results.push(result);
            if failed {
                break;
            }
        }
        // What they hold is free when this returns.
        for task in self.0.iter().skip(results.len()) {
            task.abort();
        }
        for task in self.0.iter_mut().skip(results.len()) {
            let _ = task.await;
        }
        results
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
