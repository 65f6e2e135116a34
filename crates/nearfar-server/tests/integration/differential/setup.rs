//! The same tables in all engines, and who moves them meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearfar_sql::engine::EngineOptions;
use nearfar_topology::{Profile, Topology};
use tokio::task::JoinHandle;

use super::check::{Check, Form};
use super::engines::{Engine, PATIENCE, normal};
use super::kind::Kind;
use super::random::Random;
use super::tables::{Step, Table, Tables};
use crate::asked::{Failure, Rows};
use crate::support::{Running, options, postgres, start_on};

/// Between two moves.
const REST: Duration = Duration::from_millis(5);
/// Differing rows that are shown.
const SHOWN_ROWS: usize = 8;

/// What came of a check.
#[derive(Clone, Debug)]
pub enum Verdict {
    Holds {
        /// Who else was asked and did not answer, and why.
        unanswered: Vec<String>,
    },
    /// It could not be found out.
    Skipped {
        message: String,
    },
    /// Refused by Nearfar, and by nobody else.
    Refused {
        message: String,
    },
    Fails {
        how: String,
    },
}

/// A server with tables, and the same tables elsewhere.
pub struct Setup {
    /// Ends after those who use it.
    _server: Running,
    nearfar: Engine,
    unoptimised: Engine,
    postgres: Option<Engine>,
    mover: Option<Mover>,
    /// Holds a transaction open.
    _other: Engine,
}

impl Setup {
    /// Makes the tables; a failure of that.
    pub async fn new(tables: &Tables, seed: Option<u64>) -> Result<Self, Failure> {
        let server = start_on(engine(), options()).await;
        let nearfar = wire(&server).await;
        let own = &tables.own_changes;
        // Two transactions that change the same rows would wait for each other.
        let session = match own.is_empty() {
            true => server.engine.session(),
            false => engine().session(),
        };
        let unoptimised = Engine::unoptimised(session, server.threads()).await;
        let postgres = postgres(PATIENCE).await.map(Engine::Wire);
        for step in &tables.steps {
            nearfar
                .ask(&step.sql())
                .await
                .map_err(|failure| named(step, failure))?;
            if !own.is_empty() {
                let asked = unoptimised.ask(&step.sql()).await;
                asked.map_err(|failure| named(step, failure))?;
            }
            if let (Some(postgres), false) = (&postgres, matches!(step, Step::Ours(_))) {
                // What it refuses is nothing that must hold.
                let asked = postgres.ask(&step.sql()).await;
                asked.map_err(|failure| excused(step, failure))?;
            }
        }
        let other = wire(&server).await;
        begin(&other, &tables.foreign_changes).await?;
        let mover = seed.map(|seed| Mover::start(&server, &tables.tables, seed));
        if !own.is_empty() {
            begin(&nearfar, own).await?;
            begin(&unoptimised, own).await?;
            if let Some(postgres) = &postgres {
                begin(postgres, own).await?;
            }
        }
        Ok(Self {
            _server: server,
            nearfar,
            unoptimised,
            postgres,
            mover,
            _other: other,
        })
    }

    /// Whether a transaction is open, so that a failure ends what can be asked.
    async fn recover(&self, tables: &Tables) {
        if tables.own_changes.is_empty() {
            return;
        }
        let all = [
            Some(&self.nearfar),
            Some(&self.unoptimised),
            self.postgres.as_ref(),
        ];
        for engine in all.into_iter().flatten() {
            if engine.ask("SELECT 1").await.is_err() {
                let _ = engine.ask("ROLLBACK").await;
                let _ = begin(engine, &tables.own_changes).await;
            }
        }
    }

    /// Whether the tables are the same everywhere.
    pub async fn compare_tables(&self, tables: &Tables) -> Verdict {
        for table in &tables.tables {
            let kinds: Vec<_> = table.columns.iter().map(|column| column.kind).collect();
            let sql = format!("SELECT * FROM {}", table.name);
            let verdict = self.compare(&sql, &kinds, false).await;
            if !matches!(verdict, Verdict::Holds { .. }) {
                return verdict;
            }
        }
        let unanswered = Vec::new();
        Verdict::Holds { unanswered }
    }

    pub async fn check(&self, check: &Check, tables: &Tables) -> Verdict {
        let (whole, parts) = check.sql();
        let kinds = check.kinds();
        let verdict = match check {
            Check::Same { is_ordered, .. } => self.compare(&whole, &kinds, *is_ordered).await,
            Check::Counted { .. } | Check::Partitioned { .. } => {
                self.put_together(check, &whole, &parts).await
            }
        };
        self.recover(tables).await;
        verdict
    }

    /// Whether all engines answer alike.
    async fn compare(&self, sql: &str, kinds: &[Kind], is_ordered: bool) -> Verdict {
        let ours = self.nearfar.ask(sql).await;
        let plain = self.unoptimised.ask(sql).await;
        let theirs = match &self.postgres {
            Some(postgres) => Some(postgres.ask(sql).await),
            None => None,
        };
        let others = [
            Some(("without rules", plain)),
            theirs.map(|rows| ("PostgreSQL", rows)),
        ];
        let others: Vec<_> = others.into_iter().flatten().collect();
        let ours = match ours {
            Ok(rows) => normal(rows, kinds, is_ordered),
            Err(failure) => return judge(failure, others.iter().any(|(_, rows)| rows.is_ok())),
        };
        let mut unanswered = Vec::new();
        for (name, rows) in others {
            let rows = match rows {
                Ok(rows) => normal(rows, kinds, is_ordered),
                Err(failure) => {
                    unanswered.push(format!("{name}: {}", failure.message));
                    continue;
                }
            };
            if rows != ours {
                let how = format!("Nearfar and {name} differ:\n{}", difference(&ours, &rows));
                return Verdict::Fails { how };
            }
        }
        Verdict::Holds { unanswered }
    }

    async fn put_together(&self, check: &Check, whole: &str, parts: &[String]) -> Verdict {
        let kinds = check.kinds();
        let whole = match self.nearfar.ask(whole).await {
            Ok(rows) => normal(rows, &kinds, false),
            Err(failure) => return judge(failure, false),
        };
        let mut together = Rows::new();
        for part in parts {
            match self.nearfar.ask(part).await {
                Ok(rows) => together.extend(rows),
                Err(failure) => return judge(failure, false),
            }
        }
        let together = normal(together, &kinds, false);
        if whole == together {
            let unanswered = Vec::new();
            return Verdict::Holds { unanswered };
        }
        let how = match check {
            Check::Counted { .. } => "rows that are found and rows that are counted differ",
            Check::Partitioned {
                form: Form::Having, ..
            } => "groups and their parts differ",
            _ => "rows and their parts differ",
        };
        let how = format!("{how}:\n{}", difference(&whole, &together));
        Verdict::Fails { how }
    }

    /// Ends the moves.
    pub async fn close(&mut self) -> Option<String> {
        match self.mover.take() {
            Some(mover) => mover.stop().await,
            None => None,
        }
    }
}

fn engine() -> Arc<nearfar_sql::engine::Engine> {
    let topology = Topology::this_machine().expect("a machine");
    let options = EngineOptions {
        profile: Some(Profile::builtin("cxl-blades-4").expect("a built-in profile")),
        whole_device: true,
        threads: 3,
        ..EngineOptions::new(topology)
    };
    nearfar_sql::engine::Engine::new(options).expect("an engine")
}

async fn wire(server: &Running) -> Engine {
    let client = server.client().await;
    let limit = format!("SET statement_timeout = {}", PATIENCE.as_millis());
    client.batch_execute(&limit).await.expect("set");
    Engine::Wire(client)
}

/// A connection whose tables are temporary.
async fn begin(engine: &Engine, changes: &[Step]) -> Result<(), Failure> {
    engine.ask("BEGIN").await?;
    for change in changes {
        engine
            .ask(&change.sql())
            .await
            .map_err(|failure| named(change, failure))?;
    }
    Ok(())
}

fn named(step: &Step, failure: Failure) -> Failure {
    let message = format!("tables are not made: {}: {}", step.sql(), failure.message);
    Failure { message, ..failure }
}

fn excused(step: &Step, failure: Failure) -> Failure {
    let code = Some("57014".to_owned());
    Failure {
        code,
        ..named(step, failure)
    }
}

/// What a statement that failed means, where others answered it or not.
fn judge(failure: Failure, is_answered: bool) -> Verdict {
    let Failure { code, message } = &failure;
    let is_excused = failure.is_excused();
    let message = format!("{} {message}", code.as_deref().unwrap_or("no SQLSTATE"));
    match code.as_deref() {
        None | Some("XX000") => Verdict::Fails { how: message },
        Some(_) if is_excused || !is_answered => Verdict::Skipped { message },
        Some(_) => Verdict::Refused { message },
    }
}

/// Rows that only one of two has.
fn difference(first: &Rows, second: &Rows) -> String {
    let only = |these: &Rows, those: &Rows| {
        let mut rest = those.clone();
        let mut lines: Vec<String> = Vec::new();
        for row in these {
            match rest.iter().position(|other| other == row) {
                Some(index) => drop(rest.swap_remove(index)),
                None => lines.push(format!("  {}", line(row))),
            }
            if lines.len() == SHOWN_ROWS {
                break;
            }
        }
        lines.join("\n")
    };
    let (left, right) = (only(first, second), only(second, first));
    let counts = format!("{} and {} rows", first.len(), second.len());
    match left.is_empty() && right.is_empty() {
        true => format!("{counts}, in another order"),
        false => format!("{counts}; only the first has\n{left}\nonly the second has\n{right}"),
    }
}

fn line(row: &[Option<String>]) -> String {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "NULL".to_owned());
    row.iter().map(value).collect::<Vec<_>>().join(" | ")
}

/// Moves tables between tiers and merges them, until it is told to stop.
struct Mover {
    is_over: Arc<AtomicBool>,
    task: JoinHandle<Option<String>>,
}

impl Mover {
    fn start(server: &Running, tables: &[Table], seed: u64) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let (config, tables) = (server.config(), tables.to_vec());
        let task = tokio::spawn(async move {
            let client = crate::support::connect(&config).await.expect("connected");
            let mut random = Random::new(seed);
            while !over.load(Ordering::Relaxed) {
                let sql = movement(&tables, &mut random);
                if let Err(error) = client.batch_execute(&sql).await {
                    return Some(format!("{sql}: {error:?}"));
                }
                tokio::time::sleep(REST).await;
            }
            None
        });
        Self { is_over, task }
    }

    /// What went wrong.
    async fn stop(self) -> Option<String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.task
            .await
            .unwrap_or_else(|error| Some(error.to_string()))
    }
}

fn movement(tables: &[Table], random: &mut Random) -> String {
    let table = random.pick(tables);
    let name = &table.name;
    let column = &random.pick(&table.columns).name;
    let tier = *random.pick(&["near", "far"]);
    match random.below(5) {
        0 => format!("CALL nearfar.merge('{name}')"),
        1 => format!("ALTER TABLE {name} SET TABLESPACE {tier}"),
        2 => format!("ALTER TABLE {name} SET (placement = 'interleave:2:1')"),
        3 => format!("ALTER TABLE {name} ALTER COLUMN {column} SET TABLESPACE {tier}"),
        _ => format!("SELECT count(*) FROM {name}"),
    }
}
