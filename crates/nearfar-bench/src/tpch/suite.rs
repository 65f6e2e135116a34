//! The benchmarks whose queries run under placements and against other engines.

use nearfar_sql::error::EngineError;
use nearfar_sql::load::{Rows, tpcds, tpch};
use std::fmt;
use std::ops::RangeInclusive;

use super::queries;
use crate::tpcds::queries as tpcds_queries;

/// A benchmark of queries over generated tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suite {
    /// TPC-H: 8 tables, 22 queries.
    TpcH,
    /// TPC-DS: 24 tables, 99 queries.
    TpcDs,
}

impl Suite {
    /// The beginning of its metrics' names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TpcH => "tpch",
            Self::TpcDs => "tpcds",
        }
    }

    /// Its tables, largest last.
    pub const fn tables(self) -> &'static [&'static str] {
        match self {
            Self::TpcH => &tpch::TABLES,
            Self::TpcDs => &tpcds::TABLES,
        }
    }

    /// The rows of one of its tables, split for `parts` threads.
    ///
    /// # Errors
    /// A table or a scale factor that it does not have.
    pub fn rows(self, table: &str, scale_factor: f64, parts: usize) -> Result<Rows, EngineError> {
        match self {
            Self::TpcH => tpch::rows(table, scale_factor, parts),
            Self::TpcDs => tpcds::rows(table, scale_factor, parts),
        }
    }

    /// Rows of a table to within a quarter: of TPC-H as its 4.2.5 gives them.
    pub fn expected_rows(self, table: &str, scale_factor: f64) -> u64 {
        let rows_at_one = match (self, table) {
            (Self::TpcDs, _) => return tpcds::expected_rows(table, scale_factor).unwrap_or(0),
            (_, "region") => return 5,
            (_, "nation") => return 25,
            (_, "supplier") => 10_000.0,
            (_, "customer") => 150_000.0,
            (_, "part") => 200_000.0,
            (_, "partsupp") => 800_000.0,
            (_, "orders") => 1_500_000.0,
            _ => 6_001_215.0,
        };
        (rows_at_one * scale_factor) as u64
    }

    /// Numbers of its queries.
    pub const fn numbers(self) -> RangeInclusive<u8> {
        match self {
            Self::TpcH => queries::NUMBERS,
            Self::TpcDs => tpcds_queries::NUMBERS,
        }
    }

    /// The text of a query. None if it has no such query.
    pub fn query(self, number: u8, scale_factor: f64) -> Option<String> {
        match self {
            Self::TpcH => queries::query(number, scale_factor),
            Self::TpcDs => tpcds_queries::query(number).map(str::to_owned),
        }
    }

    /// The text of a query without its limit, where the limit leaves open which rows are kept.
    pub fn unlimited(self, number: u8) -> Option<&'static str> {
        match self {
            Self::TpcH => None,
            Self::TpcDs => tpcds_queries::unlimited(number),
        }
    }

    /// The columns of a query's answer in which answers agree row by row, counted from 0.
    pub fn order_by(self, number: u8) -> &'static [usize] {
        match self {
            Self::TpcH => queries::order_by(number),
            Self::TpcDs => tpcds_queries::order_by(number),
        }
    }
}

/// As its specification writes it.
impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TpcH => "TPC-H",
            Self::TpcDs => "TPC-DS",
        })
    }
}
