//! Tables whose columns lie in the memory of another host: they are fetched to be scanned, and nothing is written to
//! them.
//!
//! What is fetched is kept near within a budget ([`NearCache`]), which all queries of an engine share. A table that was
//! made from rows that are kept elsewhere ([`RowSource`]) is rebuilt from there when its host was lost.

mod cache;
mod columns;
mod encode;
mod host;
mod scan;
mod source;
mod table;

use datafusion::catalog::TableProvider;
use std::any::Any;
use std::sync::Arc;

pub use crate::error::RemoteTableError;
pub use cache::NearCache;
pub use host::{ColumnBytes, ColumnHost};
pub use scan::RemoteScan;
pub use source::{FileRows, RowSource};
pub use table::RemoteTable;
pub(crate) use table::TablePlace;

/// The table on another host that `provider` scans, if it does.
pub(crate) fn remote_table_of(provider: &dyn TableProvider) -> Option<&Arc<RemoteTable>> {
    let scan = (provider as &dyn Any).downcast_ref::<RemoteScan>()?;
    Some(scan.table())
}
