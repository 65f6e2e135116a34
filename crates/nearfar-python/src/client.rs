//! One session of a database, for whichever face it was asked of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use nearfar_sql::engine::{
    Action, Described, Session, StatementResult, TransactionState, parameters_of_row,
};
use nearfar_sql::error::EngineError;
use nearfar_sql::load::{Batches, Load, Progress};
use nearfar_sql::sql::Statement;
use nearfar_table::placement::ColumnPlacements;
use nearfar_table::transaction::CommitGate;

use crate::database::Database;
use crate::failure::Failure;
use crate::rows::{Interrupt, Rows};

/// A reader of somebody's rows.
pub type Reader = Box<dyn RecordBatchReader + Send>;

/// What one row of a batch has for parameters.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// The batch.
    pub rows: RecordBatch,
    /// Which of its rows.
    pub row: usize,
}

/// What becomes of a table that is there when rows are given to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IngestMode {
    /// It is an error.
    Create,
    /// It gets the rows, and has to be there.
    Append,
    /// It goes.
    Replace,
    /// It gets the rows.
    CreateAppend,
}

/// A session and its database.
#[derive(Clone)]
pub struct Client {
    database: Arc<Database>,
    session: Session,
    interrupt: Interrupt,
    /// Rows that were read of somebody for the statement that runs.
    read: Arc<AtomicU64>,
}

impl Client {
    /// A new session, whose waits look at `interrupt` now and then.
    pub fn new(database: Arc<Database>, interrupt: Interrupt) -> Result<Self, Failure> {
        let session = database.engine()?.session();
        Ok(Self {
            database,
            session,
            interrupt,
            read: Arc::default(),
        })
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Reads a script.
    pub fn read(&self, sql: &str) -> Result<Vec<Statement>, Failure> {
        self.database.check_process()?;
        Ok(self.session.read_recent(sql)?)
    }

    /// Runs `work` on the database's threads, and waits.
    fn wait<T: Send + 'static>(
        &self,
        gate: &CommitGate,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, Failure> {
        let pending = self.database.start(work)?;
        let rows = || match self.session.loading() {
            Some(loading) => loading.rows(),
            None => self.read.load(Ordering::Relaxed),
        };
        Ok(pending.wait(gate, || (self.interrupt)(rows()))??)
    }

    /// Runs a statement: a query up to its first rows, anything else to its end.
    pub fn run(
        &self,
        statement: &Statement,
        parameters: Option<&Parameters>,
    ) -> Result<StatementResult, Failure> {
        let values = match parameters {
            Some(Parameters { rows, row }) => parameters_of_row(rows, *row)?,
            None => Vec::new(),
        };
        let gate = Arc::<CommitGate>::default();
        let (session, statement) = (self.session.clone(), statement.clone());
        let behind = Arc::clone(&gate);
        self.wait(&gate, async move {
            session.run_behind(&behind, &statement, &values).await
        })
    }

    /// Runs a script whose rows nobody wants, such as `BEGIN`.
    pub fn command(&self, sql: &str) -> Result<(), Failure> {
        for statement in self.read(sql)? {
            self.run(&statement, None)?;
        }
        Ok(())
    }

    /// A reader of a query's rows.
    pub fn rows(&self, stream: nearfar_sql::engine::RowStream) -> Rows {
        Rows::new(
            Arc::clone(&self.database),
            stream,
            Arc::clone(&self.interrupt),
        )
    }

    /// What is known of a statement before it runs.
    pub fn describe(&self, statement: &Statement) -> Result<Described, Failure> {
        let (session, statement) = (self.session.clone(), statement.clone());
        let work = async move { session.describe(&statement).await };
        self.wait(&CommitGate::default(), work)
    }

    /// The names of tables in a statement that there are not, as they are written and as they are looked up.
    pub fn missing_tables(
        &self,
        statement: &Statement,
    ) -> Result<BTreeMap<String, String>, Failure> {
        let (session, statement) = (self.session.clone(), statement.clone());
        let work = async move { session.missing_tables(&statement).await };
        self.wait(&CommitGate::default(), work)
    }

    /// What a statement does, as far as rights go.
    pub fn actions(&self, statement: &Statement) -> Result<Vec<Action>, Failure> {
        let (session, statement) = (self.session.clone(), statement.clone());
        let work = async move { session.actions(&statement).await };
        self.wait(&CommitGate::default(), work)
    }

    /// The columns of a table.
    pub fn columns_of(&self, table: &str) -> Result<Option<SchemaRef>, Failure> {
        let (session, table) = (self.session.clone(), table.to_owned());
        let work = async move { session.columns_of(&table).await };
        self.wait(&CommitGate::default(), work)
    }

    /// Gives the rows of `reader` to the table of exactly this name. How many they were.
    pub fn ingest(&self, table: &str, reader: Reader, mode: IngestMode) -> Result<u64, Failure> {
        let is_there = self.columns_of(&quoted(table))?.is_some();
        let reader = self.counted(reader);
        let done = self.ingest_rows(table, reader, mode, is_there);
        self.read.store(0, Ordering::Relaxed);
        done
    }

    /// A reader whose rows are counted as they are read.
    fn counted(&self, reader: Reader) -> Reader {
        let (schema, read) = (reader.schema(), Arc::clone(&self.read));
        let batches = reader.inspect(move |batch| {
            let rows = batch.as_ref().map_or(0, RecordBatch::num_rows);
            read.fetch_add(rows as u64, Ordering::Relaxed);
        });
        Box::new(RecordBatchIterator::new(batches, schema))
    }

    fn ingest_rows(
        &self,
        table: &str,
        reader: Reader,
        mode: IngestMode,
        is_there: bool,
    ) -> Result<u64, Failure> {
        match (mode, is_there) {
            (IngestMode::Append, _) | (IngestMode::CreateAppend, true) => {
                self.append(table, reader)
            }
            (IngestMode::Create, _) | (IngestMode::CreateAppend, false) => {
                self.create(table, reader)
            }
            (IngestMode::Replace, _) => {
                if is_there {
                    self.command(&format!("DROP TABLE {}", quoted(table)))?;
                }
                self.create(table, reader)
            }
        }
    }

    fn append(&self, table: &str, reader: Reader) -> Result<u64, Failure> {
        let schema = reader.schema();
        let gate = Arc::<CommitGate>::default();
        let (session, table) = (self.session.clone(), quoted(table));
        let behind = Arc::clone(&gate);
        self.wait(&gate, async move {
            // The reader may wait for its owner, which no thread of the engine's does.
            let (sender, receiver) = tokio::sync::mpsc::channel(4);
            tokio::task::spawn_blocking(move || {
                for batch in reader {
                    if sender
                        .blocking_send(batch.map_err(EngineError::from))
                        .is_err()
                    {
                        break;
                    }
                }
            });
            let rows = futures::stream::unfold(receiver, |mut receiver| async move {
                let batch = receiver.recv().await?;
                Some((batch, receiver))
            });
            session.append(&behind, &table, &schema, rows.boxed()).await
        })
    }

    /// A table of the rows, which are encoded as they come, not in a transaction.
    fn create(&self, table: &str, reader: Reader) -> Result<u64, Failure> {
        if self.session.transaction_state() != TransactionState::Idle {
            return Err(Failure::Argument(
                "a table is not made of rows within a transaction: commit it first".to_owned(),
            ));
        }
        let load = Load {
            storage: self.session.engine().storage().clone(),
            name: table.to_owned(),
            placements: ColumnPlacements::all(
                self.session.settings().table_placement(false).clone(),
            ),
            progress: Arc::new(Progress::default()),
        };
        let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop.0);
        let (progress, schema) = (Arc::clone(&load.progress), reader.schema());
        let batches = reader.map(move |batch| match stopped.load(Ordering::Relaxed) {
            true => Err(EngineError::Cancelled {
                what: "loading".to_owned(),
            }),
            false => Ok(batch?),
        });
        let (session, batches): (Session, Batches) = (self.session.clone(), Box::new(batches));
        self.wait(&CommitGate::default(), async move {
            let loading = tokio::task::spawn_blocking(move || {
                let table = load.batches(&schema, vec![batches])?;
                session.register(table)
            });
            loading.await.unwrap_or_else(|error| {
                Err(EngineError::Internal {
                    message: error.to_string(),
                })
            })
        })?;
        drop(stop);
        Ok(progress.rows())
    }
}

/// Has a load end at its next rows once nobody waits for it.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A name as SQL takes it without a change.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
