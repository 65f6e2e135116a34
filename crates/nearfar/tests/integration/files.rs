//! Files become tables and tables become files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::support::{files_in, run_in, temp};

/// A table of many types, with nulls.
const CREATE: &str = "CREATE TABLE original AS
    SELECT value AS id, value % 7 AS small, 'name ' || (value % 5) AS name,
           CAST(value AS DECIMAL(12, 2)) / 3 AS price, CAST(value AS DOUBLE) / 7 AS ratio,
           CASE WHEN value % 3 = 0 THEN NULL ELSE value % 2 = 0 END AS flag,
           CAST(CAST(value % 1000 AS INT) AS DATE) AS day,
           CAST(value AS TIMESTAMP) AS moment
    FROM generate_series(1, 5000)";
const ALL: &str = "ORDER BY id";

fn sql(folder: &Path, arguments: &[&str]) -> String {
    run_in(folder, [&["sql", "--format", "csv"], arguments].concat()).succeeded()
}

#[test]
fn tables_survive_every_format() {
    let folder = temp();
    let path = folder.path();
    let copies = "COPY original TO 'copy.parquet'; COPY original TO 'copy.arrow' STORED AS ARROW; \
                  COPY original TO 'copy.csv' STORED AS CSV OPTIONS ('format.has_header' 'true')";
    let written = sql(
        path,
        &[
            "-c",
            CREATE,
            "-c",
            copies,
            "-c",
            &format!("SELECT * FROM original {ALL}"),
        ],
    );
    let (_, original) = written.split_once("id,").expect("the header of the table");
    let original = format!("id,{original}");
    assert_eq!(original.lines().count(), 5001);
    let all = format!("SELECT * FROM copy {ALL}");
    for file in ["copy.parquet", "copy.arrow"] {
        assert_eq!(sql(path, &[file, "-c", &all]), original, "{file}");
    }
    // CSV has no types: what is read back has to print the same.
    let lines = |text: &str| text.lines().count();
    assert_eq!(
        lines(&sql(path, &["copy.csv", "-c", &all])),
        lines(&original)
    );
    let sum = "SELECT sum(id) AS ids, count(flag) AS flags, CAST(max(price) AS DECIMAL(12, 4)) AS price FROM";
    let sums = sql(path, &["copy.parquet", "-c", &format!("{sum} copy")]);
    assert_eq!(sql(path, &["copy.csv", "-c", &format!("{sum} copy")]), sums);
}

#[test]
fn rows_of_queries_are_tables_again() {
    let folder = temp();
    let path = folder.path();
    let query = "SELECT small, count(*) AS n FROM original GROUP BY small ORDER BY small";
    let direct = sql(path, &["-c", CREATE, "-c", query]);
    let arguments = [
        "sql",
        "--format",
        "parquet",
        "-o",
        "n.parquet",
        "-c",
        CREATE,
        "-c",
        query,
    ];
    run_in(path, arguments).succeeded();
    assert_eq!(
        sql(path, &["n.parquet", "-c", "SELECT * FROM n ORDER BY small"]),
        direct
    );
}

#[test]
fn folders_stand_for_their_files() {
    let folder = temp();
    let path = folder.path();
    fs::create_dir_all(path.join("data/b.csv")).expect("made");
    fs::write(path.join("data/a.csv"), "x,y\n1,one\n2,two\n").expect("written");
    fs::write(path.join("data/b.csv/part-0.csv"), "z\n1\n").expect("written");
    fs::write(path.join("data/b.csv/part-1.csv"), "z\n2\n").expect("written");
    fs::write(path.join("data/readme.txt"), "not a table").expect("written");
    let query = "SELECT (SELECT sum(z) FROM b) AS zs, max(y) AS y FROM a";
    assert_eq!(sql(path, &["data", "-c", query]), "zs,y\n3,two\n");
}

#[test]
fn external_tables_are_read_where_they_are() {
    let folder = temp();
    fs::write(folder.path().join("a.csv"), "x\n1\n2\n").expect("written");
    let create = "CREATE EXTERNAL TABLE a STORED AS CSV LOCATION 'a.csv' OPTIONS ('format.has_header' 'true')";
    assert_eq!(
        sql(
            folder.path(),
            &["-c", create, "-c", "SELECT sum(x) AS s FROM a"]
        ),
        "s\n3\n"
    );
}

#[test]
fn files_that_are_not_what_they_seem() {
    let folder = temp();
    let path = folder.path();
    sql(
        path,
        &["-c", CREATE, "-c", "COPY original TO 'whole.parquet'"],
    );
    let whole = fs::read(path.join("whole.parquet")).expect("read");
    fs::write(path.join("cut.parquet"), &whole[..whole.len() / 2]).expect("written");
    fs::write(path.join("text.parquet"), "this is no Parquet file").expect("written");
    fs::write(path.join("text.arrow"), "this is no Arrow file").expect("written");
    fs::write(path.join("empty.parquet"), "").expect("written");
    fs::write(path.join("torn.csv"), "a,b\n1,2\n3\n").expect("written");
    let mut torn = whole.clone();
    // The header of the first page.
    torn[4..36].fill(0xff);
    fs::write(path.join("torn.parquet"), &torn).expect("written");
    for file in [
        "cut.parquet",
        "text.parquet",
        "text.arrow",
        "empty.parquet",
        "torn.csv",
        "torn.parquet",
    ] {
        let ran = run_in(path, ["sql", file, "-c", "SELECT 1"]);
        ran.failed(4, &[file]);
        assert_eq!(
            (ran.stderr.lines().count(), ran.stdout.as_str()),
            (1, ""),
            "{ran:?}"
        );
    }
    for (file, told) in [
        ("none.parquet", "No such file"),
        ("notes.txt", "No such file"),
    ] {
        run_in(path, ["sql", file]).failed(4, &[file, told]);
    }
    fs::write(path.join("notes.txt"), "x").expect("written");
    run_in(path, ["sql", "notes.txt"]).failed(4, &["notes.txt", ".parquet"]);
    assert_eq!(files_in(path).len(), 8);
}

#[test]
fn a_file_without_a_readable_name_is_skipped_with_a_message() {
    let folder = temp();
    fs::write(folder.path().join("a.csv"), "x\n1\n").expect("written");
    let name = OsStr::from_bytes(b"b\xff.csv");
    if fs::write(folder.path().join(name), "x\n2\n").is_err() {
        // Not every file system takes such a name.
        return;
    }
    let ran = run_in(
        folder.path(),
        ["sql", ".", "--format", "csv", "-c", "SELECT * FROM a"],
    );
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "x\n1\n"), "{ran:?}");
    assert!(ran.stderr.starts_with("warning: skipped ./b"), "{ran:?}");
}
