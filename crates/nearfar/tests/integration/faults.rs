//! Full disks and readers that go away.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Ran, SmallDisk, environment, files_in, program, run, temp};

/// Runs the program where no file may become larger than 8 KiB, which fails as a full disk does:
/// in the middle of a write.
fn run_on_a_small_disk(folder: &Path, arguments: &str) -> Ran {
    let script = format!("trap '' XFSZ; ulimit -f 16; exec \"$0\" {arguments}");
    let mut command = Command::new("sh");
    environment(&mut command)
        .args(["-c", &script, env!("CARGO_BIN_EXE_nearfar")])
        .current_dir(folder);
    command
        .stdin(Stdio::null())
        .output()
        .expect("started")
        .into()
}

#[test]
fn a_full_disk_leaves_no_half_report() {
    let folder = temp();
    let arguments = "tpch --sf 0.001 --queries 1,6 --runs 1 --placement far";
    let ran = run_on_a_small_disk(folder.path(), arguments);
    ran.failed(7, &["cannot write nearfar-tpch.html: File too large"]);
    assert!(
        ran.stdout.contains("geomean"),
        "the results are not lost with the report: {ran:?}"
    );
    assert_eq!(files_in(folder.path()), [""; 0]);

    let report = folder.path().join("nearfar-tpch.html");
    fs::write(&report, "the one of yesterday").expect("written");
    run_on_a_small_disk(folder.path(), arguments).failed(7, &[]);
    assert_eq!(
        fs::read_to_string(report).expect("read"),
        "the one of yesterday"
    );
}

#[test]
fn a_full_disk_leaves_no_half_results() {
    let folder = temp();
    for format in ["csv", "json", "table", "parquet"] {
        let query = "SELECT value, value % 9973 * value AS n FROM generate_series(1, 20000)";
        let arguments = format!("sql --format {format} -o rows -c '{query}'");
        let ran = run_on_a_small_disk(folder.path(), &arguments);
        ran.failed(7, &["cannot write rows: File too large"]);
        assert_eq!(files_in(folder.path()), [""; 0], "{format}");
    }
}

#[test]
fn full_devices_are_told_and_stay_devices() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let query = ["sql", "-c", "SELECT 1"];
    run([&query[..], &["-o", "/dev/full"]].concat())
        .failed(7, &["cannot write /dev/full: No space"]);
    let device = fs::File::options().write(true).open(full).expect("opened");
    let ran: Ran = program()
        .args(query)
        .stdout(device)
        .output()
        .expect("started")
        .into();
    ran.failed(7, &["cannot write to standard output: No space"]);
    assert!(!fs::metadata(full).expect("there").is_file());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for format in ["table", "csv", "json", "parquet"] {
        let query =
            "SELECT value, value % 7 AS a, value * value AS b FROM generate_series(1, 500000)";
        let mut command = program();
        command.args(["sql", "--format", format, "-c", query]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut stdout = child.stdout.take().expect("a pipe");
        stdout.read_exact(&mut [0; 64]).expect("some output");
        drop(stdout);
        let ran: Ran = child.wait_with_output().expect("ended").into();
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{format}");
    }
}

#[test]
fn a_full_disk_fails_the_query_that_spills_and_is_named() {
    let Some(disk) = SmallDisk::mount(1024) else {
        return;
    };
    let folder = disk.path().display().to_string();
    let sort =
        "SELECT count(*), sum(r) FROM (SELECT row_number() OVER (ORDER BY s, k) AS r FROM t)";
    let table = "CREATE TABLE t AS SELECT value AS k, 'text ' || (value * 7919 % 100003) AS s \
                 FROM generate_series(1, 600000); SET memory_limit = '32MiB'";
    let mut command = program();
    command.env("TMPDIR", &folder).args(["sql", "-c"]);
    let ran: Ran = command
        .arg(format!("{table}; {sort}"))
        .output()
        .expect("started")
        .into();
    ran.failed(7, &["No space left on device", &folder, "make room"]);
    assert_eq!(files_in(disk.path()), [""; 0], "nothing is left");
}
