//! A client that reads and appends to lists in transactions, and keeps what it was told.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::{Client as Connection, Error, Statement};

use super::checker::Level;
use super::history::{Element, Key, Operation, Outcome, Transaction};
use crate::commits::Random;

/// Operations of a transaction at most.
const OPERATIONS_MAX: u64 = 5;

/// One client, whatever server it does that to.
#[derive(Debug)]
pub struct Client {
    number: i64,
    next: i64,
    random: Random,
    pub transactions: Vec<Transaction>,
    /// How many have failed, by SQLSTATE.
    pub failed: BTreeMap<String, u64>,
}

impl Client {
    pub fn new(number: i64, seed: u64) -> Self {
        Self {
            number,
            next: 0,
            random: Random(seed ^ number as u64),
            transactions: Vec::new(),
            failed: BTreeMap::new(),
        }
    }

    /// Runs transactions over the lists of `keys` until it is told to stop, or its server has gone.
    pub async fn work(
        mut self,
        connection: Connection,
        (level, keys): (Level, Range<Key>),
        stop: Arc<AtomicBool>,
    ) -> Self {
        let read = connection.prepare("SELECT v FROM lists WHERE k = $1").await;
        let Ok(read) = read else { return self };
        let begin = format!("BEGIN ISOLATION LEVEL {level}");
        while !stop.load(Ordering::Relaxed) && !connection.is_closed() {
            if connection.batch_execute(&begin).await.is_ok() {
                self.transact(&connection, &read, &keys).await;
            }
        }
        self
    }

    async fn transact(&mut self, connection: &Connection, read: &Statement, keys: &Range<Key>) {
        let mut operations = Vec::new();
        for _ in 0..=self.random.below(OPERATIONS_MAX) {
            let operated = self.operate(connection, read, keys, &mut operations).await;
            if let Err(error) = operated {
                // Nothing is committed without a COMMIT, whatever the error says.
                self.fail(&error);
                self.keep(operations, Outcome::Failed);
                let _ = connection.batch_execute("ROLLBACK").await;
                return;
            }
        }
        let outcome = match connection.batch_execute("COMMIT").await {
            Ok(()) => Outcome::Committed,
            Err(error) => match error.code().map(|code| code.code()) {
                None | Some("08007") => Outcome::InDoubt,
                Some(_) => {
                    self.fail(&error);
                    Outcome::Failed
                }
            },
        };
        self.keep(operations, outcome);
    }

    async fn operate(
        &mut self,
        connection: &Connection,
        read: &Statement,
        keys: &Range<Key>,
        operations: &mut Vec<Operation>,
    ) -> Result<(), Error> {
        let key = keys.start + self.random.below((keys.end - keys.start) as u64) as i64;
        match self.random.below(5) {
            0 | 1 => {
                let row = connection.query_one(read, &[&key]).await?;
                operations.push(Operation::Read(key, elements(row.get(0))));
            }
            2 => {
                let sql = format!(
                    "SELECT k, v FROM lists WHERE k >= {key} AND k < {}",
                    keys.end
                );
                for row in connection.query(&sql, &[]).await? {
                    operations.push(Operation::Read(row.get(0), elements(row.get(1))));
                }
            }
            _ => {
                self.next += 1;
                let element = self.number * 1_000_000_000 + self.next;
                operations.push(Operation::Append(key, element));
                let sql = format!("UPDATE lists SET v = v || '{element},' WHERE k = {key}");
                connection.batch_execute(&sql).await?;
            }
        }
        Ok(())
    }

    fn fail(&mut self, error: &Error) {
        let code = error.code().map_or("connection lost", |code| code.code());
        *self.failed.entry(code.to_owned()).or_default() += 1;
    }

    fn keep(&mut self, operations: Vec<Operation>, outcome: Outcome) {
        self.transactions.push(Transaction {
            operations,
            outcome,
        });
    }
}

/// The elements of a list, each of which is followed by a comma.
pub fn elements(text: &str) -> Vec<Element> {
    let elements = text.split_terminator(',');
    elements
        .map(|element| element.parse().expect(text))
        .collect()
}
