//! What the transactions need of a database, whichever way it is reached.

use super::error::Failure;
use super::schema::Table;
use super::statement::Statement;
use super::value::{Row, Value};

/// Rows of a table, part by part.
pub type Parts = Box<dyn Iterator<Item = Vec<Vec<Value>>> + Send>;

/// A session that runs one transaction after another.
pub trait Connection: Send {
    /// Begins a transaction.
    fn begin(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Commits it.
    fn commit(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Undoes it, also one that has failed.
    fn roll_back(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// The rows of a statement that is given as text.
    fn query(&mut self, sql: &str) -> impl Future<Output = Result<Vec<Row>, Failure>> + Send;

    /// The rows of a query.
    fn rows(
        &mut self,
        statement: Statement,
        parameters: &[Value],
    ) -> impl Future<Output = Result<Vec<Row>, Failure>> + Send;

    /// How many rows a statement has changed.
    fn change(
        &mut self,
        statement: Statement,
        parameters: &[Value],
    ) -> impl Future<Output = Result<u64, Failure>> + Send;

    /// The only row of a query.
    fn row(
        &mut self,
        statement: Statement,
        parameters: &[Value],
    ) -> impl Future<Output = Result<Row, Failure>> + Send {
        async move {
            let mut rows = self.rows(statement, parameters).await?;
            rows.pop().ok_or_else(|| Failure::unexpected("a row", None))
        }
    }
}

/// A database.
pub trait Database: Clone + Send + Sync + 'static {
    /// What a terminal has.
    type Connection: Connection + 'static;

    /// A new session.
    fn connect(&self) -> impl Future<Output = Result<Self::Connection, Failure>> + Send;

    /// Runs statements whose answers are not needed.
    fn run(&self, sql: &str) -> impl Future<Output = Result<(), Failure>> + Send;

    /// The rows of a query.
    fn query(&self, sql: &str) -> impl Future<Output = Result<Vec<Row>, Failure>> + Send;

    /// Fills a table, in one transaction.
    fn fill(&self, table: Table, parts: Parts) -> impl Future<Output = Result<(), Failure>> + Send;
}
