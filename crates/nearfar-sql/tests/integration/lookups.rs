//! Rows that are looked up by lists of keys: those of an `IN`, and those that a join asks for.

use super::support::{run, two_tiers, value};
use nearfar_sql::engine::Session;

/// Tables with and without keys, of the same rows: `t` of many, `s` of few.
const TABLES: &str = "
    CREATE TABLE t (g INT, k INT, w VARCHAR, d DECIMAL(10, 2), PRIMARY KEY (g, k));
    CREATE TABLE plain (g INT, k INT, w VARCHAR, d DECIMAL(10, 2));
    CREATE TABLE s (g INT, k INT, w VARCHAR);";

/// Rows of `t`.
const ROWS: &str = "
    SELECT value % 7, value, CASE WHEN value % 9 > 0 THEN 'w' || value END, value / 4.0
    FROM generate_series(1, 60000)";

/// Rows of `s`: some twice, some of none in `t`, some with nulls.
const FEW: &str = "
    SELECT value % 7, CASE WHEN value % 10 > 0 THEN value * 500 END, 'w' || value * 500
    FROM (SELECT value FROM generate_series(1, 20) UNION ALL SELECT value FROM generate_series(15, 24) UNION ALL
          SELECT value FROM generate_series(200, 204))";

async fn filled() -> Session {
    let session = two_tiers().session();
    session.execute(TABLES).await.expect("tables");
    for table in ["t", "plain"] {
        run(&session, &format!("INSERT INTO {table} {ROWS}")).await;
    }
    run(&session, &format!("INSERT INTO s {FEW}")).await;
    run(&session, "CREATE INDEX t_k ON t USING masstree (k DESC)").await;
    run(&session, "CREATE INDEX t_w ON t (w)").await;
    run(&session, "CREATE INDEX t_d ON t USING btree (d)").await;
    session
}

/// Changes that the session has made itself and not committed.
async fn change(session: &Session) {
    session.execute("BEGIN").await.expect("a transaction");
    for table in ["t", "plain"] {
        for change in [
            "INSERT INTO {} VALUES (3, 70000, 'w500', 1), (4, 100000, 'x', NULL)",
            "DELETE FROM {} WHERE k BETWEEN 2400 AND 3100",
            "UPDATE {} SET w = 'w1000', d = -0.25 WHERE k = 7000",
        ] {
            run(session, &change.replace("{}", table)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_keys_are_looked_up() {
    let session = filled().await;
    for own in [false, true] {
        if own {
            change(&session).await;
        }
        for (index, condition) in [
            ("t_k", "k IN (3, 5, 70000, 7000, 2500, 2500, NULL)"),
            ("t_k", "k = 3 OR 1 < 0 OR k = 70000 OR k = 9"),
            ("t_pkey", "g = 3 AND k IN (3, 10, 17, 24, 31, 70000)"),
            ("t_pkey", "g IN (1, 2, 3) AND k = 500"),
            ("t_w", "w IN ('w1', 'w500', 'w1000', 'none', 'x')"),
            ("t_d", "d IN (1, 1.25, -0.25, 15000)"),
            ("t_k", "k IN (1, 2, 3, 4, 5) AND w IS NULL"),
            // Not of keys, or of too many.
            ("", "k NOT IN (1, 2, 3, 4)"),
            ("", "k IN (1, 2, 3) OR g = 4"),
            ("", "k IN (1, g, 3, 4, 5)"),
            ("", "d IN (1, 2, 3, 4.5) OR d IS NULL"),
        ] {
            let sums = "SELECT count(*) || ' ' || coalesce(sum(k), 0) || ' ' || count(w) FROM";
            let wanted = value(&session, &format!("{sums} plain WHERE {condition}")).await;
            let query = format!("{sums} t WHERE {condition}");
            let plan = run(&session, &format!("EXPLAIN {query}")).await;
            let is_used = plan.contains(&format!("index={index}"));
            assert!(is_used || index.is_empty(), "{condition}: {plan}");
            assert!(
                !plan.contains("index=") || !index.is_empty(),
                "{condition}: {plan}"
            );
            assert_eq!(value(&session, &query).await, wanted, "{condition}");
        }
    }
}

/// Rows that the scans of a query have looked up while it ran.
async fn looked_up(session: &Session, query: &str) -> usize {
    let plan = run(session, &format!("EXPLAIN ANALYZE {query}")).await;
    let counts = plan.split("rows_looked_up=").skip(1);
    let digits = |text: &str| -> usize {
        let end = text
            .find(|at: char| !at.is_ascii_digit())
            .unwrap_or(text.len());
        text[..end].parse().expect("a count")
    };
    counts.map(digits).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_a_join_with_few_asks_for_are_looked_up() {
    let session = filled().await;
    for own in [false, true] {
        if own {
            change(&session).await;
        }
        for (looks_up, from) in [
            (true, "s JOIN t ON t.k = s.k"),
            (true, "s JOIN t ON t.k = s.k AND t.g = s.g"),
            (true, "s JOIN t ON t.w = s.w"),
            (
                true,
                "(SELECT * FROM s WHERE g = 0) s JOIN t ON t.k = s.k AND t.g = 0",
            ),
            (true, "t WHERE k IN (SELECT k FROM s)"),
            (
                true,
                "t WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.k AND s.g <> t.g)",
            ),
            // All rows of it are wanted.
            (false, "t LEFT JOIN s ON t.k = s.k"),
            (
                false,
                "t WHERE k NOT IN (SELECT k FROM s WHERE k IS NOT NULL)",
            ),
        ] {
            let sums = "SELECT count(*) || ' ' || coalesce(sum(t.k), 0) || ' ' || count(t.w) FROM";
            let query = format!("{sums} {from}");
            let of_plain = query.replace(" t ", " plain t ");
            let wanted = value(&session, &of_plain).await;
            assert_eq!(value(&session, &query).await, wanted, "{from}");
            let rows = looked_up(&session, &query).await;
            assert_eq!(rows > 0, looks_up, "{from}: {rows} rows looked up");
            assert!(rows < 100, "{from}: {rows} rows looked up");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_look_rows_up_too() {
    let session = filled().await;
    let update = "UPDATE t SET w = 'new' FROM s WHERE t.k = s.k AND s.g = 1";
    let changed = run(&session, update).await;
    let plain = run(&session, &update.replace("UPDATE t", "UPDATE plain t")).await;
    assert_eq!(changed, plain);
    assert_eq!(
        run(&session, "DELETE FROM t WHERE k IN (4, 5, 6, 4, 70000)").await,
        "DELETE 3"
    );
    run(&session, "DELETE FROM plain WHERE k IN (4, 5, 6)").await;
    let differ = "SELECT count(*) FROM (SELECT * FROM t EXCEPT SELECT * FROM plain)";
    assert_eq!(value(&session, differ).await, "0");
    assert_eq!(run(&session, "CALL nearfar.check('t')").await, "CHECK 4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_looked_up_come_together() {
    let session = filled().await;
    let keys: Vec<String> = (1..=20).map(|key| (key * 2_900).to_string()).collect();
    let query = format!("SELECT k, w FROM t WHERE k IN ({})", keys.join(", "));
    let plan = run(&session, &format!("EXPLAIN ANALYZE {query}")).await;
    let scan = plan.lines().find(|line| line.contains("index=t_k"));
    let scan = scan.unwrap_or_else(|| panic!("{plan}"));
    assert!(scan.contains("output_rows=20,"), "{scan}");
    let batches = scan.split("output_batches=").nth(1);
    let batches = batches.and_then(|rest| rest.split([',', ']']).next()?.parse::<usize>().ok());
    assert!(batches.is_some_and(|batches| batches <= 4), "{scan}");
}
