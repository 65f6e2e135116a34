//! SQL over the tables of `nearfar-table`, which `nearfar-durable` keeps.
//!
//! An [`engine::Engine`] is one machine's memory and the tables on it; clients run statements in sessions of
//! it. Queries are DataFusion's: [`scan`] is the data source that reads segments, with filters evaluated on
//! the encoded values, rules of the optimizer use what is known of tables, and [`values`] are the types and
//! functions in which PostgreSQL differs. Statements that DataFusion has no words for are read in [`sql`],
//! files of others in [`foreign`], and rows come to tables through [`load`].
//!
//! It is no server and no program: it knows no connections, users and arguments. It prints nothing, and of
//! logs, checkpoints and pools it knows only that there are some.
//!
//! ```
//! use nearfar_sql::engine::{Engine, EngineOptions, StatementResult};
//! use nearfar_topology::Topology;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new(EngineOptions::new(Topology::this_machine()?))?;
//! let session = engine.session();
//! session.execute("CREATE TABLE numbers AS SELECT value AS n FROM generate_series(1, 10)").await?;
//! for result in session.execute("SELECT n FROM numbers WHERE n > 7").await? {
//!     if let StatementResult::Rows(rows) = result {
//!         let rows: usize = rows.collect().await?.iter().map(|batch| batch.num_rows()).sum();
//!         assert_eq!(rows, 3);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod columns;
mod datafusion_names;
pub mod engine;
pub mod error;
pub mod explain;
pub mod foreign;
mod interrupt;
pub mod load;
mod memory;
mod operators;
mod optimize;
mod plan_rule;
pub mod remote;
pub mod scan;
pub mod scratch;
mod settings;
mod slices;
pub mod sql;
mod stack;
mod transparent;
pub mod values;
