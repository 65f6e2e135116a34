//! Connections: sessions with a transaction of their own, if they do not commit by themselves.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use adbc_core::error::Result;
use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionValue};
use adbc_core::schemas::GET_TABLE_TYPES_SCHEMA;
use adbc_core::{CancelHandle, Connection, Optionable};
use arrow::array::{RecordBatch, RecordBatchReader, StringArray};
use arrow::datatypes::Schema;
use nearfar_sql::engine::{CATALOG, PUBLIC, TransactionState};

use super::objects::{Wanted, objects};
use super::statement::NearfarStatement;
use super::{info, no_option, reader_of, text_of, told, unsupported};
use crate::client::{Client, quoted};
use crate::database::Database;
use crate::failure::Failure;

type Reader = Box<dyn RecordBatchReader + Send + 'static>;

/// Whether what runs is to be given up.
#[derive(Debug, Clone, Default)]
pub struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    /// Takes it back, where something new begins.
    pub fn forget(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl CancelHandle for Cancelled {
    fn try_cancel(&self) -> Result<()> {
        self.0.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// A connection.
pub struct NearfarConnection {
    client: Client,
    cancelled: Cancelled,
    commits_itself: Arc<AtomicBool>,
}

impl NearfarConnection {
    /// A new session of `database`.
    pub fn new(database: &Arc<Database>) -> Result<Self> {
        let cancelled = Cancelled::default();
        let asked = cancelled.clone();
        let interrupt = Arc::new(move |_: u64| match asked.0.load(Ordering::Relaxed) {
            true => Err(Failure::Interrupted),
            false => Ok(()),
        });
        Ok(Self {
            client: Client::new(Arc::clone(database), interrupt).map_err(told)?,
            cancelled,
            commits_itself: Arc::new(AtomicBool::new(true)),
        })
    }

    /// Ends the transaction that is open, if there is one.
    fn end(&self, command: &str) -> Result<()> {
        match self.client.session().transaction_state() {
            TransactionState::Idle => Ok(()),
            _ => self.client.command(command).map_err(told),
        }
    }
}

impl Optionable for NearfarConnection {
    type Option = OptionConnection;

    fn set_option(&mut self, key: OptionConnection, value: OptionValue) -> Result<()> {
        match key {
            OptionConnection::AutoCommit => {
                let commits_itself = text_of(key.as_ref(), value)? == "true";
                if commits_itself {
                    self.end("COMMIT")?;
                }
                self.commits_itself.store(commits_itself, Ordering::Relaxed);
                Ok(())
            }
            _ => no_option(key.as_ref()),
        }
    }

    fn get_option_string(&self, key: OptionConnection) -> Result<String> {
        match key {
            OptionConnection::AutoCommit => {
                Ok(self.commits_itself.load(Ordering::Relaxed).to_string())
            }
            OptionConnection::CurrentCatalog => Ok(CATALOG.to_owned()),
            OptionConnection::CurrentSchema => Ok(PUBLIC.to_owned()),
            _ => no_option(key.as_ref()),
        }
    }

    fn get_option_bytes(&self, key: OptionConnection) -> Result<Vec<u8>> {
        no_option(key.as_ref())
    }

    fn get_option_int(&self, key: OptionConnection) -> Result<i64> {
        no_option(key.as_ref())
    }

    fn get_option_double(&self, key: OptionConnection) -> Result<f64> {
        no_option(key.as_ref())
    }
}

impl Connection for NearfarConnection {
    type StatementType = NearfarStatement;

    fn new_statement(&mut self) -> Result<NearfarStatement> {
        Ok(NearfarStatement::new(
            self.client.clone(),
            self.cancelled.clone(),
            Arc::clone(&self.commits_itself),
        ))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(self.cancelled.clone())
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> Result<Reader> {
        Ok(reader_of(info::of_driver(codes.as_ref())?))
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> Result<Reader> {
        let wanted = Wanted {
            depth,
            catalog,
            schema: db_schema,
            table: table_name,
            types: table_type,
            column: column_name,
        };
        Ok(reader_of(objects(&self.client, &wanted)?))
    }

    fn get_table_schema(
        &self,
        _catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: &str,
    ) -> Result<Schema> {
        let name = match db_schema {
            Some(schema) => format!("{}.{}", quoted(schema), quoted(table_name)),
            None => quoted(table_name),
        };
        let missing = || told(Failure::Argument(format!("table {name} does not exist")));
        let schema = self.client.columns_of(&name).map_err(told)?;
        Ok(schema.ok_or_else(missing)?.as_ref().clone())
    }

    fn get_table_types(&self) -> Result<Reader> {
        let types = StringArray::from(vec!["BASE TABLE", "VIEW"]);
        let schema = GET_TABLE_TYPES_SCHEMA.clone();
        Ok(reader_of(RecordBatch::try_new(
            schema,
            vec![Arc::new(types)],
        )?))
    }

    fn get_statistic_names(&self) -> Result<Reader> {
        unsupported("a list of statistics")
    }

    fn get_statistics(
        &self,
        _: Option<&str>,
        _: Option<&str>,
        _: Option<&str>,
        _: bool,
    ) -> Result<Reader> {
        unsupported("reading statistics")
    }

    fn commit(&mut self) -> Result<()> {
        self.end("COMMIT")
    }

    fn rollback(&mut self) -> Result<()> {
        self.end("ROLLBACK")
    }

    fn read_partition(&self, _: impl AsRef<[u8]>) -> Result<Reader> {
        unsupported("reading partitions")
    }
}
