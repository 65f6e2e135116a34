//! The oldest order of each district is delivered (clause 2.7).

use super::values;
use crate::tpcc::connection::Connection;
use crate::tpcc::error::Failure;
use crate::tpcc::rows::DISTRICTS;
use crate::tpcc::statement::Statement;
use crate::tpcc::value::Value;

/// Runs it but for its commit: all districts in one transaction, and immediately, not from a queue.
pub async fn run<C: Connection>(
    connection: &mut C,
    warehouse: i32,
    carrier: i32,
    time_us: i64,
) -> Result<(), Failure> {
    for district in 1..=DISTRICTS {
        if let Some(order) = taken_order(connection, warehouse, district).await? {
            deliver(connection, [warehouse, district, order], carrier, time_us).await?;
        }
    }
    Ok(())
}

/// The oldest order of a district that is not delivered and that nobody else delivers, which is so no longer. None
/// where all are delivered.
async fn taken_order<C: Connection>(
    connection: &mut C,
    warehouse: i32,
    district: i32,
) -> Result<Option<i32>, Failure> {
    loop {
        let of_district = values([warehouse, district]);
        let oldest = connection
            .rows(Statement::OldestNewOrder, &of_district)
            .await?;
        let Some(row) = oldest.first() else {
            return Ok(None);
        };
        let order = row.int(0)?;
        let of_order = values([warehouse, district, order]);
        // Another delivery may have taken it while this one waited for its row.
        if connection
            .change(Statement::DeleteNewOrder, &of_order)
            .await?
            == 1
        {
            return Ok(Some(order));
        }
    }
}

async fn deliver<C: Connection>(
    connection: &mut C,
    order: [i32; 3],
    carrier: i32,
    time_us: i64,
) -> Result<(), Failure> {
    let of_order = values(order);
    let row = connection.row(Statement::OrderCustomer, &of_order).await?;
    let customer = row.int(0)?;
    let carried = [&[carrier.into()], &of_order[..]].concat();
    connection.change(Statement::CarryOrder, &carried).await?;
    let delivered = [&[Value::Time(time_us)], &of_order[..]].concat();
    connection
        .change(Statement::DeliverLines, &delivered)
        .await?;
    let row = connection.row(Statement::OrderAmount, &of_order).await?;
    let amount = row.number(0)?;
    let [warehouse, district, _] = order;
    let charged = [
        amount.into(),
        warehouse.into(),
        district.into(),
        customer.into(),
    ];
    connection
        .change(Statement::ChargeCustomer, &charged)
        .await?;
    Ok(())
}
