//! Statements of a client, run where statements run, and their results.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::Schema;
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use nearfar_sql::engine::{
    CommandTag, Immediate, Interrupt, Ran, ReadyRows, RowStream, StatementResult, TransactionState,
    isolation_name,
};
use nearfar_sql::error::EngineError;
use nearfar_sql::sql::{ClientCopy, SessionCommand, Statement};
use nearfar_table::transaction::CommitGate;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::{CopyData, CopyDone, CopyOutResponse};
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::connection::Connection;
use super::copy::Encoder;
use super::direct::add_rows;
use super::failure::{Failure, state, warning};
use super::interrupt::{Ended, stopping, until_interrupted};
use super::rows::{Columns, Rows};
use super::running::{Running, in_doubt, out_of_time};
use super::settings::{Command, OF_STORE, Settings, TRANSACTION_ISOLATION};
use crate::wire::Writer;

/// The format of values that are text.
pub const TEXT: i16 = 0;

/// The format of values that are what their type's `send` function in PostgreSQL gives.
pub const BINARY: i16 = 1;

/// Where work is done.
#[derive(Debug, Clone, Copy)]
pub enum Threads {
    /// On a thread of its own.
    OfStatements,
    /// On the client's, which it must not keep.
    Own,
}

/// What the threads for statements do. Statements have large states, which are moved nowhere but where they run.
pub type Work<T> = BoxFuture<'static, Result<T, EngineError>>;

/// A statement that was read.
#[derive(Debug, Clone)]
pub struct Read {
    pub kind: Kind,
    /// What it was read from.
    pub text: Arc<str>,
}

/// Who carries a statement out.
#[derive(Debug, Clone)]
pub enum Kind {
    /// The server: it is about one of its settings.
    Setting(Command),
    /// The store.
    Store(Arc<Statement>),
}

/// Bytes of rows that are put together without looking whether the client is still there.
const BATCH_BYTES_MAX: usize = 64 << 10;

/// What a statement gives.
pub enum Outcome {
    /// It is done.
    Done(CommandTag),
    /// Few rows, which are there.
    Batch(Batch),
    /// Rows, as they come.
    Rows(Output),
}

/// All rows of a result.
pub struct Batch {
    rows: ReadyRows,
    /// What the client is told when they are sent.
    tag: &'static str,
}

impl Batch {
    /// The columns' names and types.
    pub fn schema(&self) -> &Schema {
        self.rows.schema()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.count()
    }

    /// The same, to be sent in portions.
    ///
    /// # Errors
    /// A value that can't be sent as its column is.
    pub fn into_output(self, columns: Columns) -> Result<Output, Failure> {
        Ok(Output {
            current: Some(columns.rows(&as_arrays(self.rows)?)?),
            columns,
            batches: futures::stream::empty().boxed(),
            text: Arc::from(""),
            tag: self.tag,
            copy: None,
            has_copied: false,
        })
    }
}

/// Rows on their way to a client.
pub struct Output {
    pub columns: Columns,
    batches: BoxStream<'static, Result<RecordBatch, EngineError>>,
    current: Option<Rows>,
    text: Arc<str>,
    /// What the client is told when all rows are sent.
    tag: &'static str,
    /// What writes the rows where they are not sent as rows.
    copy: Option<Encoder>,
    /// Whether a row was copied.
    has_copied: bool,
}

impl Output {
    /// The rows of a query, in the form of `formats`, or as `copy` writes them.
    ///
    /// # Errors
    /// A type that can't be sent; formats for other columns.
    pub fn new(
        rows: RowStream,
        formats: &[i16],
        copy: Option<Encoder>,
        read: &Read,
        tag: &'static str,
    ) -> Result<Self, Failure> {
        Ok(Self {
            columns: Columns::new(rows.schema(), formats)?,
            batches: rows.boxed(),
            current: None,
            text: Arc::clone(&read.text),
            tag,
            copy,
            has_copied: false,
        })
    }

    /// What comes before the rows.
    pub fn begin(&self) -> Vec<PgWireBackendMessage> {
        let Some(encoder) = &self.copy else {
            return vec![self.columns.description()];
        };
        let format = encoder.wire_format();
        let formats = vec![format; self.columns.count()];
        let response = CopyOutResponse::new(format as i8, formats.len() as i16, formats);
        let header = encoder.header(self.columns.names());
        let header = header.map(|line| PgWireBackendMessage::CopyData(CopyData::new(line)));
        std::iter::once(PgWireBackendMessage::CopyOutResponse(response))
            .chain(header)
            .collect()
    }

    /// Whether the rows are copied, which is not done in portions.
    pub fn is_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// Sends up to `rows_max` rows, or all with 0. How many were sent, and whether they were the last.
    pub async fn send<W: AsyncWrite + Unpin>(
        &mut self,
        writer: &mut Writer<W>,
        rows_max: usize,
    ) -> Result<(usize, bool), Ended> {
        let mut count = 0;
        loop {
            if let Some(rows) = &mut self.current {
                while rows_max == 0 || count < rows_max {
                    let Some(row) = rows.next_row() else { break };
                    writer.add(&match &self.copy {
                        None => PgWireBackendMessage::DataRow(row?),
                        Some(encoder) => {
                            let row = encoder.row(&row?);
                            let row = match std::mem::replace(&mut self.has_copied, true) {
                                true => row,
                                false => encoder.first(row),
                            };
                            PgWireBackendMessage::CopyData(CopyData::new(row))
                        }
                    })?;
                    writer.relieve().await?;
                    count += 1;
                }
            }
            if rows_max != 0 && count == rows_max {
                return Ok((count, false));
            }
            match self.batches.next().await {
                Some(Ok(batch)) => self.current = Some(self.columns.rows(&batch)?),
                Some(Err(error)) => return Err(Failure::of(&error, &self.text).into()),
                None => return Ok((count, true)),
            }
        }
    }

    /// What the client is told when all rows are sent, before it is told that the command is done.
    fn end(&self) -> Vec<PgWireBackendMessage> {
        let mut messages = Vec::new();
        if let Some(encoder) = &self.copy {
            let trailer = encoder.trailer().map(|end| match self.has_copied {
                true => end,
                false => encoder.first(end),
            });
            let trailer = trailer.map(|end| PgWireBackendMessage::CopyData(CopyData::new(end)));
            messages.extend(trailer);
            messages.push(PgWireBackendMessage::CopyDone(CopyDone::new()));
        }
        messages
    }
}

impl Connection {
    /// Reads a script.
    pub async fn read(
        &mut self,
        sql: String,
        deadline: Option<Instant>,
    ) -> Result<Vec<Read>, Ended> {
        let text: Arc<str> = sql.into();
        let (session, given) = (self.session.clone(), Arc::clone(&text));
        let work = Box::pin(async move {
            let statements = session.read(&given)?.into_iter();
            let read = |statement: Statement| Read {
                kind: match Command::read(statement.text()) {
                    Some(command) => Kind::Setting(command),
                    None => Kind::Store(Arc::new(statement)),
                },
                text: Arc::clone(&given),
            };
            Ok(statements.map(read).collect())
        });
        self.on_workers(&text, deadline, work).await
    }

    /// Runs a statement up to its first rows, or to its end.
    pub async fn run(
        &mut self,
        read: &Read,
        parameters: Vec<ScalarValue>,
        formats: &[i16],
        deadline: Option<Instant>,
    ) -> Result<Outcome, Ended> {
        self.shared.metrics.statements.inc();
        let statement = match &read.kind {
            Kind::Setting(command) => return Ok(self.setting(command, formats)?),
            Kind::Store(statement) => Arc::clone(statement),
        };
        if let Some(copy) = statement.client_copy() {
            return Box::pin(self.copy(copy, (read, &statement), deadline)).await;
        }
        if let Some(outcome) = self.of_prepared(&statement)? {
            return Ok(outcome);
        }
        let before = self.session.transaction_state();
        let result = match self.run_immediately(read, &statement, &parameters)? {
            // A thread without other clients writes to disk itself: the log's would have to be woken, and to wake this one.
            Immediate::Ran(ran) if !ran.is_waiting() || self.seat.is_only() => {
                let ran = ran.wait();
                ran.map_err(|error| Failure::of(&error, &read.text))?
            }
            // Apart, so that the state of those that are over already is small.
            other => {
                let given = (read, &statement, parameters);
                Box::pin(self.run_to_end(other, given, deadline)).await?
            }
        };
        Ok(match result {
            StatementResult::Command(tag) => {
                self.note(&tag, before)?;
                self.has_changed |= tag.rows.is_some() || tag.command == "COMMIT";
                if let Some(command) = statement.session_command() {
                    if let SessionCommand::Set { is_local, .. } = command {
                        self.note_local(*is_local)?;
                    }
                    self.follow(command);
                }
                Outcome::Done(tag)
            }
            StatementResult::Rows(rows) => of_rows(rows, formats, read)?,
        })
    }

    /// Runs a `COPY` of the client's.
    async fn copy(
        &mut self,
        copy: ClientCopy<'_>,
        (read, statement): (&Read, &Arc<Statement>),
        deadline: Option<Instant>,
    ) -> Result<Outcome, Ended> {
        match copy {
            ClientCopy::In(_) => {
                let rows = self.copy_in(read, statement, deadline).await?;
                Ok(Outcome::Done(CommandTag {
                    command: "COPY",
                    rows: Some(rows),
                }))
            }
            ClientCopy::Out(copy) => {
                let encoder = Encoder::new(copy.options.clone());
                let (session, statement) = (self.session.clone(), Arc::clone(statement));
                let work = Box::pin(async move { session.copy_out(&statement).await });
                let rows = self.on_workers(&read.text, deadline, work).await?;
                let formats = [encoder.wire_format()];
                let output = Output::new(rows, &formats, Some(encoder), read, "COPY")?;
                Ok(Outcome::Rows(output))
            }
        }
    }

    /// What a statement gives that was not over immediately.
    async fn run_to_end(
        &mut self,
        immediate: Immediate,
        (read, statement, parameters): (&Read, &Arc<Statement>, Vec<ScalarValue>),
        deadline: Option<Instant>,
    ) -> Result<StatementResult, Ended> {
        let unplanned = match immediate {
            Immediate::Ran(ran) => Some(self.settled(*ran, &read.text).await?),
            Immediate::Blocked => {
                self.run_unplanned((read, statement), &parameters, deadline)
                    .await?
            }
            Immediate::NotNow => None,
        };
        if let Some(result) = unplanned {
            return Ok(result);
        }
        let (session, gate) = (self.session.clone(), Arc::<CommitGate>::default());
        let (behind, statement) = (Arc::clone(&gate), Arc::clone(statement));
        let work =
            Box::pin(async move { session.run_behind(&behind, &statement, &parameters).await });
        self.on_workers_behind(gate, &read.text, deadline, work)
            .await
    }

    /// Runs a statement that is over sooner than another thread would have begun with it, unless one that
    /// was given up is still at work.
    fn run_immediately(
        &self,
        read: &Read,
        statement: &Statement,
        parameters: &[ScalarValue],
    ) -> Result<Immediate, Failure> {
        let Ok(_alone) = self.working.try_lock() else {
            return Ok(Immediate::NotNow);
        };
        let result = self.session.run_immediately(statement, parameters);
        result.map_err(|error| Failure::of(&error, &read.text))
    }

    /// What a statement has given that was run, once its commit is on disk.
    async fn settled(&mut self, ran: Ran, text: &str) -> Result<StatementResult, Ended> {
        let settled = tokio::select! {
            biased;
            settled = ran.settled() => settled,
            () = out_of_time(&self.shared.halt) => return Err(in_doubt().into()),
        };
        Ok(settled.map_err(|error| Failure::of(&error, text))?)
    }

    /// Runs a statement that is not planned again and waits for others, on the client's own thread. None if it has to
    /// be planned after all, and nothing is done.
    async fn run_unplanned(
        &mut self,
        (read, statement): (&Read, &Arc<Statement>),
        parameters: &[ScalarValue],
        deadline: Option<Instant>,
    ) -> Result<Option<StatementResult>, Ended> {
        let (session, gate) = (self.session.clone(), Arc::<CommitGate>::default());
        let (behind, statement) = (Arc::clone(&gate), Arc::clone(statement));
        let parameters = parameters.to_vec();
        let work = Box::pin(async move {
            let ran = session.run_unplanned(&behind, &statement, &parameters);
            ran.await
        });
        let running = self.begin(gate, deadline, (Threads::Own, work)).await?;
        self.end(running, &read.text, deadline).await
    }

    /// Sends rows, up to a number of them or all with 0.
    pub async fn send_rows(
        &mut self,
        output: &mut Output,
        rows_max: usize,
        deadline: Option<Instant>,
    ) -> Result<(usize, bool), Ended> {
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let sending = output.send(&mut self.writer, rows_max);
        let (cancel, halt) = (&self.cancel, &self.shared.halt);
        let sent = until_interrupted(&mut self.reader, cancel, halt, timeout, sending).await?;
        self.shared.metrics.rows.inc_by(sent.0 as u64);
        Ok(sent)
    }

    /// Adds all rows of a result, and what comes behind them.
    pub fn add_batch(&mut self, columns: &Columns, batch: &Batch) -> Result<(), Ended> {
        if !add_rows(&mut self.writer, &batch.rows, columns.infos())? {
            let mut rows = columns.rows(&as_arrays(batch.rows.clone())?)?;
            while let Some(row) = rows.next_row() {
                self.writer.add(&PgWireBackendMessage::DataRow(row?))?;
            }
        }
        self.shared.metrics.rows.inc_by(batch.len() as u64);
        let rows = counted(batch.tag, batch.len());
        Ok(self.writer.add_complete(batch.tag, rows)?)
    }

    /// Says that all rows were sent, which are so many.
    pub fn end_rows(&mut self, output: &Output, rows: usize) -> Result<(), Ended> {
        self.add_all(&output.end())?;
        let rows = counted(output.tag, rows);
        Ok(self.writer.add_complete(output.tag, rows)?)
    }

    /// Adds messages, to be sent with others.
    pub fn add_all(&mut self, messages: &[PgWireBackendMessage]) -> Result<(), Ended> {
        Ok(messages
            .iter()
            .try_for_each(|message| self.writer.add(message))?)
    }

    /// Says that a statement is done.
    pub fn complete(&mut self, tag: &CommandTag) -> Result<(), Ended> {
        Ok(self.writer.add_complete(tag.command, tag.rows)?)
    }

    /// By when a statement that begins now must be done.
    pub fn deadline(&self) -> Option<Instant> {
        let timeout = self.settings.read(Settings::statement_timeout);
        timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }

    /// Runs `work`, which commits nothing, on the threads for statements, after what was given up
    /// there before.
    pub async fn on_workers<T: Send + 'static>(
        &mut self,
        text: &str,
        deadline: Option<Instant>,
        work: Work<T>,
    ) -> Result<T, Ended> {
        self.on_workers_behind(Arc::default(), text, deadline, work)
            .await
    }

    /// The same for work that commits behind `gate`.
    async fn on_workers_behind<T: Send + 'static>(
        &mut self,
        gate: Arc<CommitGate>,
        text: &str,
        deadline: Option<Instant>,
        work: Work<T>,
    ) -> Result<T, Ended> {
        let running = self
            .begin(gate, deadline, (Threads::OfStatements, work))
            .await?;
        self.end(running, text, deadline).await
    }

    /// What becomes of work that has begun.
    async fn end<T: Send + 'static>(
        &mut self,
        mut task: Running<Result<T, EngineError>>,
        text: &str,
        deadline: Option<Instant>,
    ) -> Result<T, Ended> {
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let (cancel, halt) = (&self.cancel, &self.shared.halt);
        let waiting = async { Ok((&mut task.task).await) };
        let waited = until_interrupted(&mut self.reader, cancel, halt, timeout, waiting).await;
        task.settle(waited, halt, text).await
    }

    /// Has `work`, which commits behind `gate`, begin on some threads, once what was given up
    /// before has ended.
    pub async fn begin<T: Send + 'static>(
        &mut self,
        gate: Arc<CommitGate>,
        deadline: Option<Instant>,
        (threads, work): (Threads, Work<T>),
    ) -> Result<Running<Result<T, EngineError>>, Ended> {
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let (cancel, halt) = (&self.cancel, &self.shared.halt);
        let working = Arc::clone(&self.working);
        let waiting = async { Ok(working.lock_owned().await) };
        let working = until_interrupted(&mut self.reader, cancel, halt, timeout, waiting).await?;
        let interrupt = Interrupt::new(self.session.engine().planning_turns());
        let work = async move {
            let _working = working;
            work.await
        };
        let behind = Arc::clone(&interrupt);
        let task = match threads {
            Threads::OfStatements => self.shared.threads.run(behind, work),
            Threads::Own => Some(tokio::spawn(async move { behind.run(work).await })),
        };
        Ok(Running {
            task: task.ok_or_else(|| stopping(halt))?,
            gate,
            interrupt,
        })
    }

    fn setting(&mut self, command: &Command, formats: &[i16]) -> Result<Outcome, Failure> {
        self.check_not_failed()?;
        let done = |command| {
            Outcome::Done(CommandTag {
                command,
                rows: None,
            })
        };
        match command {
            Command::Set { name, value, .. } if name == TRANSACTION_ISOLATION => {
                if let Some(level) = value {
                    let set = self.session.set_isolation(level);
                    set.map_err(|error| Failure::of(&error, ""))?;
                }
                Ok(done("SET"))
            }
            Command::Reset { name } if name == TRANSACTION_ISOLATION => Ok(done("RESET")),
            Command::Set {
                name,
                value,
                is_local,
            } => {
                let set = self
                    .session
                    .set_of_client(name, value.as_deref(), *is_local);
                set.map_err(|error| Failure::of(&error, ""))?;
                self.note_local(*is_local)?;
                Ok(done("SET"))
            }
            Command::Reset { name } => {
                let reset = self.session.set_of_client(name, None, false);
                reset.map_err(|error| Failure::of(&error, ""))?;
                Ok(done("RESET"))
            }
            Command::Show { name } => {
                let value = match name.as_str() {
                    TRANSACTION_ISOLATION => isolation_name(self.session.isolation()).to_owned(),
                    name if OF_STORE.contains(&name) => {
                        self.session.own_setting(name).unwrap_or_default()
                    }
                    name => self.settings.read(|settings| settings.get(name).to_owned()),
                };
                let values = StringArray::from(vec![value]);
                let batch = RecordBatch::try_from_iter([(name.as_str(), Arc::new(values) as _)]);
                let batch = batch
                    .map_err(|error| Failure::new(state::INTERNAL_ERROR, error.to_string()))?;
                Ok(Outcome::Rows(Output {
                    columns: Columns::new(&batch.schema(), formats)?,
                    batches: futures::stream::iter([Ok(batch)]).boxed(),
                    current: None,
                    text: Arc::from(""),
                    tag: "SHOW",
                    copy: None,
                    has_copied: false,
                }))
            }
        }
    }

    /// Warns of a setting for the transaction only, where there is none.
    fn note_local(&mut self, is_local: bool) -> Result<(), Failure> {
        if !is_local || self.session.transaction_state() != TransactionState::Idle {
            return Ok(());
        }
        let message = "SET LOCAL can only be used in transaction blocks";
        let added = self
            .writer
            .add(&warning(state::WARNING_NO_TRANSACTION, message));
        added.map_err(|error| Failure::new(state::INTERNAL_ERROR, error.to_string()))
    }

    /// Warns of what PostgreSQL warns of.
    fn note(&mut self, tag: &CommandTag, before: TransactionState) -> Result<(), Ended> {
        let is_idle = before == TransactionState::Idle;
        let notice = match tag.command {
            "BEGIN" if !is_idle => warning(
                state::WARNING_ACTIVE_TRANSACTION,
                "there is already a transaction in progress",
            ),
            "COMMIT" | "ROLLBACK" if is_idle => warning(
                state::WARNING_NO_TRANSACTION,
                "there is no transaction in progress",
            ),
            _ => return Ok(()),
        };
        Ok(self.writer.add(&notice)?)
    }
}

/// What is told of the number of rows that a command of this name has given.
fn counted(command: &str, rows: usize) -> Option<u64> {
    const COUNTED: [&str; 6] = ["SELECT", "INSERT", "UPDATE", "DELETE", "COPY", "FETCH"];
    COUNTED.contains(&command).then_some(rows as u64)
}

/// The rows of a statement that was run.
fn of_rows(mut rows: RowStream, formats: &[i16], read: &Read) -> Result<Outcome, Failure> {
    let tag = match (&read.kind, rows.command()) {
        (Kind::Store(statement), "SELECT") => query_tag(statement.text()),
        (_, command) => command,
    };
    let ready = rows.take_ready();
    let ready = ready.map_err(|error| Failure::of(&error, &read.text))?;
    match ready {
        Some(rows) if rows.bytes() <= BATCH_BYTES_MAX => Ok(Outcome::Batch(Batch { rows, tag })),
        Some(rows) => {
            let columns = Columns::new(rows.schema(), formats)?;
            let output = Batch { rows, tag }.into_output(columns);
            Ok(Outcome::Rows(output?))
        }
        None => Output::new(rows, formats, None, read, tag).map(Outcome::Rows),
    }
}

fn as_arrays(rows: ReadyRows) -> Result<RecordBatch, Failure> {
    rows.into_batch().map_err(|error| Failure::of(&error, ""))
}

/// What the client of a query is told when all rows are sent.
fn query_tag(sql: &str) -> &'static str {
    let first = sql
        .split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .unwrap_or_default();
    match first.to_ascii_uppercase().as_str() {
        "EXPLAIN" => "EXPLAIN",
        "SHOW" => "SHOW",
        _ => "SELECT",
    }
}
