//! Transactions of two sessions: each reads what was committed when it began, and of two that change the
//! same row, the first to commit wins. The other one is run again.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use nearfar_sql::engine::{Engine, EngineOptions, Session, StatementResult};
use nearfar_sql::error::EngineError;
use nearfar_table::transaction::TransactionError;
use nearfar_topology::Topology;

const TAKE_TEN: &str = "UPDATE account SET cents = cents - 10 WHERE id = 1";

#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::new(EngineOptions::new(Topology::this_machine()?))?;
    let (one, other) = (engine.session(), engine.session());
    one.execute("CREATE TABLE account (id BIGINT, cents BIGINT)")
        .await?;
    one.execute("INSERT INTO account VALUES (1, 100), (2, 50)")
        .await?;

    // Nobody sees what is not committed.
    one.execute("BEGIN").await?;
    one.execute(TAKE_TEN).await?;
    assert_eq!((cents(&one).await?, cents(&other).await?), (90, 100));

    // Who reads one snapshot must not change what another one has changed since.
    other
        .execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        .await?;
    one.execute("COMMIT").await?;
    match other.execute(TAKE_TEN).await {
        Err(EngineError::Transaction(TransactionError::Conflict { table })) => {
            println!("another transaction has changed {table}: this one is run again");
        }
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("both took from the same row".into()),
    }
    other.execute("ROLLBACK").await?;
    other.execute(TAKE_TEN).await?;
    println!("left: {} cents", cents(&one).await?);
    assert_eq!(cents(&one).await?, 80);
    Ok(())
}

/// What the first account has, as a session sees it.
async fn cents(session: &Session) -> Result<i64, Box<dyn Error>> {
    let mut results = session
        .execute("SELECT cents FROM account WHERE id = 1")
        .await?;
    let Some(StatementResult::Rows(rows)) = results.pop() else {
        return Err("a query gives rows".into());
    };
    let batches = rows.collect().await?;
    let column = batches.first().ok_or("a row")?.column(0);
    Ok(column.as_primitive::<Int64Type>().value(0))
}
