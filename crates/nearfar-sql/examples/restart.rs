//! A data directory: what was committed is there when the next engine opens it.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use arrow::util::pretty::pretty_format_batches;
use nearfar_durable::log::DataOptions;
use nearfar_sql::engine::{Engine, EngineOptions, StatementResult};
use nearfar_topology::Topology;

#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("shop");

    let engine = open(&directory)?;
    let session = engine.session();
    session
        .execute("CREATE TABLE event (id BIGINT, what VARCHAR)")
        .await?;
    // Once this has returned, the rows are on disk: a loss of power does not take them.
    session
        .execute("INSERT INTO event VALUES (1, 'opened'), (2, 'sold')")
        .await?;
    // What is not committed is gone with its session.
    session.execute("BEGIN").await?;
    session
        .execute("INSERT INTO event VALUES (3, 'forgotten')")
        .await?;
    drop(session);
    engine.close();
    drop(engine);

    let engine = open(&directory)?;
    let query = "SELECT id, what FROM event ORDER BY id";
    let mut results = engine.session().execute(query).await?;
    let Some(StatementResult::Rows(rows)) = results.pop() else {
        return Err("a query gives rows".into());
    };
    let batches = rows.collect().await?;
    println!("{}", pretty_format_batches(&batches)?);
    assert_eq!(
        batches.iter().map(|batch| batch.num_rows()).sum::<usize>(),
        2
    );
    Ok(())
}

fn open(directory: &Path) -> Result<Arc<Engine>, Box<dyn Error>> {
    let options = EngineOptions {
        data: Some(DataOptions::new(directory)),
        ..EngineOptions::new(Topology::this_machine()?)
    };
    Ok(Engine::new(options)?)
}
