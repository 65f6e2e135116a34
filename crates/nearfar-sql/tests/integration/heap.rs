//! Operator memory: where it is, and what it would cost far.

use super::support::{error, run, two_tiers, two_tiers_with, value};
use nearfar_memory::{Budgets, GlobalHeaps, NearHeap, NearfarAllocator, TierUsage};
use nearfar_sql::engine::{Engine, EngineOptions, StatementResult};
use nearfar_topology::Profile;
use std::sync::{Arc, OnceLock};

/// The engine whose tiers the allocator of this process follows; there can be one only.
fn allocating() -> Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| {
        let engine = two_tiers();
        let heaps = GlobalHeaps {
            near: NearHeap::Platform,
            huge_pages: false,
        };
        NearfarAllocator::install(engine.system(), heaps).expect("heaps");
        engine
    });
    Arc::clone(engine)
}

fn far_usage(engine: &Engine) -> TierUsage {
    engine
        .system()
        .usage(engine.tier("far").expect("a far tier"))
}

const T: &str = "CREATE TABLE t AS SELECT value AS k, value % 1000 AS g, 'a string ' || value AS s
                 FROM generate_series(1, 100000)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_aggregations_and_sorts_allocate_on_the_heap_tablespace() {
    let engine = allocating();
    let session = engine.session();
    run(&session, &T.replace("TABLE t", "TEMP TABLE t")).await;
    for sql in [
        "SELECT count(*), sum(length(a.s)) FROM t a JOIN t b ON a.k = b.k + 1",
        "SELECT count(*) FROM (SELECT s, count(*) FROM t GROUP BY s)",
        "SELECT sum(r * k) FROM (SELECT k, row_number() OVER (ORDER BY s) AS r FROM t)",
    ] {
        run(&session, "SET heap_tablespace = near").await;
        let before = far_usage(&engine).heap_bytes;
        let expected = run(&session, sql).await;
        assert_eq!(far_usage(&engine).heap_bytes, before, "near: {sql}");
        run(&session, "SET heap_tablespace = far").await;
        let plan = run(&session, &format!("EXPLAIN {sql}")).await;
        assert!(
            plan.contains("OperatorMemoryExec: tier=far, modelled estimate"),
            "{plan}"
        );
        let (answer, most_bytes) = tokio::join!(run(&session, sql), most_live_bytes(&engine));
        assert_eq!(answer, expected, "{sql}");
        assert!(most_bytes > 1 << 20, "{sql}: {most_bytes} bytes");
        assert!(
            far_usage(&engine).heap_live_bytes < 1 << 18,
            "{sql}: {:?}",
            far_usage(&engine)
        );
    }
}

/// The most bytes that the far heap had in use, from its first use until it is empty again.
async fn most_live_bytes(engine: &Engine) -> u64 {
    let mut most = 0;
    for _ in 0..10_000 {
        let now = far_usage(engine).heap_live_bytes;
        if most > 1 << 20 && now < 1 << 18 {
            break;
        }
        most = most.max(now);
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_heap_near_plans_are_left_as_they_are() {
    let session = two_tiers().session();
    run(&session, T).await;
    let plan = run(&session, "EXPLAIN SELECT g, count(*) FROM t GROUP BY g").await;
    assert!(!plan.contains("Heap"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_heap_larger_than_the_cache_is_charged() {
    let profile = Profile::builtin("cxl-blades-1").expect("a built-in profile");
    // Two of the profile's threads: their share of the cache is small.
    let options = EngineOptions {
        profile: Some(profile),
        ..super::support::options()
    };
    let session = Engine::new(options).expect("an engine").session();
    run(&session, &format!("{T}; SET heap_tablespace = far")).await;
    let analyze = "EXPLAIN ANALYZE SELECT count(*) FROM (SELECT s, count(*) FROM t GROUP BY s)";
    let text = run(&session, analyze).await;
    let line = text
        .lines()
        .find(|line| line.contains("operator memory"))
        .expect("a line");
    assert!(
        line.contains("on far, modelled estimate of its wait"),
        "{line}"
    );
    assert!(text.contains("modelled_estimate_wait="), "{text}");
    let ms: f64 = line
        .split(" wait ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|number| number.parse().ok())
        .expect("milliseconds");
    // 200,000 accesses of which most miss, by (507 - 145) ns and at eight in flight, and as many
    // again in the final aggregation: milliseconds, not seconds.
    assert!((1.0..2000.0).contains(&ms), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_sums_up_by_tier() {
    let session = two_tiers().session();
    run(
        &session,
        &format!("{T}; ALTER TABLE t ALTER COLUMN k SET TABLESPACE far"),
    )
    .await;
    let text = run(&session, "EXPLAIN ANALYZE SELECT sum(k), sum(g) FROM t").await;
    for part in [
        "bytes_read_near=200.0 K",
        "bytes_read_far=400.0 K",
        "near: 195 KiB read by scans",
        "far: 391 KiB read by scans, modelled wait",
        "operator memory: peak",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_column_under_several_filters_is_charged_once() {
    let session = two_tiers().session();
    run(
        &session,
        &format!("{T}; ALTER TABLE t ALTER COLUMN g SET TABLESPACE far"),
    )
    .await;
    for filter in [
        "g = 3",
        "g BETWEEN 10 AND 990",
        "g > 10 AND g < 900 AND g <> 70",
        "g IN (1, 500, 700)",
        "g NOT IN (5, 6)",
        "g < 3 OR g > 900",
    ] {
        let sql = format!("EXPLAIN ANALYZE SELECT sum(g), count(*) FROM t WHERE {filter}");
        let text = run(&session, &sql).await;
        let line = text.lines().find(|line| line.contains("far: "));
        let line = line.unwrap_or_else(|| panic!("{filter}: {text}"));
        assert!(
            line.contains("far: 195 KiB read by scans"),
            "{filter}: {line}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_out_of_memory_fails_alone() {
    let engine = two_tiers();
    let (small, large) = (engine.session(), engine.session());
    run(&small, T).await;
    run(&large, "SET memory_limit = '4MiB'").await;
    let sql = "SELECT length(string_agg(repeat(s, 4), ',')) FROM t";
    let other = small.execute(sql).await.expect("started").remove(0);
    let message = error(&large, sql).await;
    for part in [
        "out of memory: AggregateStream",
        "may hold 4.00 MiB",
        "raise it with SET memory_limit",
    ] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    let StatementResult::Rows(rows) = other else {
        panic!("rows")
    };
    assert_eq!(
        rows.collect().await.expect("the other query")[0].num_rows(),
        1
    );
    assert_eq!(value(&large, "SELECT count(*) FROM t").await, "100000");
    run(&large, "RESET memory_limit").await;
    run(&large, sql).await;
    // What is left then is held by nobody.
    run(&large, "DISCARD ALL").await;
    run(&small, "DISCARD ALL").await;
    for _ in 0..6_000 {
        if engine.query_memory().used_bytes() == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(engine.query_memory().used_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sort_out_of_memory_spills() {
    let session = two_tiers().session();
    let large = T.replace("100000", "600000");
    run(&session, &format!("{large}; SET memory_limit = '32MiB'")).await;
    let sql = "SELECT count(*), sum(r) FROM (SELECT row_number() OVER (ORDER BY s, k) AS r FROM t)";
    let analyzed = run(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
    let spilled = analyzed
        .lines()
        .any(|l| l.contains("SortExec") && !l.contains("spill_count=0"));
    assert!(spilled, "{analyzed}");
    assert!(analyzed.contains("(modelled wait "), "{analyzed}");
    assert!(analyzed.contains("0 B to disk"), "{analyzed}");
    assert!(run(&session, sql).await.contains("180000300000"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_out_of_memory_runs_as_one_that_spills() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, &T.replace("100000", "1000000")).await;
    let sql = "SELECT count(*), sum(a.k * b.g), max(a.s) FROM t a JOIN t b ON a.s = b.s";
    let expected = run(&session, sql).await;
    let explain = format!("EXPLAIN ANALYZE {sql}");
    let analyzed = run(&session, &explain).await;
    assert!(analyzed.contains("HashJoinExec"), "{analyzed}");
    run(&session, "SET memory_limit = '56MiB'").await;
    assert_eq!(run(&session, sql).await, expected);
    let analyzed = run(&session, &explain).await;
    assert!(analyzed.contains("SortMergeJoinExec"), "{analyzed}");
    assert!(analyzed.contains("spilled: "), "{analyzed}");
    // Two concurrent joins, each within its limit.
    let other = engine.session();
    run(&other, "SET memory_limit = '56MiB'").await;
    let (one, two) = tokio::join!(run(&session, sql), run(&other, sql));
    assert_eq!((&one, &two), (&expected, &expected));
    // Statements that add rows add each of them once.
    run(&session, &format!("CREATE TABLE j AS {sql}")).await;
    run(&session, &format!("INSERT INTO j {sql}")).await;
    let all = "SELECT count(*), min(rows), CAST(max(sum) AS BIGINT) FROM j AS j(rows, sum, s)";
    let text = run(&session, all).await;
    let numbers = |text: &str| -> Vec<u64> {
        let digits = |c: char| !c.is_ascii_digit();
        text.split(digits).filter_map(|n| n.parse().ok()).collect()
    };
    let of_query = numbers(&expected);
    let of_table = numbers(&text);
    let found = &of_table[of_table.len() - 3..];
    assert_eq!(found[0], 2, "{text}");
    assert!(
        found[1..].iter().all(|n| of_query.contains(n)),
        "{text} of {expected}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_follows_from_the_budget() {
    let engine = two_tiers_with(Budgets::new().with("near", 60 << 20));
    let near = nearfar_memory::TierId::NEAR;
    assert_eq!(engine.query_memory().limit_bytes(near), 48 << 20);
    let session = engine.session();
    run(&session, T).await;
    assert!(engine.query_memory().limit_bytes(near) < 48 << 20);
    let wide = "SELECT length(string_agg(repeat(s, 40), ',')) FROM t";
    let message = error(&session, wide).await;
    for part in [
        "AggregateStream",
        // The text of the statement, too.
        "of which others hold",
        "raise the budget of tier near",
    ] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
}

/// Bytes as they are written for people, in MiB.
fn mib(text: &str, after: &str) -> f64 {
    let number = text.split(after).nth(1).unwrap_or_default();
    let mut words = number.split_whitespace();
    let value: f64 = words.next().and_then(|word| word.parse().ok()).expect(text);
    match words.next().map(|unit| unit.trim_end_matches(',')) {
        Some("MiB") => value,
        Some("KiB") => value / 1024.0,
        Some("B") => value / 1024.0 / 1024.0,
        other => panic!("{other:?} in {text}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_spill_to_the_far_tier_before_disk() {
    let sort = "SELECT count(*), sum(r * k) FROM
                (SELECT k, row_number() OVER (ORDER BY s, k) AS r FROM t)";
    let groups = "SELECT count(*), sum(n) FROM (SELECT s, k, count(*) AS n FROM t GROUP BY s, k)";
    let far_bytes = [None, Some(6 << 20), Some(0)];
    for (far_budget, sql) in far_bytes
        .iter()
        .flat_map(|far| [(far, sort), (far, groups)])
    {
        let budgets = far_budget.map_or(Budgets::new(), |far| Budgets::new().with("far", far));
        let engine = two_tiers_with(budgets);
        let session = engine.session();
        run(&session, &T.replace("100000", "400000")).await;
        let expected = run(&session, sql).await;
        let limit = if sql == sort { 24 } else { 40 };
        run(&session, &format!("SET memory_limit = '{limit}MiB'")).await;
        let analyzed = run(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
        let line = analyzed.lines().find(|line| line.contains("spilled: "));
        let line = line.unwrap_or_else(|| panic!("nothing was spilled: {analyzed}"));
        let disk = line.split(" over all threads), ").nth(1);
        let disk = disk.or(line.split(" to far, ").nth(1)).expect(line);
        let (far, disk) = (mib(line, "spilled: "), mib(&format!("|{disk}"), "|"));
        match far_budget {
            None => assert!(far > 6.0 && disk == 0.0, "{line}"),
            Some(0) => assert!(far == 0.0 && disk > 6.0, "{line}"),
            Some(_) => assert!(far > 1.0 && disk > 0.0, "{line}"),
        }
        assert_eq!(run(&session, sql).await, expected, "{far_budget:?}: {sql}");
        run(&session, "SET spill_tablespace = disk").await;
        let analyzed = run(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(!analyzed.contains(" to far"), "{analyzed}");
        assert!(analyzed.contains(" to disk, in "), "{analyzed}");
        assert_eq!(far_usage(&engine).region_bytes, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sorts_that_barely_fit_their_memory_succeed() {
    let session = two_tiers().session();
    run(&session, &T.replace("100000", "200000")).await;
    let wide = "SELECT count(*), sum(r * k) FROM
                (SELECT k, row_number() OVER (ORDER BY s, k) AS r FROM t)";
    let narrow = "SELECT count(*), sum(r * k) FROM
                  (SELECT k, row_number() OVER (ORDER BY g, k DESC) AS r FROM t)";
    for sql in [wide, narrow] {
        run(&session, "RESET memory_limit").await;
        let expected = run(&session, sql).await;
        for mib in [16, 20, 24, 28, 32, 40, 48] {
            run(&session, &format!("SET memory_limit = '{mib}MiB'")).await;
            assert_eq!(run(&session, sql).await, expected, "{mib} MiB: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_heap_without_room_is_refused_by_name() {
    let engine = two_tiers_with(Budgets::new().with("far", 0));
    let session = engine.session();
    run(&session, T).await;
    let sql = "SELECT count(*), max(n) FROM (SELECT s, count(*) AS n FROM t GROUP BY s)";
    let expected = run(&session, sql).await;
    run(
        &session,
        "SET heap_tablespace = far; SET memory_limit = '1GiB'",
    )
    .await;
    let message = error(&session, sql).await;
    assert!(
        message.contains("raise the budget of tier far"),
        "{message}: {expected}"
    );
}
