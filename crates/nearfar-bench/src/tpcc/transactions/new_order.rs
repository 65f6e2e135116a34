//! A customer orders (clause 2.4).

use rust_decimal::Decimal;

use super::{End, Order, values};
use crate::tpcc::connection::Connection;
use crate::tpcc::error::Failure;
use crate::tpcc::input::{Line, NewOrder};
use crate::tpcc::statement::Statement;
use crate::tpcc::value::Value;

/// Runs it but for its commit.
pub async fn run<C: Connection>(
    connection: &mut C,
    warehouse: i32,
    input: &NewOrder,
    time_us: i64,
) -> Result<End, Failure> {
    let (district, customer) = (input.district, input.customer);
    let of_district = values([warehouse, district]);
    let tax = connection
        .row(Statement::WarehouseTax, &values([warehouse]))
        .await?
        .number(0)?;
    connection
        .change(Statement::NextOrder, &of_district)
        .await?;
    let row = connection.row(Statement::District, &of_district).await?;
    let (district_tax, number) = (row.number(0)?, row.int(1)? - 1);
    let terms = values([warehouse, district, customer]);
    let discount = connection
        .row(Statement::CustomerTerms, &terms)
        .await?
        .number(0)?;
    let key = (warehouse, district, number);
    add_order(connection, key, input, time_us).await?;
    let mut sum = Decimal::ZERO;
    for (at, line) in in_lock_order(&input.lines) {
        match add_line(connection, key, (at, line)).await? {
            Some(amount) => sum += amount,
            None => return Ok(End::RolledBack),
        }
    }
    let total = sum * (Decimal::ONE - discount) * (Decimal::ONE + tax + district_tax);
    Ok(End::Ordered(Order { key, total }))
}

/// The lines with their numbers, in the order in which all orders lock stocks. An item that there is not comes
/// last: its order has done all of its work when it is rolled back (clause 2.4.2.3).
fn in_lock_order(lines: &[Line]) -> Vec<(i32, Line)> {
    let mut numbered: Vec<(i32, Line)> = (1..).zip(lines.iter().copied()).collect();
    numbered.sort_by_key(|(_, line)| (line.supplier, line.item));
    let last_item = |(_, line): &(i32, Line)| line.item;
    if let Some(at) = (0..numbered.len()).max_by_key(|at| last_item(&numbered[*at])) {
        let last = numbered.remove(at);
        numbered.push(last);
    }
    numbered
}

async fn add_order<C: Connection>(
    connection: &mut C,
    (warehouse, district, number): (i32, i32, i32),
    input: &NewOrder,
    time_us: i64,
) -> Result<(), Failure> {
    let is_local = input.lines.iter().all(|line| line.supplier == warehouse);
    let order = [
        warehouse.into(),
        district.into(),
        number.into(),
        input.customer.into(),
        Value::Time(time_us),
        (input.lines.len() as i32).into(),
        i32::from(is_local).into(),
    ];
    connection.change(Statement::InsertOrder, &order).await?;
    let new = values([warehouse, district, number]);
    connection.change(Statement::InsertNewOrder, &new).await?;
    Ok(())
}

/// Adds a line. What it costs; none where there is no such item.
async fn add_line<C: Connection>(
    connection: &mut C,
    (warehouse, district, number): (i32, i32, i32),
    (at, line): (i32, Line),
) -> Result<Option<Decimal>, Failure> {
    let item = connection
        .rows(Statement::Item, &values([line.item]))
        .await?;
    let Some(item) = item.first() else {
        return Ok(None);
    };
    let price = item.number(0)?;
    let is_remote = i32::from(line.supplier != warehouse);
    let taken = values([line.quantity, is_remote, line.supplier, line.item]);
    connection.change(Statement::TakeStock, &taken).await?;
    let place = values([line.supplier, line.item]);
    let of_district = Statement::Stock(district as u8);
    let stock = connection.row(of_district, &place).await?;
    let amount = price * Decimal::from(line.quantity);
    let row = [
        warehouse.into(),
        district.into(),
        number.into(),
        at.into(),
        line.item.into(),
        line.supplier.into(),
        line.quantity.into(),
        amount.into(),
        stock.text(2)?.into(),
    ];
    connection.change(Statement::InsertLine, &row).await?;
    Ok(Some(amount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stocks_are_locked_by_number_and_an_unknown_item_comes_last() {
        let line = |item, supplier| Line {
            item,
            supplier,
            quantity: 1,
        };
        let lines = [line(9, 2), line(3, 2), line(101, 1), line(7, 1)];
        let items: Vec<(i32, i32)> = in_lock_order(&lines)
            .iter()
            .map(|(at, line)| (*at, line.item))
            .collect();
        assert_eq!(items, [(4, 7), (2, 3), (1, 9), (3, 101)]);
    }
}
