//! The workloads.

use serde::Serialize;
use std::fmt;

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Queries that read much and keep little.
    Scan,
    /// Queries that keep much: large hash tables, many groups, sorts of all rows.
    Heap,
    /// A procedure whose steps are temporary tables.
    Temporary,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Scan, Self::Heap, Self::Temporary];
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scan => "scan",
            Self::Heap => "heap",
            Self::Temporary => "temporary",
        })
    }
}

/// The tables that the queries read.
pub(super) const TABLES: [&str; 2] = ["orders", "lineitem"];

/// A query, or the statements of a procedure; the last one gives the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query {
    pub name: &'static str,
    pub workload: Workload,
    pub sql: &'static str,
    /// What is run after it, untimed.
    pub after: &'static str,
}

const fn query(name: &'static str, workload: Workload, sql: &'static str) -> Query {
    Query {
        name,
        workload,
        sql,
        after: "",
    }
}

pub(super) const QUERIES: [Query; 8] = [
    query(
        "pricing-summary",
        Workload::Scan,
        "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity,
                sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*) AS n
         FROM lineitem WHERE l_shipdate <= date '1998-09-02'
         GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
    ),
    query(
        "wide-sums",
        Workload::Scan,
        "SELECT sum(l_extendedprice), sum(l_discount), sum(l_tax), sum(l_quantity),
                max(l_receiptdate), min(l_commitdate), max(l_partkey), max(l_suppkey)
         FROM lineitem",
    ),
    query(
        "late-lines",
        Workload::Scan,
        "SELECT count(*), sum(l_extendedprice) FROM lineitem
         WHERE l_receiptdate > l_commitdate AND l_discount BETWEEN 0.03 AND 0.08",
    ),
    query(
        "large-join",
        Workload::Heap,
        "SELECT count(*), sum(l_quantity), sum(o_totalprice), max(o_orderdate)
         FROM lineitem JOIN orders ON l_orderkey = o_orderkey",
    ),
    query(
        "many-groups",
        Workload::Heap,
        "SELECT count(*), sum(quantity), max(n) FROM
         (SELECT l_partkey, l_suppkey, sum(l_quantity) AS quantity, count(*) AS n
          FROM lineitem GROUP BY l_partkey, l_suppkey)",
    ),
    query(
        "join-and-groups",
        Workload::Heap,
        "SELECT count(*), max(revenue) FROM
         (SELECT o_custkey, l_partkey, sum(l_extendedprice) AS revenue
          FROM lineitem JOIN orders ON l_orderkey = o_orderkey GROUP BY o_custkey, l_partkey)",
    ),
    query(
        "full-sort",
        Workload::Heap,
        "SELECT sum(place * l_linenumber) FROM
         (SELECT l_linenumber, row_number() OVER
            (ORDER BY l_extendedprice, l_orderkey, l_linenumber) AS place FROM lineitem)",
    ),
    Query {
        name: "procedure",
        workload: Workload::Temporary,
        sql: "CREATE TEMP TABLE step AS
                SELECT l_orderkey, l_suppkey, l_extendedprice * (1 - l_discount) AS revenue
                FROM lineitem WHERE l_shipdate >= date '1995-01-01';
              CREATE TEMP TABLE total AS
                SELECT l_orderkey, sum(revenue) AS revenue FROM step GROUP BY l_orderkey;
              UPDATE total SET revenue = 0 WHERE l_orderkey % 100 = 7;
              SELECT count(*), sum(revenue), sum(o_totalprice), max(l_orderkey)
              FROM total JOIN orders ON l_orderkey = o_orderkey",
        after: "DROP TABLE IF EXISTS total; DROP TABLE IF EXISTS step",
    },
];
