//! `COPY … FROM STDIN`: rows that a client sends while its statement runs.

use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use nearfar_sql::error::EngineError;
use nearfar_sql::sql::{ClientCopy, Statement};
use nearfar_table::transaction::CommitGate;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::CopyInResponse;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connection::{Connection, unreadable};
use super::copy::Decoder;
use super::failure::{Failure, state};
use super::interrupt::{Ended, interruption};
use super::running::Joined;
use super::statement::{Read, Threads};
use crate::wire::{ReadError, Reader, Request};

/// Pieces that wait to be read.
const WAITING_MAX: usize = 2;

/// Messages that are a piece together, where they have come: clients send one for each row.
const MESSAGES_MAX: usize = 1 << 10;

/// What comes from a client. Its end without [`Piece::Done`] is that of all rows before it too.
enum Piece {
    /// Bytes of rows, message by message.
    Rows(Vec<Bytes>),
    /// There are no more.
    Done,
}

impl Connection {
    /// Takes rows of a client and adds them to a table, all or none. How many they were.
    pub async fn copy_in(
        &mut self,
        read: &Read,
        statement: &Arc<Statement>,
        deadline: Option<Instant>,
    ) -> Result<u64, Ended> {
        let Some(ClientCopy::In(copy)) = statement.client_copy() else {
            let message = "internal error: a statement that does not copy";
            return Err(Failure::new(state::INTERNAL_ERROR, message).into());
        };
        let (session, wanted) = (self.session.clone(), Arc::clone(statement));
        let work = Box::pin(async move { session.copied_columns(&wanted).await });
        let schema = self.on_workers(&read.text, deadline, work).await?;
        let columns = schema.fields().len();
        let decoder = Decoder::new(
            copy.table.to_string(),
            schema,
            copy.options.clone(),
            self.shared.options.max_message_bytes,
        )?;
        let format = decoder.wire_format();
        let formats = vec![format; columns];
        let response = CopyInResponse::new(format as i8, columns as i16, formats);
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let wrong = Arc::new(OnceLock::new());
        let rows = rows(receiver, decoder, Arc::clone(&wrong)).boxed();
        let (session, wanted) = (self.session.clone(), Arc::clone(statement));
        let gate = Arc::<CommitGate>::default();
        let behind = Arc::clone(&gate);
        let work = Box::pin(async move { session.copy_in(&behind, &wanted, rows).await });
        let mut task = self
            .begin(gate, deadline, (Threads::OfStatements, work))
            .await?;
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let taking = async {
            self.writer
                .add(&PgWireBackendMessage::CopyInResponse(response))?;
            self.writer.flush().await?;
            feed(&mut self.reader, sender, &mut task.task).await
        };
        // It is listened for before the client is told to send, so that no cancel request is missed.
        let fed = tokio::select! {
            biased;
            failure = interruption(&self.cancel, &self.shared.halt, timeout) => Err(failure.into()),
            fed = taking => fed,
        };
        let settled = task.settle(fed, &self.shared.halt, &read.text).await;
        match (settled, wrong.get()) {
            (Err(Ended::Failed(_)), Some(wrong)) => Err(wrong.clone().into()),
            (settled, _) => settled,
        }
    }
}

/// Gives the rows of a client to the task that inserts them, until that has ended.
async fn feed<R: AsyncRead + Unpin>(
    reader: &mut Reader<R>,
    sender: mpsc::Sender<Piece>,
    task: &mut JoinHandle<Result<u64, EngineError>>,
) -> Result<Joined<u64>, Ended> {
    let mut taken = None;
    loop {
        let next = match taken.take() {
            Some(taken) => Ok(taken),
            None => tokio::select! {
                biased;
                inserted = &mut *task => return Ok(inserted),
                next = reader.next() => next,
            },
        };
        let piece = match next.map_err(unreadable)? {
            Request::CopyData(bytes) => {
                let mut rows = vec![bytes];
                taken = take_rows(reader, &mut rows).map_err(unreadable)?;
                Piece::Rows(rows)
            }
            Request::CopyDone => Piece::Done,
            Request::CopyFail(why) => {
                let message = format!("COPY from stdin failed: {why}");
                return Err(Failure::new(state::QUERY_CANCELED, message).into());
            }
            // Clients may send these together with the statement.
            Request::Flush | Request::Sync => continue,
            Request::Terminate => return Err(Ended::Gone),
            _ => {
                let message = "unexpected message during COPY from stdin";
                return Err(Failure::new(state::PROTOCOL_VIOLATION, message).into());
            }
        };
        let is_last = matches!(piece, Piece::Done);
        let is_taken = tokio::select! {
            biased;
            inserted = &mut *task => return Ok(inserted),
            sent = sender.send(piece) => sent.is_ok(),
        };
        if is_last || !is_taken {
            return Ok((&mut *task).await);
        }
    }
}

/// Takes the messages with rows that have come, and the first one without, if that has come.
fn take_rows<R: AsyncRead + Unpin>(
    reader: &mut Reader<R>,
    rows: &mut Vec<Bytes>,
) -> Result<Option<Request>, ReadError> {
    while rows.len() < MESSAGES_MAX {
        match reader.take()? {
            Some(Request::CopyData(bytes)) => rows.push(bytes),
            other => return Ok(other),
        }
    }
    Ok(None)
}

/// What is left to do of the rows of a client.
struct Incoming {
    pieces: mpsc::Receiver<Piece>,
    decoder: Decoder,
    full: std::vec::IntoIter<RecordBatch>,
    is_done: bool,
}

/// The batches of what a client sends. What is wrong with it is left in `wrong`.
fn rows(
    pieces: mpsc::Receiver<Piece>,
    decoder: Decoder,
    wrong: Arc<OnceLock<Failure>>,
) -> impl Stream<Item = Result<RecordBatch, EngineError>> + Send {
    let incoming = Incoming {
        pieces,
        decoder,
        full: Vec::new().into_iter(),
        is_done: false,
    };
    futures::stream::try_unfold((incoming, wrong), |(mut incoming, wrong)| async move {
        let next = incoming.next().await.map_err(|failure| {
            let message = failure.message.clone();
            wrong.get_or_init(|| failure);
            EngineError::Cancelled { what: message }
        })?;
        Ok(next.map(|batch| (batch, (incoming, wrong))))
    })
}

impl Incoming {
    async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        loop {
            if let Some(batch) = self.full.next() {
                return Ok(Some(batch));
            }
            if self.is_done {
                return Ok(None);
            }
            match self.pieces.recv().await {
                Some(Piece::Rows(rows)) => {
                    let mut full = Vec::new();
                    for bytes in rows {
                        full.extend(self.decoder.push(&bytes)?);
                    }
                    self.full = full.into_iter();
                }
                Some(Piece::Done) => {
                    self.is_done = true;
                    return self.decoder.finish();
                }
                None => {
                    let message = "COPY from stdin has ended early";
                    return Err(Failure::new(state::QUERY_CANCELED, message));
                }
            }
        }
    }
}
