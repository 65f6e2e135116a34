//! Files of a data directory that are gone: each is missed, or nothing is lost with it.

use nearfar_durable::checkpoint::pooled::TablePoolOptions;
use nearfar_durable::error::DurabilityError;
use nearfar_durable::log::DataOptions;
use nearfar_memory::pool::TakeOver;
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_sql::error::EngineError;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::support::{options, run, try_run, value};

const TABLE: &str = "CREATE TABLE t (k BIGINT)";
const CONTENT: &str = "SELECT count(*) || ' ' || coalesce(sum(k), 0) FROM t";
/// Engines that follow each other, and rows that each adds.
const ROUNDS: i64 = 3;
const ROWS: i64 = 100;

/// A data directory, and perhaps a pool.
#[derive(Debug, Clone, Copy)]
struct Kind {
    has_pool: bool,
    /// The engine that writes a checkpoint, if any does.
    checkpoint_in: Option<i64>,
}

const KINDS: [Kind; 6] = {
    const fn kind(has_pool: bool, checkpoint_in: Option<i64>) -> Kind {
        Kind {
            has_pool,
            checkpoint_in,
        }
    }
    [
        kind(false, None),
        kind(false, Some(1)),
        kind(false, Some(2)),
        kind(true, None),
        kind(true, Some(1)),
        kind(true, Some(2)),
    ]
};

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn open(folder: &Path, kind: Kind, recovers: bool) -> Result<Arc<Engine>, EngineError> {
    let pool = kind.has_pool.then(|| {
        let mut pool = TablePoolOptions::new(folder.join("pool"));
        pool.bytes = Some(16 << 20);
        pool.claim.take_over = TakeOver::Never;
        pool
    });
    Engine::new(EngineOptions {
        data: Some(DataOptions {
            checkpoint_at_end: false,
            recover_until_damage: recovers,
            ..DataOptions::new(data(folder))
        }),
        pool,
        ..options()
    })
}

/// Has engines work in `folder`, and says what is there then.
async fn build(folder: &Path, kind: Kind) -> String {
    let mut content = String::new();
    for round in 0..ROUNDS {
        let engine = open(folder, kind, false).expect("an engine");
        let session = engine.session();
        if round == 0 {
            run(&session, TABLE).await;
        }
        let (first, last) = (round * ROWS + 1, (round + 1) * ROWS);
        let insert = format!("INSERT INTO t SELECT value FROM generate_series({first}, {last})");
        run(&session, &insert).await;
        if kind.checkpoint_in == Some(round) {
            run(&session, "CHECKPOINT").await;
        }
        content = value(&session, CONTENT).await;
    }
    content
}

fn entries(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        found.push(path.clone());
        if path.is_dir() {
            entries(&path, found);
        }
    }
}

/// All files and folders below `folder`, by their paths in it.
fn all_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    entries(folder, &mut found);
    let within = found
        .iter()
        .map(|path| path.strip_prefix(folder).expect("below").to_owned());
    let mut within: Vec<PathBuf> = within.collect();
    within.sort();
    within
}

/// Copies a folder with the modes of what is in it.
fn copy(from: &Path, to: &Path) {
    let folder = |path: &Path| {
        let mode = fs::metadata(from.join(path)).expect("found").permissions();
        fs::create_dir_all(to.join(path)).expect("made");
        fs::set_permissions(to.join(path), mode).expect("set");
    };
    folder(Path::new(""));
    for path in all_in(from) {
        match from.join(&path).is_dir() {
            true => folder(&path),
            false => drop(fs::copy(from.join(&path), to.join(&path)).expect("copied")),
        }
    }
}

/// What is in the files of a folder, but for the lock.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = all_in(folder).into_iter();
    files
        .filter(|path| folder.join(path).is_file() && !path.ends_with("LOCK"))
        .map(|path| (path.clone(), fs::read(folder.join(&path)).expect("read")))
        .collect()
}

fn remove(path: &Path) {
    match path.is_dir() {
        true => fs::remove_dir_all(path).expect("removed"),
        false => fs::remove_file(path).expect("removed"),
    }
}

/// Opens what is left once `lost` is gone; whether it was refused.
async fn check_without(folder: &Path, kind: Kind, lost: &str, content: &str) -> bool {
    let before = contents(&data(folder));
    let refused = match open(folder, kind, false) {
        Ok(engine) => {
            let session = engine.session();
            match try_run(&session, CONTENT).await {
                // A file that is read when it is needed.
                Err(error) => assert!(
                    matches!(error, EngineError::Checkpoint(_)),
                    "{lost}: {error}"
                ),
                Ok(_) => assert_eq!(value(&session, CONTENT).await, content, "{kind:?} {lost}"),
            }
            return false;
        }
        Err(error) => error,
    };
    let is_of_files = matches!(
        refused,
        EngineError::Durability(
            DurabilityError::LostTerm { .. }
                | DurabilityError::DamagedLog { .. }
                | DurabilityError::NotADataDirectory { .. }
        ) | EngineError::Checkpoint(_)
    );
    assert!(is_of_files, "{kind:?} {lost}: {refused:?}");
    let after = contents(&data(folder));
    for (path, bytes) in &before {
        assert!(
            after.get(path) == Some(bytes),
            "{kind:?} {lost}: {} was changed by who refused it",
            path.display()
        );
    }
    true
}

/// Opens what was refused as far as it goes, and checks that nothing of the log is gone.
async fn recover_without(folder: &Path, kind: Kind, lost: &str) {
    let before = contents(&data(folder));
    let Ok(engine) = open(folder, kind, true) else {
        return;
    };
    let session = engine.session();
    let count = "SELECT count(*) FROM t";
    if try_run(&session, count).await.is_ok() {
        let count: i64 = value(&session, count).await.parse().expect("a number");
        assert_eq!(count % ROWS, 0, "{kind:?} {lost}");
    }
    run(&session, "CREATE TABLE later AS SELECT 1 AS a").await;
    drop((session, engine));
    let after = contents(&data(folder));
    for (path, bytes) in before {
        let is_log = path.extension().is_some_and(|extension| extension == "wal");
        let is_kept = || {
            let mut kept = after.values();
            kept.any(|kept| kept.starts_with(&bytes))
        };
        assert!(
            !is_log || is_kept(),
            "{kind:?} {lost}: {} is gone",
            path.display()
        );
    }
    let engine = open(folder, kind, false).expect("whole again");
    assert_eq!(value(&engine.session(), "SELECT a FROM later").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_and_folder_is_missed_or_not_needed() {
    for kind in KINDS {
        let built = tempfile::tempdir().expect("a folder");
        let content = build(built.path(), kind).await;
        let mut refused = 0;
        for lost in all_in(&data(built.path())) {
            let folder = tempfile::tempdir().expect("a folder");
            copy(built.path(), folder.path());
            remove(&data(folder.path()).join(&lost));
            let name = lost.display().to_string();
            if check_without(folder.path(), kind, &name, &content).await {
                refused += 1;
                recover_without(folder.path(), kind, &name).await;
            }
        }
        assert!(refused > 2, "{kind:?}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_that_are_renamed_or_cut_are_missed() {
    let kind = KINDS[3];
    let built = tempfile::tempdir().expect("a folder");
    let content = build(built.path(), kind).await;
    let folders = all_in(&data(built.path()));
    let terms = folders.iter().filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("term-")
    });
    let terms: Vec<&PathBuf> = terms.collect();
    assert_eq!(terms.len(), ROUNDS as usize);
    for term in terms {
        let folder = tempfile::tempdir().expect("a folder");
        copy(built.path(), folder.path());
        let path = data(folder.path()).join(term);
        fs::rename(&path, path.with_extension("old")).expect("renamed");
        let name = format!("{} renamed", term.display());
        assert!(
            check_without(folder.path(), kind, &name, &content).await,
            "{name}"
        );
    }
    // All BEGINs at the same time, and all logs cut to nothing.
    for lost in ["BEGIN", ".wal"] {
        let folder = tempfile::tempdir().expect("a folder");
        copy(built.path(), folder.path());
        for path in all_in(&data(folder.path())) {
            let path = data(folder.path()).join(path);
            match path.to_string_lossy().ends_with(lost) {
                true if lost == "BEGIN" => fs::remove_file(&path).expect("removed"),
                true => fs::write(&path, "").expect("cut"),
                false => {}
            }
        }
        assert!(
            check_without(folder.path(), kind, lost, &content).await,
            "{lost}"
        );
        recover_without(folder.path(), kind, lost).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_gone_is_missed_after_a_kill() {
    let kind = KINDS[0];
    let built = tempfile::tempdir().expect("a folder");
    let engine = open(built.path(), kind, false).expect("an engine");
    let session = engine.session();
    run(&session, TABLE).await;
    run(
        &session,
        "INSERT INTO t SELECT value FROM generate_series(1, 100)",
    )
    .await;
    let content = value(&session, CONTENT).await;
    // What is on disk while the engine works is what a kill leaves.
    let killed = tempfile::tempdir().expect("a folder");
    copy(built.path(), killed.path());
    drop((session, engine));
    let name = "the log";
    remove(&data(killed.path()).join("log"));
    assert!(check_without(killed.path(), kind, name, &content).await);
}
