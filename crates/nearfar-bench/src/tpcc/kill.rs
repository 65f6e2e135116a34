//! The server is killed while terminals run, and started again.

use std::collections::BTreeSet;

use super::contestant::Contestant;
use super::error::TpccError;
use super::options::TpccOptions;
use super::terminal::{Turn, take_turn};

/// What was left after a kill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillOutcome {
    /// Orders that were acknowledged before it.
    pub orders: usize,
    /// Those of them that are not there.
    pub lost_orders: usize,
    /// The consistency conditions that do not hold, by number.
    pub broken_conditions: Vec<usize>,
}

/// Kills Nearfar's server in the middle of a turn, starts it again, and looks at what is there.
pub async fn kill_and_start(
    contestant: &mut Contestant,
    turn: Turn,
    options: &TpccOptions,
) -> Result<KillOutcome, TpccError> {
    let database = contestant.over_wire();
    let running = tokio::spawn(async move { take_turn(&database, turn).await });
    tokio::time::sleep(turn.length / 2).await;
    contestant.kill();
    let outcome = running
        .await
        .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    // Terminals that could not even connect have no orders; those that were cut off have lost their connection.
    let orders = outcome.map_or_else(|_| Vec::new(), |outcome| outcome.tally.orders);
    contestant.start_again(options)?;
    let rows = contestant.query("SELECT o_w_id, o_d_id, o_id FROM orders");
    let rows = rows.await;
    let rows = rows.map_err(|failure| contestant.failed("reading orders", failure))?;
    let key = |row: &super::value::Row| Ok((row.int(0)?, row.int(1)?, row.int(2)?));
    let found = rows.iter().map(key).collect::<Result<BTreeSet<_>, _>>();
    let found = found.map_err(|failure| contestant.failed("reading orders", failure))?;
    let lost = orders
        .iter()
        .filter(|(_, order)| !found.contains(&order.key));
    Ok(KillOutcome {
        lost_orders: lost.count(),
        orders: orders.len(),
        broken_conditions: contestant.broken_conditions(options.sizes()).await?,
    })
}
