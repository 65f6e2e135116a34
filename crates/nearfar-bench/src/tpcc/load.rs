//! Tables are made and filled.

use super::connection::Database;
use super::error::Failure;
use super::rows::{DISTRICTS, Rows};
use super::schema::{INDEXES, Table};

/// Makes all tables and their indexes, and fills them. `follow` is told which is next. `settle` are statements for
/// when all rows are there.
pub async fn load<D: Database>(
    database: &D,
    rows: Rows,
    settle: &[&str],
    mut follow: impl FnMut(&'static str),
) -> Result<(), Failure> {
    for table in Table::ALL {
        follow(table.name());
        database.run(&table.create()).await?;
        let warehouses = 1..=rows.warehouses(table);
        let places =
            warehouses.flat_map(|warehouse| (1..=DISTRICTS).map(move |part| (warehouse, part)));
        let parts = places.map(move |(warehouse, part)| rows.part(table, warehouse, part));
        database.fill(table, Box::new(parts)).await?;
    }
    for statement in INDEXES.iter().chain(settle) {
        database.run(statement).await?;
    }
    Ok(())
}
