//! Files of data directories and pools that are gone or cut, and disks that are full: nothing that was
//! acknowledged goes without a word.

use std::fs;
use std::path::Path;

use tokio::runtime::Runtime;

use crate::node::Node;
use crate::support::{SmallDisk, files_in, program, run, temp};

fn words(folder: &Path, command: &str, has_data: bool) -> Vec<String> {
    let place = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let mut words = vec![command.to_owned(), "--pool".to_owned(), place("pool")];
    words.extend(["--pool-bytes", "64MiB"].map(str::to_owned));
    if has_data {
        words.extend(["--data".to_owned(), place("data")]);
    }
    words
}

fn sql(folder: &Path, has_data: bool, more: &[&str]) -> Vec<String> {
    let mut words = words(folder, "sql", has_data);
    words.extend(["--format", "csv"].map(str::to_owned));
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words
}

/// A server inserts rows and is killed.
fn insert_and_kill(folder: &Path, sql: &str) {
    let mut words = words(folder, "serve", true);
    words.extend(["--port", "0", "--no-http"].map(str::to_owned));
    let mut server = Node::spawn(&words);
    server.wait_for("ready");
    let runtime = Runtime::new().expect("threads");
    let client = runtime.block_on(server.connect()).expect("connected");
    runtime
        .block_on(client.batch_execute(sql))
        .expect("inserted");
    server.signal("KILL");
    server.ended();
}

const COUNT: &str = "SELECT count(*) FROM t";

#[test]
fn a_lost_begin_of_a_term_is_missed_and_its_log_is_kept() {
    let folder = temp();
    let rows = "INSERT INTO t SELECT value FROM generate_series(1, 100)";
    insert_and_kill(folder.path(), &format!("CREATE TABLE t (i BIGINT); {rows}"));
    insert_and_kill(folder.path(), rows);
    let log = folder.path().join("data/log");
    let terms = files_in(&log);
    let newest = log.join(terms.last().expect("a term"));
    fs::remove_file(newest.join("BEGIN")).expect("removed");
    let files = files_in(&newest);
    let told = ["BEGIN", "--recover-until-damage", "Nothing was changed"];
    for _ in 0..2 {
        run(sql(folder.path(), true, &["-c", COUNT])).failed(4, &told);
        assert_eq!(
            (files_in(&log), files_in(&newest)),
            (terms.clone(), files.clone())
        );
    }
    let ran = run(sql(
        folder.path(),
        true,
        &["--recover-until-damage", "-c", COUNT],
    ));
    assert_eq!(
        (ran.code, ran.stdout.trim()),
        (0, "count(*)\n100"),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("set aside"), "{ran:?}");
    let kept = files_in(&folder.path().join("data"));
    let kept = kept
        .iter()
        .find(|name| name.starts_with("log-damaged-term"));
    let kept = folder.path().join("data").join(kept.expect("a folder"));
    let name = newest.file_name().expect("a name");
    assert_eq!(files_in(&kept.join(name)), files);
}

#[test]
fn a_pool_alone_that_is_cut_or_gone_is_not_empty_without_a_word() {
    let folder = temp();
    let pool = folder.path().join("pool");
    let make = "CREATE TABLE t AS SELECT value FROM generate_series(1, 100) t(value)";
    let ran = run(sql(folder.path(), false, &["-c", make]));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("a new one is made"), "{ran:?}");
    let ran = run(sql(folder.path(), false, &["-c", COUNT]));
    assert!(ran.succeeded().contains("100"));
    let whole = fs::read(&pool).expect("read");
    for bytes in [0, 1, 4096, 2 << 20, whole.len() / 2] {
        fs::write(&pool, &whole[..bytes]).expect("cut");
        run(sql(folder.path(), false, &["-c", COUNT])).failed(4, &["pool"]);
        let left = fs::metadata(&pool).expect("there").len();
        assert_eq!(left, bytes as u64, "it is left as it is");
    }
    fs::remove_file(&pool).expect("removed");
    let ran = run(sql(folder.path(), false, &["-c", "SELECT 1"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("a new one is made"), "{ran:?}");
}

const LARGE: &str = "CREATE TABLE t AS SELECT value, repeat('x', 90) || value AS s \
                     FROM generate_series(1, 100000) t(value)";

#[test]
fn a_table_that_a_pool_alone_has_no_room_for_is_refused() {
    let Some(disk) = SmallDisk::mount(1024) else {
        return;
    };
    let words = sql(disk.path(), false, &["-c", LARGE]);
    let ran = program().args(words).output().expect("started");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(7), "{stderr}");
    assert!(stderr.contains("No space left"), "{stderr}");
    // Small changes are published at the end.
    let small = "CREATE TABLE u (i BIGINT, s VARCHAR); \
                 INSERT INTO u SELECT value, repeat('x', 90) FROM generate_series(1, 60000)";
    let words = sql(disk.path(), false, &["-c", small]);
    let ran = program().args(words).output().expect("started");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(7), "{stderr}");
}

#[test]
fn a_full_disk_is_told_by_its_own_code() {
    let (Some(disk), Some(small)) = (SmallDisk::mount(4096), SmallDisk::mount(256)) else {
        return;
    };
    let place = |name: &str| disk.path().join(name).to_string_lossy().into_owned();
    let target = small.path().to_string_lossy().into_owned();
    let words = [
        "serve",
        "--port",
        "0",
        "--no-http",
        "--allow-files",
        "--data",
    ];
    let mut words: Vec<String> = words.map(str::to_owned).to_vec();
    words.push(place("data"));
    let mut server = Node::spawn_in(&words, &[("TMPDIR", &target)]);
    server.wait_for("ready");
    let runtime = Runtime::new().expect("threads");
    let client = runtime.block_on(server.connect()).expect("connected");
    let code = |sql: &str| {
        let ran = runtime.block_on(client.batch_execute(sql));
        let code = ran.as_ref().err().and_then(|error| error.code());
        code.map_or_else(|| format!("{ran:?}"), |code| code.code().to_owned())
    };
    let series = "FROM generate_series(1, 300000) t(value)";
    let wide = format!("SELECT value, repeat('x', 90) || value AS s {series}");
    assert_eq!(code(&format!("COPY ({wide}) TO '{target}/t.csv'")), "53100");
    assert_eq!(code(&format!("CREATE TABLE t AS {wide}")), "53100");
    let sort = format!(
        "SET memory_limit = '16MiB'; SELECT count(*), sum(r) FROM \
         (SELECT row_number() OVER (ORDER BY s) AS r FROM ({wide}))"
    );
    assert_eq!(code(&sort), "53100");
    let few = "INSERT INTO u SELECT value, repeat('x', 90) FROM generate_series(1, 2000) t(value)";
    assert_eq!(code("CREATE TABLE u (i BIGINT, s VARCHAR)"), "Ok(())");
    let filled = (0..100).map(|_| code(few)).find(|code| code != "Ok(())");
    assert_eq!(filled.as_deref(), Some("53100"));
    assert_eq!(code("CHECKPOINT"), "53100");
    assert_eq!(code("SELECT count(*) FROM u"), "Ok(())");
}
