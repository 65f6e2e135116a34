//! The process that is killed.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use nearfar_durable::checkpoint::pooled::{TablePoolOptions, Verify};
use nearfar_durable::error::DurabilityError;
use nearfar_durable::log::{DataOptions, LogSync};
use nearfar_memory::pool::{Claim, TakeOver};
use nearfar_sql::engine::{Engine, EngineOptions, Session, StatementResult};
use nearfar_sql::error::EngineError;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::model::{Model, Random, Step, text_of};
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
    async fn run(mut self, model: Model) {
        let client = self.number;
        let last = |rows: &BTreeMap<i64, i64>| rows.keys().next_back().copied().unwrap_or(0);
        let mut next_key = last(&model.a).max(last(&model.b)) + 1;
        let mut number = model.numbers.last().copied().unwrap_or(0);
        let mut has_view = model.has_view;
        loop {
            number += 1;
            let steps = self.steps(&mut next_key);
            let words: Vec<String> = steps.iter().map(ToString::to_string).collect();
            say(&format!("@begin {client} {number} {}", words.join(" ")));
            if let Err(error) = self.carry_out(number, &steps, has_view).await {
                say(&format!(
                    "{} {client} {number} {error}",
                    self.verdict(&error)
                ));
                return;
            }
            say(&format!("@done {client} {number}"));
            has_view ^= steps == [Step::View];
        }
    }

    async fn carry_out(
        &self,
        number: i64,
        steps: &[Step],
        has_view: bool,
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
            for sql in step.sql(client, has_view) {
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
        let one = match random.below(12) {
            0 => Some(Step::Merge),
            1 if has_data => Some(Step::Checkpoint),
            1 | 2 if self.engine.pool().is_some() => Some(Step::Publish),
            3 => Some(Step::View),
            4 => {
                let (first, rows) = insert(random, false);
                Some(Step::Replace { first, rows })
            }
            _ => None,
        };
        if let Some(step) = one {
            return vec![step];
        }
        let count = 1 + random.below(4);
        let step = |_| match random.below(10) {
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
            _ => Step::Truncate,
        };
        (0..count).map(step).collect()
    }
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

/// What a client's tables hold, no row of which is torn or there twice.
async fn found(session: &Session, client: usize) -> Model {
    let relations =
        format!("SELECT table_name FROM information_schema.tables WHERE table_name = 'v{client}'");
    let has_view = run(session, &relations)
        .await
        .contains(&format!("v{client}"));
    let b = pairs(session, &format!("b{client}")).await;
    if has_view {
        assert_eq!(pairs(session, &format!("v{client}")).await, b);
    }
    let numbers = format!("SELECT n FROM log WHERE client = {client} ORDER BY n");
    let mut known = Vec::new();
    for result in session.execute(&numbers).await.expect("numbers") {
        if let StatementResult::Rows(rows) = result {
            for batch in rows.collect().await.expect("numbers") {
                known.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
            }
        }
    }
    let count = known.len();
    let numbers: std::collections::BTreeSet<i64> = known.into_iter().collect();
    assert_eq!(
        numbers.len(),
        count,
        "a transaction of client {client} is there twice"
    );
    Model {
        a: pairs(session, &format!("a{client}")).await,
        b,
        has_view,
        numbers,
    }
}
