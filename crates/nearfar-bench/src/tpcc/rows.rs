//! The rows that tables have at first (clause 4.3.3).

use rust_decimal::Decimal;

use super::random::{Constants, Random, last_name};
use super::schema::Table;
use super::value::{Value, cents};

/// Districts of a warehouse, and parts in which the rows of a table for a warehouse are made.
pub const DISTRICTS: i32 = 10;
/// What `h_amount`, and payments of a customer, are at first.
const FIRST_PAYMENT_CENTS: i32 = 1000;

/// How many rows tables have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Warehouses.
    pub warehouses: i32,
    /// Items, of which each warehouse has a stock.
    pub items: i32,
    /// Customers of each district, who have one order each.
    pub customers: i32,
}

impl Sizes {
    /// Those of the specification, but for one of `shrink` items and customers.
    pub fn new(warehouses: u32, shrink: u32) -> Self {
        let share = |full: u32| (full / shrink.max(1)).max(30) as i32;
        Self {
            warehouses: warehouses.clamp(1, 1 << 20) as i32,
            items: share(100_000),
            customers: share(3000),
        }
    }

    /// Orders of a district that are delivered at first.
    pub fn delivered(self) -> i32 {
        self.customers * 7 / 10
    }

    /// The highest number of a last name.
    pub fn last_name_max(self) -> i32 {
        self.customers.min(1000) - 1
    }
}

/// What makes the rows.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// How many.
    pub sizes: Sizes,
    /// The constants of names.
    pub constants: Constants,
    /// The seed of all of them.
    pub seed: u64,
    /// When they are made, in microseconds since 1970.
    pub time_us: i64,
}

impl Rows {
    /// The warehouses that a table has rows for; all items belong to the first.
    pub fn warehouses(&self, table: Table) -> i32 {
        match table {
            Table::Item => 1,
            _ => self.sizes.warehouses,
        }
    }

    /// The rows of a table for a warehouse and, from 1, one of [`DISTRICTS`] parts, which are districts where the
    /// table has these.
    pub fn part(&self, table: Table, warehouse: i32, part: i32) -> Vec<Vec<Value>> {
        let mut random = self.random(table as u64, warehouse, part);
        match table {
            Table::Item => self
                .items_of(part)
                .map(|item| item_row(&mut random, item))
                .collect(),
            Table::Stock => self
                .items_of(part)
                .map(|item| stock_row(&mut random, warehouse, item))
                .collect(),
            Table::Warehouse if part > 1 => Vec::new(),
            Table::Warehouse => vec![self.warehouse_row(&mut random, warehouse)],
            Table::District => vec![self.district_row(&mut random, warehouse, part)],
            Table::Customer => (1..=self.sizes.customers)
                .map(|customer| self.customer_row(&mut random, (warehouse, part), customer))
                .collect(),
            Table::History => (1..=self.sizes.customers)
                .map(|customer| self.history_row(&mut random, (warehouse, part), customer))
                .collect(),
            Table::Orders => self.order_rows(&mut random, (warehouse, part)),
            Table::NewOrder => (self.sizes.delivered() + 1..=self.sizes.customers)
                .map(|order| [warehouse, part, order].map(Value::Int).into())
                .collect(),
            Table::OrderLine => self.line_rows(&mut random, (warehouse, part)),
        }
    }

    fn random(&self, purpose: u64, warehouse: i32, part: i32) -> Random {
        let place = u64::from(warehouse.unsigned_abs()) << 8 | u64::from(part.unsigned_abs());
        Random::new(self.seed, purpose << 48 | place)
    }

    fn items_of(&self, part: i32) -> std::ops::RangeInclusive<i32> {
        let end = |part: i32| (i64::from(self.sizes.items) * i64::from(part) / 10) as i32;
        end(part - 1) + 1..=end(part)
    }

    fn warehouse_row(&self, random: &mut Random, warehouse: i32) -> Vec<Value> {
        let mut row = vec![warehouse.into(), random.text(6, 10).into()];
        row.extend(address(random));
        row.push(tax(random));
        row.push(cents(FIRST_PAYMENT_CENTS * self.sizes.customers * DISTRICTS).into());
        row
    }

    fn district_row(&self, random: &mut Random, warehouse: i32, district: i32) -> Vec<Value> {
        let mut row = vec![warehouse.into(), district.into(), random.text(6, 10).into()];
        row.extend(address(random));
        row.push(tax(random));
        row.push(cents(FIRST_PAYMENT_CENTS * self.sizes.customers).into());
        row.push((self.sizes.customers + 1).into());
        row
    }

    fn customer_row(
        &self,
        random: &mut Random,
        (warehouse, district): (i32, i32),
        customer: i32,
    ) -> Vec<Value> {
        let name = match customer <= 1000 {
            true => customer - 1,
            false => random.skewed(255, self.constants.loaded_name, (0, 999)),
        };
        let mut row: Vec<Value> = [warehouse, district, customer].map(Value::Int).into();
        row.extend([
            random.text(8, 16).into(),
            "OE".into(),
            last_name(name).into(),
        ]);
        row.extend(address(random));
        let credit = if random.percent(10) { "BC" } else { "GC" };
        row.extend([
            random.digits(16).into(),
            Value::Time(self.time_us),
            credit.into(),
            cents(5_000_000).into(),
            Decimal::new(random.between(0, 5000).into(), 4).into(),
            cents(-FIRST_PAYMENT_CENTS).into(),
            cents(FIRST_PAYMENT_CENTS).into(),
            1.into(),
            0.into(),
            random.text(300, 500).into(),
        ]);
        row
    }

    fn history_row(
        &self,
        random: &mut Random,
        (warehouse, district): (i32, i32),
        customer: i32,
    ) -> Vec<Value> {
        let mut row: Vec<Value> = [customer, district, warehouse, district, warehouse]
            .map(Value::Int)
            .into();
        row.extend([
            Value::Time(self.time_us),
            cents(FIRST_PAYMENT_CENTS).into(),
            random.text(12, 24).into(),
        ]);
        row
    }

    /// The number of lines of each order of a district, which orders and lines agree on.
    fn line_counts(&self, (warehouse, district): (i32, i32)) -> Vec<i32> {
        let mut random = self.random(100, warehouse, district);
        let orders = 0..self.sizes.customers;
        orders.map(|_| random.between(5, 15)).collect()
    }

    fn order_rows(&self, random: &mut Random, place: (i32, i32)) -> Vec<Vec<Value>> {
        let customers = random.permutation(self.sizes.customers);
        let lines = self.line_counts(place);
        let orders = (1..).zip(customers.into_iter().zip(lines));
        let row = |(order, (customer, lines))| {
            let carrier = match order <= self.sizes.delivered() {
                true => random.between(1, 10).into(),
                false => Value::Null,
            };
            vec![
                place.0.into(),
                place.1.into(),
                Value::Int(order),
                Value::Int(customer),
                Value::Time(self.time_us),
                carrier,
                Value::Int(lines),
                1.into(),
            ]
        };
        orders.map(row).collect()
    }

    fn line_rows(&self, random: &mut Random, place: (i32, i32)) -> Vec<Vec<Value>> {
        let mut rows = Vec::new();
        for (order, lines) in (1..).zip(self.line_counts(place)) {
            let is_delivered = order <= self.sizes.delivered();
            for line in 1..=lines {
                let (delivered, amount) = match is_delivered {
                    true => (Value::Time(self.time_us), cents(0)),
                    false => (Value::Null, cents(random.between(1, 999_999))),
                };
                rows.push(vec![
                    place.0.into(),
                    place.1.into(),
                    Value::Int(order),
                    line.into(),
                    random.between(1, self.sizes.items).into(),
                    place.0.into(),
                    delivered,
                    5.into(),
                    amount.into(),
                    random.text(24, 24).into(),
                ]);
            }
        }
        rows
    }
}

fn item_row(random: &mut Random, item: i32) -> Vec<Value> {
    vec![
        item.into(),
        random.between(1, 10_000).into(),
        random.text(14, 24).into(),
        cents(random.between(100, 10_000)).into(),
        random.data().into(),
    ]
}

fn stock_row(random: &mut Random, warehouse: i32, item: i32) -> Vec<Value> {
    let mut row = vec![
        warehouse.into(),
        item.into(),
        random.between(10, 100).into(),
    ];
    row.extend((0..DISTRICTS).map(|_| random.text(24, 24).into()));
    row.extend([0.into(), 0.into(), 0.into(), random.data().into()]);
    row
}

/// Two lines of a street, a city, a state and a zip code.
fn address(random: &mut Random) -> [Value; 5] {
    let lines = [(10, 20), (10, 20), (10, 20), (2, 2)].map(|(low, high)| random.text(low, high));
    let [one, two, city, state] = lines.map(Value::Text);
    [one, two, city, state, random.zip().into()]
}

fn tax(random: &mut Random) -> Value {
    Decimal::new(random.between(0, 2000).into(), 4).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(shrink: u32) -> Rows {
        Rows {
            sizes: Sizes::new(2, shrink),
            constants: Constants::new(3),
            seed: 3,
            time_us: 0,
        }
    }

    #[test]
    fn full_sizes_are_those_of_the_specification() {
        let sizes = Sizes::new(1, 1);
        assert_eq!((sizes.items, sizes.customers), (100_000, 3000));
        assert_eq!((sizes.delivered(), sizes.last_name_max()), (2100, 999));
    }

    #[test]
    fn orders_and_lines_agree_and_every_customer_has_one() {
        let rows = rows(100);
        let orders = rows.part(Table::Orders, 2, 3);
        let lines = rows.part(Table::OrderLine, 2, 3);
        let expected: i32 = orders
            .iter()
            .map(|order| match order[6] {
                Value::Int(lines) => lines,
                _ => 0,
            })
            .sum();
        assert_eq!(lines.len(), expected as usize);
        let mut customers: Vec<_> = orders
            .iter()
            .map(|order| format!("{:?}", order[3]))
            .collect();
        customers.sort();
        customers.dedup();
        assert_eq!(customers.len(), 30);
        let open = orders
            .iter()
            .filter(|order| order[5] == Value::Null)
            .count();
        assert_eq!(open, rows.part(Table::NewOrder, 2, 3).len());
        assert_eq!(open, 9);
    }

    #[test]
    fn the_same_seed_makes_the_same_rows_and_parts_have_all_items() {
        let (one, other) = (rows(100), rows(100));
        for table in Table::ALL {
            assert_eq!(one.part(table, 1, 2), other.part(table, 1, 2));
        }
        let items: usize = (1..=DISTRICTS)
            .map(|part| one.part(Table::Item, 1, part).len())
            .sum();
        assert_eq!(items, 1000);
        assert_ne!(one.part(Table::Item, 1, 1), one.part(Table::Item, 1, 2));
    }
}
