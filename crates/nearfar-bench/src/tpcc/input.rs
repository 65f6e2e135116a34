//! What terminals enter (clauses 2.4.1 to 2.8.1 and 5.2).

use std::time::Duration;

use rust_decimal::Decimal;

use super::random::{Constants, Random, last_name};
use super::rows::{DISTRICTS, Sizes};
use super::value::cents;

/// The five transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A customer orders.
    NewOrder,
    /// A customer pays.
    Payment,
    /// What became of a customer's last order.
    OrderStatus,
    /// The oldest order of each district is delivered.
    Delivery,
    /// Items that were sold lately and of which few are left.
    StockLevel,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::NewOrder,
        Self::Payment,
        Self::OrderStatus,
        Self::Delivery,
        Self::StockLevel,
    ];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new-order",
            Self::Payment => "payment",
            Self::OrderStatus => "order-status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock-level",
        }
    }

    /// How many of the 23 cards of a deck are of it (clause 5.2.4.2).
    const fn cards(self) -> usize {
        match self {
            Self::NewOrder | Self::Payment => 10,
            _ => 1,
        }
    }

    /// How long its input takes to be keyed in (clause 5.2.5.7).
    pub const fn keying_time(self) -> Duration {
        Duration::from_secs(match self {
            Self::NewOrder => 18,
            Self::Payment => 3,
            _ => 2,
        })
    }

    /// How long its output is thought about on average (clause 5.2.5.7).
    pub const fn mean_think_time(self) -> Duration {
        Duration::from_secs(match self {
            Self::NewOrder | Self::Payment => 12,
            Self::OrderStatus => 10,
            _ => 5,
        })
    }
}

/// A customer, by what is known of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Customer {
    /// By number.
    Number(i32),
    /// By last name: of several, the one in the middle.
    Name(String),
}

/// A line of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The item; none that there is, in orders that are to be rolled back.
    pub item: i32,
    /// The warehouse that has it.
    pub supplier: i32,
    /// How many.
    pub quantity: i32,
}

/// Input of a new order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOrder {
    /// The district of the terminal's warehouse.
    pub district: i32,
    /// Who orders.
    pub customer: i32,
    /// What.
    pub lines: Vec<Line>,
}

/// Input of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// The district of the terminal's warehouse that is paid.
    pub district: i32,
    /// The customer's warehouse and district.
    pub home: (i32, i32),
    /// Who pays.
    pub customer: Customer,
    /// How much.
    pub amount: Decimal,
}

/// Input of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A new order.
    NewOrder(NewOrder),
    /// A payment.
    Payment(Payment),
    /// The last order of a customer of a district.
    OrderStatus {
        /// The district.
        district: i32,
        /// Whose.
        customer: Customer,
    },
    /// Deliveries by a carrier.
    Delivery {
        /// Who carries.
        carrier: i32,
    },
    /// Items with less than this many left.
    StockLevel {
        /// The district whose last orders are looked at.
        district: i32,
        /// How many.
        threshold: i32,
    },
}

impl Input {
    /// Of which transaction it is.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::NewOrder(_) => Kind::NewOrder,
            Self::Payment(_) => Kind::Payment,
            Self::OrderStatus { .. } => Kind::OrderStatus,
            Self::Delivery { .. } => Kind::Delivery,
            Self::StockLevel { .. } => Kind::StockLevel,
        }
    }
}

/// Who enters.
#[derive(Debug)]
pub struct Operator {
    random: Random,
    constants: Constants,
    sizes: Sizes,
    /// The terminal's warehouse.
    pub warehouse: i32,
    /// The district whose stock level the terminal asks for.
    district: i32,
    deck: Vec<Kind>,
}

impl Operator {
    /// The one of a terminal. `terminal` counts from 0, and terminals are spread over warehouses and districts.
    pub fn new((seed, stream): (u64, u64), sizes: Sizes, terminal: usize) -> Self {
        let warehouses = sizes.warehouses as usize;
        Self {
            random: Random::new(seed, stream << 32 | 1 << 24 | terminal as u64),
            constants: Constants::new(seed),
            sizes,
            warehouse: (terminal % warehouses) as i32 + 1,
            district: (terminal / warehouses % DISTRICTS as usize) as i32 + 1,
            deck: Vec::new(),
        }
    }

    /// What is entered next.
    pub fn next(&mut self) -> Input {
        if self.deck.is_empty() {
            let cards = |kind: Kind| std::iter::repeat_n(kind, kind.cards());
            self.deck = Kind::ALL.into_iter().flat_map(cards).collect();
            self.random.shuffle(&mut self.deck);
        }
        match self.deck.pop().unwrap_or(Kind::NewOrder) {
            Kind::NewOrder => Input::NewOrder(self.new_order()),
            Kind::Payment => Input::Payment(self.payment()),
            Kind::OrderStatus => Input::OrderStatus {
                district: self.any_district(),
                customer: self.customer(),
            },
            Kind::Delivery => Input::Delivery {
                carrier: self.random.between(1, 10),
            },
            Kind::StockLevel => Input::StockLevel {
                district: self.district,
                threshold: self.random.between(10, 20),
            },
        }
    }

    /// How long the output of a transaction is thought about (clause 5.2.5.4).
    pub fn think_time(&mut self, kind: Kind) -> Duration {
        let mean = kind.mean_think_time().as_secs_f64();
        Duration::from_secs_f64((-self.random.share().ln() * mean).min(10.0 * mean))
    }

    fn new_order(&mut self) -> NewOrder {
        let district = self.any_district();
        let customer = self.customer_number();
        let count = self.random.between(5, 15);
        let is_rolled_back = self.random.percent(1);
        let line = |number| {
            let item = match is_rolled_back && number == count {
                true => self.sizes.items + 1,
                false => self
                    .random
                    .skewed(8191, self.constants.item, (1, self.sizes.items)),
            };
            let supplier = match self.random.percent(1) {
                true => other_warehouse(&mut self.random, self.sizes, self.warehouse),
                false => self.warehouse,
            };
            let quantity = self.random.between(1, 10);
            Line {
                item,
                supplier,
                quantity,
            }
        };
        NewOrder {
            district,
            customer,
            lines: (1..=count).map(line).collect(),
        }
    }

    fn payment(&mut self) -> Payment {
        let district = self.any_district();
        let home = match self.random.percent(85) {
            true => (self.warehouse, district),
            false => {
                let other = other_warehouse(&mut self.random, self.sizes, self.warehouse);
                (other, self.any_district())
            }
        };
        Payment {
            district,
            home,
            customer: self.customer(),
            amount: cents(self.random.between(100, 500_000)),
        }
    }

    fn any_district(&mut self) -> i32 {
        self.random.between(1, DISTRICTS)
    }

    /// 60 of 100 customers are known by their names.
    fn customer(&mut self) -> Customer {
        match self.random.percent(60) {
            true => {
                let range = (0, self.sizes.last_name_max());
                let number = self.random.skewed(255, self.constants.name, range);
                Customer::Name(last_name(number))
            }
            false => Customer::Number(self.customer_number()),
        }
    }

    fn customer_number(&mut self) -> i32 {
        let range = (1, self.sizes.customers);
        self.random.skewed(1023, self.constants.customer, range)
    }
}

/// A warehouse that is not `own`, where there is one.
fn other_warehouse(random: &mut Random, sizes: Sizes, own: i32) -> i32 {
    match sizes.warehouses {
        1 => own,
        count => {
            let other = random.between(1, count - 1);
            other + i32::from(other >= own)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(count: usize) -> Vec<Input> {
        let mut operator = Operator::new((11, 0), Sizes::new(4, 1), 5);
        assert_eq!((operator.warehouse, operator.district), (2, 2));
        (0..count).map(|_| operator.next()).collect()
    }

    /// Percent of `part` in `whole`.
    fn percent(part: usize, whole: usize) -> f64 {
        100.0 * part as f64 / whole as f64
    }

    #[test]
    fn the_mix_is_exact_and_inputs_are_as_often_remote_or_by_name_as_specified() {
        let inputs = inputs(23 * 1000);
        let of = |kind| inputs.iter().filter(|input| input.kind() == kind).count();
        assert_eq!(
            Kind::ALL.map(of),
            [10_000, 10_000, 1000, 1000, 1000],
            "a deck has 10, 10, 1, 1 and 1"
        );
        let orders = inputs.iter().filter_map(|input| match input {
            Input::NewOrder(order) => Some(order),
            _ => None,
        });
        let (mut lines, mut remote, mut rolled_back) = (0, 0, 0);
        for order in orders {
            assert!((5..=15).contains(&order.lines.len()));
            lines += order.lines.len();
            remote += order.lines.iter().filter(|line| line.supplier != 2).count();
            let unknown = order.lines.iter().filter(|line| line.item > 100_000);
            rolled_back += unknown.count();
        }
        assert!((0.8..1.2).contains(&percent(remote, lines)));
        assert!((0.6..1.4).contains(&percent(rolled_back, 10_000)));
        let payments: Vec<&Payment> = inputs
            .iter()
            .filter_map(|input| match input {
                Input::Payment(payment) => Some(payment),
                _ => None,
            })
            .collect();
        let remote = payments.iter().filter(|payment| payment.home.0 != 2);
        assert!((13.5..16.5).contains(&percent(remote.count(), 10_000)));
        let named = payments
            .iter()
            .filter(|payment| matches!(payment.customer, Customer::Name(_)));
        assert!((58.0..62.0).contains(&percent(named.count(), 10_000)));
    }

    #[test]
    fn a_lone_warehouse_has_no_other_and_think_times_have_an_end() {
        let mut operator = Operator::new((11, 0), Sizes::new(1, 1), 3);
        for _ in 0..1000 {
            if let Input::Payment(payment) = operator.next() {
                assert_eq!(payment.home.0, 1);
            }
            assert!(operator.think_time(Kind::Payment) <= Duration::from_secs(120));
        }
    }
}
