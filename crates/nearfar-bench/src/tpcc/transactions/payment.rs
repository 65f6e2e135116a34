//! A customer pays (clause 2.5).

use super::{customer_number, values};
use crate::tpcc::connection::Connection;
use crate::tpcc::error::Failure;
use crate::tpcc::input::Payment;
use crate::tpcc::statement::Statement;
use crate::tpcc::value::{Row, Value};

/// The most that is kept of a customer's data.
const DATA_BYTES_MAX: usize = 500;

/// Runs it but for its commit. The row of the warehouse, which all of its terminals want, is locked last.
pub async fn run<C: Connection>(
    connection: &mut C,
    warehouse: i32,
    input: &Payment,
    time_us: i64,
) -> Result<(), Failure> {
    let customer = customer_number(connection, input.home, &input.customer).await?;
    let of_customer = values([input.home.0, input.home.1, customer]);
    let with_amount = |rest: &[Value]| [&[input.amount.into()], rest].concat();
    let pay = with_amount(&of_customer);
    connection.change(Statement::PayCustomer, &pay).await?;
    let row = connection.row(Statement::Customer, &of_customer).await?;
    if row.text(10)? == "BC" {
        note(connection, (warehouse, customer), input, &of_customer).await?;
    }
    let of_district = values([warehouse, input.district]);
    let district = with_amount(&of_district);
    connection.change(Statement::PayDistrict, &district).await?;
    let district = connection
        .row(Statement::DistrictAddress, &of_district)
        .await?;
    let of_warehouse = values([warehouse]);
    let paid = with_amount(&of_warehouse);
    connection.change(Statement::PayWarehouse, &paid).await?;
    let named = connection.row(Statement::Warehouse, &of_warehouse).await?;
    let history = history((warehouse, customer), input, time_us, (&named, &district))?;
    connection
        .change(Statement::InsertHistory, &history)
        .await?;
    Ok(())
}

/// Puts the payment in front of what is known of a customer with bad credit.
async fn note<C: Connection>(
    connection: &mut C,
    (warehouse, customer): (i32, i32),
    input: &Payment,
    of_customer: &[Value],
) -> Result<(), Failure> {
    let row = connection.row(Statement::CustomerData, of_customer).await?;
    let mut data = format!(
        "{customer} {} {} {} {warehouse} {} {}",
        input.home.1,
        input.home.0,
        input.district,
        input.amount,
        row.text(0)?
    );
    data.truncate(DATA_BYTES_MAX);
    let changed = [&[data.into()], of_customer].concat();
    connection
        .change(Statement::PayCustomerBad, &changed)
        .await?;
    Ok(())
}

fn history(
    (warehouse, customer): (i32, i32),
    input: &Payment,
    time_us: i64,
    (named, district): (&Row, &Row),
) -> Result<[Value; 8], Failure> {
    Ok([
        customer.into(),
        input.home.1.into(),
        input.home.0.into(),
        input.district.into(),
        warehouse.into(),
        Value::Time(time_us),
        input.amount.into(),
        format!("{}    {}", named.text(0)?, district.text(0)?).into(),
    ])
}
