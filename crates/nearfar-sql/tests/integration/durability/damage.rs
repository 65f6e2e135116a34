//! Disks that are full, that fail, and that lose what was written.

use nearfar_durable::error::DurabilityError;
use nearfar_durable::log::{DataOptions, LogFaults};
use nearfar_sql::engine::Session;
use nearfar_sql::error::EngineError;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::support::{run, try_run, value};
use super::{open, try_open};

/// Options without checkpoints, so that all is in the log.
fn log_only(directory: &Path) -> DataOptions {
    DataOptions {
        checkpoint_bytes: u64::MAX,
        checkpoint_interval: None,
        checkpoint_at_end: false,
        ..DataOptions::new(directory)
    }
}

async fn durability_error(session: &Session, sql: &str) -> DurabilityError {
    match try_run(session, sql).await {
        Err(EngineError::Durability(error)) => error,
        other => panic!("{sql} gave {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_fails_commits_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(LogFaults::default());
    let options = DataOptions {
        faults: Arc::clone(&faults),
        ..log_only(folder.path())
    };
    let session = try_open(options).expect("a directory").session();
    run(&session, "CREATE TABLE t (a BIGINT)").await;
    for round in 0..20 {
        run(&session, &format!("INSERT INTO t VALUES ({round})")).await;
        // Any number of bytes of the record are written before the disk is full.
        faults.set_room(round * 3);
        let error = durability_error(&session, "INSERT INTO t VALUES (1000)").await;
        assert!(
            matches!(error, DurabilityError::NotLogged { .. }),
            "{error}"
        );
        let error = durability_error(&session, "CREATE TABLE u AS SELECT 1 AS a").await;
        assert!(
            matches!(error, DurabilityError::NotLogged { .. }),
            "{error}"
        );
        let bulk = "INSERT INTO t SELECT 1000 + value FROM generate_series(1, 70000)";
        durability_error(&session, bulk).await;
        faults.set_room(u64::MAX);
        assert_eq!(
            value(&session, "SELECT count(*) FROM t").await,
            (round + 1).to_string()
        );
    }
    run(&session, "INSERT INTO t VALUES (20)").await;
    drop(session);
    let session = open(folder.path()).session();
    assert_eq!(
        value(&session, "SELECT count(*) * 1000 + sum(a) FROM t").await,
        "21210"
    );
    assert!(try_run(&session, "SELECT * FROM u").await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_write_to_disk_stops_changes_and_is_never_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(LogFaults::default());
    let options = DataOptions {
        faults: Arc::clone(&faults),
        ..log_only(folder.path())
    };
    let engine = try_open(options).expect("a directory");
    let session = engine.session();
    run(&session, "CREATE TABLE t AS SELECT 1 AS a").await;
    faults.fail_sync(true);
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let session = engine.session();
            let sql = format!("INSERT INTO t VALUES ({client})");
            tokio::spawn(async move { durability_error(&session, &sql).await })
        })
        .collect();
    for client in clients {
        let error = client.await.expect("a client");
        let is_known = matches!(
            error,
            DurabilityError::NotSynced { .. } | DurabilityError::Stopped { .. }
        );
        assert!(is_known, "{error}");
    }
    // The kernel would report success from now on.
    faults.fail_sync(false);
    let error = durability_error(&session, "INSERT INTO t VALUES (9)").await;
    assert!(matches!(error, DurabilityError::Stopped { .. }), "{error}");
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "1");
    let temporary = "CREATE TEMPORARY TABLE mine AS SELECT a FROM t; INSERT INTO mine VALUES (2)";
    run(&session, temporary).await;
    assert_eq!(value(&session, "SELECT count(*) FROM mine").await, "2");
    drop((session, engine));
    let session = open(folder.path()).session();
    let rows: i64 = value(&session, "SELECT count(*) FROM t")
        .await
        .parse()
        .expect("a number");
    assert!((1..=5).contains(&rows), "{rows}");
    run(&session, "INSERT INTO t VALUES (9)").await;
}

/// The only file of the log.
fn log_file(directory: &Path) -> PathBuf {
    directory.join("log").join(format!("{:020}.wal", 0))
}

/// Where a directory without a pool notes how far its log has come.
fn note(directory: &Path) -> PathBuf {
    directory.join("reached-00000000")
}

/// As if the process had not ended by itself, which notes the end of the log: what is cut off then may
/// never have been on disk.
fn forget_end(directory: &Path) {
    // There is none where the directory was refused before.
    let _ = fs::remove_file(note(directory));
}

/// A directory with ten rows, each inserted by itself, and the positions behind each of them.
async fn ten_rows(directory: &Path) -> Vec<u64> {
    let engine = try_open(log_only(directory)).expect("a directory");
    let session = engine.session();
    run(&session, "CREATE TABLE t (a BIGINT)").await;
    let mut positions = Vec::new();
    for row in 0..10 {
        run(&session, &format!("INSERT INTO t VALUES ({row})")).await;
        positions.push(engine.log().expect("a log").status().position);
    }
    positions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_end_is_cut_wherever_it_is_torn() {
    let folder = tempfile::tempdir().expect("a folder");
    let positions = ten_rows(folder.path()).await;
    let file = log_file(folder.path());
    let whole = fs::read(&file).expect("the log");
    let (from, to) = (positions[8] as usize, positions[9] as usize);
    for end in (from..to).step_by(11) {
        for garbage in [0, 1, 300] {
            let mut torn = whole[..end].to_vec();
            torn.extend(std::iter::repeat_n(0xa5, garbage));
            fs::write(&file, torn).expect("written");
            forget_end(folder.path());
            let session = try_open(log_only(folder.path()))
                .expect("a directory")
                .session();
            assert_eq!(
                value(&session, "SELECT count(*) FROM t").await,
                "9",
                "cut at {end}"
            );
            run(&session, "INSERT INTO t VALUES (100)").await;
            drop(session);
            let session = try_open(log_only(folder.path()))
                .expect("a directory")
                .session();
            assert_eq!(value(&session, "SELECT sum(a) FROM t").await, "136");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_in_the_middle_is_refused_with_what_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let positions = ten_rows(folder.path()).await;
    let file = log_file(folder.path());
    let whole = fs::read(&file).expect("the log");
    for (row, offset) in [(3, 0), (3, 5), (3, 20), (6, 40), (0, 9)] {
        let at = positions[row] + offset;
        let mut damaged = whole.clone();
        damaged[at as usize] ^= 0x40;
        fs::write(&file, &damaged).expect("written");
        let error = try_open(log_only(folder.path())).expect_err("damage");
        let EngineError::Durability(DurabilityError::DamagedLog {
            position,
            lost,
            path,
            ..
        }) = &error
        else {
            panic!("{error}");
        };
        assert_eq!((*position, path), (positions[row], &file));
        let behind = 10 - row - 2;
        assert!(
            lost.contains(&format!("and {behind} that can still be read")),
            "{lost}"
        );
        assert!(
            error.to_string().contains("--recover-until-damage"),
            "{error}"
        );
        assert_eq!(fs::read(&file).expect("the log"), damaged, "it was changed");
    }
    let options = DataOptions {
        recover_until_damage: true,
        ..log_only(folder.path())
    };
    let session = try_open(options).expect("until the damage").session();
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "1");
    run(&session, "INSERT INTO t VALUES (50)").await;
    drop(session);
    let kept = folder.path().join(format!("log-damaged-{}", positions[0]));
    let kept = fs::read(kept.join(file.file_name().expect("a name"))).expect("the rest");
    assert_eq!(kept.len(), whole.len());
    let session = open(folder.path()).session();
    assert_eq!(value(&session, "SELECT sum(a) FROM t").await, "50");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_no_write_to_disk_has_covered_may_be_torn_in_any_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = DataOptions {
        sync: nearfar_durable::log::LogSync::Off,
        ..log_only(folder.path())
    };
    let engine = try_open(options).expect("a directory");
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1)",
    )
    .await;
    let position = engine.log().expect("a log").status().position;
    run(
        &session,
        "INSERT INTO t VALUES (2); INSERT INTO t VALUES (3)",
    )
    .await;
    drop((session, engine));
    // As if power was lost, and the kernel had written the last record but not the one before it.
    let file = log_file(folder.path());
    let mut bytes = fs::read(&file).expect("the log");
    bytes[position as usize + 30] ^= 1;
    fs::write(&file, bytes).expect("written");
    forget_end(folder.path());
    let session = open(folder.path()).session();
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_without_its_beginning_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    ten_rows(folder.path()).await;
    let file = log_file(folder.path());
    fs::rename(&file, file.with_file_name(format!("{:020}.wal", 1))).expect("renamed");
    let error = try_open(log_only(folder.path()))
        .expect_err("damage")
        .to_string();
    assert!(error.contains("missing"), "{error}");
}

/// Whichever byte is damaged, and wherever the log ends: what was on disk before is there, or the
/// directory is refused, and never are there other rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_byte_of_a_log_may_be_damaged_or_its_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let ends = {
        let engine = try_open(log_only(folder.path())).expect("a directory");
        let session = engine.session();
        let position = || engine.log().expect("a log").status().position;
        run(&session, "CREATE TABLE t (a BIGINT)").await;
        let mut ends = vec![position()];
        for row in [1, 2] {
            run(&session, &format!("INSERT INTO t VALUES ({row})")).await;
            ends.push(position());
        }
        ends
    };
    let file = log_file(folder.path());
    let whole = fs::read(&file).expect("the log");
    let rows_of = |records: usize| ["", "0", "1", "3"][records];
    let found = async || match try_open(log_only(folder.path())) {
        Ok(engine) => {
            let sum = try_run(&engine.session(), "SELECT coalesce(sum(a), 0) AS s FROM t").await;
            let line = |text: String| text.lines().nth(3).expect("a row").to_owned();
            Ok(sum.map_or(String::new(), |text| line(text).replace(['|', ' '], "")))
        }
        Err(EngineError::Durability(DurabilityError::DamagedLog { position, .. })) => Err(position),
        Err(error) => panic!("{error}"),
    };
    for at in 0..*ends.last().expect("some") as usize {
        let records = ends.iter().filter(|end| **end <= at as u64).count();
        let noted = || {
            let end = ends.last().expect("some");
            fs::write(note(folder.path()), format!("position {end}\n")).expect("written");
        };
        // Its last byte, of which nobody knows whether it was on disk, and then one that was.
        fs::write(&file, &whole[..at]).expect("written");
        noted();
        assert!(found().await.is_err(), "cut at {at}, which was on disk");
        assert_eq!(
            fs::read(&file).expect("there"),
            &whole[..at],
            "it was changed"
        );
        forget_end(folder.path());
        assert_eq!(
            found().await,
            Ok(rows_of(records).to_owned()),
            "cut at {at}"
        );
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&file, &damaged).expect("written");
        noted();
        assert!(found().await.is_err(), "damaged at {at}, which was on disk");
        assert_eq!(fs::read(&file).expect("there"), damaged, "it was changed");
        forget_end(folder.path());
        let begin = records.checked_sub(1).map_or(0, |last| ends[last]);
        let wanted = match records == ends.len() - 1 {
            true => Ok(rows_of(records).to_owned()),
            false => Err(begin),
        };
        assert_eq!(found().await, wanted, "damaged at {at}");
    }
}
