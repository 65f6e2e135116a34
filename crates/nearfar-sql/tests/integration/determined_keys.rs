//! Rows are not grouped by what other keys determine and nobody reads, and answers are what they are without that.

use nearfar_sql::engine::{Engine, Session};

use super::support::{options, run, same_without};

const SETTING: &str = "drop_determined_keys";

/// Keys of the groups of things by their number and what it determines.
const DETERMINED: &str = "SELECT id, count(*) FROM sales JOIN things ON thing = id \
                          GROUP BY id, of + 1, brand HAVING count(*) > 1";

/// Things by rising numbers, which belong to makers by rising numbers, and sales of them.
async fn session() -> Session {
    let session = Engine::new(options()).expect("an engine").session();
    let tables = "CREATE TABLE makers AS SELECT value AS maker, 'maker ' || value % 3 AS title FROM generate_series(0, 9);
                  CREATE TABLE things AS SELECT value AS id, 'Thing ' || value % 7 AS name, value % 10 AS of, \
                    CASE WHEN value % 9 > 0 THEN 'brand ' || value % 9 END AS brand FROM generate_series(0, 99);
                  CREATE TABLE sales AS SELECT CASE WHEN value % 13 > 0 THEN value % 101 END AS thing, \
                    value % 17 AS pieces, CAST(value % 1000 AS NUMERIC(9, 2)) / 4 AS price \
                    FROM generate_series(1, 3000)";
    run(&session, tables).await;
    session
}

/// The keys of the last aggregate of a plan.
async fn keys(session: &Session, sql: &str) -> usize {
    let plan = run(session, &format!("EXPLAIN {sql}")).await;
    let last = plan.lines().find(|line| line.contains("mode=Final"));
    let last = last.unwrap_or_else(|| panic!("{sql}\n{plan}"));
    let keys = last
        .split_once("gby=[")
        .and_then(|(_, keys)| keys.split_once(']'));
    keys.unwrap_or_else(|| panic!("{last}"))
        .0
        .matches(" as ")
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_others_determine_are_left_out() {
    let session = session().await;
    assert_eq!(keys(&session, DETERMINED).await, 1);
    let plan = run(&session, &format!("EXPLAIN {DETERMINED}")).await;
    assert!(plan.contains("table=things, columns=[id]"), "{plan}");
    run(&session, &format!("SET {SETTING} = off")).await;
    assert_eq!(keys(&session, DETERMINED).await, 3);
    run(&session, &format!("SET {SETTING} = on")).await;
    for (sql, left) in [
        // The other side of an equality determines as much, and so does what that determines.
        (
            "SELECT thing, sum(pieces) FROM sales JOIN things ON thing = id GROUP BY thing, name",
            1,
        ),
        (
            "SELECT sum(pieces) FROM sales JOIN things ON thing = id JOIN makers ON of = maker GROUP BY thing, name, title",
            1,
        ),
        (
            "SELECT name, sum(pieces) FROM sales JOIN things ON thing = id GROUP BY id, name, brand",
            2,
        ),
        (
            "SELECT count(*) AS n FROM things GROUP BY id, name, of + 1",
            1,
        ),
        (
            "SELECT id, sum(n) FROM (SELECT id, lower(substr(name, 1, 3)) AS l, of AS n FROM things) AS t GROUP BY id, l",
            1,
        ),
        // Some key has to be left, and what is read.
        (
            "SELECT name, brand, sum(pieces) FROM sales JOIN things ON thing = id GROUP BY id, name, brand",
            3,
        ),
        (
            "SELECT id, brand, sum(pieces) FROM sales JOIN things ON thing = id GROUP BY id, brand",
            2,
        ),
    ] {
        assert_eq!(keys(&session, sql).await, left, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_differ_are_kept() {
    let session = session().await;
    for (sql, left) in [
        (
            "SELECT brand, count(*) FROM sales JOIN things ON thing = id GROUP BY name, brand",
            2,
        ),
        ("SELECT of, count(*) FROM things GROUP BY of, name", 2),
        (
            "SELECT id, count(*) FROM things GROUP BY id, floor(random() * 3)",
            2,
        ),
        (
            "SELECT id, count(*) FROM things JOIN sales ON thing = id GROUP BY id, pieces",
            2,
        ),
        // Rows without a partner have no number, and a maker's title or none.
        (
            "SELECT id, count(*) FROM sales LEFT JOIN (SELECT id, coalesce(brand, 'none') AS b FROM things) AS t \
          ON thing = id GROUP BY id, b",
            2,
        ),
        (
            "SELECT id, count(*) FROM sales FULL JOIN things ON thing = id GROUP BY id, name",
            2,
        ),
        // Nobody is spared an error, and no order of values is lost.
        ("SELECT id, count(*) FROM things GROUP BY id, 1 / of", 2),
        (
            "SELECT id, count(*) FROM (SELECT id, 1 / of AS q FROM things) AS t GROUP BY id, q",
            2,
        ),
        (
            "SELECT id, sum(n) FROM (SELECT id, q + 1 AS r, n FROM (SELECT id, CAST(name AS INT) AS q, of AS n \
             FROM things) AS t JOIN sales ON thing = id) AS u GROUP BY id, r",
            2,
        ),
        (
            "SELECT id, sum(n) FROM (SELECT id, substr(name, of - 3) AS s, of AS n FROM things) AS t GROUP BY id, s",
            2,
        ),
        (
            "SELECT id, string_agg(brand, ',') FROM things GROUP BY id, name",
            2,
        ),
        // Values that are equal, and not the same.
        (
            "SELECT a.f, count(*) FROM (SELECT CAST(pieces AS DOUBLE) AS f FROM sales) AS a JOIN \
          (SELECT -CAST(pieces AS DOUBLE) AS f FROM sales) AS b ON a.f = b.f GROUP BY a.f, b.f",
            2,
        ),
        (
            "SELECT id, count(*) FROM (SELECT id, name FROM things UNION ALL SELECT 100 - id, name FROM things) AS u \
          GROUP BY id, name",
            2,
        ),
    ] {
        assert_eq!(keys(&session, sql).await, left, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_known_is_of_the_rows_that_are_read() {
    let session = session().await;
    assert_eq!(keys(&session, DETERMINED).await, 1);
    let groups = "SELECT count(*) FROM (SELECT id, count(*) FROM things GROUP BY id, name) AS g";
    assert!(run(&session, groups).await.contains(" 100 "));
    run(
        &session,
        "BEGIN; INSERT INTO things VALUES (5, 'another', 1, NULL)",
    )
    .await;
    assert_eq!(keys(&session, DETERMINED).await, 3);
    assert!(run(&session, groups).await.contains(" 101 "));
    run(&session, "ROLLBACK").await;
    assert_eq!(keys(&session, DETERMINED).await, 1);
    assert!(run(&session, groups).await.contains(" 100 "));
    run(&session, "DELETE FROM things WHERE id = 50").await;
    assert_eq!(keys(&session, DETERMINED).await, 1);
    run(&session, "UPDATE things SET id = 5 WHERE id = 7").await;
    assert_eq!(keys(&session, DETERMINED).await, 3);
    assert!(run(&session, groups).await.contains(" 99 "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_groups_stay_equal() {
    let session = session().await;
    let groups = "WITH g AS (SELECT id, name, count(*) AS n FROM sales JOIN things ON thing = id GROUP BY id, name)";
    let sql = format!(
        "{groups} SELECT max(g.n), count(h.name) FROM g JOIN g AS h ON h.id = g.n WHERE g.n > 5"
    );
    let plan = run(&session, &format!("EXPLAIN {sql}")).await;
    assert!(plan.contains("gby=[id@0 as id, name@1 as name]"), "{plan}");
    let sql = format!("{groups} SELECT max(g.n) FROM g JOIN g AS h ON h.n = g.n");
    let plan = run(&session, &format!("EXPLAIN {sql}")).await;
    assert!(!plan.contains("name@1 as name"), "{plan}");
    same_without(&session, SETTING, &sql).await;
    // A join that is made once stays so.
    let joined = "WITH j AS (SELECT id, name, pieces FROM sales JOIN things ON thing = id) \
                  SELECT (SELECT max(s) FROM (SELECT sum(pieces) AS s FROM j GROUP BY id, name) AS g), \
                         (SELECT count(DISTINCT name) + max(id) + sum(pieces) FROM j)";
    run(&session, &format!("SET {SETTING} = off")).await;
    let shared = run(&session, &format!("EXPLAIN {joined}")).await;
    assert!(shared.contains("SharedExec"), "{shared}");
    run(&session, &format!("SET {SETTING} = on")).await;
    let plan = run(&session, &format!("EXPLAIN {joined}")).await;
    assert!(plan.contains("SharedExec"), "{plan}");
    assert!(plan.contains("gby=[id@0 as id],"), "{plan}");
    same_without(&session, SETTING, joined).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_keep_their_declared_types() {
    let session = session().await;
    let table = "CREATE TABLE notes (id BIGINT, short VARCHAR(5), code CHAR(4), n BIGINT, price NUMERIC(9, 2));
                 INSERT INTO notes SELECT value, 'a' || value, 'c', value % 3, value FROM generate_series(1, 20);
                 VACUUM notes";
    run(&session, table).await;
    let sql = "SELECT CASE WHEN id > 2 THEN short END AS s, CASE WHEN count(*) > 9 THEN code END AS c \
               FROM notes GROUP BY id, short, code, n ORDER BY 1";
    assert_eq!(keys(&session, sql).await, 3);
    same_without(&session, SETTING, sql).await;
    let sql = "SELECT CASE WHEN id > 2 THEN short END AS s, price * 2 AS p FROM notes";
    assert!(run(&session, sql).await.contains("40.00"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_with_fewer_keys() {
    let session = session().await;
    let functions = "count(*), sum(pieces), avg(price), count(DISTINCT pieces), \
                     sum(price) FILTER (WHERE pieces > 3), min(name), string_agg(DISTINCT brand, ',')";
    for keys in [
        "id, name",
        "id, lower(name), brand",
        "thing, of, name",
        "of, title, id, brand",
    ] {
        for read in ["id", "thing", "of"] {
            let joined = "sales JOIN things ON thing = id JOIN makers ON of = maker";
            let sql = format!(
                "SELECT * FROM (SELECT max({read}) AS r, {functions} FROM {joined} GROUP BY {keys}) AS g ORDER BY 1, 2, 3, 4, 5, 6, 7, 8"
            );
            same_without(&session, SETTING, &sql).await;
        }
    }
    let ordered = "SELECT id, array_agg(pieces ORDER BY pieces, price) FROM sales JOIN things ON thing = id \
                   GROUP BY id, name ORDER BY id LIMIT 5";
    same_without(&session, SETTING, ordered).await;
    let none = "SELECT count(*) FROM things WHERE id < 0 GROUP BY id, name";
    same_without(&session, SETTING, none).await;
    let sets = "SELECT id, count(*) FROM things GROUP BY ROLLUP (id, name) ORDER BY 1, 2 LIMIT 9";
    same_without(&session, SETTING, sets).await;
    for partitions in [1, 4] {
        run(
            &session,
            &format!("SET datafusion.execution.target_partitions = {partitions}"),
        )
        .await;
        same_without(&session, SETTING, &format!("{DETERMINED} ORDER BY id")).await;
    }
}
