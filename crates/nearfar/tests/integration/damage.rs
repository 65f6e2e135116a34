//! Damaged files of every kind that the program reads: each run ends in what a whole file gives, or in
//! a documented exit code. None panics, and none is killed: not for memory either, of which there is
//! little more than a whole file needs.
//!
//! A few places of each file are tried in every run, which `NEARFAR_DAMAGE` multiplies: `1000` tries
//! every byte of most of them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Ran, environment, files_in, program, run_in, run_with_input, temp};

/// Address space of a run.
const MEMORY_KIB: u64 = 8 << 20;

/// A kind of file.
struct Kind {
    name: &'static str,
    /// Makes such files in a folder.
    make: fn(&Path),
    /// The one of them that is damaged.
    file: fn(&Path) -> PathBuf,
    /// What reads it, in that folder.
    arguments: &'static [&'static str],
    /// How it may end where the file is damaged.
    codes: &'static [i32],
    /// Whether its content has checksums: what is printed is right, or nothing is.
    is_checked: bool,
}

const COUNT: &str = "SELECT count(*) AS n, sum(a) AS a, max(b) AS b FROM t";
const POOL: &[&str] = &[
    "sql", "--format", "csv", "--pool", "pool", "--verify", "all", "-c", COUNT,
];
const DATA_AND_POOL: &[&str] = &[
    "sql",
    "--format",
    "csv",
    "--data",
    "data",
    "--pool",
    "pool",
    "--pool-bytes",
    "4MiB",
    "-c",
    COUNT,
];
const TABLE: &str =
    "CREATE TABLE t AS SELECT value AS a, 'row ' || value AS b FROM generate_series(1, 500)";

#[expect(clippy::too_many_lines, reason = "a table")]
fn kinds() -> Vec<Kind> {
    let foreign = |name, make, file, arguments| Kind {
        name,
        make,
        file,
        arguments,
        codes: &[0, 4, 5],
        is_checked: false,
    };
    let own = |name, file, arguments| Kind {
        name,
        make: make_data,
        file,
        arguments,
        codes: &[0, 4],
        is_checked: true,
    };
    let data: &[&str] = &["sql", "--format", "csv", "--data", "data", "-c", COUNT];
    vec![
        foreign(
            "parquet",
            make_files,
            |folder| folder.join("t.parquet"),
            &["sql", "t.parquet", "-c", COUNT],
        ),
        foreign(
            "arrow",
            make_files,
            |folder| folder.join("t.arrow"),
            &["sql", "t.arrow", "-c", COUNT],
        ),
        foreign(
            "csv",
            make_files,
            |folder| folder.join("t.csv"),
            &["sql", "t.csv", "-c", COUNT],
        ),
        own("identity", |folder| folder.join("data/NEARFAR"), data),
        own("lock", |folder| folder.join("data/LOCK"), data),
        own(
            "manifest",
            |folder| first(&folder.join("data/savepoint"), "savepoint-"),
            data,
        ),
        own(
            "segment",
            |folder| first(&folder.join("data/savepoint/segments"), ""),
            data,
        ),
        // What is damaged at its end was never acknowledged, as far as the log knows: the transactions
        // before are there, which `durability::damage` of the store checks.
        Kind {
            make: make_log,
            codes: &[0, 4, 5],
            is_checked: false,
            ..own("log", |folder| first(&folder.join("data/log"), "0"), data)
        },
        // Without a directory there is nothing else that has its rows.
        Kind {
            make: make_pool,
            ..own("pool", |folder| folder.join("pool"), POOL)
        },
        Kind {
            make: make_data_and_pool,
            ..own(
                "pool of a directory",
                |folder| folder.join("pool"),
                DATA_AND_POOL,
            )
        },
        Kind {
            make: make_data_and_pool,
            ..own(
                "term",
                |folder| first(&folder.join("data/log"), "term-").join("BEGIN"),
                DATA_AND_POOL,
            )
        },
        Kind {
            name: "profile",
            make: make_profile,
            file: |folder| folder.join("p.toml"),
            arguments: &["profiles", "p.toml"],
            codes: &[0, 3, 4],
            is_checked: false,
        },
        Kind {
            name: "specification",
            make: make_specification,
            file: |folder| folder.join("s.toml"),
            arguments: &["measure", "s.toml", "--dry-run"],
            codes: &[0, 2, 3, 4, 6],
            is_checked: false,
        },
        Kind {
            name: "results",
            make: make_results,
            file: |folder| folder.join("r.jsonl"),
            arguments: &["measure", "report", "r.jsonl", "-o", "r.html"],
            codes: &[0, 4],
            is_checked: false,
        },
        Kind {
            name: "results as Parquet",
            make: make_results,
            file: |folder| folder.join("r.parquet"),
            arguments: &["measure", "report", "r.parquet", "-o", "r.html"],
            codes: &[0, 4],
            is_checked: false,
        },
        Kind {
            name: "users",
            make: make_users,
            file: |folder| folder.join("users"),
            // It ends immediately where users can be read: the port is no number of a port it may have.
            arguments: &[
                "serve",
                "--users",
                "users",
                "--port",
                "1",
                "--listen",
                "192.0.2.1",
                "--no-http",
            ],
            codes: &[4, 9],
            is_checked: false,
        },
    ]
}

/// The first file whose name begins so.
fn first(folder: &Path, prefix: &str) -> PathBuf {
    let names = files_in(folder).into_iter();
    let mut found = names.filter(|name| name.starts_with(prefix));
    folder.join(found.next().expect("a file"))
}

fn sql(folder: &Path, arguments: &[&str]) {
    let ran = run_in(folder, [&["sql"], arguments].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn make_files(folder: &Path) {
    let copies = "COPY t TO 't.parquet'; COPY t TO 't.arrow' STORED AS ARROW; \
                  COPY t TO 't.csv' STORED AS CSV OPTIONS ('format.has_header' 'true')";
    sql(folder, &["-c", TABLE, "-c", copies]);
}

fn make_data(folder: &Path) {
    sql(folder, &["--data", "data", "-c", TABLE]);
}

fn make_pool(folder: &Path) {
    sql(
        folder,
        &["--pool", "pool", "--pool-bytes", "4MiB", "-c", TABLE],
    );
}

fn make_data_and_pool(folder: &Path) {
    let both = ["--data", "data", "--pool", "pool", "--pool-bytes", "4MiB"];
    sql(folder, &[&both[..], &["-c", TABLE]].concat());
}

/// A data directory whose rows are in the log: its process was killed.
fn make_log(folder: &Path) {
    let mut command = program();
    command.args(["sql", "--format", "csv", "--data", "data"]);
    command.current_dir(folder).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
    let mut input = child.stdin.take().expect("a pipe");
    let insert = "INSERT INTO t VALUES (501, 'one more'); SELECT 'there' AS told;\n";
    let text = format!("{TABLE};\n{insert}");
    input.write_all(text.as_bytes()).expect("sent");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut lines = output.lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "there"), "it has ended");
    child.kill().expect("killed");
    child.wait().expect("ended");
}

fn make_profile(folder: &Path) {
    let shown = run_in(folder, ["profiles", "--format", "json"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    let profiles = crate::support::workspace().join("crates/nearfar-topology/profiles");
    let profile = first(&profiles, "cxl-blades-1");
    fs::copy(profile, folder.join("p.toml")).expect("copied");
}

fn make_specification(folder: &Path) {
    let shown = run_in(folder, ["measure", "presets", "latency"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    fs::write(folder.join("s.toml"), shown.stdout).expect("written");
}

fn make_results(folder: &Path) {
    let measure = [
        "measure",
        "--virtual",
        "--profile",
        "cxl-blades-1",
        "--lines",
        "64",
    ];
    for file in ["r.jsonl", "r.parquet"] {
        let ran = run_in(
            folder,
            [&measure[..], &["--repetitions", "1", "-o", file]].concat(),
        );
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

fn make_users(folder: &Path) {
    let file = folder.join("users");
    let add = [
        "serve",
        "user",
        "add",
        "ann",
        "--file",
        file.to_str().expect("UTF-8"),
    ];
    run_with_input(add, "secret\n").succeeded();
}

/// Runs the program in `folder` with so much memory.
fn run_bounded(folder: &Path, arguments: &[&str]) -> Ran {
    let script = format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    environment(&mut command)
        .args(["-c", &script, env!("CARGO_BIN_EXE_nearfar")])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null());
    // Panics if it was killed by a signal.
    command.output().expect("started").into()
}

/// What is done to a file of so many bytes: cut, flipped, and overwritten.
fn damages(whole: &[u8], places: &[usize]) -> Vec<(String, Vec<u8>)> {
    let mut damages = vec![("nothing is left".to_owned(), Vec::new())];
    for (index, place) in places.iter().copied().enumerate() {
        let bytes = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = whole.to_vec();
            change(&mut bytes);
            bytes
        };
        let word = [[0xff; 4], [0; 4], [0xff, 0xff, 0xff, 0x7f]][index % 3];
        damages.push((format!("cut at {place}"), whole[..place].to_vec()));
        damages.push((
            format!("flipped at {place}"),
            bytes(&|all| all[place] ^= 1 << (index % 8)),
        ));
        damages.push((
            format!("{word:x?} at {place}"),
            bytes(&|all| {
                let end = (place + word.len()).min(all.len());
                all[place..end].copy_from_slice(&word[..end - place]);
            }),
        ));
    }
    damages
}

/// Places all over a file, and at its end, where formats say what there is.
fn places(len: usize) -> Vec<usize> {
    let times = std::env::var("NEARFAR_DAMAGE").ok();
    let times: usize = times.and_then(|times| times.parse().ok()).unwrap_or(1);
    let spread = (0..3 * times).map(|index| index * len / (3 * times));
    let tail = [5, 7, 10].map(|back| len.saturating_sub(back));
    let mut places: Vec<usize> = spread.chain(tail).filter(|place| *place < len).collect();
    places.sort_unstable();
    places.dedup();
    places
}

#[test]
fn every_kind_of_file_may_be_damaged() {
    for kind in kinds() {
        let made = temp();
        (kind.make)(made.path());
        let right = run_copy(&kind, made.path(), |_| {});
        assert!(kind.codes.contains(&right.code), "{}: {right:?}", kind.name);
        let whole = fs::read((kind.file)(made.path())).expect("read");
        for (what, bytes) in damages(&whole, &places(whole.len())) {
            let ran = run_copy(&kind, made.path(), |file| {
                fs::write(file, &bytes).expect("written");
            });
            let told = format!("{}, {what}: {ran:?}", kind.name);
            assert!(kind.codes.contains(&ran.code), "{told}");
            assert!(!ran.stderr.contains("panicked"), "{told}");
            assert!(ran.code == 0 || ran.stderr.contains("error: "), "{told}");
            if kind.is_checked && ran.code == 0 {
                assert_eq!(ran.stdout, right.stdout, "{told}");
            }
        }
    }
}

/// Runs what reads the file in a copy of the folder, after `change`.
fn run_copy(kind: &Kind, made: &Path, change: impl FnOnce(&Path)) -> Ran {
    let folder = temp();
    let copied = Command::new("cp")
        .arg("-a")
        .arg(made.join("."))
        .arg(folder.path())
        .status();
    assert!(copied.expect("cp").success());
    change(&(kind.file)(folder.path()));
    run_bounded(folder.path(), kind.arguments)
}
