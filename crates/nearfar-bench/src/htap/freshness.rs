//! Which orders a query has seen.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::tpcc::{Failure, Row};

/// A district, by its warehouse and number.
type District = (i32, i32);

/// The state of the tables that a query has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The number of the next order of every district.
    pub next_orders: BTreeMap<District, i32>,
    /// Orders that were there.
    pub orders: i64,
}

impl Seen {
    /// The state that these rows tell of.
    pub fn of(districts: &[Row], orders: &[Row]) -> Result<Self, Failure> {
        let next = |row: &Row| Ok(((row.int(0)?, row.int(1)?), row.int(2)?));
        Ok(Self {
            next_orders: districts.iter().map(next).collect::<Result<_, Failure>>()?,
            orders: orders.first().map_or(Ok(0), |row| row.long(0))?,
        })
    }

    /// Whether it is one state: orders are as many as all districts have given numbers, from 1 on.
    pub fn is_one_state(&self) -> bool {
        let given = self.next_orders.values().map(|next| i64::from(next - 1));
        given.sum::<i64>() == self.orders
    }

    fn has(&self, (warehouse, district, number): (i32, i32, i32)) -> bool {
        let next = self.next_orders.get(&(warehouse, district));
        next.is_some_and(|next| number < *next)
    }

    /// For how long the oldest order had been acknowledged that is not in this state, when a query began that has read
    /// it. `orders` are keys with the times at which they were acknowledged.
    pub fn age(
        &self,
        began: Instant,
        orders: impl Iterator<Item = ((i32, i32, i32), Instant)>,
    ) -> Duration {
        let missed = orders.filter(|(key, at)| *at < began && !self.has(*key));
        let oldest = missed.map(|(_, at)| at).min();
        oldest.map_or(Duration::ZERO, |at| began - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(next: i32, orders: i64) -> Seen {
        Seen {
            next_orders: [((1, 1), next), ((1, 2), 1)].into(),
            orders,
        }
    }

    #[test]
    fn a_state_has_as_many_orders_as_numbers_were_given() {
        assert!(seen(4, 3).is_one_state());
        assert!(!seen(4, 4).is_one_state());
    }

    #[test]
    fn age_is_that_of_the_oldest_order_that_was_missed() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let orders = [
            ((1, 1, 2), at(10)),
            ((1, 1, 3), at(20)),
            ((1, 2, 1), at(30)),
            ((1, 1, 4), at(90)),
        ];
        let age = |next, began| seen(next, 0).age(at(began), orders.iter().copied());
        assert_eq!(age(3, 50), Duration::from_millis(30), "of order 3");
        assert_eq!(
            age(4, 50),
            Duration::from_millis(20),
            "of the other district"
        );
        assert_eq!(age(4, 25), Duration::ZERO, "acknowledged later");
    }
}
