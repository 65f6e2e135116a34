//! Kills of processes that follow each other on one folder.

use nearfar_memory::pool::TakeOver;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::child::{CLIENTS, Kept};
use super::client_record::ClientRecord;
use super::counts::Counts;
use super::model::Random;
use super::process::Process;
use super::say;
use crate::pools::folder;
use crate::support::run;

/// The longest that a process works before it is killed.
const WORK: Duration = Duration::from_millis(300);

/// What outlives the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// A data directory.
    Data,
    /// A data directory, and main storage in a pool.
    Both,
    /// A pool alone.
    Pool,
    /// A data directory and a pool, which the next process takes from the one before as often as not.
    HandOver,
}

impl Layout {
    pub const ALL: [Self; 4] = [Self::Data, Self::Both, Self::Pool, Self::HandOver];

    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "a data directory",
            Self::Both => "a directory and a pool",
            Self::Pool => "a pool alone",
            Self::HandOver => "a directory, a pool and two processes",
        }
    }
}

/// How a process gets the pool of another.
#[derive(Debug, Clone, Copy)]
enum TakingOver {
    /// While the other works.
    Promoted,
    /// While the other is stopped, which then goes on.
    Stopped,
    /// While the other ends, as it was told to.
    Ended,
    /// While the other is killed.
    Killed,
}

impl TakingOver {
    fn random(random: &mut Random) -> Self {
        let all = [Self::Promoted, Self::Stopped, Self::Ended, Self::Killed];
        all[random.below(4) as usize]
    }

    fn name(self) -> &'static str {
        match self {
            Self::Promoted => "from one that works",
            Self::Stopped => "from one that is stopped",
            Self::Ended => "from one that ends",
            Self::Killed => "from one that is killed",
        }
    }
}

/// One folder and what is known of it.
pub struct Round<'c> {
    layout: Layout,
    kept: Kept,
    random: Random,
    records: BTreeMap<usize, ClientRecord>,
    counts: &'c mut Counts,
    kills: u64,
    started: u64,
    /// How long the last process took until it was ready.
    opening: Duration,
    files: tempfile::TempDir,
    memory: tempfile::TempDir,
}

impl<'c> Round<'c> {
    /// New tables.
    pub fn new(layout: Layout, mut random: Random, counts: &'c mut Counts) -> Self {
        let (files, memory) = (tempfile::tempdir().expect("a folder"), folder());
        let kept = Kept {
            data: (layout != Layout::Pool).then(|| files.path().join("data")),
            pool: (layout != Layout::Data).then(|| memory.path().join("pool")),
        };
        make_tables(&kept, &mut random);
        Self {
            layout,
            kept,
            random,
            records: (0..CLIENTS)
                .map(|client| (client, ClientRecord::default()))
                .collect(),
            counts,
            kills: 0,
            started: 0,
            opening: Duration::from_millis(300),
            files,
            memory,
        }
    }

    /// Kills so many processes, or one more.
    pub fn kill(&mut self, kills: u64) {
        while self.kills < kills {
            match self.layout {
                Layout::HandOver if self.random.below(2) == 0 => self.hand_over(),
                _ => self.crash(),
            }
        }
    }

    /// Has a last process check everything.
    pub fn check(&mut self) {
        let mut process = self.start_alone();
        process.wait_for("@ready");
        process.kill();
        self.hear(&process);
    }

    /// Starts a process after another that is dead.
    fn start_alone(&mut self) -> Process {
        // Of one that was killed after it had taken over, only the lease says that it is.
        self.start(match self.layout {
            Layout::HandOver => "lease",
            _ => "never",
        })
    }

    fn start(&mut self, take_over: &str) -> Process {
        self.started += 1;
        let errors = self
            .files
            .path()
            .join(format!("errors-{}", self.started % 2));
        Process::start(&self.kept, self.random.below(u64::MAX), take_over, &errors)
    }

    fn pause(&mut self, at_most: Duration) {
        let micros = self.random.below(at_most.as_micros() as u64 + 1);
        std::thread::sleep(Duration::from_micros(micros));
    }

    /// One process, which is killed while it opens or works.
    fn crash(&mut self) {
        let begun = Instant::now();
        let mut process = self.start_alone();
        match self.random.below(8) {
            0 | 1 => self.pause(self.opening),
            kind => {
                process.wait_for("@ready");
                self.opening = begun.elapsed();
                // At any moment, but mostly when something has been done.
                if kind > 2 {
                    process.wait_for("@done");
                }
                self.pause(WORK);
            }
        }
        self.end(&mut process, false);
        self.hear(&process);
    }

    /// Two processes, of which the second takes over from the first. Both are killed.
    fn hand_over(&mut self) {
        let mut old = self.start_alone();
        old.wait_for("@done");
        self.pause(Duration::from_millis(60));
        let how = TakingOver::random(&mut self.random);
        if matches!(how, TakingOver::Stopped) {
            old.signal("STOP");
        }
        let begun = Instant::now();
        let mut new = self.start(match how {
            TakingOver::Promoted => "now",
            _ => "lease",
        });
        match how {
            TakingOver::Ended => {
                self.pause(self.opening);
                old.tell_to_end();
            }
            TakingOver::Killed => {
                self.pause(self.opening);
                self.end(&mut old, true);
            }
            TakingOver::Promoted | TakingOver::Stopped => {}
        }
        if self.random.below(3) == 0 {
            self.pause(self.opening * 2);
        } else {
            new.wait_for("@ready");
            self.opening = begun.elapsed().min(self.opening * 2);
            if matches!(how, TakingOver::Stopped) {
                old.signal("CONT");
            }
            self.pause(WORK);
        }
        if self.random.below(2) == 0 {
            self.end(&mut new, true);
            self.pause(Duration::from_millis(30));
            self.end(&mut old, true);
        } else {
            self.end(&mut old, true);
            self.pause(Duration::from_millis(30));
            self.end(&mut new, true);
        }
        if new.lines.iter().any(|line| line.starts_with("@open ")) {
            *self.counts.hand_overs.entry(how.name()).or_default() += 1;
        }
        self.hear(&old);
        self.hear(&new);
    }

    /// Kills a process, and counts what it was doing, if it still did something.
    fn end(&mut self, process: &mut Process, is_handing_over: bool) {
        if !process.kill() {
            return;
        }
        self.kills += 1;
        *self.counts.of_layout.entry(self.layout).or_default() += 1;
        let has_said = |what: &str| process.lines.iter().any(|line| line.starts_with(what));
        let moment = match () {
            () if has_said("@closing") => "closing",
            () if has_said("@refused") || has_said("@doubt") => "without the pool",
            () if has_said("@ready") && is_handing_over => "working beside another",
            () if has_said("@ready") => "working",
            () if has_said("@open ") => "checking",
            () if is_handing_over => "waiting or taking over",
            () => "opening",
        };
        *self.counts.moments.entry(moment).or_default() += 1;
        for client in 0..CLIENTS {
            let words = process
                .lines
                .iter()
                .rev()
                .map(|line| line.split_whitespace().collect());
            let mut own = words.filter(|words: &Vec<&str>| {
                words.get(1) == Some(&client.to_string().as_str()) && words[0] != "@state"
            });
            if let Some(["@step", _, step]) = own.next().as_deref() {
                *self.counts.steps.entry((*step).to_owned()).or_default() += 1;
            }
        }
    }

    /// Takes in all that a process has said.
    fn hear(&mut self, process: &Process) {
        for line in &process.lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [kind, rest @ ..] = &words[..] else {
                continue;
            };
            match (*kind, rest) {
                ("@open", [origin]) => {
                    *self
                        .counts
                        .origins
                        .entry((*origin).to_lowercase())
                        .or_default() += 1;
                }
                (
                    "@state" | "@begin" | "@done" | "@lost" | "@refused",
                    [client, number, rest @ ..],
                ) => {
                    let client = client.parse().expect("a client");
                    let number: u64 = number.parse().expect("a number");
                    self.hear_of(client, kind, number, rest, line);
                }
                _ => {}
            }
        }
    }

    fn hear_of(&mut self, client: usize, kind: &str, number: u64, rest: &[&str], line: &str) {
        let record = self.records.get_mut(&client).expect("a client");
        match kind {
            "@state" => {
                let is_logged = self.layout != Layout::Pool;
                if let Err(wanted) = record.found(number, is_logged, self.counts) {
                    panic!("{:?}, client {client}: {line} but {wanted}", self.layout);
                }
            }
            "@begin" => {
                let steps = rest.iter().map(|word| word.parse().expect("a step"));
                record.begin(number as i64, steps.collect());
            }
            "@done" => record.done(number as i64, self.counts),
            "@lost" => record.lost(self.counts),
            _ => record.refused(self.counts),
        }
    }
}

/// What was not as it should be can be looked at.
impl Drop for Round<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.files.disable_cleanup(true);
            self.memory.disable_cleanup(true);
            say(&format!("kept is {:?}", self.kept));
        }
    }
}

fn make_tables(kept: &Kept, random: &mut Random) {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let engine = kept.open(random, TakeOver::Never).expect("an engine");
        let session = engine.session();
        run(
            &session,
            "CREATE TABLE log (client BIGINT, n BIGINT, PRIMARY KEY (client, n))",
        )
        .await;
        let shared = "CREATE TABLE shared (k BIGINT PRIMARY KEY, client BIGINT); \
                      CREATE TABLE counters AS SELECT value AS k, 0::BIGINT AS n0, 0::BIGINT AS n1, \
                          0::BIGINT AS n2 FROM generate_series(1, 4); \
                      ALTER TABLE counters ADD PRIMARY KEY (k)";
        run(&session, shared).await;
        for client in 0..CLIENTS {
            let own = format!(
                "CREATE TABLE c{client} (k BIGINT PRIMARY KEY); CREATE SEQUENCE q{client}; \
                 CREATE TABLE drawn{client} (n BIGINT PRIMARY KEY)"
            );
            run(&session, &own).await;
            for table in ["a", "b"] {
                let columns = "(k BIGINT PRIMARY KEY, v BIGINT, s VARCHAR UNIQUE)";
                run(&session, &format!("CREATE TABLE {table}{client} {columns}")).await;
                let index = format!("CREATE INDEX ON {table}{client} USING masstree (v, k DESC)");
                run(&session, &index).await;
            }
        }
    });
}
