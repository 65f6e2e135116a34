//! Where rows belong.

use arrow::array::{Array, AsArray, RecordBatch, UInt64Array};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use nearfar_sql::sql::Distributed;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// Where the rows of a table are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableHome {
    /// Each where the values of some columns tell.
    Distributed {
        /// The columns, in the order in which they count.
        columns: Vec<String>,
        /// On how many nodes each row is: the one that its key tells, and those behind it in the list.
        #[serde(default = "one_copy")]
        copies: usize,
    },
    /// All on every node.
    Replicated,
}

/// Before tables had copies, their homes did not tell how many.
fn one_copy() -> usize {
    1
}

impl TableHome {
    /// How many tables a node has for such a table: its own share, and those of nodes before it.
    pub fn tables(&self) -> usize {
        match self {
            Self::Distributed { copies, .. } => *copies,
            Self::Replicated => 1,
        }
    }
}

/// What begins the names of tables that have the rows of other nodes.
const COPY_PREFIX: &str = "nearfar_copy_";

/// The table in which a node keeps a share of `table`: its own with rank 0, that of the node before it with rank 1, and
/// so on.
pub fn kept_in(table: &str, rank: usize) -> String {
    match rank {
        0 => table.to_owned(),
        rank => format!("{COPY_PREFIX}{rank}_of_{table}"),
    }
}

/// A name as it is written in SQL.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Whether a table has the rows of another node.
pub fn is_copy(table: &str) -> bool {
    table.starts_with(COPY_PREFIX)
}

/// The node that keeps a share with this rank.
pub fn keeper(share: usize, rank: usize, nodes: usize) -> usize {
    (share + rank) % nodes
}

/// The rank with which `node` keeps a share.
pub fn rank(share: usize, node: usize, nodes: usize) -> usize {
    (node + nodes - share) % nodes
}

impl From<&Distributed> for TableHome {
    fn from(clause: &Distributed) -> Self {
        match clause {
            Distributed::By { columns, copies } => Self::Distributed {
                columns: columns.clone(),
                copies: *copies,
            },
            Distributed::Replicated => Self::Replicated,
        }
    }
}

/// Stands for a null among the values of a key.
const NULL: &[u8] = b"\x01";
/// Ends every value of a key, so that ("a", "bc") is another key than ("ab", "c").
const END: &[u8] = b"\x00";

/// The node, of so many, of every row of a batch whose key is in `columns`.
///
/// A key is hashed as text, so that its place depends neither on the width of an integer nor on the version of a
/// library: rows are found again after an upgrade, and equal keys of two tables are on one node.
///
/// # Errors
/// A column whose values have no text.
pub fn nodes_of(batch: &RecordBatch, columns: &[usize], nodes: usize) -> Result<Vec<usize>> {
    let texts = columns
        .iter()
        .map(|column| cast(batch.column(*column), &DataType::Utf8))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let mut key = Vec::new();
    let places = (0..batch.num_rows()).map(|row| {
        key.clear();
        for text in &texts {
            match text.is_null(row) {
                true => key.extend_from_slice(NULL),
                false => key.extend_from_slice(text.as_string::<i32>().value(row).as_bytes()),
            }
            key.extend_from_slice(END);
        }
        (XxHash3_64::oneshot(&key) % nodes as u64) as usize
    });
    Ok(places.collect())
}

/// The rows of a batch by the node that they belong to.
///
/// # Errors
/// As [`nodes_of`].
pub fn divided(batch: &RecordBatch, columns: &[usize], nodes: usize) -> Result<Vec<RecordBatch>> {
    if nodes == 1 {
        return Ok(vec![batch.clone()]);
    }
    let mut rows = vec![Vec::new(); nodes];
    for (row, node) in nodes_of(batch, columns, nodes)?.into_iter().enumerate() {
        rows[node].push(row as u64);
    }
    let rows = rows.into_iter().map(UInt64Array::from);
    let parts = rows.map(|rows| take_record_batch(batch, &rows));
    Ok(parts.collect::<std::result::Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
    use std::sync::Arc;

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let named = columns.into_iter().enumerate();
        let named = named.map(|(at, column)| (format!("c{at}"), column));
        RecordBatch::try_from_iter_with_nullable(named.map(|(n, c)| (n, c, true))).expect("a batch")
    }

    #[test]
    fn equal_keys_of_different_widths_are_on_one_node() {
        let narrow = batch(vec![Arc::new(Int32Array::from_iter_values(0..1000))]);
        let wide = batch(vec![Arc::new(Int64Array::from_iter_values(0..1000))]);
        let places = nodes_of(&narrow, &[0], 4).expect("places");
        assert_eq!(places, nodes_of(&wide, &[0], 4).expect("places"));
        for node in 0..4 {
            let rows = places.iter().filter(|place| **place == node).count();
            assert!(
                (200..300).contains(&rows),
                "node {node} has {rows} of 1000 rows"
            );
        }
    }

    #[test]
    fn homes_of_before_have_one_copy() {
        let home: TableHome =
            serde_json::from_str(r#"{"Distributed":{"columns":["a"]}}"#).expect("a home");
        assert_eq!(home.tables(), 1);
    }

    #[test]
    fn a_share_is_kept_by_nodes_in_a_ring() {
        let keepers = |share| (0..2).map(move |rank| keeper(share, rank, 3));
        assert_eq!(keepers(2).collect::<Vec<_>>(), [2, 0]);
        for share in 0..3 {
            for (at, node) in keepers(share).enumerate() {
                assert_eq!(rank(share, node, 3), at);
            }
        }
        assert!(is_copy(&kept_in("t", 1)) && !is_copy(&kept_in("t", 0)));
    }

    #[test]
    fn places_never_change() {
        let keys = batch(vec![Arc::new(Int64Array::from(vec![
            1, 2, 3, 4, 5, 6, 7, 8,
        ]))]);
        let places = nodes_of(&keys, &[0], 1024).expect("places");
        // What is on disk was divided by these.
        assert_eq!(places, [208, 566, 475, 217, 116, 480, 308, 140]);
    }

    #[test]
    fn every_row_is_on_exactly_one_node() {
        let keys: ArrayRef = Arc::new(StringArray::from(vec![
            Some("a"),
            None,
            Some("ab"),
            Some(""),
        ]));
        let other: ArrayRef = Arc::new(StringArray::from(vec![Some("bc"), None, Some("c"), None]));
        let whole = batch(vec![keys, other]);
        let parts = divided(&whole, &[0, 1], 3).expect("parts");
        let rows: usize = parts.iter().map(RecordBatch::num_rows).sum();
        assert_eq!((parts.len(), rows), (3, 4));
    }
}
