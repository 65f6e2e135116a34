//! `COPY … FROM STDIN` and `COPY … TO STDOUT`: rows from and to a client, which the caller reads and
//! writes as the statement says.

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::TableReference;
use datafusion::datasource::provider_as_source;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, ident};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

use super::alter::{normalised, table_reference};
use super::patterns::check_patterns;
use super::transaction::{FailOnDrop, within};
use crate::engine::defaults::default_value;
use crate::engine::session::Session;
use crate::engine::stream::{RowStream, StatementResult};
use crate::error::EngineError;
use crate::sql::{ClientCopy, CopyIn, SqlError, Statement};
use nearfar_table::table::Table;
use nearfar_table::transaction::{CloseOnDrop, CommitGate, Transaction};

/// The rows of a client.
pub type ClientRows = BoxStream<'static, Result<RecordBatch, EngineError>>;

/// The name of the input in plans.
const INPUT: &str = "stdin";

impl Session {
    /// The columns that a `COPY … FROM STDIN` gives values for, as the table has them.
    ///
    /// # Errors
    /// Another statement; a session or transaction that may not write; a table or column that is not
    /// there, or a column that is named twice.
    pub async fn copied_columns(&self, statement: &Statement) -> Result<SchemaRef, EngineError> {
        let Some(ClientCopy::In(copy)) = statement.client_copy() else {
            return Err(no_copy().into());
        };
        let transaction = self.current_transaction()?;
        transaction.check_writable("COPY … FROM STDIN")?;
        let table = self.memory_table(&table_reference(&copy.table)?).await?;
        let fields = copied_fields(copy, &table)?;
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Runs a `COPY … FROM STDIN`: adds `rows`, whose columns are those of
    /// [`Self::copied_columns`], when the last one is there. How many they were.
    ///
    /// # Errors
    /// As [`Self::copied_columns`] and [`Self::run_behind`], and the first error among `rows`; the
    /// table has none of them then.
    pub async fn copy_in(
        &self,
        gate: &Arc<CommitGate>,
        statement: &Statement,
        rows: ClientRows,
    ) -> Result<u64, EngineError> {
        let _closing = CloseOnDrop(Arc::clone(gate));
        self.behind(gate).copy_here(statement, rows).await
    }

    async fn copy_here(&self, statement: &Statement, rows: ClientRows) -> Result<u64, EngineError> {
        let Some(ClientCopy::In(copy)) = statement.client_copy() else {
            return Err(no_copy().into());
        };
        let transaction = self.current_transaction()?;
        let failing = FailOnDrop(Some(Arc::clone(&transaction)));
        let name = table_reference(&copy.table)?;
        let table = self.memory_table(&name).await?;
        let schema = Arc::new(Schema::new(copied_fields(copy, &table)?));
        let added = self.add_rows(&transaction, name, &schema, rows).await?;
        failing.forget();
        Ok(added)
    }

    /// Adds rows to a table by the names of their columns, as [`Self::append`] says.
    pub(in crate::engine) async fn append_behind(
        &self,
        gate: &Arc<CommitGate>,
        name: TableReference,
        schema: &SchemaRef,
        rows: ClientRows,
    ) -> Result<u64, EngineError> {
        let _closing = CloseOnDrop(Arc::clone(gate));
        let transaction = self.current_transaction()?;
        let failing = FailOnDrop(Some(Arc::clone(&transaction)));
        let table = self.memory_table(&name).await?;
        let columns = table.schema().fields();
        for field in schema.fields() {
            if columns.iter().all(|column| column.name() != field.name()) {
                return Err(SqlError::UnknownColumn {
                    table: table.name().to_owned(),
                    column: field.name().clone(),
                    known: columns.iter().map(|column| column.name().clone()).collect(),
                }
                .into());
            }
        }
        let behind = self.behind(gate);
        let added = behind.add_rows(&transaction, name, schema, rows).await?;
        failing.forget();
        Ok(added)
    }

    /// Adds rows with some of a table's columns.
    async fn add_rows(
        &self,
        transaction: &Arc<Transaction>,
        name: TableReference,
        schema: &SchemaRef,
        rows: ClientRows,
    ) -> Result<u64, EngineError> {
        transaction.check_writable("INSERT")?;
        let table = self.memory_table(&name).await?;
        let sources = table.schema().fields().iter().map(|field| {
            let is_given = schema.column_with_name(field.name()).is_some();
            is_given.then(|| ident(field.name()))
        });
        let sources: Vec<Option<Expr>> = sources.collect();
        let input = Arc::new(Input {
            schema: Arc::clone(schema),
            rows: Mutex::new(Some(rows)),
        });
        let input = StreamingTable::try_new(Arc::clone(schema), vec![input])?;
        let source = provider_as_source(Arc::new(input));
        let input = LogicalPlanBuilder::scan(INPUT, source, None)?.build()?;
        let plan = self.insert_plan(input, name, &table, sources).await?;
        let state = within(transaction, self.context().state());
        self.wait_for_tables(transaction, &plan, false).await?;
        let StatementResult::Command(tag) = self.write(transaction, &state, &plan).await? else {
            return Err(no_copy().into());
        };
        Ok(tag.rows.unwrap_or_default())
    }

    /// Runs the query of a `COPY … TO STDOUT` up to its first rows.
    ///
    /// # Errors
    /// Another statement; as [`Self::run`].
    pub async fn copy_out(&self, statement: &Statement) -> Result<RowStream, EngineError> {
        let Some(ClientCopy::Out(copy)) = statement.client_copy() else {
            return Err(no_copy().into());
        };
        let transaction = self.current_transaction()?;
        let failing = FailOnDrop(Some(Arc::clone(&transaction)));
        let state = within(&transaction, self.context().state());
        let plan = super::plan(&state, &copy.query).await?;
        self.check_access(&transaction, &plan)?;
        check_patterns(&plan)?;
        self.wait_for_tables(&transaction, &plan, false).await?;
        let rows = self.query(&transaction, &state, &plan).await?;
        failing.forget();
        Ok(rows)
    }

    /// The plan that adds the rows of `input` to a table. For each of its columns, `sources` has what
    /// of the input it gets, or nothing where that is left to the table.
    pub(super) async fn insert_plan(
        &self,
        input: LogicalPlan,
        name: TableReference,
        table: &Table,
        sources: Vec<Option<Expr>>,
    ) -> Result<LogicalPlan, EngineError> {
        let state = self.context().state();
        let mut values = Vec::with_capacity(sources.len());
        for (source, field) in sources.into_iter().zip(table.schema().fields()) {
            values.push(match source {
                Some(source) => source,
                None => default_value(&state, table, field.name()).await?,
            });
        }
        let target = self.provider(&name).await?;
        let target = target.ok_or_else(|| SqlError::UnknownTable {
            table: name.to_string(),
        })?;
        let fields = table.schema().fields().iter();
        let columns = values
            .into_iter()
            .zip(fields)
            .map(|(value, field)| cast(value, field.data_type().clone()).alias(field.name()));
        let rows = LogicalPlanBuilder::from(input).project(columns)?.build()?;
        let target = provider_as_source(target);
        let insert = LogicalPlanBuilder::insert_into(rows, name, target, InsertOp::Append)?;
        Ok(insert.build()?)
    }
}

/// A statement that does not copy, or one that copies where there is no client.
pub(super) fn no_copy() -> SqlError {
    SqlError::unsupported(
        "COPY from STDIN or to STDOUT without a client of `nearfar serve`",
        "name a file in quotes",
    )
}

/// The fields of the table that values are given for, in the order in which they are given.
fn copied_fields(copy: &CopyIn, table: &Table) -> Result<Vec<Field>, SqlError> {
    let fields = table.schema().fields();
    if copy.columns.is_empty() {
        return Ok(fields.iter().map(|field| field.as_ref().clone()).collect());
    }
    let mut given: Vec<Field> = Vec::with_capacity(copy.columns.len());
    for column in copy.columns.iter().map(normalised) {
        let Some(field) = fields.iter().find(|field| *field.name() == column) else {
            return Err(SqlError::UnknownColumn {
                table: table.name().to_owned(),
                column,
                known: fields.iter().map(|field| field.name().clone()).collect(),
            });
        };
        if given.iter().any(|other| *other.name() == column) {
            return Err(SqlError::DuplicateColumn {
                table: table.name().to_owned(),
                column,
            });
        }
        given.push(field.as_ref().clone());
    }
    Ok(given)
}

/// The rows of a client as something that is scanned, once.
struct Input {
    schema: SchemaRef,
    rows: Mutex<Option<ClientRows>>,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").finish_non_exhaustive()
    }
}

impl PartitionStream for Input {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let rows = self.rows.lock().take();
        let rows = rows.unwrap_or_else(|| futures::stream::empty().boxed());
        let rows = rows.map(|batch| batch.map_err(DataFusionError::from));
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}
