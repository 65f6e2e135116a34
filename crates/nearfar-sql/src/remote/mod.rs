//! Tables whose columns lie in the memory of another host: they are fetched to be scanned, and nothing is written to
//! them.
//!
//! What is fetched is kept near within a budget ([`NearCache`]), which all queries of an engine share. A table that was
//! made from rows that are kept elsewhere ([`RowSource`]) is rebuilt from there when its host was lost.

mod cache;
mod columns;
mod encode;
mod error;
mod host;
mod scan;
mod source;
mod table;

pub use cache::NearCache;
pub use error::RemoteTableError;
pub use host::{ColumnBytes, ColumnHost};
pub use scan::RemoteScan;
pub use source::{FileRows, RowSource};
pub use table::RemoteTable;
