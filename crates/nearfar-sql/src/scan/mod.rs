//! Tables as DataFusion reads them: projection, filters and limits evaluated on encoded segments.
//!
//! A scan goes zone by zone ([`nearfar_table::segment::ZONE_ROWS`]). Filters that are few ranges of
//! integers, or that can be decided per dictionary value, run on the codes, ranges in the kernels of
//! `nearfar-kernels` ([`nearfar_table::segment::Selector`]); zones that the zone maps rule out
//! are never touched. All other filters run on the rows that are left, and only the rows that pass
//! everything are decoded in the projected columns. Filters that a join or a top-k pushes down
//! while the query runs are used the same way, and left out for some time when they let nearly every row pass.

mod ahead;
mod by_index;
mod charge;
mod cooperative;
mod costly;
mod filter;
mod implied;
mod like;
mod literals;
mod partitions;
mod provider;
mod routed;
mod rows;
mod selectivity;
mod shares;
mod source;
mod statistics;
mod steps;
mod stream;

pub use by_index::{IndexRank, best_index, is_read};
pub use charge::{BYTES_READ_METRIC, BYTES_SAVED_METRIC, ScanCosts, WAIT_METRIC};
pub(crate) use charge::{PartitionCosts, Reader};
pub use costly::is_costly;
pub use filter::{Filter, has_subquery};
pub(crate) use literals::scalar;
pub use provider::{NearfarTable, provider_of, table_of};
pub use routed::{RoutedScan, Routing, StatementPin, TableRouter, local_scan};
pub(crate) use rows::BoundSegment;
pub use source::{ROW_ID, TableScan};
pub(crate) use steps::{STEP, fitted_rows, rows_by_bytes};
pub(crate) use stream::RowConsumer;
