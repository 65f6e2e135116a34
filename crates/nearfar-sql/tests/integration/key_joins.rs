//! Joins by keys of 64 bits have the answers of DataFusion's joins.

use nearfar_sql::engine::{Engine, EngineOptions, Session};

use super::support::{error, options, run};

/// Tables with duplicates, nulls, keys that only one side has, and more pairs than a batch has rows.
async fn session() -> Session {
    let session = Engine::new(options()).expect("an engine").session();
    let tables = "CREATE TABLE a AS SELECT nullif(value % 700, 3) AS k, (value % 5)::int AS n, value AS v, \
                    'text ' || value % 11 AS s FROM generate_series(1, 9000) t(value); \
                  CREATE TABLE b AS SELECT nullif(value % 900, 7) AS k, (value % 7)::int AS n, value * 3 AS v, \
                    'text ' || value % 13 AS s FROM generate_series(1, 4000) t(value); \
                  CREATE TABLE one AS SELECT value AS k, (value % 5)::int AS n, value AS v \
                    FROM generate_series(-20, 400) t(value); \
                  CREATE TABLE none AS SELECT * FROM one WHERE v > 1000; \
                  CREATE TABLE wide AS SELECT (value - 200) * 45000000000000000 AS k, (value * 9000000)::int AS n, \
                    value AS v FROM generate_series(1, 200) t(value)";
    run(&session, tables).await;
    session
}

/// Has joins divide their sides, or share one table.
const MODES: [&str; 2] = [
    "SET datafusion.optimizer.hash_join_single_partition_threshold = 0; \
     SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 0",
    "SET datafusion.optimizer.hash_join_single_partition_threshold = 16777216; \
     SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 16777216",
];

async fn assert_same(session: &Session, sql: &str) {
    for mode in MODES {
        run(session, mode).await;
        run(session, "SET key_joins = off").await;
        let expected = run(session, sql).await;
        run(session, "SET key_joins = on").await;
        assert_eq!(run(session, sql).await, expected, "{mode}: {sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_have_them_where_keys_are_numbers() {
    let session = session().await;
    let by_number = "EXPLAIN SELECT count(*) FROM a JOIN b ON a.k = b.k AND a.n = b.n";
    let by_text = "EXPLAIN SELECT count(*) FROM a JOIN b ON a.s = b.s";
    let plan = run(&session, by_number).await;
    assert!(plan.contains("KeyJoinExec: mode="), "{plan}");
    assert!(!plan.contains("HashJoinExec"), "{plan}");
    let plan = run(&session, by_text).await;
    assert!(plan.contains("HashJoinExec"), "{plan}");
    run(&session, "SET key_joins = off").await;
    let plan = run(&session, by_number).await;
    assert!(
        plan.contains("HashJoinExec") && !plan.contains("KeyJoinExec"),
        "{plan}"
    );
}

#[tokio::test]
async fn an_order_is_kept_for_those_who_see_it_without_requiring_it() {
    let options = EngineOptions {
        threads: 1,
        ..options()
    };
    let session = Engine::new(options).expect("an engine").session();
    let tables = "CREATE TABLE f AS SELECT value AS k, value % 103 AS v FROM generate_series(1, 4000) t(value); \
                  CREATE TABLE u AS SELECT value AS k, value % 5 AS g FROM generate_series(1, 4000) t(value)";
    run(&session, tables).await;
    let joined = "u JOIN f ON u.k = f.k WHERE u.g < 3";
    for (sql, operator) in [
        (format!("SELECT max(f.v) FROM {joined}"), "KeyJoinExec"),
        (
            format!("SELECT first_value(f.v ORDER BY f.k) FROM {joined}"),
            "HashJoinExec",
        ),
        (
            format!("SELECT sum(v) FROM (SELECT f.v FROM {joined} ORDER BY f.k OFFSET 5) AS s"),
            "HashJoinExec",
        ),
    ] {
        let plan = run(&session, &format!("EXPLAIN {sql}")).await;
        assert!(
            plan.contains(operator) && !plan.contains("SortExec"),
            "{plan}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_all_kinds_have_the_same_answers() {
    let session = session().await;
    let sums =
        "SELECT count(*), count(x.k), count(y.k), sum(x.v), sum(y.v), min(x.n), max(y.n) FROM";
    let of_left = "SELECT count(*), count(x.k), sum(x.v), sum(x.n) FROM";
    let tables = [
        ("a", "b"),
        ("b", "a"),
        ("a", "one"),
        ("one", "a"),
        ("none", "a"),
        ("a", "none"),
        ("wide", "wide"),
    ];
    let conditions = [
        "x.k = y.k",
        "x.k = y.k AND x.n = y.n",
        "x.k = y.k AND x.v < y.v",
        "x.k + 1 = y.k AND x.n = y.n AND x.v <> y.v + 1",
    ];
    for (x, y) in tables {
        for on in conditions {
            for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
                assert_same(&session, &format!("{sums} {x} x {kind} {y} y ON {on}")).await;
            }
            for kind in ["EXISTS", "NOT EXISTS"] {
                let found = format!("{kind} (SELECT FROM {y} y WHERE {on})");
                assert_same(&session, &format!("{of_left} {x} x WHERE {found}")).await;
            }
        }
        for kind in ["IN", "NOT IN"] {
            let found = format!("x.k {kind} (SELECT k FROM {y} WHERE k IS NOT NULL)");
            assert_same(&session, &format!("{of_left} {x} x WHERE {found}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_all_types_have_the_same_answers() {
    let session = session().await;
    let types = [
        "smallint",
        "int",
        "bigint",
        "numeric(9, 2)",
        "numeric(18, 3)",
        "numeric(30, 3)",
        "date",
        "timestamp",
        "real",
        "text",
        "boolean",
    ];
    for data_type in types {
        let cast = |table: &str| {
            let value = match data_type {
                "date" => "DATE '2020-01-01' + k::int".to_owned(),
                "timestamp" => "TIMESTAMP '2020-01-01' + k * INTERVAL '1 hour'".to_owned(),
                "boolean" => "k % 2 = 0".to_owned(),
                other => format!("k::{other}"),
            };
            let few = if data_type == "boolean" {
                "WHERE v < 90"
            } else {
                ""
            };
            format!("(SELECT {value} AS k, n, v FROM {table} {few})")
        };
        let (x, y) = (cast("a"), cast("b"));
        for on in ["x.k = y.k", "x.k = y.k AND x.n = y.n"] {
            let sql = format!(
                "SELECT count(*), sum(x.v), sum(y.v), min(x.k), max(y.k) FROM {x} x LEFT JOIN {y} y ON {on}"
            );
            assert_same(&session, &sql).await;
        }
    }
}

/// More rows than are put into a table in one step, of keys that are close together, far apart, and equal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_build_sides_have_the_same_answers() {
    let session = Engine::new(options()).expect("an engine").session();
    let tables = "CREATE TABLE large AS SELECT value AS k, value * 4294967311 AS far, value % 3 AS few \
                    FROM generate_series(1, 150000) t(value); \
                  CREATE TABLE few AS SELECT value AS k FROM generate_series(0, 3) t(value)";
    run(&session, tables).await;
    for sql in [
        "SELECT count(*), sum(x.k), sum(y.far) FROM large x JOIN large y ON x.k = y.k * 2",
        "SELECT count(*), sum(x.k), sum(y.far) FROM large x JOIN large y ON x.far = y.far AND x.few = y.few",
        "SELECT count(*), sum(x.k) FROM large x FULL JOIN few y ON x.few = y.k",
        "SELECT count(*), sum(x.k) FROM large x WHERE NOT EXISTS (SELECT FROM large y WHERE y.k = x.k + 7)",
    ] {
        assert_same(&session, sql).await;
    }
}

/// Keys of two columns that are no number of 64 bits, in a build side that all partitions of the probe side share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_partner_are_given_once_where_keys_are_no_number() {
    let session = session().await;
    let tables = "CREATE TABLE big AS SELECT k, n, v FROM wide WHERE v <= 100 \
                  UNION ALL SELECT value, 1, value FROM generate_series(1, 150000) t(value)";
    run(&session, tables).await;
    let on = "x.k = y.k AND x.n = y.n";
    for kind in ["LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        let sql =
            format!("SELECT count(*), count(x.v), count(y.v) FROM wide x {kind} big y ON {on}");
        assert_same(&session, &sql).await;
    }
    for kind in ["EXISTS", "NOT EXISTS"] {
        let found = format!("{kind} (SELECT FROM big y WHERE {on})");
        assert_same(
            &session,
            &format!("SELECT count(*), sum(x.v) FROM wide x WHERE {found}"),
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_beside_ones_without_rows_end() {
    let session = session().await;
    for sql in [
        "SELECT count(*) FROM none x JOIN (SELECT n, max(k) AS k FROM a GROUP BY n) y ON x.k = y.k",
        "WITH s AS (SELECT k, sum(v) AS v FROM a GROUP BY k) SELECT \
           (SELECT count(*) FROM none x JOIN s ON x.k = s.k), (SELECT count(*) FROM one x JOIN s ON x.k = s.k)",
        "WITH RECURSIVE r AS (SELECT 1::bigint AS k UNION ALL SELECT one.v + 1 FROM r JOIN one ON r.k = one.k \
           WHERE r.k < 30) SELECT count(*), max(k) FROM r",
    ] {
        assert_same(&session, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_rows_are_those_of_the_order() {
    let session = session().await;
    let tables = "CREATE TABLE sorted AS SELECT value / 4 AS k, value % 100 AS n FROM generate_series(0, 199999) t(value); \
                  CREATE TABLE pairs AS SELECT value % 100 AS n, (value * 7919) % 100000 AS w \
                    FROM generate_series(1, 8000) t(value)";
    run(&session, tables).await;
    for limit in [5, 50, 5000] {
        let sql = format!(
            "SELECT sum(k), sum(w), max(k) FROM \
               (SELECT k, w FROM sorted x JOIN pairs y ON x.n = y.n ORDER BY k, w LIMIT {limit})"
        );
        assert_same(&session, &sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_and_limits_are_kept() {
    let session = session().await;
    for sql in [
        "SELECT x.k, x.v, y.v FROM a x JOIN b y ON x.k = y.k ORDER BY x.v, y.v LIMIT 20000 OFFSET 100",
        "SELECT x.k, x.v FROM (SELECT * FROM a ORDER BY v) x JOIN one y ON x.k = y.k ORDER BY x.v",
        "SELECT x.v, count(*) FROM a x JOIN b y ON x.k = y.k GROUP BY x.v ORDER BY x.v",
        "SELECT x.v, sum(y.v) OVER (ORDER BY x.v, y.v) FROM a x JOIN b y ON x.k = y.k WHERE x.v < 500 ORDER BY 1, 2",
        "SELECT x.s, y.s, z.s FROM a x JOIN b y ON x.k = y.k JOIN a z ON z.k = y.k WHERE x.v < 300 \
         ORDER BY 1, 2, 3 LIMIT 100",
    ] {
        assert_same(&session, sql).await;
    }
    let first = run(
        &session,
        "SELECT count(*) FROM (SELECT 1 FROM a x JOIN b y ON x.k = y.k LIMIT 9000)",
    )
    .await;
    assert!(first.contains("9000"), "{first}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_are_told_the_keys() {
    let session = session().await;
    for mode in MODES {
        run(&session, mode).await;
        for few in ["v < 30", "v < 1500"] {
            let sql = format!(
                "EXPLAIN ANALYZE SELECT count(*) FROM (SELECT * FROM b WHERE {few}) x JOIN a y ON x.k = y.k AND x.n = y.n"
            );
            let analyzed = run(&session, &sql).await;
            assert!(analyzed.contains("key_is_there"), "{analyzed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_are_told_the_columns_of_sparse_keys() {
    let session = session().await;
    let tables = "CREATE TABLE costs AS SELECT value % 50000 AS p, CASE WHEN value % 31 > 0 THEN value % 997 END AS q, \
                    CAST(value % 10000 AS NUMERIC(9, 2)) AS cost FROM generate_series(1, 60000) t(value); \
                  CREATE TABLE few_costs AS SELECT p, q, cost FROM costs WHERE p % 100 = 7";
    run(&session, tables).await;
    let sql = "SELECT count(*), sum(y.cost) FROM few_costs x JOIN costs y ON x.p = y.p AND x.cost = y.cost";
    let analyzed = run(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
    let told = [
        "key_is_there(p@0)",
        "key_is_there(cost@",
        "key_may_be_there(p@0, cost@",
    ];
    let told = told.map(|condition| analyzed.contains(condition));
    assert_eq!(told, [true; 3], "{analyzed}");
    for on in [
        "x.p = y.p AND x.cost = y.cost",
        "x.p = y.p AND x.q = y.q",
        "x.q = y.q AND x.cost = y.cost AND x.p = y.p",
        "x.q = y.q AND x.p = y.p AND x.cost < y.cost + 1",
        "x.q IS NOT DISTINCT FROM y.q AND x.p = y.p",
    ] {
        for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
            let sql = format!(
                "SELECT count(*), sum(y.cost), sum(x.q), count(y.q) FROM few_costs x {join} costs y ON {on}"
            );
            assert_same(&session, &sql).await;
        }
        for exists in ["EXISTS", "NOT EXISTS"] {
            let sql = format!(
                "SELECT count(*), sum(q) FROM costs y WHERE {exists} (SELECT 1 FROM few_costs x WHERE {on})"
            );
            assert_same(&session, &sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_below_come_through() {
    let session = session().await;
    for mode in MODES {
        run(&session, mode).await;
        for sql in [
            "SELECT count(*) FROM (SELECT k, 1 / (n - 2) AS d FROM a) x JOIN b y ON x.k = y.k WHERE x.d >= 0",
            "SELECT count(*) FROM b x JOIN (SELECT k, 1 / (n - 2) AS d FROM a) y ON x.k = y.k WHERE y.d >= 0",
            "SELECT count(*) FROM a x JOIN b y ON x.k = y.k AND 1 / (x.n - y.n) = 1",
        ] {
            let message = error(&session, sql).await;
            assert!(
                message.to_lowercase().contains("divide by zero"),
                "{sql}: {message}"
            );
        }
    }
}
