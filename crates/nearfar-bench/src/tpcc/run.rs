//! Rounds of all databases.

use std::sync::Arc;
use std::time::Duration;

use nearfar_durable::log::DataOptions;
use nearfar_sql::engine::Engine;
use nearfar_sql::error::EngineError;

use super::contestant::Contestant;
use super::error::TpccError;
use super::kill::{KillOutcome, kill_and_start};
use super::options::{System, TpccOptions, Way};
use super::rows::Rows;
use super::terminal::{Tally, Turn};

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct TpccOutcome {
    /// What was asked for.
    pub options: TpccOptions,
    /// Every database.
    pub databases: Vec<DatabaseOutcome>,
    /// What was left after kills.
    pub kills: Vec<KillOutcome>,
}

/// The rounds of a database.
#[derive(Debug, Clone, PartialEq)]
pub struct DatabaseOutcome {
    /// Whose it is.
    pub system: System,
    /// How it was reached.
    pub way: Way,
    /// What terminals did, round by round.
    pub rounds: Vec<Tally>,
    /// The consistency conditions that did not hold before and after the rounds, by number.
    pub broken_conditions: Vec<usize>,
}

impl TpccOutcome {
    /// How many conditions did not hold, and orders that were acknowledged and are not there.
    pub fn failures(&self) -> usize {
        let databases = self.databases.iter();
        let broken = databases.map(|database| database.broken_conditions.len());
        let kills = self.kills.iter();
        let lost = kills.map(|kill| kill.broken_conditions.len() + kill.lost_orders);
        broken.sum::<usize>() + lost.sum::<usize>()
    }
}

/// Measures all. `engine` makes an engine in this process, with this data directory or without; `follow` is told
/// what is next. To be called on a runtime.
///
/// # Errors
/// See [`TpccError`]. Conditions that do not hold are no error, but in the outcome.
pub async fn measure_tpcc(
    options: &TpccOptions,
    engine: impl FnMut(Option<DataOptions>) -> Result<Arc<Engine>, EngineError>,
    mut follow: impl FnMut(String),
) -> Result<TpccOutcome, TpccError> {
    let mut contestants = contestants(options, engine)?;
    let rows = options.rows();
    let mut databases = Vec::new();
    for contestant in &contestants {
        let broken_conditions = prepared(contestant, rows, options, &mut follow).await?;
        if !options.warmup.is_zero() {
            follow(format!("{}: warming up", contestant.name()));
            take_turn(contestant, turn(options, 0, options.warmup)).await?;
        }
        databases.push(DatabaseOutcome {
            system: contestant.system,
            way: contestant.way,
            rounds: Vec::new(),
            broken_conditions,
        });
    }
    for round in 1..=options.rounds {
        for (contestant, outcome) in contestants.iter().zip(&mut databases) {
            let name = contestant.name();
            follow(format!("{name}: round {round} of {}", options.rounds));
            let turn = turn(options, u64::from(round), options.turn);
            outcome.rounds.push(take_turn(contestant, turn).await?);
        }
    }
    for (contestant, outcome) in contestants.iter().zip(&mut databases) {
        follow(format!("{}: checking consistency", contestant.name()));
        let broken = contestant.broken_conditions(options.sizes()).await?;
        outcome.broken_conditions.extend(broken);
    }
    let killed = contestants
        .iter_mut()
        .find(|one| (one.system, one.way) == (System::Nearfar, Way::Wire));
    let mut kills = Vec::new();
    if let Some(server) = killed {
        for number in 1..=options.kills {
            follow(format!("kill {number} of {}", options.kills));
            let turn = turn(options, u64::from(options.rounds + number), options.turn);
            kills.push(kill_and_start(server, turn, options).await?);
        }
    }
    Ok(TpccOutcome {
        options: options.clone(),
        databases,
        kills,
    })
}

/// All that take part, none of which has a table.
///
/// # Errors
/// Options that can't be carried out; servers and engines that do not start.
pub(crate) fn contestants(
    options: &TpccOptions,
    mut engine: impl FnMut(Option<DataOptions>) -> Result<Arc<Engine>, EngineError>,
) -> Result<Vec<Contestant>, TpccError> {
    options.check()?;
    let mut contestants = Vec::new();
    for way in &options.ways {
        contestants.push(match way {
            Way::Wire => Contestant::server(options)?,
            Way::InProcess => Contestant::engine(options, &mut engine)?,
        });
    }
    if options.beside_postgres {
        contestants.push(Contestant::postgres(options)?);
    }
    Ok(contestants)
}

/// Fills a database and checks it: the conditions that do not hold.
pub(crate) async fn prepared(
    contestant: &Contestant,
    rows: Rows,
    options: &TpccOptions,
    mut follow: impl FnMut(String),
) -> Result<Vec<usize>, TpccError> {
    contestant.load(rows, &mut follow).await?;
    follow(format!("{}: checking consistency", contestant.name()));
    contestant.broken_conditions(options.sizes()).await
}

/// Has terminals run, none of which may fail.
pub(crate) async fn take_turn(contestant: &Contestant, turn: Turn) -> Result<Tally, TpccError> {
    let outcome = contestant.take_turn(turn).await?;
    match outcome.failure {
        Some(failure) => Err(contestant.failed("a transaction", failure)),
        None => Ok(outcome.tally),
    }
}

/// A turn with inputs that are the same in every run with the same seed.
pub(crate) fn turn(options: &TpccOptions, number: u64, length: Duration) -> Turn {
    Turn {
        terminals: options.terminals,
        length,
        thinks: options.thinks,
        seed: (options.seed, number),
        sizes: options.sizes(),
    }
}
