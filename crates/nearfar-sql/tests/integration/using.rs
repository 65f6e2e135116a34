//! Columns that `JOIN … USING` makes of two.

use nearfar_sql::engine::{Engine, Session};

use super::support::{error, options, run};

/// Tables that have some numbers `id` in common and some not, which is not their first column.
async fn session() -> Session {
    let session = Engine::new(options()).expect("an engine").session();
    let tables = "CREATE TABLE a (x int, id bigint, k text); \
                  CREATE TABLE b (y int, id bigint, k text); \
                  CREATE TABLE c (z int, id bigint); \
                  INSERT INTO a VALUES (10, 1, 'p'), (20, 2, 'q'), (30, 3, 'r'), (31, 3, 's'); \
                  INSERT INTO b VALUES (200, 2, 'q'), (300, 3, 'r'), (400, 4, 't'); \
                  INSERT INTO c VALUES (3000, 3), (4000, 4), (5000, 5)";
    run(&session, tables).await;
    session
}

/// Queries, and what they mean.
const QUERIES: &[(&str, &str)] = &[
    (
        "SELECT id, x, y FROM a JOIN b USING (id) WHERE id > 2 ORDER BY x",
        "SELECT a.id, x, y FROM a JOIN b ON a.id = b.id WHERE a.id > 2 ORDER BY x",
    ),
    (
        "SELECT ID FROM a LEFT JOIN b USING (id) WHERE \"id\" <> 2 GROUP BY id HAVING id < 9 ORDER BY id",
        "SELECT a.id FROM a LEFT JOIN b ON a.id = b.id WHERE a.id <> 2 GROUP BY a.id ORDER BY a.id",
    ),
    (
        "SELECT id, a.id AS l, b.id AS r FROM a RIGHT JOIN b USING (id) WHERE id > 2 ORDER BY id, x",
        "SELECT b.id, a.id AS l, b.id AS r FROM a RIGHT JOIN b ON a.id = b.id WHERE b.id > 2 ORDER BY b.id, x",
    ),
    (
        "SELECT id, count(*) AS n FROM a FULL JOIN b USING (id) WHERE id % 3 <> 0 GROUP BY id ORDER BY -id",
        "SELECT coalesce(a.id, b.id) AS id, count(*) AS n FROM a FULL JOIN b ON a.id = b.id \
         WHERE coalesce(a.id, b.id) % 3 <> 0 GROUP BY 1 ORDER BY 1 DESC",
    ),
    (
        "SELECT * FROM a JOIN b USING (id) ORDER BY id, x",
        "SELECT a.id, x, a.k, y, b.k FROM a JOIN b ON a.id = b.id ORDER BY 1, 2",
    ),
    (
        "SELECT * FROM a FULL JOIN b USING (k, id) ORDER BY id, k",
        "SELECT coalesce(a.k, b.k) AS k, coalesce(a.id, b.id) AS id, x, y FROM a FULL JOIN b \
         ON a.k = b.k AND a.id = b.id ORDER BY 2, 1",
    ),
    (
        "SELECT * FROM a FULL JOIN b USING (id) FULL JOIN c USING (id) ORDER BY id, x",
        "SELECT coalesce(coalesce(a.id, b.id), c.id) AS id, x, a.k, y, b.k, z FROM a FULL JOIN b \
         ON a.id = b.id FULL JOIN c ON coalesce(a.id, b.id) = c.id ORDER BY 1, 2",
    ),
    (
        "SELECT id, z FROM a RIGHT JOIN b USING (id) JOIN c USING (id) ORDER BY id, x",
        "SELECT b.id, z FROM a RIGHT JOIN b ON a.id = b.id JOIN c ON b.id = c.id ORDER BY 1, x",
    ),
    (
        "SELECT k, c.* FROM a JOIN b USING (id, k) JOIN (SELECT id AS n, z FROM c) AS c ON n = id + 1 WHERE k > 'a'",
        "SELECT a.k, c.* FROM a JOIN b ON a.id = b.id AND a.k = b.k JOIN (SELECT id AS n, z FROM c) AS c ON n = a.id + 1",
    ),
    (
        "SELECT DISTINCT id FROM (a FULL JOIN b USING (id)) LEFT JOIN c USING (id) ORDER BY id",
        "SELECT DISTINCT coalesce(a.id, b.id) AS id FROM a FULL JOIN b ON a.id = b.id ORDER BY 1",
    ),
    (
        "SELECT x, rank() OVER (ORDER BY id) AS r FROM a RIGHT JOIN b USING (id) ORDER BY x, r",
        "SELECT x, rank() OVER (ORDER BY b.id) AS r FROM a RIGHT JOIN b ON a.id = b.id ORDER BY x, r",
    ),
    (
        "SELECT x AS id FROM a JOIN b USING (id) ORDER BY id DESC",
        "SELECT x AS id FROM a JOIN b ON a.id = b.id ORDER BY x DESC",
    ),
    // Names of the result come first.
    (
        "SELECT b.* FROM a LEFT JOIN b USING (id) ORDER BY id, x",
        "SELECT y, b.id, b.k FROM a LEFT JOIN b ON a.id = b.id ORDER BY b.id, x",
    ),
    (
        "SELECT DISTINCT b.* FROM a JOIN b USING (id) ORDER BY id DESC",
        "SELECT DISTINCT b.* FROM a JOIN b ON a.id = b.id ORDER BY b.id DESC",
    ),
    (
        "SELECT DISTINCT ON (id) b.id, y FROM a JOIN b USING (id) ORDER BY id, y",
        "SELECT DISTINCT b.id, y FROM a JOIN b ON a.id = b.id ORDER BY 1",
    ),
    (
        "SELECT DISTINCT ON (id) x AS id FROM a JOIN b USING (id) ORDER BY id",
        "SELECT DISTINCT x AS id FROM a JOIN b ON a.id = b.id ORDER BY 1",
    ),
    (
        "SELECT * FROM a JOIN b USING (ID, k) ORDER BY Id",
        "SELECT a.id AS \"id\", a.k, x, y FROM a JOIN b ON a.id = b.id AND a.k = b.k ORDER BY 1",
    ),
    (
        "SELECT value, x FROM generate_series(1, 3) JOIN (SELECT id AS value, x FROM a) AS t USING (value) ORDER BY x",
        "SELECT id AS value, x FROM a ORDER BY x",
    ),
    // Whose `x` is, is not known.
    (
        "SELECT id, z FROM a RIGHT JOIN b USING (id) JOIN c USING (id) LEFT JOIN (SELECT 20 AS x) AS d USING (x) ORDER BY id, a.x",
        "SELECT b.id, z FROM a RIGHT JOIN b ON a.id = b.id JOIN c ON b.id = c.id ORDER BY 1, x",
    ),
    // Those of queries within are their own.
    (
        "SELECT x FROM a JOIN b USING (id) WHERE id IN (SELECT id FROM c WHERE id < 4) ORDER BY x",
        "SELECT x FROM a JOIN b ON a.id = b.id WHERE a.id IN (SELECT id FROM c WHERE id < 4) ORDER BY x",
    ),
    (
        "SELECT t.id, u.id FROM a AS t JOIN (SELECT id FROM b JOIN c USING (id) WHERE id > 2) AS u USING (id) \
         WHERE id = 3",
        "SELECT t.id, u.id FROM a AS t JOIN (SELECT b.id FROM b JOIN c ON b.id = c.id) AS u ON t.id = u.id \
         WHERE t.id = 3",
    ),
    (
        "SELECT id FROM a FULL JOIN b USING (id) WHERE id > 2 UNION SELECT id FROM b JOIN c USING (id) \
         WHERE id > 3 ORDER BY id",
        "SELECT 3 AS id UNION SELECT 4 ORDER BY id",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_mean_what_postgresql_has_them_mean() {
    let session = session().await;
    for (using, meant) in QUERIES {
        let (using_rows, meant_rows) = (run(&session, using).await, run(&session, meant).await);
        assert_eq!(using_rows, meant_rows, "{using}");
    }
    run(
        &session,
        "CREATE VIEW v AS SELECT * FROM a FULL JOIN b USING (id, k) WHERE id > 3",
    )
    .await;
    let of_view = run(&session, "SELECT id, x, y FROM v").await;
    assert!(of_view.contains("| 4  |   | 400 |"), "{of_view}");
    let refused = error(&session, "SELECT id FROM a JOIN b USING (k) WHERE id = 1").await;
    assert!(refused.contains("Ambiguous"), "{refused}");
}
