//! TPC-C: nine tables, five transactions with the specification's mix and inputs, and its consistency conditions.
//!
//! The transactions are written once, as functions over a `Connection`, of which there are two: one
//! over PostgreSQL's protocol, for Nearfar's server and PostgreSQL, and one over the engine in this process. What
//! deviates from the specification: no think times by default, terminals see no screens, deliveries are carried out
//! immediately, and texts have no declared lengths.

mod connection;
mod consistency;
mod contestant;
mod error;
mod in_process;
mod input;
mod kill;
mod load;
mod metrics;
mod options;
pub(crate) mod random;
mod rows;
mod run;
mod schema;
mod statement;
mod terminal;
mod transactions;
mod value;
mod wire;

pub use error::{Failure, TpccError};
pub use kill::KillOutcome;
pub use options::{System, TpccOptions, Way};
pub use run::{DatabaseOutcome, TpccOutcome, measure_tpcc};
pub use terminal::Tally;

// What analysts beside terminals take part in.
pub(crate) use connection::{Connection, Database};
pub(crate) use contestant::Contestant;
pub(crate) use run::{contestants, prepared, take_turn, turn};
pub(crate) use value::{Row, Value};
