//! Arrays, digests, encodings and JSON.

use tokio_postgres::types::Type;

use super::super::support::start;
use super::{Answer, check};

/// A table that the queries of subqueries read too.
const SETUP: &str = "CREATE TABLE u (k int, v int, w text)";

/// Functions and operators.
const ARRAYS: &[Answer] = &[
    ("SELECT ARRAY[1,2,3]", "{1,2,3}"),
    ("SELECT ARRAY['a','b',NULL]", "{a,b,NULL}"),
    ("SELECT ARRAY[1.5,2.5]", "{1.5,2.5}"),
    ("SELECT ARRAY[true,false]", "{t,f}"),
    ("SELECT ARRAY[ARRAY[1,2],ARRAY[3,4]]", "{{1,2},{3,4}}"),
    ("SELECT (ARRAY[10,20,30])[2]", "20"),
    ("SELECT (ARRAY[10,20,30])[0], (ARRAY[10,20,30])[4]", "|"),
    ("SELECT (ARRAY[10,20,30])[2:3]", "{20,30}"),
    ("SELECT (ARRAY[10,20,30])[:2]", "{10,20}"),
    ("SELECT array_agg(x) FROM (VALUES (1),(2)) v(x)", "{1,2}"),
    (
        "SELECT array_agg(x ORDER BY x DESC) FROM (VALUES (1),(2)) v(x)",
        "{2,1}",
    ),
    ("SELECT unnest(ARRAY[1,2,3])", "1\n2\n3"),
    ("SELECT * FROM unnest(ARRAY[1,2,3]) x", "1\n2\n3"),
    ("SELECT sum(x) FROM unnest(ARRAY[1,2,3]) AS q(x)", "6"),
    (
        "SELECT 2 = ANY(ARRAY[1,2,3]), 5 = ANY(ARRAY[1,2]), 2 > ALL(ARRAY[1,0])",
        "t|f|t",
    ),
    (
        "SELECT 2 = ANY(ARRAY[1,NULL]), 1 <> ALL(ARRAY[2,NULL])",
        "|",
    ),
    (
        "SELECT array_position(ARRAY['a','b','c'],'b'), array_position(ARRAY[1,2],9)",
        "2|",
    ),
    (
        "SELECT array_append(ARRAY[1,2],3), array_prepend(0,ARRAY[1,2]), array_cat(ARRAY[1],ARRAY[2])",
        "{1,2,3}|{0,1,2}|{1,2}",
    ),
    (
        "SELECT ARRAY[1,2] || 3, 0 || ARRAY[1,2], ARRAY[1] || ARRAY[2,3]",
        "{1,2,3}|{0,1,2}|{1,2,3}",
    ),
    (
        "SELECT array_to_string(ARRAY[1,2,3],','), array_to_string(ARRAY['a',NULL,'b'],','), array_to_string(ARRAY['a',NULL],',','*')",
        "1,2,3|a,b|a,*",
    ),
    (
        "SELECT string_to_array('a,b,c',','), string_to_array('a,b',',','b')",
        "{a,b,c}|{a,NULL}",
    ),
    (
        "SELECT array_length(ARRAY[1,2,3],1), array_length(ARRAY[1,2,3],2), cardinality(ARRAY[1,2,3])",
        "3||3",
    ),
    (
        "SELECT cardinality(ARRAY[]::int[]), array_length(ARRAY[]::int[],1)",
        "0|",
    ),
    (
        "SELECT ARRAY[1,2,3] @> ARRAY[1,2], ARRAY[1] <@ ARRAY[1,2], ARRAY[1,2] && ARRAY[2,3], ARRAY[1] && ARRAY[2]",
        "t|t|t|f",
    ),
    ("SELECT '{1,2}'::int[]", "{1,2}"),
    ("SELECT '{1,NULL,3}'::int[], '{}'::int[]", "{1,NULL,3}|{}"),
    ("SELECT '{\"a b\",c}'::text[]", "{\"a b\",c}"),
    (
        "SELECT array_remove(ARRAY[1,2,1],1), array_replace(ARRAY[1,2,1],1,9)",
        "{2}|{9,2,9}",
    ),
    (
        "SELECT array_lower(ARRAY[1,2],1), array_upper(ARRAY[1,2],1)",
        "1|2",
    ),
    ("SELECT array_fill(7, ARRAY[3])", "{7,7,7}"),
    ("SELECT array_positions(ARRAY[1,2,1],1)", "{1,3}"),
    (
        "SELECT ARRAY[1,2] = ARRAY[1,2], ARRAY[1,2] < ARRAY[1,3]",
        "t|t",
    ),
    ("CREATE TABLE arr (id int, v int[], w text[])", ""),
    (
        "INSERT INTO arr VALUES (1, ARRAY[1,2], ARRAY['a']), (2, '{3,4}', '{x,\"y z\"}'), (3, NULL, NULL), (4, ARRAY[]::int[], ARRAY[]::text[])",
        "",
    ),
    (
        "SELECT * FROM arr ORDER BY id",
        "1|{1,2}|{a}\n2|{3,4}|{x,\"y z\"}\n3||\n4|{}|{}",
    ),
    (
        "SELECT id, unnest(v) FROM arr ORDER BY 1,2",
        "1|1\n1|2\n2|3\n2|4",
    ),
    ("SELECT id FROM arr WHERE 2 = ANY(v)", "1"),
    (
        "SELECT id FROM arr WHERE id = ANY('{1,3,NULL}') ORDER BY 1",
        "1\n3",
    ),
    (
        "SELECT id FROM arr WHERE id <> ALL('{1,3}') ORDER BY 1",
        "2\n4",
    ),
    (
        "SELECT 'a' = ANY('{a,\"b c\"}'), 'b c' = ANY('{a,\"b c\"}'), 'c' <> ALL('{c,NULL}')",
        "t|t|f",
    ),
    ("SELECT id FROM arr WHERE v @> ARRAY[3]", "2"),
    (
        "SELECT id, v[1], cardinality(v) FROM arr ORDER BY id",
        "1|1|2\n2|3|2\n3||\n4||0",
    ),
    (
        "SELECT array_agg(id) FROM arr GROUP BY v IS NULL ORDER BY 1",
        "{1,2,4}\n{3}",
    ),
    (
        "SELECT md5('abc'), md5('')",
        "900150983cd24fb0d6963f7d28e17f72|d41d8cd98f00b204e9800998ecf8427e",
    ),
    (
        "SELECT sha256('abc'::bytea)",
        "\\xba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    ),
    (
        "SELECT encode(sha256('abc'::bytea),'hex')",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    ),
    (
        "SELECT encode('abc'::bytea,'base64'), encode('abc'::bytea,'hex')",
        "YWJj|616263",
    ),
    (
        "SELECT decode('616263','hex'), decode('YWJj','base64')",
        "\\x616263|\\x616263",
    ),
    (
        "SELECT '{\"a\":1,\"b\":{\"c\":\"x\"}}'::json->'b'",
        "{\"c\":\"x\"}",
    ),
    ("SELECT '{\"a\":1,\"b\":{\"c\":\"x\"}}'::json->>'a'", "1"),
    (
        "SELECT '{\"a\":1,\"b\":{\"c\":\"x\"}}'::json->'b'->>'c'",
        "x",
    ),
    ("SELECT '{\"a\":[1,2,3]}'::jsonb->'a'->1", "2"),
    (
        "SELECT '{\"a\":{\"b\":[1,{\"c\":7}]}}'::json #>> '{a,b,1,c}'",
        "7",
    ),
    (
        "SELECT '{\"a\":null}'::json->>'a', '{\"a\":1}'::json->>'z'",
        "|",
    ),
    (
        "SELECT '{\"a\":1}'::jsonb ? 'a', '{\"a\":1}'::jsonb ? 'b'",
        "t|f",
    ),
    ("SELECT '{\"a\":\"x\"}'::json->'a'", "\"x\""),
    ("SELECT json_array_length('[1,2,3]')", "3"),
    ("SELECT '{\"a\":true}'::json->>'a'", "true"),
    (
        "SELECT json_build_object('a', 1, 2, 'x\"\\y', 'c', NULL, 'd', 1 > 2, 'e', 1.50)",
        "{\"a\" : 1, \"2\" : \"x\\\"\\\\y\", \"c\" : null, \"d\" : false, \"e\" : 1.50}",
    ),
    (
        "SELECT json_build_array(json_build_object('a', ARRAY[1,NULL,3]), DATE '2024-01-02', \
         TIMESTAMP '2024-01-02 03:04:05', 'NaN'::float8, '\\x00ff'::bytea, ARRAY['a','b'])",
        "[{\"a\" : [1,null,3]}, \"2024-01-02\", \"2024-01-02T03:04:05\", \"NaN\", \"\\\\x00ff\", [\"a\",\"b\"]]",
    ),
    ("SELECT json_build_object(), json_build_array()", "{}|[]"),
    (
        "SELECT CASE WHEN a = 1 THEN (SELECT json_build_object('v', max(v)) FROM \
         (VALUES (1, 100), (1, 50)) u(k, v) WHERE k = a) ELSE NULL END FROM (VALUES (1), (2)) t(a) ORDER BY a",
        "{\"v\" : 100}",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn arrays_are_like_those_of_postgresql() {
    check(SETUP, ARRAYS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_are_sent_and_read_in_binary_form() {
    let server = start().await;
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE a (id int, v int[], w text[])")
        .await
        .expect("created");
    let insert = "INSERT INTO a VALUES ($1, $2, $3)";
    let numbers = vec![Some(7_i32), None, Some(-1)];
    let texts = vec!["x".to_owned(), "a,\"b\"".to_owned()];
    let added = client.execute(insert, &[&1_i32, &numbers, &texts]).await;
    assert_eq!(added.expect("inserted"), 1);
    let row = client
        .query_one("SELECT v, w FROM a", &[])
        .await
        .expect("a row");
    assert_eq!(row.get::<_, Vec<Option<i32>>>(0), numbers);
    assert_eq!(row.get::<_, Vec<String>>(1), texts);
    let ids = vec![3_i32, 1];
    let any = "SELECT id FROM a WHERE id = ANY($1)";
    let any = client.prepare_typed(any, &[Type::INT4_ARRAY]).await;
    let found = client.query(&any.expect("prepared"), &[&ids]).await;
    assert_eq!(found.expect("rows").len(), 1);
    // Without a type, it is that of the value beside it.
    client
        .batch_execute(
            "CREATE TABLE t (id int, s text); INSERT INTO t VALUES (1, 'a'), (2, 'b c'), (3, NULL)",
        )
        .await
        .expect("created");
    let found = client
        .query("SELECT id FROM t WHERE s = ANY($1)", &[&vec!["b c", "d"]])
        .await
        .expect("rows");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].get::<_, i32>(0), 2);
    let found = client
        .query(
            "SELECT id FROM t WHERE id = ANY($1) AND s <> $2",
            &[&ids, &"b"],
        )
        .await;
    assert_eq!(found.expect("rows").len(), 1);
}
