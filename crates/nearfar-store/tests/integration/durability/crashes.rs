//! Processes that are killed at any moment: what they have acknowledged is there, once and whole,
//! and what they have not is there whole or not at all.
//!
//! A child process changes tables at random and says on a pipe what it is about to commit and what
//! was acknowledged. It is killed, the directory is opened by this process and compared with a model,
//! and the next child goes on with it. `NEARFAR_CRASHES` says how often, where 50 times within a
//! minute are not enough.
//!
//! The same with main storage in a pool, and with a pool alone. There a publication is what is
//! acknowledged: what a later process finds is what was committed at one moment since the last.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use nearfar_store::durable::{DataOptions, LogSync};
use nearfar_store::engine::{Engine, EngineOptions, Session, StatementResult};
use nearfar_store::savepoint::pooled::{TablePoolOptions, Verify};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use super::super::pools::folder;
use super::super::support::{options, run, value};
use super::model::{Model, Random, Step, text_of};

/// Tells the child its data directory; with neither this nor a pool the child's test does nothing.
const DIRECTORY: &str = "NEARFAR_CRASH_DIRECTORY";
/// Tells the child its pool.
const POOL: &str = "NEARFAR_CRASH_POOL";
/// Tells the child what to do.
const SEED: &str = "NEARFAR_CRASH_SEED";
/// How often to kill.
const COUNT: &str = "NEARFAR_CRASHES";

const CLIENTS: usize = 3;
const POOL_BYTES: u64 = 512 << 20;

/// Where tables outlive a process.
#[derive(Default)]
struct Kept {
    data: Option<PathBuf>,
    pool: Option<PathBuf>,
}

impl Kept {
    /// An engine, as one of several processes makes it.
    fn open(&self, random: &mut Random) -> Arc<Engine> {
        let pool = self.pool.as_ref().map(|path| TablePoolOptions {
            bytes: Some(POOL_BYTES),
            verify: [Verify::All, Verify::Background][random.below(2) as usize],
            ..TablePoolOptions::new(path)
        });
        let data = self.data.as_ref().map(|path| data(path, random));
        let options = EngineOptions {
            data,
            pool,
            ..options()
        };
        Engine::new(options).expect("what is kept can be opened")
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
    options.savepoint_bytes = [64 << 10, 1 << 20, u64::MAX][random.below(3) as usize];
    options.savepoint_at_end = random.below(2) == 0;
    options
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A pipe whose reader has gone means that the test is over.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The steps of the next transaction.
fn steps(random: &mut Random, next_key: &mut i64) -> Vec<Step> {
    let mut insert = |random: &mut Random, bulk: bool| {
        let rows = match bulk && random.below(60) == 0 {
            true => 70_000,
            false => 1 + random.below(200) as i64,
        };
        let first = *next_key;
        *next_key += rows;
        (first, rows)
    };
    let alone = random.below(12);
    let one = match alone {
        0 => Some(Step::Merge),
        1 => Some(Step::Checkpoint),
        2 => Some(Step::View),
        3 => {
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

/// One client, without end.
async fn client(engine: Arc<Engine>, client: usize, mut random: Random) {
    let session = engine.session();
    let top = |table: String| format!("SELECT coalesce(max(k), 0) AS k FROM {table}{client}");
    let next = format!(
        "SELECT max(k) + 1 FROM ({} UNION ALL {})",
        top("a".into()),
        top("b".into())
    );
    let mut next_key: i64 = value(&session, &next).await.parse().expect("a key");
    let numbers = format!("SELECT coalesce(max(n), 0) FROM log WHERE client = {client}");
    let mut number: i64 = value(&session, &numbers).await.parse().expect("a number");
    let views = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'v";
    let mut has_view = value(&session, &format!("{views}{client}'")).await == "1";
    loop {
        number += 1;
        let steps = steps(&mut random, &mut next_key);
        let words: Vec<String> = steps.iter().map(ToString::to_string).collect();
        say(&format!("@begin {client} {number} {}", words.join(" ")));
        let is_transaction = steps[0].is_in_transaction();
        if is_transaction {
            run(&session, "BEGIN").await;
            run(
                &session,
                &format!("INSERT INTO log VALUES ({client}, {number})"),
            )
            .await;
        }
        for step in steps {
            if step == Step::Checkpoint && engine.data_directory().is_none() {
                engine.publish().expect("published");
                continue;
            }
            for sql in step.sql(client, has_view) {
                run(&session, &sql).await;
            }
            has_view ^= step == Step::View;
        }
        if is_transaction {
            run(&session, "COMMIT").await;
        }
        say(&format!("@done {client} {number}"));
    }
}

/// The child. It does nothing when it is run as a test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_of_the_crash_test() {
    let Ok(seed) = std::env::var(SEED) else {
        return;
    };
    let kept = Kept {
        data: std::env::var_os(DIRECTORY).map(PathBuf::from),
        pool: std::env::var_os(POOL).map(PathBuf::from),
    };
    if kept.data.is_none() && kept.pool.is_none() {
        return;
    }
    let mut random = Random(seed.parse().expect("a seed"));
    let engine = kept.open(&mut random);
    let session = engine.session();
    run(&session, "SET nearfar.merge_rows = 300").await;
    say("@open");
    let clients = (0..CLIENTS).map(|index| {
        let random = Random(random.below(u64::MAX));
        tokio::spawn(client(Arc::clone(&engine), index, random))
    });
    for client in clients.collect::<Vec<_>>() {
        if let Err(error) = client.await {
            say(&format!("@failed {error}"));
            std::process::exit(1);
        }
    }
}

/// What the children have said of one client.
#[derive(Debug, Default)]
struct Told {
    acknowledged: Model,
    under_way: Option<(i64, Vec<Step>)>,
    /// What had been acknowledged when the last checkpoint began.
    published: Model,
    /// What was acknowledged since then.
    since: Vec<(i64, Vec<Step>)>,
}

impl Told {
    /// Whether `found` is what was published last or any later state, which only a data directory
    /// keeps to the last.
    fn has_been(&self, found: &Model) -> bool {
        let mut model = self.published.clone();
        let later = self.since.iter().chain(&self.under_way);
        let mut is_found = model == *found;
        for (number, steps) in later {
            apply(&mut model, *number, steps);
            is_found |= model == *found;
        }
        is_found
    }

    /// The model with what was not acknowledged.
    fn with_rest(&self) -> Model {
        let mut model = self.acknowledged.clone();
        if let Some((number, steps)) = &self.under_way {
            apply(&mut model, *number, steps);
        }
        model
    }
}

fn apply(model: &mut Model, number: i64, steps: &[Step]) {
    steps.iter().for_each(|step| model.apply(*step));
    if steps[0].is_in_transaction() {
        model.numbers.insert(number);
    }
}

/// Takes in one line of a child.
fn hear(told: &mut BTreeMap<usize, Told>, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (kind, client, number) = match &words[..] {
        ["@failed", ..] => panic!("a child has failed: {line}"),
        [kind @ ("@begin" | "@done"), client, number, ..] => (
            *kind,
            client.parse().expect("a client"),
            number.parse::<i64>().expect("a number"),
        ),
        _ => return,
    };
    let told: &mut Told = told.entry(client).or_default();
    if kind == "@begin" {
        let steps: Vec<Step> = words[3..]
            .iter()
            .map(|w| w.parse().expect("a step"))
            .collect();
        told.under_way = Some((number, steps));
    } else {
        let (begun, steps) = told.under_way.take().expect("a transaction that has begun");
        assert_eq!(begun, number);
        apply(&mut told.acknowledged, number, &steps);
        if steps == [Step::Checkpoint] {
            told.published = told.acknowledged.clone();
            told.since.clear();
        } else {
            told.since.push((number, steps));
        }
    }
}

fn start(kept: &Kept, seed: u64) -> Child {
    let this = std::env::current_exe().expect("this program");
    let places = [(DIRECTORY, &kept.data), (POOL, &kept.pool)];
    let places = places
        .into_iter()
        .filter_map(|(name, path)| Some((name, path.as_ref()?)));
    Command::new(this)
        .args([
            "--exact",
            "durability::crashes::child_of_the_crash_test",
            "--nocapture",
        ])
        .envs(places)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Runs a child until it is killed.
fn crash(kept: &Kept, seed: u64, random: &mut Random, told: &mut BTreeMap<usize, Told>) {
    let mut child = start(kept, seed);
    let mut lines = BufReader::new(child.stdout.take().expect("its output"));
    let mut first = String::new();
    while !first.starts_with("@open") {
        first.clear();
        if lines.read_line(&mut first).expect("a line") == 0 {
            let mut text = String::new();
            let _ = child
                .stderr
                .take()
                .expect("its errors")
                .read_to_string(&mut text);
            panic!("a child could not open what is kept: {text}");
        }
    }
    // Read while it runs: a full pipe would stop it.
    let (sender, heard) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        while lines.read_line(&mut line).unwrap_or(0) > 0 {
            // A line that is torn says nothing: what it was to say was acknowledged to nobody.
            if line.ends_with('\n') && sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    // Killed at any moment, but mostly when something has been done.
    let mut early = Vec::new();
    if random.below(8) > 0 {
        while let Ok(line) = heard.recv_timeout(Duration::from_secs(10)) {
            let is_done = line.starts_with("@done");
            early.push(line);
            if is_done {
                break;
            }
        }
    }
    std::thread::sleep(Duration::from_millis(random.below(500)));
    child.kill().expect("killed");
    child.wait().expect("ended");
    reader.join().expect("its lines");
    early
        .into_iter()
        .chain(heard)
        .for_each(|line| hear(told, &line));
}

async fn pairs(session: &Session, table: &str) -> BTreeMap<i64, i64> {
    let mut found = BTreeMap::new();
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

async fn found(session: &Session, client: usize) -> Model {
    let relations = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'v";
    let has_view = value(session, &format!("{relations}{client}'")).await == "1";
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

/// Compares what is kept with what was told, which is known for certain after that.
async fn compare(kept: &Kept, random: &mut Random, told: &mut BTreeMap<usize, Told>) {
    let engine = kept.open(random);
    let session = engine.session();
    for (client, told) in told {
        let found = found(&session, *client).await;
        if found != told.acknowledged {
            let is_right = match kept.data {
                Some(_) => found == told.with_rest(),
                None => told.has_been(&found),
            };
            assert!(
                is_right,
                "client {client}, whose last is {:?}: {} and {} rows, view {}, {} transactions; \
                 acknowledged are {} and {} rows, view {}, {} transactions",
                told.under_way,
                found.a.len(),
                found.b.len(),
                found.has_view,
                found.numbers.len(),
                told.acknowledged.a.len(),
                told.acknowledged.b.len(),
                told.acknowledged.has_view,
                told.acknowledged.numbers.len(),
            );
        }
        *told = Told {
            published: found.clone(),
            acknowledged: found,
            ..Told::default()
        };
    }
}

/// Kills one process after another, so many within a time where nobody says how many.
async fn crash_again_and_again(kept: Kept, kills_wanted: u64, time: Duration) {
    let seed = match std::env::var(SEED) {
        Ok(seed) => seed.parse().expect("a seed"),
        Err(_) => u64::from(std::process::id()),
    };
    let asked: Option<u64> = std::env::var(COUNT)
        .ok()
        .map(|n| n.parse().expect("a number"));
    let mut random = Random(seed);
    let mut told = BTreeMap::new();
    let session = kept.open(&mut random).session();
    run(&session, "CREATE TABLE log (client BIGINT, n BIGINT)").await;
    for client in 0..CLIENTS {
        for table in ["a", "b"] {
            let columns = "(k BIGINT, v BIGINT, s VARCHAR)";
            run(&session, &format!("CREATE TABLE {table}{client} {columns}")).await;
        }
        told.insert(client, Told::default());
    }
    drop(session);
    let started = Instant::now();
    let (mut kills, mut under_way) = (0, 0);
    while kills < asked.unwrap_or(kills_wanted) && (asked.is_some() || started.elapsed() < time) {
        crash(&kept, random.below(u64::MAX), &mut random, &mut told);
        under_way += told
            .values()
            .filter(|told| told.under_way.is_some())
            .count();
        compare(&kept, &mut random, &mut told).await;
        kills += 1;
    }
    let all = |count: fn(&Model) -> usize| -> usize {
        told.values().map(|told| count(&told.acknowledged)).sum()
    };
    say(&format!(
        "seed {seed}: {kills} kills in {:.0} s; {} transactions and \
         {under_way} that were under way, {} rows at the end",
        started.elapsed().as_secs_f64(),
        all(|model| model.numbers.len()),
        all(|model| model.a.len() + model.b.len()),
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_twice_or_torn_when_the_process_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = Kept {
        data: Some(folder.path().to_owned()),
        pool: None,
    };
    crash_again_and_again(kept, 50, Duration::from_secs(60)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_a_process_with_a_pool_and_a_log_is_killed() {
    let (folder, memory) = (tempfile::tempdir().expect("a folder"), folder());
    let kept = Kept {
        data: Some(folder.path().to_owned()),
        pool: Some(memory.path().join("pool")),
    };
    crash_again_and_again(kept, 20, Duration::from_secs(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_published_is_there_and_whole_when_a_process_with_a_pool_is_killed() {
    let memory = folder();
    let kept = Kept {
        data: None,
        pool: Some(memory.path().join("pool")),
    };
    crash_again_and_again(kept, 20, Duration::from_secs(20)).await;
}
