//! SQL over the tables of `nearfar-table`.
//!
//! Queries are DataFusion's: [`scan`] is the data source that reads segments, with filters evaluated on the
//! encoded values, and [`engine`] puts tables, settings and optimizer rules together. What outlives the
//! process is in `nearfar-durable`.
#![forbid(unsafe_code)]

pub mod columns;
mod datafusion_names;
pub mod engine;
pub mod error;
pub mod explain;
pub mod foreign;
mod interrupt;
pub mod load;
mod memory;
pub mod optimize;
pub mod scan;
pub mod scratch;
mod settings;
pub mod sql;
mod transparent;
pub mod values;
