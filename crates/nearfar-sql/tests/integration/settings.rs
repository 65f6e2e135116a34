//! Settings: which there are, what they can be, and what brings them back.

use nearfar_sql::engine::{Engine, Scope, SessionOptions, all_settings};
use nearfar_sql::error::EngineError;
use nearfar_sql::sql::SqlError;

use super::support::{options, run, try_run, value};

fn is_value(error: &EngineError) -> bool {
    matches!(error, EngineError::Sql(SqlError::SettingValue { .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_out_of_range_are_refused_in_every_spelling_and_change_nothing() {
    let session = Engine::new(options()).expect("an engine").session();
    for (name, wrong) in [
        ("datafusion.execution.target_partitions", "5000"),
        ("datafusion.execution.target_partitions", "0"),
        ("datafusion.execution.batch_size", "200000000"),
        ("datafusion.execution.batch_size", "0"),
        ("datafusion.execution.batch_size", "-1"),
        ("datafusion.execution.batch_size", "1e3"),
        ("datafusion.optimizer.max_passes", "100000"),
        ("datafusion.explain.format", "'html'"),
        ("datafusion.execution.time_zone", "'nowhere'"),
        ("timezone", "'nowhere'"),
        ("memory_limit", "'soon'"),
        ("merge_rows", "-1"),
        ("far_bandwidth", "'2GB'"),
        ("far_bandwidth", "'1kB/s'"),
        ("far_bandwidth_percent", "0"),
        ("far_bandwidth_percent", "101"),
        ("count_accesses", "maybe"),
    ] {
        let shown = if name == "timezone" {
            "memory_limit"
        } else {
            name
        };
        let before = value(&session, &format!("SHOW {shown}")).await;
        for sql in [
            format!("SET {name} = {wrong}"),
            format!("SET {name} TO {wrong}"),
            format!("SET SESSION {name} = {wrong}"),
            format!("SET LOCAL {name} = {wrong}"),
            format!("SET {} = {wrong}", name.to_uppercase()),
        ] {
            if ["merge_rows", "far_bandwidth"].contains(&name) && sql.contains("LOCAL") {
                continue;
            }
            let error = try_run(&session, &sql).await.expect_err(&sql);
            assert!(is_value(&error), "{sql}: {error}");
        }
        let wrong = wrong.trim_matches('\'');
        let error = session.set(name, wrong).expect_err(name);
        assert!(is_value(&error), "{name}: {error}");
        assert_eq!(before, value(&session, &format!("SHOW {shown}")).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_are_not_for_users_are_told_apart_from_those_that_are_not() {
    let session = Engine::new(options()).expect("an engine").session();
    for name in [
        "datafusion.execution.parquet.max_row_group_size",
        "datafusion.execution.perfect_hash_join_small_build_threshold",
        "datafusion.sql_parser.recursion_limit",
        "datafusion.sql_parser.dialect",
        "datafusion.catalog.information_schema",
        "datafusion.catalog.default_schema",
        "datafusion.execution.sort_pushdown_buffer_capacity",
        "datafusion.runtime.temp_directory",
    ] {
        for sql in [format!("SET {name} = 1"), format!("RESET {name}")] {
            let error = try_run(&session, &sql).await.expect_err(&sql);
            let is_fixed = matches!(&error, EngineError::Sql(SqlError::FixedSetting { name: told, .. })
                if told == name);
            assert!(is_fixed, "{sql}: {error}");
        }
    }
    for name in [
        "nothing",
        "datafusion.nothing",
        "nearfar.nothing",
        "a.b.c",
        "work_mem",
    ] {
        for sql in [format!("SET {name} = 1"), format!("RESET {name}")] {
            let error = try_run(&session, &sql).await.expect_err(&sql);
            let is_unknown = matches!(&error, EngineError::Sql(SqlError::UnknownSetting { name: told, .. })
                if told == name);
            assert!(is_unknown, "{sql}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reset_all_is_for_what_is_the_sessions_own() {
    let engine = Engine::new(options()).expect("an engine");
    let fresh = engine.session();
    let shown = "SELECT name, value FROM information_schema.df_settings ORDER BY name";
    let new = run(&fresh, shown).await;
    for is_read_only in [false, true] {
        run(&fresh, "SET merge_rows = 7; SET merge_bytes = never").await;
        let before = run(&fresh, shown).await;
        let session = engine.session_with(SessionOptions {
            is_read_only,
            ..SessionOptions::default()
        });
        for reset in ["RESET ALL", "DISCARD ALL"] {
            run(
                &session,
                "SET memory_limit = '64MiB'; SET session_memory_limit = '1GiB';
                 SET far_bandwidth_percent = 7;
                 SET temp_limit = '1MiB'; SET count_accesses = off; SET spill_tablespace = disk;
                 SET datafusion.execution.batch_size = 10; SET TIME ZONE '+02:00';
                 SET datafusion.execution.target_partitions = 1;
                 SET datafusion.optimizer.hash_join_single_partition_threshold = 0",
            )
            .await;
            assert_ne!(before, run(&session, shown).await);
            run(&session, reset).await;
            assert_eq!(before, run(&session, shown).await, "{reset}");
        }
        assert!(value(&fresh, "SHOW merge_rows").await.contains('7'));
        run(&fresh, "RESET merge_rows; RESET merge_bytes").await;
    }
    assert_eq!(new, run(&fresh, shown).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_setting_can_be_set_to_what_it_is_and_reset() {
    let engine = Engine::new(options()).expect("an engine");
    let session = engine.session();
    for setting in all_settings() {
        let name = setting.name;
        // There is no log without a data directory, and no zone at first.
        if ["log_sync", "datafusion.execution.time_zone"].contains(&name) {
            continue;
        }
        let full = match setting.scope {
            Scope::Library => name.to_owned(),
            Scope::Session | Scope::Shared => format!("nearfar.{name}"),
        };
        let query =
            format!("SELECT value FROM information_schema.df_settings WHERE name = '{full}'");
        let before = value(&session, &query).await;
        run(&session, &format!("SET {name} = '{before}'")).await;
        assert_eq!(before, value(&session, &query).await, "{name}");
        run(&session, &format!("RESET {name}")).await;
        assert_eq!(before, value(&session, &query).await, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_undo_their_settings() {
    let session = Engine::new(options()).expect("an engine").session();
    for (statements, expected) in [
        ("BEGIN; SET lock_timeout = 1; COMMIT", "1ms"),
        ("BEGIN; SET lock_timeout = 1; ROLLBACK", "0"),
        ("BEGIN; SET LOCAL lock_timeout = 1; COMMIT", "0"),
        ("BEGIN; SET LOCAL lock_timeout = 1; ROLLBACK", "0"),
        (
            "BEGIN; SET lock_timeout = 1; SET LOCAL nearfar.lock_timeout = 2; COMMIT",
            "1ms",
        ),
        (
            "BEGIN; SET lock_timeout = 1; SET nearfar.lock_timeout = 2; ROLLBACK",
            "0",
        ),
        (
            "BEGIN; SET lock_timeout = 1; SAVEPOINT s; SET lock_timeout = 2; ROLLBACK TO s; COMMIT",
            "1ms",
        ),
        (
            "BEGIN; SAVEPOINT s; SET lock_timeout = 2; RELEASE s; COMMIT",
            "2ms",
        ),
        (
            "BEGIN; SET LOCAL lock_timeout = 1; SET LOCAL lock_timeout TO DEFAULT; COMMIT",
            "0",
        ),
        ("BEGIN; SET lock_timeout = 1; RESET ALL; ROLLBACK", "0"),
        ("SET LOCAL lock_timeout = 1", "0"),
    ] {
        run(&session, statements).await;
        assert_eq!(
            value(&session, "SELECT current_setting('lock_timeout')").await,
            expected,
            "{statements}"
        );
        run(&session, "RESET lock_timeout").await;
    }
    // A transaction that fails undoes them too, whether or not it says so, and so does one that can't commit.
    run(&session, "CREATE TABLE k (a INT PRIMARY KEY)").await;
    run(&session, "INSERT INTO k VALUES (1)").await;
    let other = session.engine().session();
    for last in ["ROLLBACK", "COMMIT"] {
        run(&session, "BEGIN; SET lock_timeout = 1").await;
        assert!(try_run(&session, "SELECT nothing").await.is_err());
        assert_eq!(run(&session, last).await, "ROLLBACK");
        assert!(value(&session, "SHOW lock_timeout").await.ends_with('0'));
    }
    run(
        &session,
        "BEGIN; SET lock_timeout = 1; INSERT INTO k VALUES (2)",
    )
    .await;
    run(&other, "INSERT INTO k VALUES (2)").await;
    assert!(try_run(&session, "COMMIT").await.is_err());
    assert!(value(&session, "SHOW lock_timeout").await.ends_with('0'));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_setting_of_a_session_comes_back_after_its_transaction() {
    let session = Engine::new(options()).expect("an engine").session();
    let own = all_settings().filter(|setting| setting.scope != Scope::Shared);
    for name in own.map(|setting| setting.name) {
        let shown = format!("SELECT current_setting('{name}')");
        let first = value(&session, &shown).await;
        let other = match first.as_str() {
            "true" => "false",
            "false" => "true",
            "near" => "far",
            "disk" => "near",
            "engine" => "64MiB",
            "read committed" => "serializable",
            "auto" if name == "read_ahead" => "cached",
            "auto" => "force_custom_plan",
            "nulls_max" => "nulls_min",
            "indent" => "tree",
            "" if name == "temp_tablespaces" => "near",
            "" => "+02:00",
            _ => "1",
        };
        let other = if ["default_tablespace", "heap_tablespace"].contains(&name) {
            "near"
        } else {
            other
        };
        run(&session, &format!("BEGIN; SET {name} = '{other}'")).await;
        let set = value(&session, &shown).await;
        for end in ["COMMIT", "ROLLBACK"] {
            let local = format!("SAVEPOINT s; RESET {name}; ROLLBACK TO s; {end}");
            run(&session, &local).await;
            let expected = if end == "COMMIT" { &set } else { &first };
            assert_eq!(&value(&session, &shown).await, expected, "{name}");
            run(&session, &format!("RESET {name}; BEGIN")).await;
            run(&session, &format!("SET LOCAL {name} = '{other}'")).await;
        }
        run(&session, "COMMIT").await;
        assert_eq!(value(&session, &shown).await, first, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_read_and_set_settings() {
    let session = Engine::new(options()).expect("an engine").session();
    let set = "SELECT set_config('lock_timeout', '1', false)";
    assert_eq!(value(&session, set).await, "1ms");
    assert!(value(&session, "SHOW lock_timeout").await.ends_with("1ms"));
    let local = "BEGIN; SELECT pg_catalog.set_config('Lock_Timeout', '2s', true)";
    run(&session, local).await;
    let get = "SELECT current_setting('lock_timeout')";
    assert_eq!(value(&session, get).await, "2000ms");
    run(&session, "COMMIT").await;
    assert_eq!(value(&session, get).await, "1ms");
    // A repeated statement reads what is set now.
    run(
        &session,
        "PREPARE p AS SELECT current_setting('lock_timeout')",
    )
    .await;
    run(&session, "SET lock_timeout = 3").await;
    assert_eq!(value(&session, "EXECUTE p").await, "3ms");
    assert_eq!(
        value(&session, "SELECT set_config('lock_timeout', NULL, false)").await,
        "0"
    );
    let missing = "SELECT current_setting('nothing', true) IS NULL";
    assert_eq!(value(&session, missing).await, "true");
    for wrong in [
        "SELECT current_setting('nothing')",
        "SELECT set_config('nothing', '1', false)",
    ] {
        let error = try_run(&session, wrong).await.expect_err(wrong);
        let is_unknown = matches!(error, EngineError::Sql(SqlError::UnknownSetting { .. }));
        assert!(is_unknown, "{wrong}: {error}");
    }
    for shared in [
        "SELECT set_config('merge_rows', '7', false)",
        "BEGIN; SET LOCAL merge_rows = 7",
    ] {
        let error = try_run(&session, shared).await.expect_err(shared);
        let is_fixed = matches!(error, EngineError::Sql(SqlError::FixedSetting { .. }));
        assert!(is_fixed, "{shared}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_have_names_that_end_with_them() {
    let session = Engine::new(options()).expect("an engine").session();
    run(
        &session,
        "PREPARE p AS SELECT 1; PREPARE \"P\" AS SELECT 2; PREPARE q AS SELECT 3",
    )
    .await;
    assert!(session.has_prepared("p") && session.has_prepared("P"));
    let again = try_run(&session, "PREPARE p AS SELECT 4").await;
    assert!(matches!(
        again,
        Err(EngineError::Sql(SqlError::PreparedExists { .. }))
    ));
    assert_eq!(run(&session, "DEALLOCATE p").await, "DEALLOCATE");
    for sql in [
        "EXECUTE p",
        "DEALLOCATE p",
        "DEALLOCATE PREPARE p",
        "DEALLOCATE \"all\"",
    ] {
        let error = try_run(&session, sql).await.expect_err(sql);
        let is_unknown = matches!(error, EngineError::Sql(SqlError::UnknownPrepared { .. }));
        assert!(is_unknown, "{sql}: {error}");
    }
    assert_eq!(value(&session, "EXECUTE \"P\"").await, "2");
    for all in ["DEALLOCATE ALL", "DEALLOCATE PREPARE ALL", "DISCARD ALL"] {
        run(&session, "PREPARE r AS SELECT 1").await;
        let tag = run(&session, all).await;
        assert_eq!(tag, all.replace(" PREPARE", ""));
        assert!(try_run(&session, "EXECUTE r").await.is_err());
    }
    assert!(try_run(&session, "EXECUTE q").await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discard_leaves_a_session_as_if_it_were_new() {
    let engine = Engine::new(options()).expect("an engine");
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE t AS SELECT 1 AS a; CREATE TEMP TABLE t AS SELECT 2 AS a;
         CREATE TEMP VIEW w AS SELECT a FROM t",
    )
    .await;
    assert_eq!(value(&session, "SELECT a FROM t").await, "2");
    assert!(try_run(&session, "BEGIN; DISCARD ALL").await.is_err());
    assert!(
        try_run(&session, "ROLLBACK; BEGIN; DISCARD TEMP")
            .await
            .is_err()
    );
    run(&session, "ROLLBACK; DISCARD TEMP").await;
    assert_eq!(value(&session, "SELECT a FROM t").await, "1");
    assert!(try_run(&session, "SELECT a FROM w").await.is_err());
    run(
        &session,
        "BEGIN; RESET ALL; DEALLOCATE ALL; CLOSE ALL; UNLISTEN *; COMMIT",
    )
    .await;
}

#[test]
fn every_setting_is_in_the_documents_with_what_it_can_be() {
    let document = std::fs::read_to_string("../../docs/settings.md").expect("a document");
    for setting in all_settings() {
        let row = match setting.scope {
            Scope::Library => format!("| `{}` | {} |", setting.name, setting.description),
            Scope::Session | Scope::Shared => format!("| `{}` | ", setting.name),
        };
        assert!(document.contains(&row), "{row} is missing");
    }
    let rows = document.lines();
    let names = rows.filter_map(|row| row.strip_prefix("| `datafusion.")?.split_once('`'));
    for (name, _) in names {
        let name = format!("datafusion.{name}");
        let is_known = all_settings().any(|setting| setting.name == name);
        assert!(is_known, "{name} is no setting");
    }
}
