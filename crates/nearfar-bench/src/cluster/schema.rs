//! The tables of TPC-H and TPC-DS, and where their rows are in a cluster.

use arrow::datatypes::{DataType, SchemaRef};

use super::error::ClusterBenchError;
use crate::tpch::Suite;

/// The statement that makes a table, for one process or for a cluster.
///
/// # Errors
/// A column of a type that the benchmarks do not have.
pub fn create(
    suite: Suite,
    table: &str,
    schema: &SchemaRef,
    is_cluster: bool,
) -> Result<String, ClusterBenchError> {
    let columns = schema.fields().iter().map(|field| {
        let name = field.name();
        Ok(format!("{name} {}", column_type(name, field.data_type())?))
    });
    let columns = columns.collect::<Result<Vec<_>, ClusterBenchError>>()?;
    let home = match (is_cluster, key(suite, table)) {
        (false, _) => String::new(),
        (true, None) => " REPLICATED".to_owned(),
        (true, Some(key)) => format!(" DISTRIBUTED BY ({key})"),
    };
    Ok(format!(
        "CREATE TABLE {table} ({}){home}",
        columns.join(", ")
    ))
}

/// The key by which a table is divided, the one that the largest joins have. None for tables that are on every node.
fn key(suite: Suite, table: &str) -> Option<&'static str> {
    Some(match (suite, table) {
        (Suite::TpcH, "customer") => "c_custkey",
        (Suite::TpcH, "part") => "p_partkey",
        (Suite::TpcH, "partsupp") => "ps_partkey",
        (Suite::TpcH, "orders") => "o_orderkey",
        (Suite::TpcH, "lineitem") => "l_orderkey",
        (Suite::TpcDs, "store_sales") => "ss_item_sk",
        (Suite::TpcDs, "store_returns") => "sr_item_sk",
        (Suite::TpcDs, "catalog_sales") => "cs_item_sk",
        (Suite::TpcDs, "catalog_returns") => "cr_item_sk",
        (Suite::TpcDs, "web_sales") => "ws_item_sk",
        (Suite::TpcDs, "web_returns") => "wr_item_sk",
        (Suite::TpcDs, "inventory") => "inv_item_sk",
        _ => return None,
    })
}

fn column_type(column: &str, data_type: &DataType) -> Result<String, ClusterBenchError> {
    Ok(match data_type {
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Utf8 | DataType::Utf8View => "TEXT".to_owned(),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision},{scale})"),
        other => {
            return Err(ClusterBenchError::ColumnType {
                column: column.to_owned(),
                data_type: other.clone(),
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_both_benchmarks_are_made_and_divided() {
        for (suite, divided) in [(Suite::TpcH, 5), (Suite::TpcDs, 7)] {
            let mut found = 0;
            for table in suite.tables() {
                let rows = suite.rows(table, 0.01, 1).expect(table);
                let sql = create(suite, table, &rows.schema, true).expect(table);
                if let Some(key) = key(suite, table) {
                    rows.schema.index_of(key).expect(table);
                    assert!(sql.ends_with(&format!(") DISTRIBUTED BY ({key})")), "{sql}");
                    found += 1;
                } else {
                    assert!(sql.ends_with(") REPLICATED"), "{sql}");
                }
                let alone = create(suite, table, &rows.schema, false).expect(table);
                assert!(sql.starts_with(&alone), "{alone}");
            }
            assert_eq!(found, divided, "{suite}");
        }
    }
}
