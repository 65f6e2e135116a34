//! Items that were sold lately and of which few are left (clause 2.8).

use super::values;
use crate::tpcc::connection::Connection;
use crate::tpcc::error::Failure;
use crate::tpcc::statement::Statement;

/// The last orders of the district that are looked at.
const ORDERS: i32 = 20;

/// Runs it but for its commit.
pub async fn run<C: Connection>(
    connection: &mut C,
    (warehouse, district): (i32, i32),
    threshold: i32,
) -> Result<(), Failure> {
    let of_district = values([warehouse, district]);
    let row = connection.row(Statement::District, &of_district).await?;
    let next = row.int(1)?;
    let orders = values([warehouse, district, next - ORDERS, next, threshold]);
    connection
        .row(Statement::StockLevel, &orders)
        .await?
        .long(0)?;
    Ok(())
}
