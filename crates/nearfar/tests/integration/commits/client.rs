//! A client that changes tables, and what must be there of that.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::SinkExt;
use tokio_postgres::{Client as Connection, Error};

/// Numbers that seem random, and are the same for a seed.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// SplitMix64.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// What a client was told of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// It is not kept.
    Failed,
    /// It is kept or not.
    InDoubt,
}

impl Outcome {
    /// An error that does not come from the server, or says so itself, leaves it open.
    fn of<T>(result: &Result<T, Error>) -> Self {
        match result {
            Ok(_) => Self::Done,
            Err(error) => match error.code().map(|code| code.code()) {
                None | Some("08007") => Self::InDoubt,
                Some(_) => Self::Failed,
            },
        }
    }
}

/// What a client was told, counted.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    pub acknowledged: u64,
    pub in_doubt: u64,
    pub found: u64,
    /// By SQLSTATE.
    pub failed: BTreeMap<String, u64>,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.in_doubt += other.in_doubt;
        self.found += other.found;
        for (code, count) in &other.failed {
            *self.failed.entry(code.clone()).or_default() += count;
        }
    }
}

/// What may be there of one change: no rows, or all of them with this version.
type Allowed = Vec<Option<i64>>;

/// The rows that one change has added.
#[derive(Debug, Clone)]
struct Record {
    rows: i64,
    allowed: Allowed,
}

/// What one client has done, whatever server it did that to.
#[derive(Debug)]
pub struct Client {
    number: i64,
    next: i64,
    random: Random,
    records: BTreeMap<i64, Record>,
    /// Changes of one transaction in doubt: what it has added, and what it has deleted.
    together: Vec<(i64, i64)>,
    /// Tables that were made with rows.
    tables: BTreeMap<i64, Record>,
    pub counts: Counts,
}

/// How long statements may take, if they are limited.
#[derive(Debug, Clone, Copy)]
pub struct Limit(pub Option<u64>);

impl Client {
    pub fn new(number: i64, seed: u64) -> Self {
        Self {
            number,
            next: 0,
            random: Random(seed ^ number as u64),
            records: BTreeMap::new(),
            together: Vec::new(),
            tables: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// Changes tables until it is told to stop, its server has gone, or a `COPY` has failed: the driver then
    /// sends one message more than it expects answers, and takes each answer for that of the next statement.
    pub async fn work(
        mut self,
        connection: Arc<Connection>,
        limit: Limit,
        stop: Arc<AtomicBool>,
    ) -> Self {
        while !stop.load(Ordering::Relaxed) && !connection.is_closed() {
            if let Limit(Some(most)) = limit {
                let limit = 1 + self.random.below(most);
                let set = format!("SET statement_timeout = {limit}");
                let _ = connection.batch_execute(&set).await;
            }
            if self.random.below(30) == 0 {
                if self.copy(&connection).await != Outcome::Done {
                    break;
                }
            } else {
                self.change(&connection).await;
            }
        }
        self
    }

    async fn change(&mut self, connection: &Connection) {
        match self.random.below(9) {
            0..=2 => self.insert(connection).await,
            3 => self.insert_extended(connection).await,
            4 => self.update(connection).await,
            5 => self.delete(connection).await,
            6 | 7 => self.transaction(connection).await,
            _ => self.create(connection).await,
        }
    }

    fn new_number(&mut self) -> i64 {
        self.next += 1;
        self.number * 1_000_000_000 + self.next
    }

    fn count<T>(&mut self, result: &Result<T, Error>) -> Outcome {
        let outcome = Outcome::of(result);
        match (outcome, result) {
            (Outcome::Done, _) => self.counts.acknowledged += 1,
            (Outcome::InDoubt, _) => self.counts.in_doubt += 1,
            (Outcome::Failed, Err(error)) => {
                let code = error.code().map_or("", |code| code.code()).to_owned();
                *self.counts.failed.entry(code).or_default() += 1;
            }
            (Outcome::Failed, Ok(_)) => {}
        }
        outcome
    }

    fn added(&mut self, number: i64, rows: i64, outcome: Outcome) {
        let allowed = after(None, Some(0), outcome);
        self.records.insert(number, Record { rows, allowed });
    }

    fn values(&mut self) -> (i64, i64, String) {
        let (number, rows) = (self.new_number(), 1 + self.random.below(4) as i64);
        let values = (0..rows).map(|part| format!("({number}, {part}, 0)"));
        (number, rows, values.collect::<Vec<_>>().join(", "))
    }

    async fn insert(&mut self, connection: &Connection) {
        let (number, rows, values) = self.values();
        let sql = format!("INSERT INTO t VALUES {values}");
        let outcome = connection.batch_execute(&sql).await;
        let outcome = self.count(&outcome);
        self.added(number, rows, outcome);
    }

    async fn insert_extended(&mut self, connection: &Connection) {
        let (number, rows) = (self.new_number(), 1 + self.random.below(4) as i64);
        let sql = "INSERT INTO t SELECT $1, value, 0 FROM generate_series(1, $2)";
        let sql = sql.replace("$1", &number.to_string());
        let sql = sql.replace("$2", &rows.to_string());
        let outcome = connection.execute(&sql, &[]).await;
        let outcome = self.count(&outcome);
        self.added(number, rows, outcome);
    }

    async fn copy(&mut self, connection: &Connection) -> Outcome {
        let (number, rows) = (self.new_number(), 1 + self.random.below(4) as i64);
        let lines = (0..rows).map(|part| format!("{number}\t{part}\t0\n"));
        let lines: String = lines.collect();
        let copied = async {
            let sink = connection.copy_in("COPY t FROM STDIN").await?;
            let mut sink = pin!(sink);
            sink.send(Cursor::new(lines.into_bytes())).await?;
            sink.finish().await
        };
        let outcome = copied.await;
        let outcome = self.count(&outcome);
        self.added(number, rows, outcome);
        outcome
    }

    /// A change whose rows are there for sure.
    fn pick(&mut self) -> Option<(i64, i64)> {
        let sure = self.records.iter().filter_map(|(number, record)| {
            let [Some(version)] = record.allowed[..] else {
                return None;
            };
            Some((*number, version))
        });
        let sure: Vec<(i64, i64)> = sure.collect();
        if sure.is_empty() {
            return None;
        }
        Some(sure[self.random.below(sure.len() as u64) as usize])
    }

    fn changed(&mut self, number: i64, version: i64, new: Option<i64>, outcome: Outcome) {
        let record = self.records.get_mut(&number).expect("it was picked");
        record.allowed = after(Some(version), new, outcome);
    }

    async fn update(&mut self, connection: &Connection) {
        let Some((number, version)) = self.pick() else {
            return;
        };
        let new = self.new_number();
        let sql = format!("UPDATE t SET version = {new} WHERE number = {number}");
        let outcome = connection.batch_execute(&sql).await;
        let outcome = self.count(&outcome);
        self.changed(number, version, Some(new), outcome);
    }

    async fn delete(&mut self, connection: &Connection) {
        let Some((number, version)) = self.pick() else {
            return;
        };
        let sql = format!("DELETE FROM t WHERE number = {number}");
        let outcome = connection.batch_execute(&sql).await;
        let outcome = self.count(&outcome);
        self.changed(number, version, None, outcome);
    }

    /// Replaces the rows of one change by those of another.
    async fn transaction(&mut self, connection: &Connection) {
        let Some((old, version)) = self.pick() else {
            return;
        };
        let (number, rows, values) = self.values();
        let statements = [
            "BEGIN".to_owned(),
            format!("INSERT INTO t VALUES {values}"),
            format!("DELETE FROM t WHERE number = {old}"),
        ];
        let mut outcome = Outcome::Done;
        for sql in statements {
            let begun = connection.batch_execute(&sql).await;
            if begun.is_err() {
                self.count(&begun);
                // Nothing is committed without a COMMIT, whatever the error says.
                outcome = Outcome::Failed;
                break;
            }
        }
        if outcome == Outcome::Done {
            let committed = connection.batch_execute("COMMIT").await;
            outcome = self.count(&committed);
        }
        self.added(number, rows, outcome);
        self.changed(old, version, None, outcome);
        if outcome == Outcome::InDoubt {
            self.together.push((number, old));
        }
        while outcome != Outcome::Done && !connection.is_closed() {
            if connection.batch_execute("ROLLBACK").await.is_ok() {
                break;
            }
        }
    }

    async fn create(&mut self, connection: &Connection) {
        let (number, rows) = (self.new_number(), 1 + self.random.below(200) as i64);
        let sql =
            format!("CREATE TABLE made_{number} AS SELECT value FROM generate_series(1, {rows})");
        let outcome = connection.batch_execute(&sql).await;
        let outcome = self.count(&outcome);
        let allowed = after(None, Some(0), outcome);
        self.tables.insert(number, Record { rows, allowed });
    }
}

/// What may be there behind a change from one state to another.
fn after(before: Option<i64>, new: Option<i64>, outcome: Outcome) -> Allowed {
    match outcome {
        Outcome::Done => vec![new],
        Outcome::Failed => vec![before],
        Outcome::InDoubt => vec![before, new],
    }
}

/// What is there of the rows of one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub rows: i64,
    pub distinct_rows: i64,
    pub version_min: i64,
    pub version_max: i64,
}

/// Everything that is there.
#[derive(Debug, Default)]
pub struct Contents {
    pub changes: BTreeMap<i64, Found>,
    /// Rows of the tables that were made.
    pub tables: BTreeMap<i64, i64>,
}

impl Contents {
    /// What a server has.
    pub async fn read(connection: &Connection) -> Self {
        let sql = "SELECT number, count(*), count(DISTINCT part), min(version), max(version) \
                   FROM t GROUP BY number";
        let rows = connection.query(sql, &[]).await.expect("rows");
        let found = rows.iter().map(|row| {
            let found = Found {
                rows: row.get(1),
                distinct_rows: row.get(2),
                version_min: row.get(3),
                version_max: row.get(4),
            };
            (row.get(0), found)
        });
        let mut contents = Self {
            changes: found.collect(),
            tables: BTreeMap::new(),
        };
        let sql = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'made_%'";
        for row in connection.query(sql, &[]).await.expect("tables") {
            let name: String = row.get(0);
            let sql = format!("SELECT count(*) FROM {name}");
            let count = connection.query_one(&sql, &[]).await.expect("a count");
            let number = name.trim_start_matches("made_").parse();
            contents.tables.insert(number.expect("ours"), count.get(0));
            let drop = format!("DROP TABLE {name}");
            connection.batch_execute(&drop).await.expect("dropped");
        }
        contents
    }
}

impl Client {
    /// Checks what is there, all of which was there when `outcome` was the last that happened, and goes on
    /// from it. What must not be, if anything.
    pub fn check(&mut self, contents: &Contents) -> Vec<String> {
        let mut wrong = Vec::new();
        for (inserted, deleted) in std::mem::take(&mut self.together) {
            let is_there = |number| contents.changes.contains_key(number);
            if is_there(&inserted) == is_there(&deleted) {
                wrong.push(format!("torn: {inserted} instead of {deleted}"));
            }
        }
        for (number, record) in &mut self.records {
            let found = contents.changes.get(number);
            let state = found.map(|found| found.version_min);
            let is_whole = found.is_none_or(|found| {
                let rows = [found.rows, found.distinct_rows];
                rows == [record.rows; 2] && found.version_min == found.version_max
            });
            if !is_whole || !record.allowed.contains(&state) {
                wrong.push(format!("{number}: {found:?} instead of {record:?}"));
            }
            self.counts.found += u64::from(record.allowed.len() > 1 && record.allowed[1] == state);
            record.allowed = vec![state];
        }
        for (number, record) in std::mem::take(&mut self.tables) {
            let found = contents.tables.get(&number);
            let state = found.map(|_| 0);
            let is_whole = found.is_none_or(|rows| *rows == record.rows);
            if !is_whole || !record.allowed.contains(&state) {
                wrong.push(format!("table {number}: {found:?} instead of {record:?}"));
            }
            self.counts.found += u64::from(record.allowed.len() > 1 && state.is_some());
        }
        self.records.retain(|_, record| record.allowed != [None]);
        wrong
    }

    /// Whether rows that are there are this client's.
    pub fn has_made(&self, number: i64) -> bool {
        number / 1_000_000_000 == self.number && !self.records.contains_key(&number)
    }
}

/// Sends cancel requests to all of `connections`, one after another, until it is told to stop.
pub async fn cancel(connections: Vec<Arc<Connection>>, mut random: Random, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let connection = &connections[random.below(connections.len() as u64) as usize];
        let token = connection.cancel_token();
        let _ = token.cancel_query(tokio_postgres::NoTls).await;
        tokio::time::sleep(Duration::from_millis(random.below(6))).await;
    }
}
