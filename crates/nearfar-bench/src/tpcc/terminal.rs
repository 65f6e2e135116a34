//! Terminals that run transactions, and what they count.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::time::{Duration, Instant, SystemTime};

use super::connection::{Connection, Database};
use super::error::Failure;
use super::input::{Kind, Operator};
use super::rows::Sizes;
use super::transactions::{self, End, Order};
use super::wire::us_of;

/// How terminals run.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// How many.
    pub terminals: usize,
    /// For how long.
    pub length: Duration,
    /// Whether input takes time to be keyed in, and output to be thought about.
    pub thinks: bool,
    /// The seed of all inputs, and which of the sequences of that seed.
    pub seed: (u64, u64),
    /// The sizes of the tables.
    pub sizes: Sizes,
}

/// What terminals have done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// How long transactions took that came to their end, tries that were given up included, in microseconds.
    pub latencies_us: BTreeMap<Kind, Vec<u64>>,
    /// New orders that were rolled back as their input asks for.
    pub rolled_back: u64,
    /// Tries that others were in the way of, by transaction and SQLSTATE; each was tried again.
    pub aborts: BTreeMap<(Kind, String), u64>,
    /// Orders that were acknowledged, and when.
    pub orders: Vec<(Instant, Order)>,
    /// From the first transaction to the end of the last.
    pub seconds: f64,
}

impl Tally {
    /// New orders that were committed, per minute.
    pub fn new_orders_per_minute(&self) -> f64 {
        match self.seconds > 0.0 {
            true => self.orders.len() as f64 * 60.0 / self.seconds,
            false => 0.0,
        }
    }

    /// Tries that others were in the way of, of a hundred.
    pub fn abort_percent(&self) -> f64 {
        let ended: usize = self.latencies_us.values().map(Vec::len).sum();
        let aborted = self.aborts.values().sum::<u64>() as f64;
        match aborted + ended as f64 {
            0.0 => 0.0,
            tries => 100.0 * aborted / tries,
        }
    }

    /// Adds what another has done beside this one.
    pub fn add(&mut self, other: Self) {
        for (kind, latencies) in other.latencies_us {
            self.latencies_us.entry(kind).or_default().extend(latencies);
        }
        for (reason, count) in other.aborts {
            *self.aborts.entry(reason).or_default() += count;
        }
        self.rolled_back += other.rolled_back;
        self.orders.extend(other.orders);
        self.seconds = self.seconds.max(other.seconds);
    }
}

/// What terminals have done, and the first failure that is not one to try again after: that terminal has stopped
/// there.
#[derive(Debug, Default)]
pub struct TurnOutcome {
    /// What was acknowledged.
    pub tally: Tally,
    /// Why a terminal has stopped before its time.
    pub failure: Option<Failure>,
}

/// Runs all terminals concurrently.
pub async fn take_turn<D: Database>(database: &D, turn: Turn) -> Result<TurnOutcome, Failure> {
    let mut connections = Vec::new();
    for _ in 0..turn.terminals {
        connections.push(database.connect().await?);
    }
    let started = Instant::now();
    let terminals: Vec<_> = connections
        .into_iter()
        .enumerate()
        .map(|(number, connection)| {
            let terminal = Terminal {
                connection,
                operator: Operator::new(turn.seed, turn.sizes, number),
                outcome: TurnOutcome::default(),
            };
            tokio::spawn(terminal.run(started, turn))
        })
        .collect();
    let mut all = TurnOutcome::default();
    for terminal in terminals {
        let ended = terminal.await;
        let ended = ended.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        all.tally.add(ended.tally);
        all.failure = all.failure.or(ended.failure);
    }
    Ok(all)
}

struct Terminal<C> {
    connection: C,
    operator: Operator,
    outcome: TurnOutcome,
}

impl<C: Connection> Terminal<C> {
    async fn run(mut self, started: Instant, turn: Turn) -> TurnOutcome {
        while started.elapsed() < turn.length {
            if let Err(failure) = self.enter(turn.thinks).await {
                self.outcome.failure = Some(failure);
                break;
            }
        }
        self.outcome.tally.seconds = started.elapsed().as_secs_f64();
        self.outcome
    }

    /// One transaction, until it has come to its end.
    async fn enter(&mut self, thinks: bool) -> Result<(), Failure> {
        let input = self.operator.next();
        let kind = input.kind();
        if thinks {
            tokio::time::sleep(kind.keying_time()).await;
        }
        let (began, now) = (Instant::now(), us_of(SystemTime::now()));
        let (connection, warehouse) = (&mut self.connection, self.operator.warehouse);
        let tally = &mut self.outcome.tally;
        let end = loop {
            let failure = match transactions::run(connection, warehouse, &input, now).await {
                Ok(end) => break end,
                Err(failure) => failure,
            };
            let Some(code) = failure.retried_code() else {
                return Err(failure);
            };
            let reason = (kind, code.to_owned());
            *tally.aborts.entry(reason).or_default() += 1;
            connection.roll_back().await?;
        };
        match end {
            End::Ordered(order) => tally.orders.push((Instant::now(), order)),
            End::RolledBack => tally.rolled_back += 1,
            End::Committed => {}
        }
        let took_us = began.elapsed().as_micros() as u64;
        tally.latencies_us.entry(kind).or_default().push(took_us);
        if thinks {
            tokio::time::sleep(self.operator.think_time(kind)).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up_and_aborts_are_of_all_tries() {
        let one = Tally {
            latencies_us: [(Kind::Payment, vec![1, 2, 3])].into(),
            aborts: [((Kind::Payment, "40001".to_owned()), 1)].into(),
            seconds: 2.0,
            ..Tally::default()
        };
        let mut all = one.clone();
        all.add(one);
        assert_eq!(all.latencies_us[&Kind::Payment].len(), 6);
        assert_eq!((all.abort_percent(), all.seconds), (25.0, 2.0));
        assert_eq!(Tally::default().abort_percent(), 0.0);
        assert_eq!(Tally::default().new_orders_per_minute(), 0.0);
    }
}
