//! Transactions and analysis over the same tables: TPC-C's terminals beside analysts.
//!
//! Analysts ask questions of TPC-H's kind over the tables of [TPC-C](crate::tpcc), as R. Cole et al. have done ("The
//! mixed workload CH-benCHmark", DBTest 2011); the queries are our own. Each runs in a transaction that reads one state
//! of all tables, and says which orders it has seen: *freshness* is how long the oldest order had been acknowledged that
//! a query did not see when it began (E. Milkai et al., "How good is my HTAP system?", SIGMOD 2022).

mod analyst;
mod freshness;
mod metrics;
mod queries;
mod run;

pub use run::{HtapOptions, HtapOutcome, HtapRound, SystemOutcome, measure_htap};
