//! Isolation, shown by histories: what concurrent clients were told over the wire, while their server was killed and
//! started again, has no anomaly that their level of isolation forbids.
//!
//! Clients append to lists and read them ([`client`]); what they were told is a [`history`], of whose transactions
//! a [`graph`] says which come before which, and a [`checker`] which anomalies that shows.

mod checker;
mod client;
mod graph;
mod history;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::commits::{Random, number_of, say, seed};
use crate::node::Node;
use crate::support::temp;
use checker::{Anomaly, Findings, Level, check};
use client::{Client, elements};
use history::{History, Key, Outcome};

/// How many rounds the long run has for each level.
const ROUNDS: &str = "NEARFAR_HISTORIES";
/// Clients at the same time.
const CLIENTS: i64 = 6;
/// Lists of a round, few so that transactions meet.
const LISTS: Key = 5;

/// A server whose clients run transactions of one level.
struct Scene {
    level: Level,
    arguments: Vec<String>,
    server: Node,
    runtime: Runtime,
    clients: Vec<Client>,
    /// Where the lists of the next round begin.
    next_key: Key,
}

fn started(arguments: &[String]) -> Node {
    let mut server = Node::spawn(arguments);
    server.wait_for("ready");
    server
}

impl Scene {
    fn new(folder: &Path, level: Level, seed: u64) -> Self {
        let data = folder.join("data").to_string_lossy().into_owned();
        let words = [
            "serve",
            "--port",
            "0",
            "--no-http",
            "--log-sync",
            "on",
            "--data",
            &data,
        ];
        let arguments = words.map(str::to_owned).to_vec();
        let scene = Self {
            level,
            server: started(&arguments),
            arguments,
            runtime: Runtime::new().expect("threads"),
            clients: (1..=CLIENTS)
                .map(|number| Client::new(number, seed))
                .collect(),
            next_key: 0,
        };
        scene.run("CREATE TABLE lists (k BIGINT PRIMARY KEY, v VARCHAR)");
        scene
    }

    fn connect(&self) -> tokio_postgres::Client {
        self.runtime
            .block_on(self.server.connect())
            .expect("connected")
    }

    fn run(&self, sql: &str) {
        let connection = self.connect();
        let done = self.runtime.block_on(connection.batch_execute(sql));
        done.expect(sql);
    }

    /// Clients work on new lists for a while, until their server is killed.
    fn round(&mut self, time: Duration) {
        let keys = self.next_key..self.next_key + LISTS;
        self.next_key = keys.end;
        let fill = "INSERT INTO lists SELECT value, '' FROM generate_series";
        self.run(&format!("{fill}({}, {})", keys.start, keys.end - 1));
        let connections: Vec<_> = (0..CLIENTS).map(|_| self.connect()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let clients = self.clients.drain(..).zip(connections);
        let working: Vec<JoinHandle<Client>> = clients
            .map(|(client, connection)| {
                let what = (self.level, keys.clone());
                self.runtime
                    .spawn(client.work(connection, what, Arc::clone(&stop)))
            })
            .collect();
        std::thread::sleep(time);
        self.server.signal("KILL");
        self.server.ended();
        stop.store(true, Ordering::Relaxed);
        for client in working {
            let client = self.runtime.block_on(client);
            self.clients.push(client.expect("no panic"));
        }
        self.server = started(&self.arguments);
    }

    /// All that was told, and what is there.
    fn history(&mut self) -> (History, BTreeMap<String, u64>) {
        let connection = self.connect();
        let rows = self
            .runtime
            .block_on(connection.query("SELECT k, v FROM lists", &[]));
        let end = rows.expect("lists").into_iter();
        let end = end.map(|row| (row.get(0), elements(row.get(1))));
        let mut history = History {
            end: end.collect(),
            ..History::default()
        };
        let mut failed = BTreeMap::new();
        for client in self.clients.drain(..) {
            history.transactions.extend(client.transactions);
            for (code, count) in client.failed {
                *failed.entry(code).or_default() += count;
            }
        }
        (history, failed)
    }
}

/// What a level's transactions have shown, which is nothing that the level forbids.
fn hold(level: Level, rounds: u64, time: Duration, seed: u64) -> Findings {
    let folder = temp();
    let mut scene = Scene::new(folder.path(), level, seed);
    (0..rounds).for_each(|_| scene.round(time));
    let (history, failed) = scene.history();
    let findings = check(&history);
    let in_doubt = history.transactions.iter();
    let in_doubt = in_doubt
        .filter(|one| one.outcome == Outcome::InDoubt)
        .count();
    let seen: Vec<Anomaly> = findings.found.keys().copied().collect();
    say(&format!(
        "{level}: seed {seed}, kills {rounds}, committed {}, failed {failed:?}, in doubt {in_doubt}, of which {} were \
         found; dependencies {}; seen {seen:?}",
        findings.committed, findings.in_doubt_and_found, findings.edges
    ));
    for (anomaly, example) in &findings.found {
        assert!(
            level.allows(*anomaly),
            "{level}, seed {seed}: {anomaly:?}: {example}"
        );
    }
    findings
}

#[test]
fn no_level_shows_what_it_forbids() {
    for level in Level::ALL {
        let findings = hold(level, 2, Duration::from_millis(700), seed());
        assert!(findings.edges > 0, "{level}: no transactions have met");
    }
}

#[test]
#[ignore = "takes minutes: .ci/nightly histories"]
fn long_histories_show_nothing_that_is_forbidden() {
    let (rounds, mut random) = (number_of(ROUNDS).unwrap_or(40), Random(seed()));
    for level in Level::ALL {
        hold(
            level,
            rounds,
            Duration::from_secs(3),
            random.below(u64::MAX),
        );
    }
}
