//! What can go wrong with a run.

use arrow::error::ArrowError;
use nearfar_sql::error::EngineError;
use nearfar_table::placement::StrategyError;

use super::answer::Difference;
use super::suite::Suite;

/// Errors of runs of TPC-H and TPC-DS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TpchError {
    /// A query that the benchmark does not have.
    #[error("{suite} has no query {number}: its queries are 1 to {}", suite.numbers().end())]
    UnknownQuery {
        /// The benchmark.
        suite: Suite,
        /// The query.
        number: u8,
    },
    /// Nothing to run.
    #[error("no queries to run: name at least one of 1 to {}", suite.numbers().end())]
    NoQueries {
        /// The benchmark.
        suite: Suite,
    },
    /// Nothing to time.
    #[error("each query must run at least once")]
    NoRuns,
    /// A size that can't be generated.
    #[error(
        "scale factor {scale_factor} can't be generated: it must be above 0 and at most 100000"
    )]
    ScaleFactor {
        /// The scale factor.
        scale_factor: f64,
    },
    /// A placement that needs a second tier on a machine with one.
    #[error(
        "placement {placement} needs a far tier, and this machine has only one tier: give a profile \
         to model one, for example cxl-blades-1"
    )]
    NoFarTier {
        /// The placement.
        placement: String,
    },
    /// A near budget that the machine does not have.
    #[error(
        "placement {placement} asks for {budget_bytes} bytes near, but the near tier has \
         {capacity_bytes}: lower the near budget"
    )]
    NearBudgetTooLarge {
        /// The placement.
        placement: String,
        /// The budget.
        budget_bytes: u64,
        /// What the near tier has.
        capacity_bytes: u64,
    },
    /// A near budget that no column fits into.
    #[error(
        "placement {placement} leaves {budget_bytes} bytes near, but the smallest column that the \
         queries read, {column}, takes {column_bytes}: raise the near budget, or place all far"
    )]
    NearBudgetTooSmall {
        /// The placement.
        placement: String,
        /// The budget.
        budget_bytes: u64,
        /// The column, with its table.
        column: String,
        /// What it takes.
        column_bytes: u64,
    },
    /// A placement that can't be carried out.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// A table that can't be loaded or moved.
    #[error("table {table}")]
    Table {
        /// The table.
        table: String,
        /// Why.
        source: Box<EngineError>,
    },
    /// A query that fails.
    #[error("query {number} failed on {tables}")]
    Query {
        /// The query.
        number: u8,
        /// Whose tables.
        tables: String,
        /// Why.
        source: Box<EngineError>,
    },
    /// An answer that can't be compared.
    #[error("the answer to query {number} on {tables} can't be compared")]
    Answer {
        /// The query.
        number: u8,
        /// Whose tables.
        tables: String,
        /// Why.
        source: ArrowError,
    },
    /// A wrong answer.
    #[error(
        "query {number} has another answer on {tables} than DataFusion's own tables in memory \
         give: {difference}"
    )]
    Mismatch {
        /// The query.
        number: u8,
        /// Whose tables.
        tables: String,
        /// Where the answers differ.
        difference: Box<Difference>,
    },
    /// The program is ending.
    #[error("cancelled: {what}")]
    Cancelled {
        /// What was given up.
        what: String,
    },
}
