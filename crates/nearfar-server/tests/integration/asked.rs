//! What a statement is answered with over the wire, as text.

use tokio_postgres::{Client, SimpleQueryMessage};

/// An answer: rows of values as text, null where there are none.
pub type Rows = Vec<Vec<Option<String>>>;

/// A statement that was refused, or failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The SQLSTATE, where there is one.
    pub code: Option<String>,
    pub message: String,
}

/// The rows of a statement, or none of one that has none.
pub async fn ask(client: &Client, sql: &str) -> Result<Rows, Failure> {
    match client.simple_query(sql).await {
        Ok(messages) => Ok(messages.into_iter().filter_map(row_of).collect()),
        Err(error) => Err(Failure {
            code: error.code().map(|code| code.code().to_owned()),
            message: error
                .as_db_error()
                .map_or_else(|| error.to_string(), |error| error.message().to_owned()),
        }),
    }
}

fn row_of(message: SimpleQueryMessage) -> Option<Vec<Option<String>>> {
    let SimpleQueryMessage::Row(row) = message else {
        return None;
    };
    let value = |index| row.get(index).map(str::to_owned);
    Some((0..row.len()).map(value).collect())
}
