//! Statements that end before their time, over the wire: what was acknowledged is there exactly once, what
//! was reported as failed is not there, and what is in doubt is there whole or not at all.
//!
//! Clients change tables at random while statements run out of time, are cancelled, and their server
//! is told to end immediately, killed, stopped or replaced. An oracle ([`client`]) compares what is there
//! afterwards with what they were told.

mod client;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::node::Node;
use crate::support::{run, temp};
pub use client::Random;
use client::{Client, Contents, Counts, Limit, cancel};

/// What the clients do and when they are interrupted, as far as the machine lets it be said.
const SEED: &str = "NEARFAR_CRASH_SEED";
/// How many rounds the long run has.
const ROUNDS: &str = "NEARFAR_INTERRUPTIONS";
/// Clients at the same time.
const CLIENTS: i64 = 6;
/// Rounds of one folder in the long run, so that tables stay small.
const ROUNDS_PER_FOLDER: u64 = 14;
/// The longest that a statement may take where statements are limited, in milliseconds.
const LIMIT_MS_MAX: u64 = 25;

/// How the statements of one round are interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Interruption {
    Timeouts,
    Cancels,
    /// SIGTERM without grace.
    Terminated,
    Killed,
    /// SIGSTOP, until another server has taken over.
    Stopped,
    /// Another server is promoted while this one works.
    Promoted,
}

use Interruption::{Cancels, Killed, Promoted, Stopped, Terminated, Timeouts};

pub fn number_of(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number")),
    )
}

pub fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// A folder with tables, their server, and clients.
struct Scene {
    folder: PathBuf,
    has_pool: bool,
    server: Option<Node>,
    runtime: Runtime,
    random: Random,
    clients: Vec<Client>,
    rounds: BTreeMap<Interruption, u64>,
}

impl Scene {
    fn new(folder: &Path, has_pool: bool, seed: u64) -> Self {
        let mut scene = Self {
            folder: folder.to_owned(),
            has_pool,
            server: None,
            runtime: Runtime::new().expect("threads"),
            random: Random(seed),
            clients: (1..=CLIENTS)
                .map(|number| Client::new(number, seed))
                .collect(),
            rounds: BTreeMap::new(),
        };
        scene.start();
        let connection = scene.connect();
        let sql = "CREATE TABLE t (number BIGINT, part BIGINT, version BIGINT)";
        let created = scene.runtime.block_on(connection.batch_execute(sql));
        created.expect("created");
        scene
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let place = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        let mut words: Vec<String> = ["serve", "--port", "0", "--http", "127.0.0.1:0"]
            .into_iter()
            .chain(["--grace", "0", "--data"])
            .map(str::to_owned)
            .collect();
        words.push(place("data"));
        if self.has_pool {
            words.extend(["--pool".to_owned(), place("tables.pool")]);
            let rest = ["--pool-bytes", "256MiB", "--lease", "2"];
            words.extend(rest.map(str::to_owned));
        }
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words
    }

    /// Starts a server. The one before may have been killed before it got the lock of the pool's file from the
    /// one before it: only its lease tells then that it is dead.
    fn start(&mut self) {
        let wait: &[&str] = match self.has_pool {
            true => &["--take-over", "when-lease-ends"],
            false => &[],
        };
        let mut node = Node::spawn(&self.arguments(wait));
        node.wait_for("ready");
        self.server = Some(node);
    }

    fn node(&self) -> &Node {
        self.server.as_ref().expect("a server")
    }

    fn connect(&self) -> Arc<tokio_postgres::Client> {
        let connected = self.runtime.block_on(self.node().connect());
        Arc::new(connected.expect("connected"))
    }

    /// One round: clients work, their statements are interrupted, and what is there is checked.
    fn interrupt(&mut self, by: Interruption, time: Duration) {
        *self.rounds.entry(by).or_default() += 1;
        let connections: Vec<_> = (0..CLIENTS).map(|_| self.connect()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let limit = Limit((by == Timeouts).then_some(LIMIT_MS_MAX));
        let clients = self.clients.drain(..).zip(&connections);
        let working: Vec<JoinHandle<Client>> = clients
            .map(|(client, connection)| {
                let work = client.work(Arc::clone(connection), limit, Arc::clone(&stop));
                self.runtime.spawn(work)
            })
            .collect();
        let seed = Random(self.random.below(u64::MAX));
        let cancelling = (by == Cancels).then(|| {
            self.runtime
                .spawn(cancel(connections, seed, Arc::clone(&stop)))
        });
        std::thread::sleep(time);
        self.replace(by);
        stop.store(true, Ordering::Relaxed);
        for client in working {
            let client = self.runtime.block_on(client);
            self.clients.push(client.expect("no panic"));
        }
        if let Some(cancelling) = cancelling {
            self.runtime.block_on(cancelling).expect("no panic");
        }
        self.finish(by);
        self.check(by);
    }

    /// Has another server take the place of this one, where that interrupts.
    fn replace(&mut self, by: Interruption) {
        match by {
            Timeouts | Cancels => {}
            Terminated | Killed => {
                let signal = if by == Killed { "KILL" } else { "TERM" };
                self.node().signal(signal);
                self.server.as_mut().expect("a server").ended();
                self.start();
            }
            Stopped | Promoted => {
                let arguments: &[&str] = match by {
                    Promoted => &["--standby", "--take-over", "never"],
                    _ => &["--standby"],
                };
                let mut second = Node::spawn(&self.arguments(arguments));
                second.wait_for("standby");
                match by {
                    Promoted => {
                        run(["serve", "promote", "--http", &second.http()]).succeeded();
                    }
                    _ => self.node().signal("STOP"),
                }
                second.wait_for("ready");
                let mut first = self.server.replace(second).expect("a server");
                if by == Stopped {
                    first.signal("CONT");
                }
                assert_eq!(first.ended(), Some(10), "{:?}", first.said);
            }
        }
    }

    /// Sometimes what is there has to be read again first.
    fn finish(&mut self, by: Interruption) {
        if matches!(by, Timeouts | Cancels) && self.random.below(2) == 0 {
            self.replace(Killed);
        }
    }

    #[track_caller]
    fn check(&mut self, by: Interruption) {
        let connection = self.connect();
        let contents = self.runtime.block_on(Contents::read(&connection));
        let mut wrong = Vec::new();
        for client in &mut self.clients {
            let numbers = contents.changes.keys().copied();
            let odd: Vec<i64> = numbers.filter(|number| client.has_made(*number)).collect();
            if !odd.is_empty() {
                wrong.push(format!("there and not known: {odd:?}"));
            }
            wrong.extend(client.check(&contents));
        }
        assert!(wrong.is_empty(), "{by:?}: {}", wrong.join("\n"));
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.clients
            .iter()
            .for_each(|client| counts.add(&client.counts));
        counts
    }

    fn end(mut self) -> (Counts, BTreeMap<Interruption, u64>) {
        self.node().signal("TERM");
        self.server.as_mut().expect("a server").ended();
        (self.counts(), self.rounds)
    }
}

fn tell(counts: &Counts, rounds: &BTreeMap<Interruption, u64>) {
    let Counts {
        acknowledged,
        in_doubt,
        found,
        failed,
    } = counts;
    say(&format!(
        "rounds: {rounds:?}\nacknowledged {acknowledged}, failed {failed:?}, in doubt {in_doubt}, of \
         which {found} were found; lost 0, twice 0, torn 0, failed and kept 0"
    ));
}

pub fn seed() -> u64 {
    number_of(SEED).unwrap_or_else(|| u64::from(std::process::id()))
}

/// A few rounds of each of these.
fn few(interruptions: &[Interruption], has_pool: bool) -> Counts {
    let (folder, seed) = (temp(), seed());
    say(&format!("seed {seed}"));
    let mut scene = Scene::new(folder.path(), has_pool, seed);
    for by in interruptions {
        scene.interrupt(*by, Duration::from_millis(700));
    }
    let (counts, rounds) = scene.end();
    tell(&counts, &rounds);
    assert!(counts.acknowledged > 0, "{counts:?}");
    counts
}

#[test]
fn statements_that_run_out_of_time_or_are_cancelled_are_kept_or_failed() {
    let counts = few(&[Timeouts, Cancels, Timeouts], false);
    assert!(counts.failed.contains_key("57014"), "{counts:?}");
}

#[test]
fn statements_of_a_server_that_ends_are_kept_or_failed() {
    few(&[Terminated, Terminated, Killed], false);
}

#[test]
fn statements_of_a_server_that_is_replaced_are_kept_or_failed() {
    few(&[Stopped, Killed, Promoted, Killed], true);
}

#[test]
#[ignore = "takes minutes: .ci/nightly interrupt"]
fn a_long_run_of_interruptions_keeps_what_it_says() {
    let (wanted, seed, begun) = (number_of(ROUNDS).unwrap_or(200), seed(), Instant::now());
    let (mut random, mut counts) = (Random(seed), Counts::default());
    let mut rounds: BTreeMap<Interruption, u64> = BTreeMap::new();
    let mut done = 0;
    while done < wanted {
        let (folder, has_pool) = (temp(), random.below(2) == 0);
        let mut scene = Scene::new(folder.path(), has_pool, random.below(u64::MAX));
        for _ in 0..ROUNDS_PER_FOLDER.min(wanted - done) {
            let kinds = if has_pool { 6 } else { 4 };
            let all = [Timeouts, Cancels, Terminated, Killed, Stopped, Promoted];
            let by = all[random.below(kinds) as usize];
            let time = Duration::from_millis(100 + random.below(1500));
            scene.interrupt(by, time);
            done += 1;
        }
        let (more, made) = scene.end();
        counts.add(&more);
        for (by, count) in made {
            *rounds.entry(by).or_default() += count;
        }
        let seconds = begun.elapsed().as_secs();
        say(&format!(
            "seed {seed}: {done} of {wanted} rounds after {seconds} s"
        ));
    }
    say(&format!("seed {seed}"));
    tell(&counts, &rounds);
}
