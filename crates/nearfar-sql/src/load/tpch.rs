//! The eight tables of TPC-H, generated in memory.

use arrow::array::RecordBatchReader;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use super::Rows;
use crate::error::EngineError;
use nearfar_table::segment::ZONE_ROWS;

/// Names of the tables, largest last.
pub const TABLES: [&str; 8] = [
    "region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem",
];

/// The rows of `table` at `scale_factor`, split for `parts` threads.
///
/// # Errors
/// A table that TPC-H does not have.
pub fn rows(table: &str, scale_factor: f64, parts: usize) -> Result<Rows, EngineError> {
    macro_rules! rows {
        ($arrow:ident, $generator:ident) => {
            rows!($arrow, $generator, parts)
        };
        ($arrow:ident, $generator:ident, $parts:expr) => {
            collect($parts, |part, of| {
                $arrow::new($generator::new(scale_factor, part, of)).with_batch_size(ZONE_ROWS)
            })
        };
    }
    Ok(match table {
        // These two are of fixed size, and their generators yield every row whatever the part.
        "region" => rows!(RegionArrow, RegionGenerator, 1),
        "nation" => rows!(NationArrow, NationGenerator, 1),
        "supplier" => rows!(SupplierArrow, SupplierGenerator),
        "customer" => rows!(CustomerArrow, CustomerGenerator),
        "part" => rows!(PartArrow, PartGenerator),
        "partsupp" => rows!(PartSuppArrow, PartSuppGenerator),
        "orders" => rows!(OrderArrow, OrderGenerator),
        "lineitem" => rows!(LineItemArrow, LineItemGenerator),
        _ => {
            return Err(EngineError::UnknownBenchmarkTable {
                benchmark: "TPC-H",
                table: table.to_owned(),
            });
        }
    })
}

fn collect<I>(parts: usize, generator: impl Fn(i32, i32) -> I) -> Rows
where
    I: RecordBatchReader + Send + 'static,
{
    let parts = parts.max(1) as i32;
    Rows::of((1..=parts).map(|part| generator(part, parts)).collect())
}
