//! Temporary tables: where they are, who sees them, and what they may take.

use super::support::{error, options, region_bytes, run, two_tiers, value};
use nearfar_sql::engine::{Engine, EngineOptions};

const ROWS: &str = "AS SELECT value AS k, 'row ' || value AS s FROM generate_series(1, 50000)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_listed_with_their_session_and_change_like_others() {
    let engine = two_tiers();
    let (one, other) = (engine.session(), engine.session());
    run(
        &one,
        &format!("CREATE TEMPORARY TABLE t TABLESPACE far {ROWS}"),
    )
    .await;
    run(
        &other,
        &format!("CREATE TEMP TABLE t {ROWS}; CREATE TABLE p (a INT)"),
    )
    .await;
    let listed = "SELECT string_agg(table_schema || '.' || table_name || ' ' || kind || ' '
                                    || placement, ', ' ORDER BY table_name) FROM nearfar.tables";
    let modelled = engine
        .tablespaces()
        .name(engine.tier("far").expect("a far tier"));
    assert_eq!(
        value(&one, listed).await,
        format!("public.p permanent near, temporary.t temporary {modelled}")
    );
    assert_eq!(
        value(&other, listed).await,
        "public.p permanent near, temporary.t temporary near"
    );
    let session = "SELECT max(session) FROM nearfar.tables";
    assert_ne!(value(&one, session).await, value(&other, session).await);
    let without = "SELECT count(*) FROM nearfar.tables WHERE session IS NULL";
    assert_eq!(value(&one, without).await, "1");

    run(
        &one,
        "UPDATE t SET s = 'new' WHERE k <= 10; DELETE FROM t WHERE k > 40000;
         INSERT INTO t VALUES (0, 'new'); CALL nearfar.merge('t')",
    )
    .await;
    let counts = "SELECT count(*) || ' ' || count(*) FILTER (WHERE s = 'new') FROM t";
    assert_eq!(value(&one, counts).await, "40001 11");
    assert_eq!(value(&other, counts).await, "50000 0");
    let near = "SELECT near_bytes FROM nearfar.tables WHERE table_name = 't'";
    assert_eq!(value(&one, near).await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_keep_to_the_limit_of_their_session() {
    let engine = two_tiers();
    let (one, other) = (engine.session(), engine.session());
    run(&one, "SET temp_limit = '1MiB'").await;
    run(&one, "CREATE TEMP TABLE t (k BIGINT, s VARCHAR)").await;
    let used = region_bytes(&engine);
    let large = ROWS.replace("50000", "500000");
    let rows = large.trim_start_matches("AS ");
    for statement in [
        format!("CREATE TEMP TABLE u {large}"),
        format!("CREATE TABLE temporary.u {large}"),
        format!("INSERT INTO t {rows}"),
        format!("INSERT INTO t {rows} LIMIT 60000"),
    ] {
        let message = error(&one, &statement).await;
        for part in [
            "temporary tables take 0 bytes and may take 1048576",
            "raise temp_limit",
        ] {
            assert!(message.contains(part), "{statement}: {message}");
        }
        // Threads of a load that failed end at their next batch.
        for _ in 0..6_000 {
            if region_bytes(&engine) == used {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(region_bytes(&engine), used, "{statement}");
    }
    run(&one, &format!("CREATE TABLE p {large}; DROP TABLE p")).await;
    run(
        &other,
        &format!("CREATE TEMP TABLE u {large}; DROP TABLE u"),
    )
    .await;

    // What is dropped is given back, and merges of what is there need no room of the limit.
    let some = ROWS.replace("50000", "30000");
    for _ in 0..3 {
        run(&one, &format!("CREATE TEMP TABLE u {some}; DROP TABLE u")).await;
    }
    run(&one, &format!("CREATE TEMP TABLE u {some}")).await;
    let bytes = "SELECT sum(bytes) FROM nearfar.tables";
    let bytes: u64 = value(&one, bytes).await.parse().expect("a number");
    run(
        &one,
        &format!("SET temp_limit = '{bytes}B'; DELETE FROM u WHERE k % 2 = 0"),
    )
    .await;
    assert_eq!(run(&one, "CALL nearfar.merge('u')").await, "MERGE 15000");
    run(&one, "RESET temp_limit").await;
    assert_eq!(
        value(&one, "SHOW temp_limit")
            .await
            .split_whitespace()
            .last(),
        Some("engine")
    );
    run(&one, &format!("INSERT INTO t {rows}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_limits_every_session() {
    let options = EngineOptions {
        temp_limit_bytes: Some(1 << 20),
        ..options()
    };
    let session = Engine::new(options).expect("an engine").session();
    let message = error(&session, "SET temp_limit = '2MiB'").await;
    assert!(message.contains("the engine allows 1048576B"), "{message}");
    run(&session, "SET temp_limit = '512KiB'; RESET temp_limit").await;
    let large = ROWS.replace("50000", "500000");
    let message = error(&session, &format!("CREATE TEMP TABLE t {large}")).await;
    assert!(message.contains("may take 1048576"), "{message}");
    run(&session, &format!("CREATE TABLE t {large}")).await;
}
