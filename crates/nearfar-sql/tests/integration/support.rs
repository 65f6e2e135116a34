//! Engines and sessions to test with.

use arrow::util::pretty::pretty_format_batches;
use nearfar_durable::log::DataOptions;
use nearfar_memory::{Budgets, PageSize, TierId};
use nearfar_sql::engine::{Engine, EngineOptions, Session, StatementResult};
use nearfar_sql::error::EngineError;
use nearfar_table::traffic::{Moved, Task};
use nearfar_topology::{Profile, Topology};
use std::path::Path;
use std::sync::Arc;

/// This machine with base pages and two threads.
pub fn options() -> EngineOptions {
    let topology = Topology::this_machine().expect("this machine's topology");
    EngineOptions {
        threads: 2,
        page_size: PageSize::Base,
        ..EngineOptions::new(topology)
    }
}

/// An engine on this machine, in memory.
pub fn engine() -> Arc<Engine> {
    Engine::new(options()).expect("an engine")
}

/// The same with a data directory.
pub fn open(folder: &Path) -> Arc<Engine> {
    let options = EngineOptions {
        data: Some(DataOptions::new(folder)),
        ..options()
    };
    Engine::new(options).expect("an engine")
}

/// An engine on this machine with the far tier of a profile, modelled.
pub fn two_tiers() -> Arc<Engine> {
    two_tiers_with(Budgets::new())
}

/// The same with budgets.
pub fn two_tiers_with(budgets: Budgets) -> Arc<Engine> {
    modelled(
        Profile::builtin("cxl-blades-4").expect("a built-in profile"),
        budgets,
    )
}

/// An engine of the machine of `profile`, with the whole device.
pub fn modelled(profile: Profile, budgets: Budgets) -> Arc<Engine> {
    let options = EngineOptions {
        profile: Some(profile),
        whole_device: true,
        budgets,
        ..options()
    };
    Engine::new(options).expect("an engine")
}

/// Bytes of regions on all tiers.
pub fn region_bytes(engine: &Engine) -> u64 {
    engine.storage().shelf.release();
    engine
        .system()
        .tiers()
        .map(|(tier, _)| engine.system().usage(tier).region_bytes)
        .sum()
}

/// Bytes of regions on the far tier.
pub fn far_bytes(engine: &Engine) -> u64 {
    engine
        .tier("far")
        .map_or(0, |far: TierId| engine.system().usage(far).region_bytes)
}

/// What scans have moved of the far tier.
pub fn far_scans(engine: &Engine) -> Moved {
    let far = engine.tier("far").expect("a far tier");
    engine.traffic().moved(far, Task::Scan)
}

/// The answer to `sql`, which is the same with a setting off and on.
pub async fn same_without(session: &Session, setting: &str, sql: &str) -> String {
    run(session, &format!("SET {setting} = off")).await;
    let without = run(session, sql).await;
    run(session, &format!("SET {setting} = on")).await;
    let with = run(session, sql).await;
    assert!(
        with == without,
        "{sql}\n{with}\nis without {setting}\n{without}"
    );
    with
}

/// The results of a script as text: tags, and tables with their rows.
pub async fn try_run(session: &Session, sql: &str) -> Result<String, EngineError> {
    let mut text = Vec::new();
    for result in session.execute(sql).await? {
        text.push(match result {
            StatementResult::Command(tag) => tag.to_string(),
            StatementResult::Rows(rows) => {
                let batches = rows.collect().await?;
                pretty_format_batches(&batches)?.to_string()
            }
        });
    }
    Ok(text.join("\n"))
}

/// The same of a script that works.
pub async fn run(session: &Session, sql: &str) -> String {
    try_run(session, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The message with which a script fails.
pub async fn error(session: &Session, sql: &str) -> String {
    match try_run(session, sql).await {
        Ok(text) => panic!("{sql} should fail, but gave {text}"),
        Err(error) => error.to_string(),
    }
}

/// The only value that a query gives, as text.
pub async fn value(session: &Session, sql: &str) -> String {
    let text = run(session, sql).await;
    let line = text.lines().nth(3).unwrap_or_default();
    line.trim_matches(['|', ' ']).to_owned()
}

/// Waits until no region is left: what was given up ends at its next batch.
pub async fn eventually_empty(engine: &Engine) {
    eventually_left(0, || region_bytes(engine)).await;
}

/// Waits until no more than `bytes` are left: what queries and index workers have begun ends first.
pub async fn eventually_left(bytes: u64, left: impl Fn() -> u64) {
    for _ in 0..6_000 {
        if left() <= bytes {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{} bytes of regions are left", left());
}

/// Has four sessions ask these queries of the table `t`, so many times each, while it moves between the tiers: the answers
/// are those that `session` has first. What a session sets before a turn, `set` says of its turn and of which it is.
pub async fn same_beside_moves(
    engine: &Arc<Engine>,
    session: &Session,
    (queries, times): (&'static [&'static str], usize),
    set: fn(usize, usize) -> Option<String>,
) {
    let mut expected = Vec::new();
    for sql in queries {
        expected.push(run(session, sql).await);
    }
    let expected = Arc::new(expected);
    let askers = (0..4).map(|asker| {
        let (session, expected) = (engine.session(), Arc::clone(&expected));
        tokio::spawn(async move {
            for turn in 0..times * queries.len() {
                let at = (turn * (asker + 1) + asker) % queries.len();
                let set = set(turn, asker);
                if let Some(set) = &set {
                    run(&session, set).await;
                }
                let answer = try_run(&session, queries[at]).await.expect(queries[at]);
                assert_eq!(answer, expected[at], "{set:?}: {}", queries[at]);
            }
        })
    });
    let askers: Vec<_> = askers.collect();
    for place in ["near", "far", "near", "far"] {
        run(session, &format!("ALTER TABLE t SET TABLESPACE {place}")).await;
    }
    for asker in askers {
        asker.await.expect("right answers");
    }
}
