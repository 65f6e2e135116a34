//! Those who are asked the same questions.

use std::time::Duration;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use nearfar_sql::engine::{Session, StatementResult};
use nearfar_sql::error::EngineError;
use tokio::runtime::Handle;
use tokio_postgres::Client;

use super::kind::Kind;
use crate::asked::{Failure, Rows, ask};

/// How long a statement may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Optimizer rules without which there is no plan, none that ends in this life, or a wrong answer: the
/// first two mend what DataFusion's own needed rules do.
const NEEDED_RULES: [&str; 14] = [
    "nearfar_apart_projections",
    "nearfar_constant_member",
    "rewrite_set_comparison",
    "replace_distinct_aggregate",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "decorrelate_lateral_join",
    "extract_equijoin_predicate",
    "eliminate_cross_join",
    "eliminate_duplicated_expr",
    "eliminate_filter",
    "push_down_limit",
    "eliminate_limit",
    "optimize_projections",
];

/// Settings that switch rules off.
const SWITCHED_OFF: [&str; 7] = [
    "SET key_joins = off",
    "SET share_subplans = off",
    "SET group_finest_first = off",
    "SET group_before_joins = off",
    "SET drop_determined_keys = off",
    "SET narrow_outer_joins = off",
    "SET sorted_windows = off",
];

impl Failure {
    /// Whether it depends on the order in which values are computed, on time, or on memory.
    pub fn is_excused(&self) -> bool {
        let excused = ["22003", "22012", "57014", "53200"];
        self.code
            .as_deref()
            .is_some_and(|code| excused.contains(&code))
    }
}

/// One of them.
pub enum Engine {
    /// Over the wire.
    Wire(Client),
    /// A session without the optimizer's rules and the operators of Nearfar's own, and threads that have a stack for it.
    Unoptimised(Session, Handle),
}

impl Engine {
    pub async fn unoptimised(session: Session, threads: Handle) -> Self {
        let context = session.context().clone();
        let rules = context.state().optimizer().rules.clone();
        for rule in rules.iter().map(|rule| rule.name()) {
            if !NEEDED_RULES.contains(&rule) {
                context.remove_optimizer_rule(rule);
            }
        }
        for setting in SWITCHED_OFF {
            session.execute(setting).await.expect(setting);
        }
        Self::Unoptimised(session, threads)
    }

    /// The rows of a statement, or none of one that has none.
    pub async fn ask(&self, sql: &str) -> Result<Rows, Failure> {
        match self {
            Self::Wire(client) => ask(client, sql).await,
            Self::Unoptimised(session, threads) => {
                let (session, sql) = (session.clone(), sql.to_owned());
                let task = threads.spawn(async move {
                    tokio::time::timeout(PATIENCE, rows_of(&session, &sql)).await
                });
                match task.await {
                    Ok(Ok(Ok(rows))) => Ok(rows),
                    Ok(Ok(Err(error))) => Err(Failure {
                        code: None,
                        message: error.to_string(),
                    }),
                    Ok(Err(_)) => Err(Failure {
                        code: Some("57014".to_owned()),
                        message: "out of time".to_owned(),
                    }),
                    Err(error) => Err(Failure {
                        code: Some("XX000".to_owned()),
                        message: error.to_string(),
                    }),
                }
            }
        }
    }
}

async fn rows_of(session: &Session, sql: &str) -> Result<Rows, EngineError> {
    let mut rows = Rows::new();
    let options = FormatOptions::new();
    for result in session.execute(sql).await? {
        let StatementResult::Rows(stream) = result else {
            continue;
        };
        for batch in stream.collect().await? {
            let columns = batch.columns().iter();
            let columns = columns.map(|column| ArrayFormatter::try_new(column, &options));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            for row in 0..batch.num_rows() {
                let value = |(column, format): (usize, &ArrayFormatter<'_>)| {
                    let is_null = batch.column(column).is_null(row);
                    (!is_null).then(|| format.value(row).to_string())
                };
                rows.push(columns.iter().enumerate().map(value).collect());
            }
        }
    }
    Ok(rows)
}

/// Rows as all engines write them, sorted where their order is not known.
pub fn normal(rows: Rows, kinds: &[Kind], is_ordered: bool) -> Rows {
    let mut rows: Rows = rows
        .into_iter()
        .map(|row| {
            let values = row.into_iter().zip(kinds);
            values
                .map(|(value, kind)| value.map(|value| kind.normal(&value)))
                .collect()
        })
        .collect();
    if !is_ordered {
        rows.sort_unstable();
    }
    rows
}
