//! Embeds the engine: a table, its columns on two tiers, a query, and what each tier holds.
//!
//! The far tier is emulated after a published machine, so that this runs everywhere. On a machine with
//! several tiers, leave the profile out.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use arrow::util::pretty::pretty_format_batches;
use nearfar_memory::TierId;
use nearfar_sql::engine::{Engine, EngineOptions, Session, StatementResult};
use nearfar_topology::units::Bytes;
use nearfar_topology::{Profile, Topology};

#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::new(EngineOptions {
        profile: Some(Profile::builtin("cxl-blades-4")?),
        ..EngineOptions::new(Topology::this_machine()?)
    })?;
    let session = engine.session();

    // A table with all of its columns near.
    run(
        &session,
        "CREATE TABLE orders AS
         SELECT value AS id, value % 100 AS customer, value * 3 AS cents
         FROM generate_series(1, 200000)",
    )
    .await?;

    // Columns move while queries run. A column that is hardly read can lie far.
    run(&session, "ALTER TABLE orders SET TABLESPACE far").await?;
    run(
        &session,
        "ALTER TABLE orders ALTER COLUMN customer SET TABLESPACE near",
    )
    .await?;

    let far = engine.tier("far").ok_or("there is a far tier")?;
    for tier in [TierId::NEAR, far] {
        let held_bytes = engine.system().usage(tier).region_bytes;
        let name = &engine.system().info(tier).name;
        println!("{name}: {}", Bytes(held_bytes));
        assert!(held_bytes > 0, "nothing is {name}");
    }

    run(
        &session,
        "SELECT customer, sum(cents) AS cents FROM orders
         WHERE customer < 3 GROUP BY customer ORDER BY customer",
    )
    .await
}

/// Runs a script and prints what it gives.
async fn run(session: &Session, sql: &str) -> Result<(), Box<dyn Error>> {
    for result in session.execute(sql).await? {
        match result {
            StatementResult::Command(tag) => println!("{tag}"),
            StatementResult::Rows(rows) => {
                println!("{}", pretty_format_batches(&rows.collect().await?)?);
            }
        }
    }
    Ok(())
}
