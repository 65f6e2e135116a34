//! Rows that are added: each to the node that its key tells, or all to every node.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use arrow_flight::{FlightData, FlightDescriptor, PutResult};
use async_trait::async_trait;
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::future::{pending, ready};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use nearfar_sql::load::Progress;
use nearfar_table::table::Table;
use nearfar_table::transaction::CommitGate;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc;

use crate::error::failed_query;
use crate::home::{TableHome, divided, keeper, kept_in};
use crate::messages::{Load, Step};
use crate::node::{Link, Node, Sent};

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
        TableHome::Distributed { columns, .. } => {
            let indices = columns.iter().map(|column| schema.index_of(column));
            Some(indices.collect::<std::result::Result<Vec<_>, _>>()?)
        }
    };
    let copies = home.tables();
    let sink = ClusterSink {
        node: Arc::clone(node),
        table: table.name().to_owned(),
        schema: Arc::clone(schema),
        columns,
        copies,
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
    /// How many nodes get a row of a divided table.
    copies: usize,
}

impl DisplayAs for ClusterSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterSink: table={}", self.table)
    }
}

/// The rows of a load on their way to one node, which forgets them where this is dropped before its end.
struct Sending {
    node: String,
    /// How many the node has taken.
    taken: SpawnedTask<Result<u64>>,
    /// Nothing behind the last of them.
    rows: mpsc::Sender<Option<RecordBatch>>,
    /// How many of them were sent.
    count: u64,
}

impl Sending {
    /// Sends rows; whether the node still takes some.
    async fn add(&mut self, rows: RecordBatch) -> bool {
        self.count += rows.num_rows() as u64;
        rows.num_rows() == 0 || self.rows.send(Some(rows)).await.is_ok()
    }

    /// Waits until the node has all rows.
    ///
    /// # Errors
    /// A node that has not taken all of them.
    async fn finish(self) -> Result<()> {
        // Where it is not heard, the task knows why.
        let _heard = self.rows.send(None).await;
        let taken = self.taken.join().await;
        let taken = taken.map_err(|error| failed_query(error.to_string()))??;
        match taken == self.count {
            true => Ok(()),
            false => Err(failed_query(format!(
                "node `{}` has taken {taken} of {} rows: repeat the statement",
                self.node, self.count
            ))),
        }
    }
}

/// The rows that come, up to their end. Rows that break off have none, so that they are never taken for all of them.
fn whole(rows: mpsc::Receiver<Option<RecordBatch>>) -> impl Stream<Item = RecordBatch> {
    stream::unfold(rows, |mut rows| async {
        match rows.recv().await {
            Some(next) => Some((next?, rows)),
            None => pending().await,
        }
    })
}

/// The data before the first error, which is put into `failure`: what carries them to a node has no word for errors.
fn until_error(
    data: impl Stream<Item = Result<FlightData, FlightError>>,
    failure: Arc<Mutex<Option<FlightError>>>,
) -> impl Stream<Item = FlightData> {
    data.scan(failure, |failure, data| {
        let data = data.map_err(|error| *failure.lock() = Some(error));
        ready(data.ok())
    })
}

/// Sends rows to a node; how many it has taken.
async fn put(
    link: &Link,
    data: impl Stream<Item = Result<FlightData, FlightError>> + Send + 'static,
) -> Result<u64> {
    let failure = Arc::default();
    let data = until_error(data, Arc::clone(&failure));
    let name = link.name();
    let refused = |status: tonic::Status| match status.code() {
        tonic::Code::Internal => failed_query(format!("node `{name}`: {}", status.message())),
        _ => DataFusionError::from(link.lost(&status)),
    };
    let replies = link.flight().do_put(data).await.map_err(&refused)?;
    let replies: Vec<_> = replies.into_inner().try_collect().await.map_err(&refused)?;
    match failure.lock().take() {
        Some(error) => Err(failed_query(format!(
            "rows can't be sent to node `{name}`: {error}"
        ))),
        None => taken(name, &replies),
    }
}

/// How many rows the node `name` says that it has taken.
fn taken(name: &str, replies: &[PutResult]) -> Result<u64> {
    let told = replies.first().map(|reply| &reply.app_metadata[..]);
    let count = told.and_then(|told| str::from_utf8(told).ok()?.parse().ok());
    count.ok_or_else(|| {
        failed_query(format!(
            "node `{name}` does not say how many rows it has taken"
        ))
    })
}

impl ClusterSink {
    /// Begins to send the rows of a share to the node that keeps it with this rank, where nobody sees them yet.
    fn send(&self, load: u64, share: usize, rank: usize) -> Result<Sending> {
        let (rows, waiting) = mpsc::channel(BATCHES_AHEAD);
        let load = Load {
            load,
            table: kept_in(&self.table, rank),
            state: self.node.reached_state(),
            tables: self.copies,
            coordinator: self.node.me(),
        };
        let command = serde_json::to_vec(&load).map_err(|error| failed_query(error.to_string()))?;
        let keeper = keeper(share, rank, self.node.nodes());
        let link = self.node.link(keeper).clone();
        let data = FlightDataEncoderBuilder::new()
            .with_schema(Arc::clone(&self.schema))
            .with_dictionary_handling(DictionaryHandling::Resend)
            .with_flight_descriptor(Some(FlightDescriptor::new_cmd(command)))
            .build(whole(waiting).map(Ok::<_, FlightError>));
        Ok(Sending {
            node: link.name().to_owned(),
            taken: SpawnedTask::spawn(async move { put(&link, data).await }),
            rows,
            count: 0,
        })
    }

    async fn spread(
        &self,
        load: u64,
        mut rows: SendableRecordBatchStream,
        progress: Option<&Progress>,
    ) -> Result<u64> {
        let nodes = self.node.nodes();
        // Of each share to its own node, then to the next one, and so on.
        let ranks = (0..self.copies).flat_map(|rank| (0..nodes).map(move |share| (share, rank)));
        let sendings = ranks.map(|(share, rank)| self.send(load, share, rank));
        let mut sendings = sendings.collect::<Result<Vec<_>>>()?;
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
            let copied = parts.iter().cycle().cloned();
            for (sending, part) in sendings.iter_mut().zip(copied) {
                if !sending.add(part).await {
                    // Its task knows why.
                    break 'rows;
                }
            }
        }
        futures::future::try_join_all(sendings.into_iter().map(Sending::finish)).await?;
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
        let sent = Sent::new(&self.node);
        let config = context.session_config();
        let progress = config.get_extension::<Progress>();
        let gate = config.get_extension::<CommitGate>().unwrap_or_default();
        let load = sent.load();
        let count = self.spread(load, rows, progress.as_deref()).await?;
        if count > 0 {
            self.node.step(Some(sent), &gate, Step::Load(load)).await?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Schema;
    use futures::FutureExt;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(work)
    }

    #[test]
    fn an_error_among_rows_ends_them_and_is_kept() {
        let failure = Arc::default();
        let data = [
            Ok(FlightData::default()),
            Err(FlightError::DecodeError("broken".to_owned())),
            Ok(FlightData::default()),
        ];
        let sent = until_error(stream::iter(data), Arc::clone(&failure));
        assert_eq!(block_on(sent.count()), 1);
        let kept = failure.lock().take().expect("an error");
        assert!(kept.to_string().contains("broken"), "{kept}");
    }

    #[test]
    fn rows_end_only_where_all_were_sent() {
        let batch = || RecordBatch::new_empty(Arc::new(Schema::empty()));
        block_on(async {
            let (rows, waiting) = mpsc::channel(3);
            rows.send(Some(batch())).await.expect("room");
            rows.send(None).await.expect("room");
            assert_eq!(whole(waiting).count().await, 1);
            let (rows, waiting) = mpsc::channel(3);
            rows.send(Some(batch())).await.expect("room");
            drop(rows);
            assert_eq!(whole(waiting).count().now_or_never(), None);
        });
    }

    #[test]
    fn a_node_says_how_many_rows_it_has_taken() {
        let reply = |text: &'static str| PutResult {
            app_metadata: text.as_bytes().into(),
        };
        assert_eq!(taken("w1", &[reply("17")]).expect("a count"), 17);
        for replies in [vec![], vec![reply("many")]] {
            let error = taken("w1", &replies).expect_err("no count").to_string();
            assert!(error.contains("`w1`"), "{error}");
        }
    }

    #[test]
    fn rows_that_a_node_has_not_taken_fail_the_statement() {
        let error = block_on(async {
            let sending = Sending {
                node: "w2".to_owned(),
                rows: mpsc::channel(1).0,
                count: 7,
                taken: SpawnedTask::spawn(async { Ok(5) }),
            };
            sending.finish().await.expect_err("rows are missing")
        });
        let told = error.to_string();
        assert!(told.contains("node `w2` has taken 5 of 7 rows"), "{told}");
    }
}
