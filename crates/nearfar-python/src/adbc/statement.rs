//! Statements: SQL with parameters, and rows that are given to tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use adbc_core::error::Result;
use adbc_core::options::{OptionStatement, OptionValue};
use adbc_core::{CancelHandle, Optionable, PartitionedResult, Statement as AdbcStatement};
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use nearfar_sql::engine::{Action, StatementResult, TransactionState};
use nearfar_sql::sql::Statement;

use super::connection::Cancelled;
use super::{no_option, text_of, told, unsupported};
use crate::client::{Client, IngestMode, Parameters, Reader, quoted};
use crate::failure::Failure;
use crate::placeholders::numbered;

/// A statement of a connection.
pub struct NearfarStatement {
    client: Client,
    cancelled: Cancelled,
    commits_itself: Arc<AtomicBool>,
    sql: Option<String>,
    bound: Option<Reader>,
    target: Option<String>,
    mode: IngestMode,
}

impl NearfarStatement {
    /// One of the session of `client`.
    pub fn new(client: Client, cancelled: Cancelled, commits_itself: Arc<AtomicBool>) -> Self {
        Self {
            client,
            cancelled,
            commits_itself,
            sql: None,
            bound: None,
            target: None,
            mode: IngestMode::Create,
        }
    }

    /// The one statement of the text.
    fn read(&self, has_parameters: bool) -> Result<Vec<Statement>> {
        let sql = self.sql.as_deref();
        let sql = sql.ok_or_else(|| wrong("no statement was given: set a query first"))?;
        let text = match has_parameters {
            true => numbered(sql),
            false => sql.to_owned(),
        };
        self.client.read(&text).map_err(told)
    }

    /// Begins a transaction where there has to be one. Definitions stand outside of transactions.
    fn begin(&self, statement: Option<&Statement>) -> Result<()> {
        let is_idle = self.client.session().transaction_state() == TransactionState::Idle;
        if self.commits_itself.load(Ordering::Relaxed) || !is_idle {
            return Ok(());
        }
        let is_definition = match statement {
            Some(statement) => self.is_definition(statement)?,
            None => false,
        };
        match is_definition {
            true => Ok(()),
            false => self.client.command("BEGIN").map_err(told),
        }
    }

    fn is_definition(&self, statement: &Statement) -> Result<bool> {
        let actions = self.client.actions(statement).map_err(told)?;
        Ok(actions.iter().any(|action| {
            !matches!(
                action,
                Action::Query
                    | Action::Insert
                    | Action::Update
                    | Action::Delete
                    | Action::MergeInto
                    | Action::Truncate
                    | Action::Advance
                    | Action::CopyOut
            )
        }))
    }

    /// Runs a script, the last of its statements with parameters, whose result it gives.
    fn run(&mut self) -> Result<Option<StatementResult>> {
        self.cancelled.forget();
        let bound = self.bound.take();
        let statements = self.read(bound.is_some())?;
        let Some((last, others)) = statements.split_last() else {
            return Ok(None);
        };
        for statement in others {
            self.begin(Some(statement))?;
            self.client.run(statement, None).map_err(told)?;
        }
        self.begin(Some(last))?;
        match bound {
            None => Ok(Some(self.client.run(last, None).map_err(told)?)),
            Some(rows) => self.run_for_each(last, rows),
        }
    }

    /// Runs a statement for each row of parameters; the result is the last one's, with the sum of what all
    /// have changed.
    fn run_for_each(
        &self,
        statement: &Statement,
        bound: Reader,
    ) -> Result<Option<StatementResult>> {
        let (mut result, mut sum) = (None, 0);
        for rows in bound {
            let rows = rows?;
            for row in 0..rows.num_rows() {
                if matches!(result, Some(StatementResult::Rows(_))) {
                    return unsupported("a query for several rows of parameters");
                }
                let parameters = Parameters {
                    rows: rows.clone(),
                    row,
                };
                let mut done = self
                    .client
                    .run(statement, Some(&parameters))
                    .map_err(told)?;
                if let StatementResult::Command(tag) = &mut done {
                    sum += tag.rows.unwrap_or_default();
                    tag.rows = tag.rows.map(|_| sum);
                }
                result = Some(done);
            }
        }
        Ok(result)
    }

    /// Gives what is bound to the target.
    fn ingest(&mut self, table: &str) -> Result<Option<i64>> {
        self.cancelled.forget();
        let rows = self.bound.take();
        let rows = rows.ok_or_else(|| wrong("no rows were bound that the table could get"))?;
        let is_there = self
            .client
            .columns_of(&quoted(table))
            .map_err(told)?
            .is_some();
        if is_there && self.mode != IngestMode::Replace {
            self.begin(None)?;
        }
        let count = self.client.ingest(table, rows, self.mode).map_err(told)?;
        Ok(i64::try_from(count).ok())
    }
}

fn wrong(message: &str) -> adbc_core::error::Error {
    told(Failure::Argument(message.to_owned()))
}

impl AdbcStatement for NearfarStatement {
    fn bind(&mut self, batch: RecordBatch) -> Result<()> {
        let schema = batch.schema();
        self.bound = Some(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        Ok(())
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<()> {
        self.bound = Some(reader);
        Ok(())
    }

    fn execute(&mut self) -> Result<Reader> {
        if let Some(table) = self.target.clone() {
            self.ingest(&table)?;
            return Ok(nothing());
        }
        match self.run()? {
            Some(StatementResult::Rows(stream)) => Ok(Box::new(self.client.rows(stream))),
            Some(StatementResult::Command(_)) | None => Ok(nothing()),
        }
    }

    fn execute_update(&mut self) -> Result<Option<i64>> {
        if let Some(table) = self.target.clone() {
            return self.ingest(&table);
        }
        match self.run()? {
            Some(StatementResult::Rows(stream)) => {
                let rows = self.client.rows(stream);
                let count: std::result::Result<usize, ArrowError> =
                    rows.map(|batch| Ok(batch?.num_rows())).sum();
                Ok(i64::try_from(count?).ok())
            }
            Some(StatementResult::Command(tag)) => {
                Ok(tag.rows.and_then(|rows| i64::try_from(rows).ok()))
            }
            None => Ok(None),
        }
    }

    fn execute_schema(&mut self) -> Result<Schema> {
        let statements = self.read(true)?;
        let Some(last) = statements.last() else {
            return Ok(Schema::empty());
        };
        let columns = self.client.describe(last).map_err(told)?.columns;
        Ok(columns.map_or_else(Schema::empty, |columns| columns.as_ref().clone()))
    }

    fn execute_partitions(&mut self) -> Result<PartitionedResult> {
        unsupported("a result in partitions")
    }

    fn get_parameter_schema(&self) -> Result<Schema> {
        unsupported("a description of parameters")
    }

    fn prepare(&mut self) -> Result<()> {
        self.read(true).map(drop)
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> Result<()> {
        self.sql = Some(query.as_ref().to_owned());
        self.target = None;
        Ok(())
    }

    fn set_substrait_plan(&mut self, _: impl AsRef<[u8]>) -> Result<()> {
        unsupported("a plan of Substrait")
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(self.cancelled.clone())
    }
}

/// The rows of what gives none.
fn nothing() -> Reader {
    let schema = Arc::new(Schema::empty());
    Box::new(RecordBatchIterator::new(std::iter::empty(), schema))
}

impl Optionable for NearfarStatement {
    type Option = OptionStatement;

    fn set_option(&mut self, key: OptionStatement, value: OptionValue) -> Result<()> {
        let text = text_of(key.as_ref(), value)?;
        match key {
            OptionStatement::TargetTable => self.target = Some(text),
            OptionStatement::IngestMode => {
                use adbc_core::options::IngestMode as Mode;
                self.mode = match text.parse()? {
                    Mode::Create => IngestMode::Create,
                    Mode::Append => IngestMode::Append,
                    Mode::Replace => IngestMode::Replace,
                    Mode::CreateAppend => IngestMode::CreateAppend,
                };
            }
            OptionStatement::Temporary if text == "false" => {}
            other => return no_option(other.as_ref()),
        }
        Ok(())
    }

    fn get_option_string(&self, key: OptionStatement) -> Result<String> {
        no_option(key.as_ref())
    }

    fn get_option_bytes(&self, key: OptionStatement) -> Result<Vec<u8>> {
        no_option(key.as_ref())
    }

    fn get_option_int(&self, key: OptionStatement) -> Result<i64> {
        no_option(key.as_ref())
    }

    fn get_option_double(&self, key: OptionStatement) -> Result<f64> {
        no_option(key.as_ref())
    }
}
