//! What became of a customer's last order (clause 2.6).

use super::{customer_number, values};
use crate::tpcc::connection::Connection;
use crate::tpcc::error::Failure;
use crate::tpcc::input::Customer;
use crate::tpcc::statement::Statement;

/// Runs it but for its commit.
pub async fn run<C: Connection>(
    connection: &mut C,
    (warehouse, district): (i32, i32),
    customer: &Customer,
) -> Result<(), Failure> {
    let customer = customer_number(connection, (warehouse, district), customer).await?;
    let of_customer = values([warehouse, district, customer]);
    connection.row(Statement::Customer, &of_customer).await?;
    let order = connection.row(Statement::LastOrder, &of_customer).await?;
    let of_order = values([warehouse, district, order.int(0)?]);
    let lines = connection.rows(Statement::Lines, &of_order).await?;
    match lines.len() {
        5..=15 => Ok(()),
        count => Err(Failure::Answer {
            expected: "5 to 15 lines",
            found: format!("{count} lines"),
        }),
    }
}
