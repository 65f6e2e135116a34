//! The five transactions (clauses 2.4 to 2.8), as functions over a connection.
//!
//! Rows are locked by the updates that change them: an update comes before the query of what it has made. All
//! transactions lock in one order, customers before districts before warehouses, districts before stocks and these
//! by number, so that the ones that run often never wait for each other in a circle.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use rust_decimal::Decimal;

use super::connection::Connection;
use super::error::Failure;
use super::input::{Customer, Input};
use super::statement::Statement;
use super::value::Value;

/// How a transaction has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It is committed.
    Committed,
    /// An order is committed.
    Ordered(Order),
    /// It is rolled back, as its input asks for.
    RolledBack,
}

/// An order that is acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its key: warehouse, district and number.
    pub key: (i32, i32, i32),
    /// What it costs.
    pub total: Decimal,
}

/// Runs a transaction to its end. One that fails is left open, to be rolled back.
pub async fn run<C: Connection>(
    connection: &mut C,
    warehouse: i32,
    input: &Input,
    time_us: i64,
) -> Result<End, Failure> {
    connection.begin().await?;
    let end = match input {
        Input::NewOrder(input) => new_order::run(connection, warehouse, input, time_us).await?,
        Input::Payment(input) => {
            payment::run(connection, warehouse, input, time_us).await?;
            End::Committed
        }
        Input::OrderStatus { district, customer } => {
            order_status::run(connection, (warehouse, *district), customer).await?;
            End::Committed
        }
        Input::Delivery { carrier } => {
            delivery::run(connection, warehouse, *carrier, time_us).await?;
            End::Committed
        }
        Input::StockLevel {
            district,
            threshold,
        } => {
            stock_level::run(connection, (warehouse, *district), *threshold).await?;
            End::Committed
        }
    };
    match end {
        End::RolledBack => connection.roll_back().await?,
        _ => connection.commit().await?,
    }
    Ok(end)
}

/// Parameters.
fn values<const N: usize>(values: [i32; N]) -> [Value; N] {
    values.map(Value::Int)
}

/// The number of a customer. Of those with a name, the one in the middle, rounded up (clause 2.5.2.2).
async fn customer_number<C: Connection>(
    connection: &mut C,
    (warehouse, district): (i32, i32),
    customer: &Customer,
) -> Result<i32, Failure> {
    let name = match customer {
        Customer::Number(number) => return Ok(*number),
        Customer::Name(name) => name,
    };
    let parameters = [warehouse.into(), district.into(), name.as_str().into()];
    let rows = connection
        .rows(Statement::CustomersByName, &parameters)
        .await?;
    match rows.get(rows.len().div_ceil(2).saturating_sub(1)) {
        Some(row) => row.int(0),
        None => Err(Failure::unexpected("a customer", None)),
    }
}
