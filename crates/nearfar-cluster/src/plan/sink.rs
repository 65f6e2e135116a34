//! Rows that are added: each to the node that its key tells, or all to every node.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightDescriptor;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use async_trait::async_trait;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::{StreamExt, TryStreamExt};
use nearfar_sql::load::Progress;
use nearfar_table::table::Table;
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

use crate::error::failed_query;
use crate::home::{TableHome, divided};
use crate::messages::{Load, Request};
use crate::node::Node;

/// Batches on their way to a node that is slower than the others.
const BATCHES_AHEAD: usize = 4;

/// The plan that adds the rows of `input` to `table`.
///
/// # Errors
/// A key whose column the table does not have.
pub fn insertion(
    node: &Arc<Node>,
    table: &Arc<Table>,
    home: &TableHome,
    input: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = table.schema();
    let columns = match home {
        TableHome::Replicated => None,
        TableHome::Distributed { columns } => {
            let indices = columns.iter().map(|column| schema.index_of(column));
            Some(indices.collect::<std::result::Result<Vec<_>, _>>()?)
        }
    };
    let sink = ClusterSink {
        node: Arc::clone(node),
        table: table.name().to_owned(),
        schema: Arc::clone(schema),
        columns,
    };
    Ok(Arc::new(DataSinkExec::new(
        Arc::clone(input),
        Arc::new(sink),
        None,
    )))
}

#[derive(Debug)]
struct ClusterSink {
    node: Arc<Node>,
    table: String,
    schema: SchemaRef,
    /// The key; nothing where all rows go to every node.
    columns: Option<Vec<usize>>,
}

impl DisplayAs for ClusterSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterSink: table={}", self.table)
    }
}

/// The rows of a load on their way to one node.
struct Sending {
    rows: mpsc::Sender<RecordBatch>,
    sent: JoinHandle<Result<()>>,
}

impl ClusterSink {
    /// Begins to send rows to a node, which nobody sees there yet.
    fn send(&self, load: u64, index: usize) -> Result<Sending> {
        let (rows, waiting) = mpsc::channel(BATCHES_AHEAD);
        let load = Load {
            load,
            table: self.table.clone(),
        };
        let command = serde_json::to_vec(&load).map_err(|error| failed_query(error.to_string()))?;
        let link = self.node.link(index).clone();
        let data = FlightDataEncoderBuilder::new()
            .with_schema(Arc::clone(&self.schema))
            .with_dictionary_handling(DictionaryHandling::Resend)
            .with_flight_descriptor(Some(FlightDescriptor::new_cmd(command)))
            .build(ReceiverStream::new(waiting).map(Ok::<_, FlightError>));
        let sent = tokio::spawn(async move {
            // An error within the rows ends them early, and the node refuses what it has.
            let data = data.filter_map(|data| async { data.ok() });
            let refused = |status: tonic::Status| match status.code() {
                tonic::Code::Internal => {
                    failed_query(format!("node `{}`: {}", link.name(), status.message()))
                }
                _ => DataFusionError::from(link.lost(&status)),
            };
            let replies = link.flight().do_put(data).await.map_err(&refused)?;
            let replies: Vec<_> = replies.into_inner().try_collect().await.map_err(&refused)?;
            drop(replies);
            Ok(())
        });
        Ok(Sending { rows, sent })
    }

    async fn spread(
        &self,
        load: u64,
        mut rows: SendableRecordBatchStream,
        progress: Option<&Progress>,
    ) -> Result<u64> {
        let nodes = self.node.nodes();
        let mut sendings = Vec::with_capacity(nodes);
        for index in 0..nodes {
            sendings.push(self.send(load, index)?);
        }
        let mut count = 0;
        'rows: while let Some(batch) = rows.try_next().await? {
            // The input may say that a column can be null, which the table says that it can't.
            let batch = RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec())?;
            count += batch.num_rows() as u64;
            if let Some(progress) = progress {
                progress.add(&batch);
            }
            let parts = match &self.columns {
                None => vec![batch; nodes],
                Some(columns) => divided(&batch, columns, nodes)?,
            };
            for (sending, part) in sendings.iter().zip(parts) {
                if part.num_rows() > 0 && sending.rows.send(part).await.is_err() {
                    // Its task knows why.
                    break 'rows;
                }
            }
        }
        for Sending { rows, sent } in sendings {
            drop(rows);
            sent.await
                .map_err(|error| failed_query(error.to_string()))??;
        }
        Ok(count)
    }
}

#[async_trait]
impl DataSink for ClusterSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        rows: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let load = self.node.fresh();
        let unfinished = AbortOnDrop {
            node: Arc::clone(&self.node),
            load: Some(load),
        };
        let progress = context.session_config().get_extension::<Progress>();
        let count = self.spread(load, rows, progress.as_deref()).await?;
        if count > 0 {
            let step = self.node.step(|change| Request::Commit { load, change });
            step.await?;
        }
        unfinished.forget(count == 0);
        Ok(count)
    }
}

/// Has all nodes forget a load that does not come to its end.
struct AbortOnDrop {
    node: Arc<Node>,
    load: Option<u64>,
}

impl AbortOnDrop {
    fn forget(mut self, is_empty: bool) {
        if !is_empty {
            self.load = None;
        }
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        let Some(load) = self.load.take() else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let node = Arc::clone(&self.node);
        runtime.spawn(async move {
            for link in node.links() {
                let _forgotten = link.ask(&Request::Abort { load }).await;
            }
        });
    }
}
