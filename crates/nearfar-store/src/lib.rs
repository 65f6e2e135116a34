//! Tables whose column segments lie on near and far memory, and SQL over them.
//!
//! A [`table::Table`] is a list of immutable segments, each column of which is encoded ([`segment`])
//! into a region of `nearfar-memory` with its own placement ([`placement`]), and a delta of what was
//! written since. Changes are made in transactions ([`transaction`]). What outlives the process is in
//! [`savepoint`] and [`durable`]. Queries are DataFusion's: [`scan`] is the data source that reads
//! segments, with filters evaluated on the encoded values, and [`engine`] puts tables, settings and
//! optimizer rules together.
#![forbid(unsafe_code)]

pub mod columns;
mod datafusion_names;
pub mod durable;
pub mod durable_error;
pub mod engine;
pub mod error;
pub mod explain;
pub mod foreign;
pub mod image;
mod interrupt;
pub mod load;
mod memory;
pub mod optimize;
pub mod placement;
mod private;
pub mod savepoint;
pub mod scan;
pub mod scratch;
pub mod segment;
mod settings;
pub mod sql;
pub mod table;
pub mod table_error;
pub mod transaction;
mod transparent;
pub mod values;
