//! What is said between a comparison and its contenders.
//!
//! Every contender is a process of its own, so that each has its allocator, its threads and its
//! memory to itself. It says [`Reply::Ready`] (or [`Reply::Absent`] and ends); then every request, a
//! line of JSON on its standard input, is answered by one line on its standard output. It ends when
//! its input does. `rivals/duckdb.py` and `rivals/hyper.py` speak the same protocol.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a contender is asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// To read the Parquet files `directory/TABLE/*.parquet` of each table into memory, and to use
    /// so many threads for that and from then on. The first request, and not repeated.
    Load {
        /// The folder of the files.
        directory: PathBuf,
        /// The tables to read.
        tables: Vec<String>,
        /// Threads to use.
        threads: usize,
    },
    /// To run a query to its end.
    Query {
        /// The query.
        sql: String,
    },
    /// To give back to the operating system what memory it holds free, as far as it can, and then to run a query to its end.
    Measure {
        /// The query.
        sql: String,
    },
    /// To run a query and write its rows to a Parquet file.
    Save {
        /// The query.
        sql: String,
        /// The file to write.
        path: PathBuf,
    },
}

/// What a contender answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// It waits for requests.
    Ready {
        /// Engine and version.
        version: String,
    },
    /// It can't take part.
    Absent {
        /// Why.
        reason: String,
    },
    /// The tables are in memory.
    Loaded(Loaded),
    /// The query ran, in so many seconds by the contender's own clock.
    Ran {
        /// The time it took.
        seconds: f64,
    },
    /// The query ran, with so much memory.
    Measured(QueryMemory),
    /// The file is written.
    Saved,
    /// The request could not be carried out.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What loading took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// From the first table's start to the last one's end.
    pub seconds: f64,
    /// Resident memory of the process before.
    pub before_bytes: u64,
    /// The most that was resident since then; none where the kernel does not tell.
    pub peak_bytes: Option<u64>,
    /// Resident memory afterwards.
    pub after_bytes: u64,
    /// Bytes that each table keeps, by the contender's own account; empty if it has none.
    pub kept_bytes: BTreeMap<String, u64>,
}

/// Resident memory of a contender's process while it ran a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryMemory {
    /// What was resident before.
    pub before_bytes: u64,
    /// The most that was resident since then; none where the kernel does not tell.
    pub peak_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_those_that_scripts_read_and_write() {
        let request = Request::Query {
            sql: "select 1".to_owned(),
        };
        let line = serde_json::to_string(&request).expect("JSON");
        assert_eq!(line, r#"{"request":"query","sql":"select 1"}"#);
        let reply = r#"{"reply": "loaded", "seconds": 1.5, "before_bytes": 1, "peak_bytes": 3,
                        "after_bytes": 2, "kept_bytes": {}}"#;
        let Ok(Reply::Loaded(loaded)) = serde_json::from_str(reply) else {
            panic!("{reply}")
        };
        assert_eq!((loaded.seconds, loaded.peak_bytes), (1.5, Some(3)));
        let reply = r#"{"reply": "measured", "before_bytes": 5, "peak_bytes": 8}"#;
        let Ok(Reply::Measured(memory)) = serde_json::from_str(reply) else {
            panic!("{reply}")
        };
        assert_eq!((memory.before_bytes, memory.peak_bytes), (5, Some(8)));
    }
}
