//! Tables whose columns lie in the memory of another host: they are fetched to be scanned, and nothing is written to
//! them.

mod scan;
mod table;

pub use scan::RemoteScan;
pub use table::{RemoteTable, RemoteTableError};
