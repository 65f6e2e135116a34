//! Placement through SQL.

use super::support::{error, far_bytes, region_bytes, run, two_tiers, value};
use nearfar_memory::Budgets;
use nearfar_sql::engine::{Engine, EngineOptions, Session};
use nearfar_topology::{Device, DeviceKind, Known, Profile, TierKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const T: &str = "AS SELECT value AS k, value % 100 AS g FROM generate_series(1, 100000)";

/// The placement of a table's columns, by column.
async fn placements(session: &Session, table: &str) -> String {
    let sql = format!(
        "SELECT string_agg(DISTINCT column_name || ' ' || placement, ', '
                           ORDER BY column_name || ' ' || placement)
         FROM nearfar.segments WHERE table_name = '{table}'"
    );
    value(session, &sql).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_go_where_they_are_put_and_come_back() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, &format!("CREATE TABLE t TABLESPACE far {T}")).await;
    assert_eq!(placements(&session, "t").await, "g far, k far");
    assert_eq!(far_bytes(&engine), region_bytes(&engine));
    let expected = value(&session, "SELECT sum(k * g) FROM t").await;
    for (alter, placed) in [
        ("SET TABLESPACE near", "g near, k near"),
        ("ALTER COLUMN k SET TABLESPACE far", "g near, k far"),
        (
            "SET (placement = 'interleave:2:1')",
            "g interleave:2:1, k interleave:2:1",
        ),
        (
            "ALTER g SET TABLESPACE near, ALTER k SET TABLESPACE far",
            "g near, k far",
        ),
        (
            "SET (placement = 'weighted:near=2,far=1')",
            "g interleave:2:1, k interleave:2:1",
        ),
        (
            "SET (placement = 'interleave:near,far')",
            "g interleave:near,far, k interleave:near,far",
        ),
        (
            "SET (placement = 'weighted:far=3,near=1')",
            "g weighted:far=3,near=1, k weighted:far=3,near=1",
        ),
        (
            "SET (placement = 'split:near=25%,far')",
            "g split:near=25%,far, k split:near=25%,far",
        ),
        ("SET TABLESPACE far", "g far, k far"),
    ] {
        run(&session, &format!("ALTER TABLE t {alter}")).await;
        assert_eq!(placements(&session, "t").await, placed, "{alter}");
        assert_eq!(
            value(&session, "SELECT sum(k * g) FROM t").await,
            expected,
            "{alter}"
        );
    }
    run(&session, "INSERT INTO t VALUES (1, 2)").await;
    let delta = "g far, g near, k far, k near";
    assert_eq!(placements(&session, "t").await, delta);
    run(&session, "CALL nearfar.merge('t')").await;
    assert_eq!(placements(&session, "t").await, "g far, k far");
    run(&session, "DROP TABLE t").await;
    assert_eq!(region_bytes(&engine), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_are_placed_by_how_often_they_were_read() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, &format!("CREATE TABLE t {T}")).await;
    let by_access = "ALTER TABLE t SET (placement = 'columns:1')";
    let refused = error(&session, by_access).await;
    assert!(
        refused.contains("no column of `t` has been read"),
        "{refused}"
    );
    for (query, alter, placed) in [
        (
            "SELECT sum(g) FROM t",
            "SET (placement = 'columns:1')",
            "g near, k far",
        ),
        ("SELECT 1", "SET TABLESPACE 'columns:0%'", "g far, k far"),
        (
            "SELECT sum(k), max(k) FROM t WHERE k > 5",
            "SET TABLESPACE 'columns:1'",
            "g far, k near",
        ),
        (
            "SELECT 1",
            "SET TABLESPACE 'columns:100%'",
            "g near, k near",
        ),
        ("SELECT 1", "SET TABLESPACE 'explicit:t.k'", "g near, k far"),
        (
            "SELECT 1",
            "SET TABLESPACE 'columns:100%', ALTER g SET TABLESPACE far",
            "g far, k near",
        ),
    ] {
        run(&session, query).await;
        run(&session, &format!("ALTER TABLE t {alter}")).await;
        assert_eq!(placements(&session, "t").await, placed, "{alter}");
    }
    for (wrong, told) in [
        ("SET TABLESPACE 'explicit:x'", "names column `x`"),
        ("SET TABLESPACE 'columns:many'", "near budget `many`"),
        ("SET TABLESPACE 'explicit:k=nowhere'", "nowhere"),
        (
            "ALTER k SET TABLESPACE 'columns:1'",
            "columns are placed one by one by ALTER TABLE t",
        ),
    ] {
        let refused = error(&session, &format!("ALTER TABLE t {wrong}")).await;
        assert!(refused.contains(told), "{wrong}: {refused}");
    }
    assert_eq!(placements(&session, "t").await, "g far, k near");
}

/// An engine on this machine with a tier `dax0.0`, for whose device a file in memory stands.
fn with_device(file: &tempfile::NamedTempFile, budgets: Budgets) -> Arc<Engine> {
    const BYTES: u64 = 256 << 20;
    file.as_file().set_len(BYTES).expect("a sparse file");
    let mut options = super::support::options();
    let mut tier = options.topology.tiers[0].clone();
    (tier.name, tier.kind, tier.allocatable) = ("dax0.0".into(), TierKind::Dax, false);
    tier.nodes.clear();
    tier.capacity_bytes = Known::Value(BYTES);
    let below_dev = file.path().strip_prefix("/dev").expect("in /dev/shm");
    tier.devices = vec![Device {
        name: below_dev.display().to_string(),
        kind: DeviceKind::Dax,
        size_bytes: tier.capacity_bytes.clone(),
        resource: Known::unavailable("a file"),
        driver: Known::Value("device_dax".into()),
    }];
    options.topology.tiers.push(tier);
    Engine::new(EngineOptions { budgets, ..options }).expect("an engine")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_lie_on_a_device_that_has_a_budget() {
    const PAGE_BYTES: u64 = 2 << 20;
    let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file in memory");
    let create = format!("CREATE TABLE t TABLESPACE \"dax0.0\" {T}");
    let without = with_device(&file, Budgets::new());
    let refused = error(&without.session(), &create).await;
    assert!(refused.contains("--budget TIER=BYTES"), "{refused}");

    let engine = with_device(&file, Budgets::new().with("dax0.0", 64 << 20));
    let session = engine.session();
    run(&session, &create).await;
    assert_eq!(placements(&session, "t").await, "g dax0.0, k dax0.0");
    let tier = engine.system().tier("dax0.0").expect("the tier");
    let used = || engine.system().usage(tier).region_bytes;
    assert!(
        used() >= 2 * PAGE_BYTES && used().is_multiple_of(PAGE_BYTES),
        "{}",
        used()
    );
    let answer = value(&session, "SELECT sum(k * g) FROM t").await;
    run(&session, "ALTER TABLE t SET TABLESPACE near").await;
    assert_eq!(used(), 0);
    assert_eq!(value(&session, "SELECT sum(k * g) FROM t").await, answer);
    run(
        &session,
        "ALTER TABLE t ALTER COLUMN k SET TABLESPACE \"dax0.0\"",
    )
    .await;
    assert_eq!(placements(&session, "t").await, "g near, k dax0.0");
    assert_eq!(value(&session, "SELECT sum(k * g) FROM t").await, answer);
    run(
        &session,
        "UPDATE t SET k = k + 1 WHERE g = 7; CALL nearfar.merge('t')",
    )
    .await;
    assert_eq!(placements(&session, "t").await, "g near, k dax0.0");

    let mixed = error(
        &session,
        "ALTER TABLE t SET (placement = 'interleave:near,dax0.0')",
    )
    .await;
    assert!(mixed.contains("in pages of 2097152 bytes"), "{mixed}");
    let heap = error(&session, "SET heap_tablespace = 'dax0.0'").await;
    assert!(heap.contains("DAX device"), "{heap}");
    run(&session, "DROP TABLE t").await;
    assert_eq!(used(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_of_three_tiers_has_three_tablespaces() {
    let options = EngineOptions {
        profile: Some(Profile::builtin("cxl-blades-4-socket").expect("a built-in profile")),
        ..super::support::options()
    };
    let engine = Engine::new(options).expect("an engine");
    let session = engine.session();
    let names = "SELECT string_agg(name, ' ' ORDER BY tier) FROM nearfar.tiers WHERE modelled";
    assert_eq!(value(&session, names).await, "socket far");
    for placed in ["socket", "far", "interleave:socket,far"] {
        run(&session, "DROP TABLE IF EXISTS t").await;
        let table = format!("CREATE TABLE t WITH (placement = '{placed}') {T}");
        run(&session, &table).await;
        assert_eq!(
            placements(&session, "t").await,
            format!("g {placed}, k {placed}")
        );
        let sum = "EXPLAIN ANALYZE SELECT sum(k * g) FROM t";
        let analysed = run(&session, sum).await;
        for tier in ["socket", "far"] {
            let nothing = format!("{tier}: 0 B read by scans");
            let is_read = !analysed.contains(&nothing);
            assert_eq!(is_read, placed.contains(tier), "{placed}: {analysed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn examples_of_the_documents_run() {
    let page = include_str!("../../../../docs/placements.md");
    let (_, block) = page.split_once("```sql\n").expect("a block");
    let (examples, _) = block.split_once("```").expect("its end");
    let session = two_tiers().session();
    let listed = run(&session, examples).await;
    assert!(
        listed.contains("near") && listed.contains("far"),
        "{listed}"
    );
    assert_eq!(placements(&session, "t").await, "a far, b near");
    assert_eq!(placements(&session, "u").await, "a interleave:2:1");
    let shown = run(&session, "SHOW default_tablespace").await;
    assert!(shown.contains("interleave:3:1"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_choose_the_tablespace() {
    let engine = two_tiers();
    let session = engine.session();
    let show = "SHOW default_tablespace";
    let setting = async |name| {
        let sql = format!(
            "SELECT value FROM information_schema.df_settings WHERE name = 'nearfar.{name}'"
        );
        value(&session, &sql).await
    };
    assert!(run(&session, show).await.contains("near"));
    run(&session, "SET default_tablespace = far").await;
    assert_eq!(setting("default_tablespace").await, "far");
    run(
        &session,
        &format!("CREATE TABLE a {T}; CREATE TEMP TABLE b {T}"),
    )
    .await;
    assert_eq!(placements(&session, "a").await, "g far, k far");
    assert_eq!(placements(&session, "b").await, "g far, k far");
    run(&session, "SET nearfar.temp_tablespaces TO 'near'").await;
    run(
        &session,
        &format!("CREATE TEMP TABLE c {T}; CREATE TABLE d TABLESPACE near {T}"),
    )
    .await;
    assert_eq!(placements(&session, "c").await, "g near, k near");
    assert_eq!(placements(&session, "d").await, "g near, k near");
    run(
        &session,
        "SET default_tablespace = 'interleave:1:1'; CREATE TABLE e AS SELECT 1 AS x",
    )
    .await;
    assert_eq!(placements(&session, "e").await, "x interleave:1:1");
    run(&session, "RESET default_tablespace; RESET temp_tablespaces").await;
    run(
        &session,
        "SET heap_tablespace = far; SET heap_tablespace = DEFAULT",
    )
    .await;
    for (name, default) in [
        ("default_tablespace", "near"),
        ("temp_tablespaces", ""),
        ("heap_tablespace", "near"),
        ("memory_limit", "engine"),
        ("temp_limit", "engine"),
        ("count_accesses", "true"),
    ] {
        assert_eq!(setting(name).await, default, "{name}");
    }
    assert!(run(&engine.session(), show).await.contains("near"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_places_are_named_with_those_that_exist() {
    let session = two_tiers().session();
    run(
        &session,
        "CREATE TABLE t AS SELECT 1 AS a; CREATE VIEW v AS SELECT 1 AS a",
    )
    .await;
    let unknown = "no tier or node is named \"fra\"; there are: near, far";
    for sql in [
        "CREATE TABLE u TABLESPACE fra AS SELECT 1 AS a",
        "ALTER TABLE t SET TABLESPACE fra",
        "ALTER TABLE t ALTER COLUMN a SET TABLESPACE fra",
        "SET default_tablespace = fra",
        "SET temp_tablespaces = fra",
        "SET heap_tablespace = fra",
    ] {
        assert_eq!(error(&session, sql).await, unknown, "{sql}");
    }
    for (sql, part) in [
        (
            "CREATE TABLE u WITH (placement = 'fra') AS SELECT 1 AS a",
            unknown,
        ),
        (
            "CREATE TABLE u WITH (placement = 'interleave:2') AS SELECT 1 AS a",
            "placement `interleave:2` is not known",
        ),
        (
            "CREATE TABLE u WITH (placement = 'columns:10%') AS SELECT 1 AS a",
            "columns are placed one by one by ALTER TABLE t SET TABLESPACE",
        ),
        (
            "ALTER TABLE t ALTER COLUMN b SET TABLESPACE far",
            "no column `b`; it has: a",
        ),
        (
            "ALTER TABLE u SET TABLESPACE far",
            "table `u` does not exist",
        ),
        (
            "ALTER TABLE v SET TABLESPACE far",
            "`v` is a view, not a table in memory",
        ),
        (
            "ALTER TABLE nearfar.tiers SET TABLESPACE far",
            "is a system table, not a table in memory",
        ),
        (
            "SET memory_limit = 'much'",
            "setting `memory_limit` can't be `much`",
        ),
        (
            "SET count_accesses = perhaps",
            "setting `count_accesses` can't be `perhaps`: use on or off",
        ),
        (
            "SET nearfar.heap = far",
            "there is no setting `nearfar.heap`",
        ),
    ] {
        let message = error(&session, sql).await;
        assert!(message.contains(part), "{sql}: {message}");
    }
    assert_eq!(
        run(&session, "ALTER TABLE IF EXISTS u SET TABLESPACE far").await,
        "ALTER TABLE"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_second_tier_there_is_no_far() {
    let topology = super::support::options().topology;
    if topology.tiers.len() > 1 {
        return;
    }
    let session = Engine::new(EngineOptions::new(topology))
        .expect("an engine")
        .session();
    let message = error(&session, "SET default_tablespace = far").await;
    assert_eq!(message, "no tier or node is named \"far\"; there are: near");
    let message = error(&session, "SET default_tablespace = 'interleave:1:1'").await;
    assert_eq!(message, "no tier or node is named \"far\"; there are: near");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_are_right_while_their_table_moves() {
    let engine = two_tiers();
    let session = engine.session();
    run(&session, &format!("CREATE TABLE t {T}")).await;
    let sql = "SELECT sum(k * g), count(*) FROM t WHERE g < 50";
    let expected = run(&session, sql).await;
    let (stop, runs) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (session, expected) = (engine.session(), expected.clone());
            let (stop, runs) = (Arc::clone(&stop), Arc::clone(&runs));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(run(&session, sql).await, expected);
                    runs.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 0..20 {
        let place = [
            "TABLESPACE far",
            "(placement = 'interleave:1:2')",
            "TABLESPACE near",
        ][round % 3];
        run(&session, &format!("ALTER TABLE t SET {place}")).await;
        while runs.load(Ordering::Relaxed) < round {
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.expect("right answers");
    }
    run(&session, "ALTER TABLE t SET TABLESPACE far").await;
    assert_eq!(far_bytes(&engine), region_bytes(&engine));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn system_tables_are_live() {
    let engine = two_tiers();
    let session = engine.session();
    let tier = |column: &str, name: &str| {
        format!("SELECT {column} FROM nearfar.tiers WHERE name = '{name}'")
    };
    assert_eq!(value(&session, &tier("modelled", "far")).await, "true");
    assert_eq!(
        value(&session, &tier("read_latency_ns", "far")).await,
        "507.0"
    );
    assert_eq!(value(&session, &tier("region_bytes", "far")).await, "0");
    assert_eq!(
        value(&session, "SELECT count(*) FROM nearfar.tables").await,
        "0"
    );
    run(&session, &format!("CREATE TABLE t TABLESPACE far {T}")).await;
    let bytes = far_bytes(&engine).to_string();
    assert_eq!(value(&session, &tier("region_bytes", "far")).await, bytes);
    let used = "budget_bytes - region_bytes - heap_bytes - free_bytes";
    assert_eq!(value(&session, &tier(used, "far")).await, "0");
    let sums = "SELECT rows || ' ' || (bytes - far_bytes) || ' ' || placement FROM nearfar.tables";
    assert_eq!(value(&session, sums).await, "100000 0 far");
    let tiers = "SELECT tier_bytes = 'far ' || bytes FROM nearfar.tables";
    assert_eq!(value(&session, tiers).await, "true");
    let access = |column: &str| {
        format!(
            "SELECT {column} FROM nearfar.column_access WHERE table_name = 't' AND column_name = 'g'"
        )
    };
    assert_eq!(value(&session, &access("total")).await, "0");
    run(&session, "SELECT sum(g) FROM t").await;
    assert_eq!(value(&session, &access("sequential")).await, "100000");
    assert_eq!(value(&session, &access("total - sequential")).await, "0");
    let read = || {
        engine
            .costs()
            .bytes_read(engine.tier("far").expect("a far tier"))
    };
    let read_bytes = read();
    assert!(read_bytes > 0);
    run(&session, "SET count_accesses = off; SELECT sum(g) FROM t").await;
    assert_eq!(value(&session, &access("sequential")).await, "100000");
    assert_eq!(read(), read_bytes);
    run(&session, "RESET count_accesses; SELECT sum(g) FROM t").await;
    assert_eq!(value(&session, &access("sequential")).await, "200000");
    let encodings = "SELECT string_agg(DISTINCT encoding, ',') FROM nearfar.segments";
    assert_eq!(value(&session, encodings).await, "narrow");
    let listed = "SELECT count(*) FROM information_schema.tables
                  WHERE table_schema = 'nearfar' AND table_type = 'VIEW'";
    assert_eq!(value(&session, listed).await, "9");
    assert!(run(&session, "SHOW TABLESPACES").await.contains("modelled"));
}
