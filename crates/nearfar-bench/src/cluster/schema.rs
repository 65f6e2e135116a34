//! TPC-H's tables, and where their rows are in a cluster.

/// A table: its name, its columns, and what stands behind them in a cluster.
pub struct ClusterTable {
    pub name: &'static str,
    columns: &'static str,
    home: &'static str,
}

impl ClusterTable {
    /// The statement that makes it, for one process or for a cluster.
    pub fn create(&self, is_cluster: bool) -> String {
        let home = if is_cluster { self.home } else { "" };
        format!("CREATE TABLE {} ({}) {home}", self.name, self.columns)
    }
}

/// The tables, each divided by the key that the largest joins have.
pub const TABLES: [ClusterTable; 8] = [
    ClusterTable {
        name: "region",
        columns: "r_regionkey BIGINT, r_name TEXT, r_comment TEXT",
        home: "REPLICATED",
    },
    ClusterTable {
        name: "nation",
        columns: "n_nationkey BIGINT, n_name TEXT, n_regionkey BIGINT, n_comment TEXT",
        home: "REPLICATED",
    },
    ClusterTable {
        name: "supplier",
        columns: "s_suppkey BIGINT, s_name TEXT, s_address TEXT, s_nationkey BIGINT, s_phone TEXT, \
                  s_acctbal DECIMAL(15,2), s_comment TEXT",
        home: "REPLICATED",
    },
    ClusterTable {
        name: "customer",
        columns: "c_custkey BIGINT, c_name TEXT, c_address TEXT, c_nationkey BIGINT, c_phone TEXT, \
                  c_acctbal DECIMAL(15,2), c_mktsegment TEXT, c_comment TEXT",
        home: "DISTRIBUTED BY (c_custkey)",
    },
    ClusterTable {
        name: "part",
        columns: "p_partkey BIGINT, p_name TEXT, p_mfgr TEXT, p_brand TEXT, p_type TEXT, p_size INT, \
                  p_container TEXT, p_retailprice DECIMAL(15,2), p_comment TEXT",
        home: "DISTRIBUTED BY (p_partkey)",
    },
    ClusterTable {
        name: "partsupp",
        columns: "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15,2), \
                  ps_comment TEXT",
        home: "DISTRIBUTED BY (ps_partkey)",
    },
    ClusterTable {
        name: "orders",
        columns: "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus TEXT, o_totalprice DECIMAL(15,2), \
                  o_orderdate DATE, o_orderpriority TEXT, o_clerk TEXT, o_shippriority INT, o_comment TEXT",
        home: "DISTRIBUTED BY (o_orderkey)",
    },
    ClusterTable {
        name: "lineitem",
        columns: "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, \
                  l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), \
                  l_tax DECIMAL(15,2), l_returnflag TEXT, l_linestatus TEXT, l_shipdate DATE, \
                  l_commitdate DATE, l_receiptdate DATE, l_shipinstruct TEXT, l_shipmode TEXT, l_comment TEXT",
        home: "DISTRIBUTED BY (l_orderkey)",
    },
];
