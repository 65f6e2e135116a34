//! What TPC-DS has beside TPC-H: its queries. Runs under placements and comparisons are those of
//! [`crate::tpch`] and [`crate::bench`], with [`Suite::TpcDs`](crate::tpch::Suite::TpcDs).

pub mod queries;
