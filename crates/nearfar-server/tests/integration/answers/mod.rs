//! Statements whose answers are written down as PostgreSQL 15 gives them: rows with `|` between values and
//! nothing for null, or `!` and a SQLSTATE.

mod arrays;
mod depth;
mod forms;
mod names;
mod subqueries;

use tokio_postgres::{Client, SimpleQueryMessage};

use super::support::start;

/// The tables of most statements.
const SETUP: &str = "CREATE TABLE t (a int, b int, s text); \
    INSERT INTO t VALUES (1,10,'x'),(2,20,'y'),(3,30,'z'),(NULL,40,NULL),(2,NULL,'y'); \
    CREATE TABLE u (k int, v int, w text); \
    INSERT INTO u VALUES (1,100,'p'),(2,200,'q'),(2,201,'r'),(5,NULL,NULL),(NULL,7,'n'); \
    CREATE TABLE e (k int, v int)";

/// A statement and its answer.
type Answer = (&'static str, &'static str);

/// What a script answers: the rows of all of its queries.
async fn answer(client: &Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Ok(messages) => {
            let rows = messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    let values = (0..row.len()).map(|at| row.get(at).unwrap_or_default());
                    Some(values.collect::<Vec<_>>().join("|"))
                }
                _ => None,
            });
            rows.collect::<Vec<_>>().join("\n")
        }
        Err(error) => {
            let code = error.code().map(|code| code.code().to_owned());
            format!("!{}", code.unwrap_or_else(|| error.to_string()))
        }
    }
}

/// Runs the statements one after another on the tables of `setup`.
async fn check(setup: &str, answers: &[Answer]) {
    let server = start().await;
    let client = server.client().await;
    client.batch_execute(setup).await.expect(setup);
    let mut wrong = String::new();
    for (sql, expected) in answers {
        let found = answer(&client, sql).await;
        // Rows at the end that are nothing but null look like none.
        if found.trim_end_matches('\n') != *expected {
            wrong += &format!("{sql}\n  gave {found:?}\n  not  {expected:?}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The names of a query's columns.
async fn columns(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.expect(sql);
    let names = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::RowDescription(columns) => Some(
            columns
                .iter()
                .map(|column| column.name().to_owned())
                .collect(),
        ),
        _ => None,
    });
    names.unwrap_or_default()
}
