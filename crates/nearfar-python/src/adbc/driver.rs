//! The driver and its databases.

use std::sync::Arc;

use adbc_core::error::Result;
use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};
use adbc_core::{Database as AdbcDatabase, Driver, Optionable};

use super::connection::NearfarConnection;
use super::{no_option, text_of, told};
use crate::database::{Database, OpenOptions};
use crate::failure::Failure;

/// What all of the driver's own options begin with.
const PREFIX: &str = "nearfar.";

/// The driver.
#[derive(Default)]
pub struct NearfarDriver;

impl Driver for NearfarDriver {
    type DatabaseType = NearfarDatabase;

    fn new_database(&mut self) -> Result<NearfarDatabase> {
        self.new_database_with_opts([])
    }

    fn new_database_with_opts(
        &mut self,
        options: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> Result<NearfarDatabase> {
        let mut open = OpenOptions::default();
        let mut id = None;
        for (key, value) in options {
            let key = key.as_ref();
            let text = text_of(key, value)?;
            match key.strip_prefix(PREFIX).unwrap_or(key) {
                "uri" | "path" if text.is_empty() || text == ":memory:" => {}
                "uri" | "path" => open.path = Some(text.into()),
                "profile" => open.profile = Some(text),
                "pool" => open.pool = Some(text.into()),
                "pool_bytes" => open.pool_bytes = Some(text),
                "memory_limit" => open.memory_limit = Some(text),
                "threads" => open.threads = Some(number(key, &text)?),
                "database" => id = Some(number(key, &text)? as u64),
                other => match other.strip_prefix("budget.") {
                    Some(tier) => open.budgets.push((tier.to_owned(), text)),
                    None => return no_option(key),
                },
            }
        }
        let database = match id {
            Some(id) => Database::of_id(id),
            None => Database::open(&open),
        };
        Ok(NearfarDatabase(database.map_err(told)?))
    }
}

fn number(key: &str, text: &str) -> Result<usize> {
    let wrong = || Failure::Argument(format!("option {key} is a number, and not {text:?}"));
    text.parse().map_err(|_| told(wrong()))
}

/// A database that is open.
pub struct NearfarDatabase(Arc<Database>);

impl AdbcDatabase for NearfarDatabase {
    type ConnectionType = NearfarConnection;

    fn new_connection(&self) -> Result<NearfarConnection> {
        NearfarConnection::new(&self.0)
    }

    fn new_connection_with_opts(
        &self,
        options: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<NearfarConnection> {
        let mut connection = self.new_connection()?;
        for (key, value) in options {
            connection.set_option(key, value)?;
        }
        Ok(connection)
    }
}

impl Optionable for NearfarDatabase {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, _: OptionValue) -> Result<()> {
        no_option(key.as_ref())
    }

    fn get_option_string(&self, key: OptionDatabase) -> Result<String> {
        match key.as_ref() {
            "nearfar.database" => Ok(self.0.id().to_string()),
            other => no_option(other),
        }
    }

    fn get_option_bytes(&self, key: OptionDatabase) -> Result<Vec<u8>> {
        no_option(key.as_ref())
    }

    fn get_option_int(&self, key: OptionDatabase) -> Result<i64> {
        no_option(key.as_ref())
    }

    fn get_option_double(&self, key: OptionDatabase) -> Result<f64> {
        no_option(key.as_ref())
    }
}
