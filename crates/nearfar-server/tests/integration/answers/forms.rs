//! Comparisons of rows, numbers of rows, names of tables, and conditions that guard others.

use super::super::support::start;
use super::{Answer, SETUP, check};

/// Forms that the planner of the library has not.
const FORMS: &[Answer] = &[
    (
        "SELECT a FROM t WHERE (a,b) IN ((1,10),(2,20)) ORDER BY 1",
        "1\n2",
    ),
    (
        "SELECT a, (a,b) IN ((1,10),(2,NULL)) FROM t ORDER BY 1,2",
        "1|t\n2|\n2|\n3|f\n|",
    ),
    (
        "SELECT a, (a,b) NOT IN ((1,10),(2,20)) FROM t ORDER BY 1,2",
        "1|f\n2|f\n2|\n3|t\n|t",
    ),
    (
        "SELECT a FROM t WHERE (a,b) IN (SELECT k, v/10 FROM u) ORDER BY 1",
        "1\n2",
    ),
    (
        "SELECT a, (a,b) IN (SELECT k, v/10 FROM u) FROM t ORDER BY 1,2",
        "1|t\n2|t\n2|\n3|f\n|",
    ),
    (
        "SELECT a, (a,b) NOT IN (SELECT k, v/10 FROM u WHERE k IS NOT NULL AND v IS NOT NULL) FROM t ORDER BY 1,2",
        "1|f\n2|f\n2|\n3|t\n|t",
    ),
    ("SELECT a FROM t WHERE (a,b) < (2,21) ORDER BY 1", "1\n2"),
    (
        "SELECT a, (a,b) >= (2,20), (a,b) <> (2,20), (a,b) = (2,20) FROM t ORDER BY 1,2",
        "1|f|t|f\n2|t|f|t\n2|||\n3|t|t|f\n||t|f",
    ),
    (
        "SELECT a, ROW(a,b) = ROW(2,20), (a,b) IS DISTINCT FROM (2,20) FROM t ORDER BY 1,2",
        "1|f|t\n2|t|f\n2||t\n3|f|t\n|f|t",
    ),
    ("SELECT (1,2) = (1,2,3)", "!42601"),
    (
        "SELECT a FROM t WHERE a IS NOT NULL ORDER BY a, b FETCH FIRST ROW ONLY",
        "1",
    ),
    (
        "SELECT a FROM t WHERE b IS NOT NULL ORDER BY b OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY",
        "2\n3",
    ),
    (
        "SELECT count(*) FROM (SELECT a FROM t FETCH FIRST 2 ROWS ONLY) AS q",
        "2",
    ),
    ("SELECT a FROM t FETCH FIRST 1 ROW WITH TIES", "!0A000"),
    ("SELECT a FROM t LIMIT 1 FETCH FIRST 1 ROW ONLY", "!42601"),
    ("SELECT a FROM t TABLESAMPLE SYSTEM (10)", "!0A000"),
    ("SELECT generate_series(1, 3)", "1\n2\n3"),
    ("SELECT generate_series(3, 1)", ""),
    (
        "SELECT g, g.g + 1 FROM generate_series(1, 2) AS g",
        "1|2\n2|3",
    ),
    ("SELECT u FROM unnest(ARRAY[3, 4]) u ORDER BY u", "3\n4"),
    (
        "SELECT generate_series(1, 2) AS k, a FROM t WHERE a < 2 ORDER BY 1",
        "1|1\n2|1",
    ),
    (
        "SELECT every(a > 0), every(a > 1), variance(a::float8) FROM t",
        "t|f|0.6666666666666666",
    ),
    (
        "SELECT pg_typeof(1), pg_typeof(3000000000), pg_typeof(1.5), pg_typeof('a'::text), pg_typeof(ARRAY[1])",
        "integer|bigint|numeric|text|integer[]",
    ),
    (
        "SELECT pg_typeof(k), pg_typeof(sum(k)) FROM (VALUES (1), (NULL), (2 + 2)) AS v (k) GROUP BY k ORDER BY k",
        "integer|bigint\ninteger|bigint\ninteger|bigint",
    ),
    (
        "SELECT pg_typeof(b) FROM (SELECT 1 AS b) x WHERE b > 0",
        "integer",
    ),
    (
        "WITH x AS (SELECT 1 AS b UNION ALL SELECT 2) SELECT pg_typeof(b), pg_typeof((SELECT x.b)) FROM x",
        "integer|integer\ninteger|integer",
    ),
    (
        "SELECT pg_typeof((SELECT b FROM (SELECT 1 AS b) y WHERE y.b = 1))",
        "integer",
    ),
    (
        "SELECT pg_typeof(s), pg_typeof(n) FROM (SELECT sum(b) AS s, count(1) AS n FROM (SELECT 7 AS b) x) y",
        "bigint|bigint",
    ),
    (
        "SELECT count(*) FROM (SELECT 1 AS b) x WHERE EXISTS (SELECT 1 FROM t WHERE t.a = x.b)",
        "1",
    ),
    (
        "SELECT count(gen_random_uuid()), statement_timestamp() <= now()",
        "1|t",
    ),
    ("UPDATE t SET B = 11 WHERE A = 1", ""),
    ("INSERT INTO t (A, B, S) VALUES (7, 70, 'u')", ""),
    (
        "SELECT a,b,s FROM t WHERE a IN (1,7) ORDER BY 1",
        "1|11|x\n7|70|u",
    ),
    ("DELETE FROM t WHERE A = 7", ""),
    (
        "SELECT * FROM unnest(ARRAY[10,20,30]) WITH ORDINALITY",
        "10|1\n20|2\n30|3",
    ),
    (
        "SELECT * FROM unnest(ARRAY[10,20,30]) WITH ORDINALITY AS x",
        "10|1\n20|2\n30|3",
    ),
    (
        "SELECT * FROM unnest(ARRAY[10,20,30]) WITH ORDINALITY AS x(v, n) ORDER BY n DESC",
        "30|3\n20|2\n10|1",
    ),
    (
        "SELECT * FROM generate_series(5,7) WITH ORDINALITY AS g(v, n)",
        "5|1\n6|2\n7|3",
    ),
    (
        "SELECT sum(ordinality) FROM generate_series(1,10) WITH ORDINALITY",
        "55",
    ),
    (
        "SELECT to_regclass('t'), to_regclass('nope'), to_regclass('nope') IS NULL",
        "t||t",
    ),
    ("SELECT 't'::regclass", "t"),
    ("SELECT 't'::regclass::text", "t"),
    ("SELECT 'nope'::regclass", "!42P01"),
    ("SELECT to_regclass('public.t')::text", "t"),
    (
        "SELECT count(*) FROM pg_class WHERE oid = 't'::regclass",
        "1",
    ),
    (
        "SELECT relname FROM pg_class WHERE oid = to_regclass('t')",
        "t",
    ),
    ("SELECT pg_relation_size('t') > 0", "t"),
    ("SELECT pg_relation_size('nope')", "!42P01"),
    (
        "SELECT x FROM (VALUES (0),(5),(20)) v(x) WHERE x<>0 AND 10/x>1",
        "5",
    ),
    (
        "SELECT a FROM t WHERE a <> 2 AND 10/(a-2) > 0 ORDER BY 1",
        "3",
    ),
    (
        "SELECT x FROM (VALUES ('1'),('a')) v(x) WHERE x <> 'a' AND x::int > 0",
        "1",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn forms_of_sql_give_what_they_give_elsewhere() {
    check(SETUP, FORMS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_compared_with_parameters() {
    let server = start().await;
    let client = server.client().await;
    client.batch_execute(SETUP).await.expect(SETUP);
    let sql = "SELECT a FROM t WHERE (a, b) IN (($1, $2), ($3, $4)) ORDER BY a";
    let rows = client.query(sql, &[&1_i32, &10_i32, &3_i32, &30_i32]).await;
    let rows = rows.expect("rows");
    let found: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, [1, 3]);
}
