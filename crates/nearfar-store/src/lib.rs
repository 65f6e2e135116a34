//! SQL over the tables of `nearfar-table`, and what keeps these beyond the process.
//!
//! What outlives the process is in [`savepoint`] and [`durable`]. Queries are DataFusion's: [`scan`] is the
//! data source that reads segments, with filters evaluated on the encoded values, and [`engine`] puts
//! tables, settings and optimizer rules together.
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
mod private;
pub mod savepoint;
pub mod scan;
pub mod scratch;
mod settings;
pub mod sql;
mod transparent;
pub mod values;
