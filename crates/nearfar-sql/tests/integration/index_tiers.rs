//! Where indexes lie, through SQL.

use super::support::{
    error, eventually_left, far_bytes, options, region_bytes, run, two_tiers, value,
};
use nearfar_durable::log::DataOptions;
use nearfar_sql::engine::{Engine, EngineOptions, Session};
use nearfar_topology::Profile;

const ROWS: &str = "SELECT value, 'w' || value FROM generate_series(1, 20000)";

async fn filled(session: &Session) {
    run(session, "CREATE TABLE t (k INT PRIMARY KEY, w VARCHAR)").await;
    run(session, &format!("INSERT INTO t {ROWS}")).await;
}

/// A column of `nearfar.indexes`.
async fn of_index(session: &Session, index: &str, column: &str) -> String {
    let query = format!("SELECT {column} FROM nearfar.indexes WHERE index_name = '{index}'");
    value(session, &query).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_go_where_an_index_says_and_nothing_is_left_of_it() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, "SET index_workers = 0").await;
    filled(&session).await;
    let (all, far) = (region_bytes(&engine), far_bytes(&engine));
    for (clause, policy, is_far) in [
        ("", "near", false),
        (" TABLESPACE near", "near", false),
        (" TABLESPACE far", "far", true),
        (
            " WITH (policy = sidle, near_share = 0.3) TABLESPACE far",
            "sidle",
            true,
        ),
        (" WITH (policy = 'inner-near')", "inner-near", true),
        (" WITH (near_share = '25%', fillfactor = 90)", "sidle", true),
        (" WITH (policy = interleave)", "interleave", true),
        (" WITH (policy = fitted)", "fitted", true),
    ] {
        run(&session, &format!("CREATE INDEX i ON t (w){clause}")).await;
        assert_eq!(of_index(&session, "i", "policy").await, policy, "{clause}");
        assert_eq!(far_bytes(&engine) > far, is_far, "{clause}");
        let charged = of_index(&session, "i", "region_bytes").await;
        assert_eq!(
            charged,
            (region_bytes(&engine) - all).to_string(),
            "{clause}"
        );
        assert_eq!(
            value(&session, "SELECT k FROM t WHERE w = 'w777'").await,
            "777"
        );
        run(&session, "DROP INDEX i").await;
        assert_eq!(region_bytes(&engine), all, "{clause}");
    }
    assert!(
        error(&session, "CREATE INDEX i ON t (w) TABLESPACE nowhere")
            .await
            .contains("nowhere")
    );
    for wrong in [
        "TABLESPACE near WITH (policy = sidle)",
        "WITH (policy = far, near_share = 0.2)",
        "WITH (near_share = 2)",
        "WITH (policy = layered)",
        "WITH (buckets = 3)",
    ] {
        error(&session, &format!("CREATE INDEX i ON t (w) {wrong}")).await;
    }
    assert_eq!(region_bytes(&engine), all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_and_keys_are_moved() {
    let engine = two_tiers();
    let session = engine.session();
    filled(&session).await;
    let far = far_bytes(&engine);
    run(&session, "ALTER INDEX t_pkey SET TABLESPACE far").await;
    assert!(far_bytes(&engine) > far);
    assert_eq!(of_index(&session, "t_pkey", "policy").await, "far");
    run(
        &session,
        "ALTER INDEX t_pkey SET (policy = fitted, near_share = 0.5)",
    )
    .await;
    assert_eq!(of_index(&session, "t_pkey", "near_share").await, "0.5");
    assert!(
        of_index(&session, "t_pkey", "tier_nodes")
            .await
            .contains("far ")
    );
    assert_eq!(
        value(&session, "SELECT w FROM t WHERE k = 123").await,
        "w123"
    );
    error(&session, "INSERT INTO t VALUES (123, 'twice')").await;
    run(&session, "BEGIN").await;
    run(&session, "INSERT INTO t VALUES (20001, 'mine')").await;
    run(&session, "ROLLBACK").await;
    assert_eq!(run(&session, "CALL nearfar.check('t')").await, "CHECK 1");
    run(&session, "TRUNCATE t").await;
    run(&session, "INSERT INTO t VALUES (1, 'a')").await;
    assert_eq!(of_index(&session, "t_pkey", "policy").await, "fitted");
    run(&session, "ALTER INDEX t_pkey SET TABLESPACE near").await;
    assert_eq!(of_index(&session, "t_pkey", "policy").await, "near");
    eventually_left(far, || far_bytes(&engine)).await;
    run(
        &session,
        "ALTER TABLE t ADD UNIQUE (w) USING INDEX TABLESPACE far",
    )
    .await;
    assert_eq!(of_index(&session, "t_w_key", "policy").await, "far");
    run(&session, "ALTER INDEX IF EXISTS nothing SET TABLESPACE far").await;
    error(&session, "ALTER INDEX nothing SET TABLESPACE far").await;
    error(&session, "ALTER INDEX t_pkey RENAME TO t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_an_index_lies_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || {
        let profile = Profile::builtin("cxl-blades-4").expect("a built-in profile");
        let options = EngineOptions {
            profile: Some(profile),
            data: Some(DataOptions::new(folder.path())),
            ..options()
        };
        Engine::new(options).expect("an engine")
    };
    for (checkpoints, policy) in [(false, "sidle"), (true, "interleave")] {
        let engine = open();
        let session = engine.session();
        if !checkpoints {
            filled(&session).await;
        }
        run(
            &session,
            &format!("ALTER INDEX t_pkey SET (policy = {policy}, near_share = 0.1)"),
        )
        .await;
        if checkpoints {
            run(&session, "CHECKPOINT").await;
        }
        drop(session);
        drop(engine);
        let engine = open();
        let session = engine.session();
        assert_eq!(
            value(&session, "SELECT w FROM t WHERE k = 123").await,
            "w123"
        );
        assert_eq!(of_index(&session, "t_pkey", "policy").await, policy);
        assert_eq!(of_index(&session, "t_pkey", "near_share").await, "0.1");
        assert!(far_bytes(&engine) > 0);
        assert_eq!(run(&session, "CALL nearfar.check('t')").await, "CHECK 1");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_move_what_is_used_as_many_and_as_fast_as_is_said() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, "SET index_workers = 2").await;
    run(&session, "SET index_worker_percent = 100").await;
    error(&session, "SET index_workers = 65").await;
    error(&session, "SET index_worker_percent = 0").await;
    filled(&session).await;
    run(
        &session,
        "ALTER INDEX t_pkey SET (policy = fitted, near_share = 0.2)",
    )
    .await;
    let query = "SELECT w FROM t WHERE k = 15001";
    for _ in 0..600 {
        assert_eq!(value(&session, query).await, "w15001");
        if of_index(&session, "t_pkey", "promoted").await != "0" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_ne!(of_index(&session, "t_pkey", "promoted").await, "0");
    assert_eq!(value(&session, query).await, "w15001");
    engine.close();
}
