//! Rows are grouped below joins that only add to what they are grouped by, and answers are what they are without that.

use nearfar_sql::engine::{Engine, Session};

use super::support::{options, run, same_without};

const SETTING: &str = "group_before_joins";

/// Sales of 100 things in 10 shops on 400 days, some of them without a thing; things of which one is there twice.
async fn session() -> Session {
    let session = Engine::new(options()).expect("an engine").session();
    let tables = "CREATE TABLE things AS SELECT value % 100 AS id, 'thing ' || value % 37 AS name, \
                    CASE WHEN value % 9 > 0 THEN 'brand ' || value % 9 END AS brand FROM generate_series(0, 100);
                  CREATE TABLE shops AS SELECT value AS id, 'shop ' || value AS name, value % 3 AS region \
                    FROM generate_series(0, 9);
                  CREATE TABLE days AS SELECT value AS day, value / 100 AS year FROM generate_series(0, 399);
                  CREATE TABLE sales AS SELECT CASE WHEN value % 13 > 0 THEN value % 101 END AS thing, \
                    value % 10 AS shop, value % 397 AS day, value % 17 AS pieces, \
                    CAST(value % 1000 AS NUMERIC(9, 2)) / 4 AS price, value % 2 = 0 AS is_even \
                    FROM generate_series(1, 80000)";
    run(&session, tables).await;
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_grouped_by_the_keys_of_joins() {
    let session = session().await;
    let sql = "EXPLAIN SELECT things.name, shops.name, sum(pieces) FROM sales \
               JOIN things ON thing = things.id JOIN shops ON shop = shops.id GROUP BY 1, 2";
    let plan = run(&session, sql).await;
    let lower = "AggregateExec: mode=Partial, gby=[thing@0 as thing, shop@1 as shop], aggr=[sum(sales.pieces)]";
    assert!(plan.contains(lower), "{plan}");
    assert_eq!(plan.matches("mode=Partial,").count(), 2, "{plan}");
    run(&session, &format!("SET {SETTING} = off")).await;
    let plan = run(&session, sql).await;
    assert_eq!(plan.matches("mode=Partial,").count(), 1, "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_leave_rows_out_come_first() {
    let session = session().await;
    let sql = "EXPLAIN SELECT name, sum(pieces) FROM sales JOIN shops ON shop = id WHERE region = 1 GROUP BY name";
    let plan = run(&session, sql).await;
    assert_eq!(plan.matches("mode=Partial,").count(), 1, "{plan}");
    // As many groups as rows would be made below.
    let sql = "EXPLAIN SELECT year, thing, sum(shop) FROM sales JOIN days ON sales.day = days.day \
               WHERE pieces = 5 GROUP BY year, thing";
    let plan = run(&session, sql).await;
    assert_eq!(plan.matches("mode=Partial,").count(), 1, "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_differ_by_more_than_keys_stay_apart() {
    let session = session().await;
    for sql in [
        // There is no join, or one that ends.
        "SELECT pieces, count(*) FROM sales GROUP BY pieces",
        "SELECT pieces, count(*) FROM (SELECT * FROM sales LIMIT 50000) AS s GROUP BY pieces",
        "SELECT brand, count(*) FROM (SELECT * FROM sales LIMIT 50000) AS s JOIN things ON thing = id GROUP BY brand",
        // Each row has a number of its own.
        "SELECT floor(random() * 1000), count(*) FROM sales JOIN things ON thing = id GROUP BY 1",
        "SELECT r, count(*) FROM (SELECT random() AS r, thing FROM sales) AS s JOIN things ON thing = id GROUP BY r",
        // A row without a thing may have one that is too large, or be divided by nothing.
        "SELECT brand, sum(pieces * 1000000000000000000) FROM sales JOIN things ON thing = id GROUP BY brand",
        "SELECT brand, sum(5 / pieces) FROM sales JOIN things ON thing = id GROUP BY brand",
        "SELECT brand, sum(CAST(price AS INT)) FROM sales JOIN things ON thing = id GROUP BY brand",
    ] {
        let plan = run(&session, &format!("EXPLAIN {sql}")).await;
        assert_eq!(plan.matches("mode=Partial,").count(), 1, "{plan}");
    }
    let limited = "SELECT sum(n) FROM (SELECT pieces, count(*) AS n FROM (SELECT * FROM sales LIMIT 50000) AS s \
                   GROUP BY pieces) AS g";
    assert!(run(&session, limited).await.contains("50000"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_side_of_a_join_is_grouped_in_partitions_too() {
    let session = session().await;
    let sql = "SELECT brand, sum(pieces), min(price) FROM sales JOIN things ON thing = id GROUP BY brand ORDER BY 1";
    let expected = run(&session, sql).await;
    let reversed = "SELECT brand, sum(pieces), min(price) FROM things JOIN sales ON thing = id GROUP BY brand ORDER BY 1";
    for setting in [
        "datafusion.optimizer.hash_join_single_partition_threshold = 0",
        "datafusion.optimizer.hash_join_single_partition_threshold_rows = 0",
        "datafusion.optimizer.join_reordering = off",
    ] {
        run(&session, &format!("SET {setting}")).await;
        for sql in [sql, reversed] {
            let plan = run(&session, &format!("EXPLAIN {sql}")).await;
            assert_eq!(
                plan.matches("mode=Partial,").count(),
                2,
                "{setting}\n{plan}"
            );
            assert_eq!(run(&session, sql).await, expected, "{setting}\n{plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_wherever_rows_are_grouped() {
    let session = session().await;
    let joined = "sales JOIN things ON thing = things.id JOIN shops ON shop = shops.id";
    let functions = "count(*), count(thing), sum(pieces), sum(price), avg(price), min(price), max(things.name), \
                     stddev(pieces) > 0, bool_or(is_even), sum(pieces) FILTER (WHERE is_even)";
    let of_sales = "count(*), sum(pieces), sum(price * pieces), avg(price), min(price), bool_and(is_even), \
                    count(*) FILTER (WHERE pieces > 8), regr_slope(price, pieces) > 0";
    let keys = [
        "things.name",
        "brand",
        "brand, shops.name",
        "upper(brand), 2 * shops.region + CAST(is_even AS INT)",
        "brand || shops.name",
        "thing, things.name",
        "shop",
    ];
    let mut all = Vec::new();
    for key in keys {
        for functions in [functions, of_sales] {
            all.push(format!(
                "SELECT {key}, {functions} FROM {joined} GROUP BY {key}"
            ));
            all.push(format!(
                "SELECT {key}, {functions} FROM {joined} WHERE price > 700 GROUP BY {key}"
            ));
        }
    }
    let others = [
        "SELECT brand, region, sum(pieces) FROM {} GROUP BY ROLLUP (brand, region)",
        "SELECT brand, region, sum(pieces), count(*) FROM {} WHERE pieces < 0 GROUP BY CUBE (brand, region)",
        "SELECT DISTINCT brand, region FROM {}",
        "SELECT brand, count(DISTINCT pieces), sum(pieces) FROM {} GROUP BY brand",
        "SELECT brand, year, sum(pieces) FROM {} JOIN days ON sales.day = days.day WHERE year < 2 GROUP BY 1, 2",
        "SELECT year, region, sum(s), count(*) FROM (SELECT year, region, shops.name, sum(pieces) AS s FROM {} \
         JOIN days USING (day) GROUP BY 1, 2, 3) AS g GROUP BY 1, 2",
        "SELECT brand, sum(pieces) AS s FROM {} GROUP BY brand HAVING sum(pieces) > 40000",
        "SELECT brand, sum(pieces) AS s FROM {} GROUP BY brand ORDER BY s DESC, brand LIMIT 3",
        "SELECT t.brand, u.brand, count(*) FROM sales JOIN things t ON thing = t.id JOIN things u ON pieces = u.id \
         GROUP BY 1, 2",
        "SELECT brand, array_agg(DISTINCT region ORDER BY region), sum(pieces) FROM {} GROUP BY brand",
        "SELECT brand, sum(pieces) FROM sales LEFT JOIN things ON thing = id GROUP BY brand",
        "SELECT brand, sum(pieces) FROM sales JOIN things ON thing = id AND pieces < id GROUP BY brand",
        "SELECT brand, sum(CASE WHEN pieces - shop < 3 THEN 1 ELSE 0 END), sum(CASE WHEN pieces - shop > 5 THEN price / 2 END) \
         FROM {} GROUP BY brand",
        // Of the thing 100, which is not there.
        "SELECT brand, sum(100 / (thing - 100)), sum(price / (100 - thing)) FROM {} GROUP BY brand",
        "SELECT brand, sum(pieces) FILTER (WHERE 5 / (thing - 100) < 0) FROM {} GROUP BY brand",
        "SELECT brand, sum(pieces + id) FROM sales JOIN things ON thing = id GROUP BY brand",
    ];
    all.extend(others.map(|sql| sql.replace("{}", joined)));
    for sql in all {
        // Whichever the third column is: the first two may be null in several groups.
        let sorted = format!("SELECT *, 0 FROM ({sql}) AS answer ORDER BY 1, 2, 3");
        same_without(&session, SETTING, &sorted).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_that_memory_has_no_room_for_are_joined_all_the_same() {
    let session = Engine::new(options()).expect("an engine").session();
    let tables = "CREATE TABLE customers AS SELECT value AS id, 'customer ' || value AS name FROM generate_series(1, 20000);
                  CREATE TABLE orders AS SELECT (value * 7919) % 20000 + 1 AS customer, value AS price \
                  FROM generate_series(1, 100000)";
    run(&session, tables).await;
    let groups = "SELECT name, sum(price) AS s, count(*) AS n FROM orders JOIN customers ON customer = id GROUP BY name";
    let sql = format!("SELECT count(*), sum(s), sum(n), max(name) FROM ({groups}) AS g");
    let expected = same_without(&session, SETTING, &sql).await;
    for limit in ["24MiB", "8MiB"] {
        run(&session, &format!("SET memory_limit = '{limit}'")).await;
        assert_eq!(run(&session, &sql).await, expected, "{limit}");
    }
}
