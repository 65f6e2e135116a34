//! Semi joins by keys that have a further condition, or that stand for inner joins of whose one side nothing is asked.

use nearfar_sql::engine::{Engine, Session};

use super::support::{options, run, same_without};

async fn session() -> Session {
    let session = Engine::new(options()).expect("an engine").session();
    let tables = "CREATE TABLE o AS SELECT value % 900 AS id, value % 7 AS w, nullif(value % 5, 0) AS v \
                    FROM generate_series(1, 6000); \
                  CREATE TABLE c AS SELECT value AS id, nullif(value % 40, 0) AS n FROM generate_series(1, 1000); \
                  CREATE TABLE d AS SELECT value AS n, 'name ' || value AS name FROM generate_series(0, 60, 2)";
    run(&session, tables).await;
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_with_both_kinds_of_joins() {
    let session = session().await;
    let conditions = [
        "id IN (SELECT a.id FROM o a, o b WHERE a.id = b.id AND a.w <> b.w)",
        "id NOT IN (SELECT a.id FROM o a, o b WHERE a.id = b.id AND a.w < b.w AND a.id > 300)",
        "n IN (SELECT d.n FROM d, o, c AS e WHERE d.n = o.v AND e.id = o.id AND e.n > o.w)",
        "EXISTS (SELECT FROM o, d WHERE o.id = c.id AND o.w = d.n)",
        "EXISTS (SELECT FROM o a, o b WHERE a.id = c.id AND b.w = a.w AND b.v = c.n)",
        "NOT EXISTS (SELECT FROM o LEFT JOIN d ON o.w = d.n WHERE o.id = c.id AND d.name IS NULL)",
        "n = ANY (SELECT coalesce(d.n, o.v) FROM o FULL JOIN d ON o.v = d.n)",
        "(id, n) IN (SELECT a.id, b.v FROM o a JOIN o b ON a.w = b.w JOIN d ON d.n = b.v)",
        "id IN (SELECT x.id FROM (SELECT a.id, a.w + b.w AS s FROM o a, o b WHERE a.id = b.id) x WHERE x.s > 5)",
        "id IN (SELECT a.id FROM o a, o b WHERE a.id = b.id LIMIT 10000)",
        "id IN (SELECT a.id FROM o a, o b WHERE a.id = b.id GROUP BY a.id HAVING count(*) > 36)",
        "id IN (SELECT sum(1) OVER (ORDER BY o.id, o.w) FROM d a, d b, o WHERE a.n = b.n AND o.w = b.n)",
        "id IN (SELECT a.id FROM o a, o b WHERE a.id = b.id UNION ALL SELECT a.n FROM d a, d b WHERE a.n < b.n)",
    ];
    let others = [
        "SELECT DISTINCT a.w FROM o a JOIN o b ON a.id = b.id AND a.v < b.v ORDER BY 1",
        "SELECT DISTINCT 1 FROM o a JOIN o b ON a.id = b.id",
        "SELECT a.w, b.n FROM o a JOIN d b ON a.w = b.n JOIN c ON c.id = a.id GROUP BY a.w, b.n ORDER BY 1, 2",
        "SELECT count(*) FROM (SELECT DISTINCT a.id, d.name FROM o a LEFT JOIN d ON a.w = d.n JOIN o b ON b.id = a.id) x",
        "SELECT count(*) FROM (SELECT a.id FROM o a, o b WHERE a.id = b.id INTERSECT SELECT c.id FROM c, d WHERE c.n = d.n) x",
        "SELECT count(*) FROM (SELECT c.id FROM c, d WHERE c.n = d.n EXCEPT ALL SELECT a.id FROM o a, o b WHERE a.id = b.id) x",
        "SELECT count(*) FROM c JOIN (SELECT a.id FROM o a, o b WHERE a.id = b.id) x ON x.id = c.id",
        "SELECT count(*) FROM (SELECT DISTINCT a.w, a.id FROM o a JOIN o b USING (id) JOIN o e USING (id)) x",
        "SELECT id, EXISTS (SELECT FROM o, d WHERE o.id = c.id AND o.w = d.n) AS has FROM c ORDER BY 1 LIMIT 30",
    ];
    let of_conditions = conditions.iter().map(|condition| {
        format!("SELECT count(*), count(n), sum(id), min(n) FROM c WHERE {condition}")
    });
    for sql in of_conditions.chain(others.map(str::to_owned)) {
        same_without(&session, "key_joins", &sql).await;
    }
}
