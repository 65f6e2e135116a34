//! The process that is killed.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use nearfar_durable::checkpoint::pooled::{TablePoolOptions, Verify};
use nearfar_durable::error::DurabilityError;
use nearfar_durable::log::{DataOptions, LogSync};
use nearfar_memory::pool::{Claim, TakeOver};
use nearfar_sql::engine::{Engine, EngineOptions, Session, StatementResult};
use nearfar_sql::error::EngineError;
use nearfar_table::error::{IndexError, TransactionError};
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::model::{FILLED, Model, Random, Step, text_of};
use super::say;
use crate::support::{options, run, try_run};

/// The name of the child's test.
pub const TEST: &str = "crashes::child::child_of_the_crash_tests";
/// Tells the child its data directory; with neither this nor a pool the child's test does nothing.
pub const DATA: &str = "NEARFAR_CRASH_DATA";
/// Tells the child its pool.
pub const POOL: &str = "NEARFAR_CRASH_POOL";
/// Tells the child its seed, and how to take the pool from another.
pub const ORDER: &str = "NEARFAR_CRASH_ORDER";

/// Clients of each process.
pub const CLIENTS: usize = 3;
/// Short, so that nobody waits long for it. Who loses it too early has lost nothing else.
const LEASE: Duration = Duration::from_millis(300);
const POOL_BYTES: u64 = 256 << 20;
/// Rows of the table of counters, and keys of the other table that all clients share: few.
const COUNTERS: u64 = 4;
const SHARED_KEYS: u64 = 24;

/// Where tables outlive a process.
#[derive(Debug, Default)]
pub struct Kept {
    pub data: Option<PathBuf>,
    pub pool: Option<PathBuf>,
}

impl Kept {
    /// An engine, as one of several processes makes it.
    pub fn open(
        &self,
        random: &mut Random,
        take_over: TakeOver,
    ) -> Result<Arc<Engine>, EngineError> {
        let pool = self.pool.as_ref().map(|path| TablePoolOptions {
            bytes: Some(POOL_BYTES),
            verify: [Verify::All, Verify::Background][random.below(2) as usize],
            claim: Claim {
                lease: LEASE,
                take_over,
                ..Claim::of_this_process()
            },
            ..TablePoolOptions::new(path)
        });
        let data = self.data.as_ref().map(|path| data(path, random));
        Engine::new(EngineOptions {
            data,
            pool,
            ..options()
        })
    }
}

/// The data directory, as one of several processes opens it.
fn data(directory: &Path, random: &mut Random) -> DataOptions {
    let mut options = DataOptions::new(directory);
    options.sync = match random.below(4) {
        0 => LogSync::Off,
        1 => LogSync::Every(Duration::from_millis(3)),
        _ => LogSync::On,
    };
    options.checkpoint_bytes = [64 << 10, 1 << 20, u64::MAX][random.below(3) as usize];
    options.checkpoint_at_end = random.below(2) == 0;
    options
}

/// The child. It does nothing when it is run as a test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_of_the_crash_tests() {
    let place = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let kept = Kept {
        data: place(DATA),
        pool: place(POOL),
    };
    let Ok(order) = std::env::var(ORDER) else {
        return;
    };
    let (seed, take_over) = order.split_once(' ').expect("a seed");
    let take_over = match take_over {
        "now" => TakeOver::Now,
        "lease" => TakeOver::WhenItsLeaseEnds {
            patience: Duration::from_secs(60),
        },
        _ => TakeOver::Never,
    };
    let mut random = Random(seed.parse().expect("a seed"));
    say("@opening");
    let engine = kept.open(&mut random, take_over).unwrap_or_else(|error| {
        say(&format!("@failed cannot open: {error} {error:?}"));
        std::process::exit(1);
    });
    say(&format!("@open {:?}", engine.origin()));
    end_when_told(&engine);
    let session = engine.session();
    run(&session, "SET nearfar.merge_rows = 300").await;
    let mut models = Vec::new();
    for client in 0..CLIENTS {
        let model = found(&session, client).await;
        say(&format!("@state {client} {}", model.digest()));
        models.push(model);
    }
    say("@ready");
    let clients = models.into_iter().enumerate().map(|(number, model)| {
        let client = Client {
            engine: Arc::clone(&engine),
            session: engine.session(),
            number,
            random: Random(random.below(u64::MAX)),
        };
        tokio::spawn(client.run(model))
    });
    for client in clients.collect::<Vec<_>>() {
        if let Err(error) = client.await {
            say(&format!("@failed {error}"));
            std::process::exit(1);
        }
    }
}

/// Whether this process was told to end.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Closes the engine under its clients' hands as soon as the parent says so.
fn end_when_told(engine: &Arc<Engine>) {
    let engine = Arc::clone(engine);
    std::thread::spawn(move || {
        let mut line = String::new();
        let heard = std::io::stdin().lock().read_line(&mut line);
        if heard.unwrap_or(0) == 0 {
            // The parent is gone.
            std::process::exit(2);
        }
        IS_ENDING.store(true, Ordering::SeqCst);
        say("@closing");
        engine.close();
        say("@closed");
    });
}

/// One client of the child.
struct Client {
    engine: Arc<Engine>,
    session: Session,
    number: usize,
    random: Random,
}

impl Client {
    /// Changes tables until that is refused.
    async fn run(mut self, mut model: Model) {
        let client = self.number;
        let last = |rows: &BTreeMap<i64, i64>| rows.keys().next_back().copied().unwrap_or(0);
        let of_third = model.c.last().copied().unwrap_or(0);
        let mut next_key = last(&model.a).max(last(&model.b)).max(of_third) + 1;
        let mut number = model.numbers.last().copied().unwrap_or(0);
        loop {
            number += 1;
            let steps = self.steps(&mut next_key);
            let words: Vec<String> = steps.iter().map(ToString::to_string).collect();
            say(&format!("@begin {client} {number} {}", words.join(" ")));
            let mut done = self.carry_out(number, &steps, &model).await;
            if let Err(error) = &done
                && is_in_the_way(&steps, error)
            {
                say(&format!("@lost {client} {number} {error}"));
                done = try_run(&self.session, "ROLLBACK").await.map(drop);
                if done.is_ok() {
                    continue;
                }
            }
            if let Err(error) = done {
                say(&format!(
                    "{} {client} {number} {error}",
                    self.verdict(&error)
                ));
                return;
            }
            say(&format!("@done {client} {number}"));
            model.apply_all(number, &steps);
        }
    }

    async fn carry_out(
        &self,
        number: i64,
        steps: &[Step],
        model: &Model,
    ) -> Result<(), EngineError> {
        let client = self.number;
        let is_transaction = steps[0].is_in_transaction();
        if is_transaction {
            let begin = format!("BEGIN; INSERT INTO log VALUES ({client}, {number})");
            try_run(&self.session, &begin).await?;
        }
        for step in steps {
            say(&format!("@step {client} {}", step.kind()));
            if *step == Step::Publish {
                self.engine.publish()?;
            }
            for sql in step.sql(client, model) {
                try_run(&self.session, &sql).await?;
            }
        }
        if is_transaction {
            say(&format!("@step {client} commit"));
            try_run(&self.session, "COMMIT").await?;
        }
        Ok(())
    }

    /// What an error says about what was under way.
    fn verdict(&self, error: &EngineError) -> &'static str {
        let is_ending = || IS_ENDING.load(Ordering::SeqCst);
        let is_fenced = || {
            self.engine
                .pool()
                .is_some_and(|pool| pool.check_owner().is_err())
        };
        match error {
            EngineError::Durability(DurabilityError::Fenced { .. }) if is_fenced() => "@refused",
            EngineError::Durability(DurabilityError::Stopped { .. }) if is_ending() => "@refused",
            EngineError::Durability(DurabilityError::InDoubt { .. }) => "@doubt",
            _ if is_ending() || is_fenced() => "@doubt",
            _ => "@failed",
        }
    }

    /// The steps of the next transaction.
    fn steps(&mut self, next_key: &mut i64) -> Vec<Step> {
        let random = &mut self.random;
        let mut insert = |random: &mut Random, bulk: bool| {
            let rows = match bulk && random.below(150) == 0 {
                true => 70_000,
                false => 1 + random.below(200) as i64,
            };
            let first = *next_key;
            *next_key += rows;
            (first, rows)
        };
        let has_data = self.engine.data_directory().is_some();
        let one = match random.below(18) {
            0 => Some(Step::Merge),
            1 if has_data => Some(Step::Checkpoint),
            1 | 2 if self.engine.pool().is_some() => Some(Step::Publish),
            3 => Some(Step::View),
            4 => {
                let (first, rows) = insert(random, false);
                Some(Step::Replace { first, rows })
            }
            5 => Some(Step::Index),
            6 => Some(Step::Unique),
            7 => {
                let (first, rows) = insert(random, false);
                Some(Step::Define {
                    first,
                    rows,
                    commits: random.below(3) > 0,
                })
            }
            8..=10 => Some(contended(random)),
            _ => None,
        };
        if let Some(step) = one {
            return vec![step];
        }
        let count = 1 + random.below(4);
        let step = |_| match random.below(11) {
            0..=4 => {
                let (first, rows) = insert(random, true);
                Step::Insert { first, rows }
            }
            5 | 6 => {
                let modulus = 2 + random.below(20) as i64;
                let rest = random.below(modulus as u64) as i64;
                Step::Update { modulus, rest }
            }
            7 | 8 => {
                let modulus = 2 + random.below(6) as i64;
                let rest = random.below(modulus as u64) as i64;
                Step::Delete { modulus, rest }
            }
            9 => Step::Draw,
            _ => Step::Truncate,
        };
        (0..count).map(step).collect()
    }
}

/// What several clients do with the same rows.
fn contended(random: &mut Random) -> Step {
    let one = 1 + random.below(COUNTERS) as i64;
    let next = 1 + random.below(COUNTERS - 1) as i64;
    Step::Contend {
        one,
        other: (one - 1 + next) % COUNTERS as i64 + 1,
        key: random.below(SHARED_KEYS) as i64,
    }
}

/// Whether what failed did so since another client was first.
fn is_in_the_way(steps: &[Step], error: &EngineError) -> bool {
    let is_contended = steps.iter().all(|step| step.is_contended());
    is_contended
        && matches!(
            error,
            EngineError::Index(IndexError::Duplicate { .. })
                | EngineError::Transaction(
                    TransactionError::Deadlock | TransactionError::Conflict { .. }
                )
        )
}

async fn pairs(session: &Session, table: &str) -> BTreeMap<i64, i64> {
    let mut found = BTreeMap::new();
    if !table.starts_with('v') {
        run(session, &format!("CALL nearfar.check('{table}')")).await;
    }
    let sql = format!("SELECT k, v, s FROM {table}");
    for result in session.execute(&sql).await.expect(table) {
        let StatementResult::Rows(rows) = result else {
            continue;
        };
        for batch in rows.collect().await.expect(table) {
            let (keys, values) = (
                batch.column(0).as_primitive::<Int64Type>(),
                batch.column(1).as_primitive::<Int64Type>(),
            );
            let texts = batch.column(2).as_string_view();
            for row in 0..batch.num_rows() {
                let (key, value) = (keys.value(row), values.value(row));
                assert_eq!(texts.value(row), text_of(key, value), "torn in {table}");
                let twice = found.insert(key, value);
                assert_eq!(twice, None, "key {key} is twice in {table}");
            }
        }
    }
    found
}

/// The values of a query's columns, which are whole numbers.
async fn numbers<const N: usize>(session: &Session, sql: &str) -> Vec<[i64; N]> {
    let mut found = Vec::new();
    for result in session.execute(sql).await.expect(sql) {
        let StatementResult::Rows(rows) = result else {
            continue;
        };
        for batch in rows.collect().await.expect(sql) {
            for row in 0..batch.num_rows() {
                found.push(std::array::from_fn(|column| {
                    batch.column(column).as_primitive::<Int64Type>().value(row)
                }));
            }
        }
    }
    found
}

/// The keys that a query gives, none of which is there twice.
async fn keys(session: &Session, sql: &str) -> BTreeSet<i64> {
    let found = numbers::<1>(session, sql).await;
    let keys: BTreeSet<i64> = found.iter().map(|[key]| *key).collect();
    assert_eq!(keys.len(), found.len(), "a key is there twice: {sql}");
    keys
}

async fn is_there(session: &Session, of: &str) -> bool {
    numbers::<1>(session, &format!("SELECT count(*) FROM {of}")).await != [[0]]
}

/// What a client's tables hold, no row of which is torn or there twice.
async fn found(session: &Session, client: usize) -> Model {
    let has_view = is_there(
        session,
        &format!("information_schema.tables WHERE table_name = 'v{client}'"),
    )
    .await;
    let b = pairs(session, &format!("b{client}")).await;
    if has_view {
        assert_eq!(pairs(session, &format!("v{client}")).await, b);
    }
    let own = [format!("c{client}"), format!("drawn{client}")];
    for table in own.iter().map(String::as_str).chain(["shared", "counters"]) {
        run(session, &format!("CALL nearfar.check('{table}')")).await;
    }
    let has_index = async |name: String| {
        let of = format!("nearfar.indexes WHERE index_name = '{name}'");
        is_there(session, &of).await
    };
    let counters = format!("SELECT k, n{client} FROM counters WHERE n{client} > 0");
    let counters = numbers::<2>(session, &counters).await.into_iter();
    Model {
        a: pairs(session, &format!("a{client}")).await,
        b,
        has_view,
        has_index: has_index(format!("x{client}")).await,
        has_unique: has_index(format!("u{client}")).await,
        c: keys(session, &format!("SELECT k FROM c{client}")).await,
        has_column: has_column(session, client).await,
        drawn: drawn(session, client).await,
        shared: keys(
            session,
            &format!("SELECT k FROM shared WHERE client = {client}"),
        )
        .await,
        counters: counters.map(|[counter, value]| (counter, value)).collect(),
        numbers: keys(
            session,
            &format!("SELECT n FROM log WHERE client = {client}"),
        )
        .await,
    }
}

/// Whether a client's third table has its second column, with the value that all rows have in it and its index.
async fn has_column(session: &Session, client: usize) -> bool {
    let column = "information_schema.columns WHERE column_name = 'e' AND table_name =";
    let has_column = is_there(session, &format!("{column} 'c{client}'")).await;
    let index = format!("nearfar.indexes WHERE index_name = 'y{client}'");
    assert_eq!(is_there(session, &index).await, has_column, "{index}");
    if has_column {
        let others = format!("c{client} WHERE e IS DISTINCT FROM {FILLED}");
        assert!(!is_there(session, &others).await, "{others}");
    }
    has_column
}

/// How many numbers of its sequence a client has; the next is none of them.
async fn drawn(session: &Session, client: usize) -> i64 {
    let drawn = keys(session, &format!("SELECT n FROM drawn{client}")).await;
    let next = numbers::<1>(session, &format!("SELECT nextval('q{client}')")).await;
    let last = drawn.last().copied().unwrap_or(0);
    assert!(next[0][0] > last, "{next:?} comes behind {last}");
    drawn.len() as i64
}
