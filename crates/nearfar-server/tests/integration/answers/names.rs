//! Columns that share a name, and names in other case.

use super::super::support::{code, start};
use super::{Answer, SETUP, check, columns};

/// Names that are the same.
const NAMES: &[Answer] = &[
    ("SELECT 1,1", "1|1"),
    ("SELECT 1, 1.0, '1', 1", "1|1.0|1|1"),
    ("SELECT count(*), count(*) FROM t", "5|5"),
    (
        "SELECT a AS x, b AS x FROM t ORDER BY 1,2",
        "1|10\n2|20\n2|\n3|30\n|40",
    ),
    ("SELECT a, a FROM t ORDER BY a", "1|1\n2|2\n2|2\n3|3\n|"),
    ("SELECT a, a FROM t ORDER BY a, b", "1|1\n2|2\n2|2\n3|3\n|"),
    ("SELECT a, b AS a FROM t ORDER BY a", "!42702"),
    ("SELECT a AS x, b AS x FROM t ORDER BY x", "!42702"),
    (
        "SELECT a AS x, a AS x FROM t ORDER BY x",
        "1|1\n2|2\n2|2\n3|3\n|",
    ),
    (
        "SELECT a, * FROM t ORDER BY 1,2",
        "1|1|10|x\n2|2|20|y\n2|2||y\n3|3|30|z\n||40|",
    ),
    (
        "SELECT *, a+1 AS a FROM t ORDER BY 1,2",
        "1|10|x|2\n2|20|y|3\n2||y|3\n3|30|z|4\n|40||",
    ),
    (
        "SELECT t.a, u.k AS a FROM t JOIN u ON t.a=u.k ORDER BY 1,2",
        "1|1\n2|2\n2|2\n2|2\n2|2",
    ),
    ("SELECT * FROM (SELECT 1,1) s", "1|1"),
    (
        "SELECT * FROM (SELECT a, b AS a FROM t) s ORDER BY 1,2",
        "1|10\n2|20\n2|\n3|30\n|40",
    ),
    ("SELECT a FROM (SELECT a, b AS a FROM t) s", "!42702"),
    (
        "SELECT s.x FROM (SELECT a AS x, b AS x, b AS y FROM t) s",
        "!42702",
    ),
    (
        "SELECT s.y FROM (SELECT a AS x, b AS x, b AS y FROM t) s ORDER BY 1",
        "10\n20\n30\n40",
    ),
    ("WITH c AS (SELECT 1 AS x, 2 AS x) SELECT * FROM c", "1|2"),
    (
        "WITH c AS (SELECT 1 AS x, 2 AS x) SELECT x FROM c",
        "!42702",
    ),
    (
        "WITH c(p,q) AS (SELECT 1 AS x, 2 AS x) SELECT p,q FROM c",
        "1|2",
    ),
    ("SELECT 1,1 UNION SELECT 2,2 ORDER BY 1", "1|1\n2|2"),
    (
        "SELECT a,a FROM t UNION ALL SELECT b,b FROM t ORDER BY 1",
        "1|1\n2|2\n2|2\n3|3\n10|10\n20|20\n30|30\n40|40\n|\n|",
    ),
    (
        "SELECT a AS z, a AS z FROM t UNION ALL SELECT b,b FROM t ORDER BY z",
        "!42702",
    ),
    ("SELECT DISTINCT a, a FROM t ORDER BY a", "1|1\n2|2\n3|3\n|"),
    ("SELECT sum(a), sum(a) FROM t", "8|8"),
    (
        "SELECT a+1, a+1, (a+1) FROM t ORDER BY 1",
        "2|2|2\n3|3|3\n3|3|3\n4|4|4\n||",
    ),
    (
        "SELECT a, a::text, a::bigint FROM t ORDER BY 1",
        "1|1|1\n2|2|2\n2|2|2\n3|3|3\n||",
    ),
    (
        "SELECT a AS x, count(*) AS x FROM t GROUP BY a ORDER BY 1",
        "1|1\n2|2\n3|1\n|1",
    ),
    ("CREATE TABLE d1 AS SELECT 1 AS x, 2 AS x", "!42701"),
    ("CREATE VIEW d2 AS SELECT 1 AS x, 2 AS x", "!42701"),
    ("INSERT INTO u (k,v) SELECT 9,9", ""),
    ("SELECT k,v FROM u WHERE k=9", "9|9"),
    ("DELETE FROM u WHERE k=9", ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn columns_may_share_a_name_until_it_is_referred_to() {
    check(SETUP, NAMES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_the_same_are_shown_as_they_are() {
    let server = start().await;
    let client = server.client().await;
    client.batch_execute(SETUP).await.expect(SETUP);
    for (sql, expected) in [
        ("SELECT 1, 1", ["?column?", "?column?"]),
        ("SELECT count(*), COUNT(*) FROM t", ["count", "count"]),
        ("SELECT a AS x, b AS \"x\" FROM t", ["x", "x"]),
        ("SELECT t.a, u.k AS a FROM t, u", ["a", "a"]),
        (
            "SELECT * FROM (SELECT a AS \"X\", b AS \"X\" FROM t) s",
            ["X", "X"],
        ),
        (
            "WITH c AS (SELECT 1 AS y, 2 AS y) SELECT * FROM c UNION SELECT 3, 3",
            ["y", "y"],
        ),
        ("SELECT a, a::text FROM t", ["a", "a"]),
    ] {
        assert_eq!(columns(&client, sql).await, expected, "{sql}");
        let prepared = client.prepare(sql).await.expect(sql);
        let names = prepared.columns().iter().map(|column| column.name());
        assert_eq!(names.collect::<Vec<_>>(), expected, "{sql}");
        client.query(&prepared, &[]).await.expect(sql);
    }
    let wildcard = "SELECT b, * FROM t";
    assert_eq!(columns(&client, wildcard).await, ["b", "a", "b", "s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_locked_but_not_within_other_queries() {
    let server = start().await;
    let (client, other) = (server.client().await, server.client().await);
    client.batch_execute(SETUP).await.expect(SETUP);
    for lock in [
        "FOR UPDATE",
        "FOR UPDATE OF t NOWAIT",
        "FOR NO KEY UPDATE",
        "FOR SHARE",
        "FOR KEY SHARE SKIP LOCKED",
    ] {
        let sql = format!("SELECT a FROM t {lock}");
        client.batch_execute("BEGIN").await.expect("BEGIN");
        let rows = client.query(&sql, &[]).await.expect(&sql);
        if !rows.is_empty() {
            let held = other.batch_execute("SELECT b FROM t FOR UPDATE NOWAIT");
            assert_eq!(code(held.await), "55P03", "{sql}");
        }
        client.batch_execute("ROLLBACK").await.expect("ROLLBACK");
        let within = format!("SELECT * FROM (SELECT a FROM t {lock}) s");
        assert_eq!(
            code(client.batch_execute(&within).await),
            "0A000",
            "{within}"
        );
    }
}
