//! Rounds of all systems: terminals alone, analysts alone, both together.

use std::sync::Arc;
use std::time::Duration;

use nearfar_durable::log::DataOptions;
use nearfar_sql::engine::Engine;
use nearfar_sql::error::EngineError;

use super::analyst::{Analysis, analyse};
use super::queries::QUERIES;
use crate::tpcc::{Contestant, Row, System, Tally, TpccError, TpccOptions, Value, Way};
use crate::tpcc::{contestants, prepared, take_turn, turn};

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct HtapOptions {
    /// The transactions, with how long each of the three parts of a round takes.
    pub tpcc: TpccOptions,
    /// Concurrent analysts.
    pub analysts: usize,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct HtapOutcome {
    /// What was asked for.
    pub options: HtapOptions,
    /// Every system.
    pub systems: Vec<SystemOutcome>,
    /// Queries whose answers over the first rows differ between systems, by name.
    pub different_answers: Vec<&'static str>,
}

/// The rounds of a system.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemOutcome {
    /// Whose it is.
    pub system: System,
    /// How it was reached.
    pub way: Way,
    /// What was done, round by round.
    pub rounds: Vec<HtapRound>,
    /// The consistency conditions of TPC-C that did not hold before and after, by number.
    pub broken_conditions: Vec<usize>,
}

/// A round.
#[derive(Debug, Clone, PartialEq)]
pub struct HtapRound {
    /// Terminals alone.
    pub transactions: Tally,
    /// Analysts alone.
    pub(super) queries: Analysis,
    /// Terminals beside analysts.
    pub transactions_beside: Tally,
    /// These analysts.
    pub(super) queries_beside: Analysis,
}

impl HtapRound {
    /// How long the oldest order had been acknowledged that each query beside terminals did not see.
    pub fn ages(&self) -> Vec<Duration> {
        let orders = &self.transactions_beside.orders;
        let orders = || orders.iter().map(|(at, order)| (order.key, *at));
        let answered = self.queries_beside.answered.iter();
        answered
            .map(|answered| answered.seen.age(answered.began, orders()))
            .collect()
    }

    /// Queries that have read more than one state.
    pub fn torn_queries(&self) -> usize {
        self.queries.torn() + self.queries_beside.torn()
    }
}

impl HtapOutcome {
    /// Conditions that did not hold, answers that differ, and queries that have read more than one state.
    pub fn failures(&self) -> usize {
        let of_systems = self.systems.iter().map(|system| {
            let torn = system.rounds.iter().map(HtapRound::torn_queries);
            system.broken_conditions.len() + torn.sum::<usize>()
        });
        of_systems.sum::<usize>() + self.different_answers.len()
    }
}

/// Measures all. `engine` makes an engine in this process, with this data directory or without; `follow` is told
/// what is next. To be called on a runtime.
///
/// # Errors
/// See [`TpccError`]. What does not hold is no error, but in the outcome.
pub async fn measure_htap(
    options: &HtapOptions,
    engine: impl FnMut(Option<DataOptions>) -> Result<Arc<Engine>, EngineError>,
    mut follow: impl FnMut(String),
) -> Result<HtapOutcome, TpccError> {
    let tpcc = &options.tpcc;
    if options.analysts == 0 {
        return Err(TpccError::Options {
            option: "analysts",
            reason: "give at least one",
        });
    }
    let contestants = contestants(tpcc, engine)?;
    let mut systems = Vec::new();
    let mut answers = Vec::new();
    let rows = tpcc.rows();
    for contestant in &contestants {
        let prepared = prepared(contestant, rows, tpcc, &mut follow);
        let broken_conditions = prepared.await?;
        follow(format!("{}: answering once", contestant.name()));
        answers.push(all_answers(contestant).await?);
        systems.push(SystemOutcome {
            system: contestant.system,
            way: contestant.way,
            rounds: Vec::new(),
            broken_conditions,
        });
    }
    for round in 0..tpcc.rounds {
        for (contestant, outcome) in contestants.iter().zip(&mut systems) {
            let name = contestant.name();
            follow(format!("{name}: round {} of {}", round + 1, tpcc.rounds));
            outcome
                .rounds
                .push(one_round(contestant, options, round).await?);
        }
    }
    for (contestant, outcome) in contestants.iter().zip(&mut systems) {
        follow(format!("{}: checking consistency", contestant.name()));
        let broken = contestant.broken_conditions(tpcc.sizes()).await?;
        outcome.broken_conditions.extend(broken);
    }
    Ok(HtapOutcome {
        options: options.clone(),
        systems,
        different_answers: different(&answers),
    })
}

async fn one_round(
    contestant: &Contestant,
    options: &HtapOptions,
    round: u32,
) -> Result<HtapRound, TpccError> {
    let tpcc = &options.tpcc;
    // Each part has inputs of its own.
    let turn = |part: u64| turn(tpcc, 1 + 2 * u64::from(round) + part, tpcc.turn);
    let analysis = || analysis(contestant, options, round as usize);
    let transactions = take_turn(contestant, turn(0)).await?;
    let queries = analysis().await?;
    let (transactions_beside, queries_beside) =
        futures::future::try_join(take_turn(contestant, turn(1)), analysis()).await?;
    Ok(HtapRound {
        transactions,
        queries,
        transactions_beside,
        queries_beside,
    })
}

async fn analysis(
    contestant: &Contestant,
    options: &HtapOptions,
    round: usize,
) -> Result<Analysis, TpccError> {
    let (analysts, part) = (options.analysts, (round, options.tpcc.turn));
    let analysis = match contestant.engine_database() {
        Some(database) => analyse(database, analysts, part).await,
        None => analyse(&contestant.over_wire(), analysts, part).await,
    };
    analysis.map_err(|failure| contestant.failed("a query", failure))
}

/// The answers to all questions, as long as nothing changes.
async fn all_answers(contestant: &Contestant) -> Result<Vec<Vec<Row>>, TpccError> {
    let mut answers = Vec::new();
    for query in QUERIES {
        let rows = contestant.query(query.sql).await;
        let rows = rows.map_err(|failure| contestant.failed(query.name, failure))?;
        answers.push(rows.into_iter().map(comparable).collect());
    }
    Ok(answers)
}

/// A row whose numbers are the same where they are equal.
fn comparable(row: Row) -> Row {
    let values = row.0.into_iter().map(|value| match value {
        Value::Int(value) => Value::Long(value.into()),
        Value::Number(value) => Value::Number(value.normalize()),
        other => other,
    });
    Row(values.collect())
}

/// The names of queries to which not all systems have given the same answer.
fn different(answers: &[Vec<Vec<Row>>]) -> Vec<&'static str> {
    let Some((first, others)) = answers.split_first() else {
        return Vec::new();
    };
    let differs = |at: usize| others.iter().any(|other| other[at] != first[at]);
    let named = QUERIES.iter().enumerate();
    named
        .filter(|(at, _)| differs(*at))
        .map(|(_, query)| query.name)
        .collect()
}

#[cfg(test)]
mod tests {
    use nearfar_sql::engine::EngineOptions;
    use nearfar_topology::Topology;
    use std::path::PathBuf;

    use super::*;

    fn options() -> HtapOptions {
        HtapOptions {
            tpcc: TpccOptions {
                program: PathBuf::new(),
                threads: 2,
                warehouses: 1,
                shrink: 100,
                terminals: 2,
                rounds: 1,
                turn: Duration::from_millis(400),
                warmup: Duration::ZERO,
                thinks: false,
                ways: vec![Way::InProcess],
                beside_postgres: false,
                durable: false,
                kills: 0,
                seed: 7,
                directory: std::env::temp_dir(),
            },
            analysts: 1,
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn analysts_read_one_state_and_all_orders_acknowledged_before() {
        let engine = |data| {
            let topology = Topology::this_machine().expect("a machine");
            let options = EngineOptions::new(topology);
            Engine::new(EngineOptions { data, ..options })
        };
        let outcome = measure_htap(&options(), engine, |_| {}).await;
        let outcome = outcome.expect("an outcome");
        assert_eq!(outcome.failures(), 0, "{outcome:?}");
        let round = &outcome.systems[0].rounds[0];
        assert!(!round.transactions_beside.orders.is_empty());
        let ages = round.ages();
        assert_eq!(ages.len(), round.queries_beside.answered.len());
        assert!(ages.iter().all(Duration::is_zero), "{ages:?}");
    }

    #[test]
    fn answers_are_compared_by_their_values() {
        let answer = |value| vec![vec![comparable(Row(vec![value]))]; QUERIES.len()];
        let number = |text: &str| Value::Number(text.parse().expect("a number"));
        let same = [answer(number("1.50")), answer(number("1.5"))];
        assert!(different(&same).is_empty());
        let other = [answer(Value::Int(1)), answer(Value::Long(2))];
        assert_eq!(different(&other).len(), QUERIES.len());
    }
}
