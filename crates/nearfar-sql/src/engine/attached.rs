//! What a program has in memory as tables of one session: rows that are read where they are, and rows that
//! are added to a table.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session as Planning, TableProvider};
use datafusion::common::TableReference;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::Ident;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::execute::{ClientRows, table_reference};
use super::session::Session;
use crate::error::EngineError;
use crate::remote::{RemoteScan, RemoteTable, remote_table_of};
use crate::slices::{SLICE_ROWS, slices};
use crate::sql::{SqlError, Statement, StatementKind};
use nearfar_table::transaction::CommitGate;

/// Rows of the program's, which nothing is inserted into.
#[derive(Debug)]
struct AttachedTable(MemTable);

#[async_trait]
impl TableProvider for AttachedTable {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Planning,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.scan(state, projection, filters, limit).await
    }
}

impl Session {
    /// Makes rows known to this session under `name`, before a table of all sessions, and in place of rows that
    /// have it. They are read where they are, by as many threads as the engine has, and are not counted on any
    /// tier. Within a transaction too they are what they are now.
    ///
    /// # Errors
    /// Batches that do not have `schema`; the name of a temporary table.
    pub fn attach(
        &self,
        name: &str,
        schema: SchemaRef,
        batches: &[RecordBatch],
    ) -> Result<(), EngineError> {
        let partitions = partitions(batches, self.engine().threads());
        self.attach_provider(
            name,
            Arc::new(AttachedTable(MemTable::try_new(schema, partitions)?)),
        )
    }

    /// Makes a table on another host known to this session under `name`, as [`Self::attach`] does with rows of the
    /// program. A query that scans it fails by the host's name when the host is lost, and no other one does; the next
    /// one has it rebuilt if its rows are kept elsewhere too. What is fetched of it is charged to the query, and kept
    /// near within [`EngineOptions::remote_cache_bytes`](super::EngineOptions::remote_cache_bytes).
    ///
    /// # Errors
    /// The name of a temporary table.
    pub fn attach_remote(&self, name: &str, table: Arc<RemoteTable>) -> Result<(), EngineError> {
        let cache = Arc::clone(self.engine().remote_cache());
        let scan = RemoteScan::new(table, self.engine().threads(), cache);
        self.attach_provider(name, Arc::new(scan))
    }

    fn attach_provider(
        &self,
        name: &str,
        table: Arc<dyn TableProvider>,
    ) -> Result<(), EngineError> {
        if self.temporary().get(name).is_some() && !self.is_attached(name) {
            return Err(SqlError::TableExists {
                table: name.to_owned(),
            }
            .into());
        }
        self.temporary().replace(name.to_owned(), table);
        Ok(())
    }

    /// Takes rows away that [`Self::attach`] or [`Self::attach_remote`] made known; whether there were some of that name.
    pub fn detach(&self, name: &str) -> bool {
        self.is_attached(name) && self.temporary().remove(name).is_some()
    }

    fn is_attached(&self, name: &str) -> bool {
        let table = self.temporary().get(name);
        table.is_some_and(|table| {
            let is_rows = (table.as_ref() as &dyn Any).is::<AttachedTable>();
            is_rows || remote_table_of(table.as_ref()).is_some()
        })
    }

    /// The names of tables in a statement that there are not: as they are written, and as they are looked
    /// up. Those of functions that give rows may be among them.
    ///
    /// # Errors
    /// A statement whose names can't be resolved.
    pub async fn missing_tables(
        &self,
        statement: &Statement,
    ) -> Result<BTreeMap<String, String>, EngineError> {
        let parsed = match statement.kind() {
            StatementKind::DataFusion { statement, .. } => statement,
            StatementKind::CopyOut(copy) => &copy.query,
            _ => return Ok(BTreeMap::new()),
        };
        let (written, _) = resolve_table_references(parsed, false)?;
        let (looked_up, _) = resolve_table_references(parsed, true)?;
        let mut missing = BTreeMap::new();
        for name in looked_up {
            let is_bare = matches!(name, TableReference::Bare { .. });
            if !is_bare || self.provider(&name).await?.is_some() {
                continue;
            }
            let name = name.table();
            let is_same =
                |other: &&TableReference| other.table().to_lowercase() == name.to_lowercase();
            let as_written = written
                .iter()
                .find(is_same)
                .map_or(name, |other| other.table());
            missing.insert(as_written.to_owned(), name.to_owned());
        }
        Ok(missing)
    }

    /// Adds `rows`, which have `schema`, to a table by the names of their columns, with their values cast to
    /// the table's types; columns that are not given get what they get in an `INSERT`. How many they were.
    ///
    /// # Errors
    /// A table or column that is not there; as [`Self::run_behind`], and the first error among `rows`. The
    /// table has none of them then.
    pub async fn append(
        &self,
        gate: &Arc<CommitGate>,
        table: &str,
        schema: &SchemaRef,
        rows: ClientRows,
    ) -> Result<u64, EngineError> {
        let name = table_name(table)?;
        self.append_behind(gate, name, schema, rows).await
    }

    /// The columns of a table, a view or attached rows, if there are any of that name.
    ///
    /// # Errors
    /// A name that can't be read.
    pub async fn columns_of(&self, table: &str) -> Result<Option<SchemaRef>, EngineError> {
        let provider = self.provider(&table_name(table)?).await?;
        Ok(provider.map(|provider| provider.schema()))
    }
}

/// A name as SQL writes it: `t`, `schema.t` or `"T"`.
pub(super) fn table_name(text: &str) -> Result<TableReference, SqlError> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, left) = match rest
            .strip_prefix('"')
            .and_then(|inner| inner.split_once('"'))
        {
            Some((quoted, left)) => (Ident::with_quote('"', quoted), left),
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (Ident::new(&rest[..end]), &rest[end..])
            }
        };
        parts.push(part);
        match left.strip_prefix('.') {
            Some(left) => rest = left,
            None if left.is_empty() => return table_reference(&parts.into()),
            None => {
                let message = format!("`{text}` is no name of a table");
                return Err(SqlError::Syntax { message });
            }
        }
    }
}

/// The values of one row as those of parameters, `$1` and so on.
///
/// # Errors
/// A row or a type that there is not.
pub fn parameters_of_row(rows: &RecordBatch, row: usize) -> Result<Vec<ScalarValue>, EngineError> {
    let columns = rows.columns().iter();
    let values = columns.map(|column| ScalarValue::try_from_array(column, row));
    Ok(values.collect::<Result<_>>()?)
}

/// The rows in as many runs as there are threads, each in slices that operators can take.
fn partitions(batches: &[RecordBatch], threads: usize) -> Vec<Vec<RecordBatch>> {
    let slices: Vec<RecordBatch> = batches
        .iter()
        .flat_map(|batch| slices(batch, SLICE_ROWS))
        .collect();
    let each = slices.len().div_ceil(threads.max(1)).max(1);
    let partitions: Vec<Vec<RecordBatch>> = slices.chunks(each).map(<[_]>::to_vec).collect();
    match partitions.is_empty() {
        true => vec![Vec::new()],
        false => partitions,
    }
}
