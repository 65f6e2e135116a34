//! `nearfar sql`: statements from everywhere, rows in every format, errors with their place.

use std::fs;

use crate::support::{csv, files_in, run, run_in, run_with_input, temp};

const ROWS: &str = "SELECT * FROM (VALUES (1, 'x', NULL, 1.50), (22, 'y, \"z\"', true, -3.25)) \
                    AS t(a, b, c, d) ORDER BY a";

#[test]
fn rows_as_table_csv_and_json() {
    let table = run(["sql", "-c", ROWS]).succeeded();
    let expected = "  a | b      | c    |     d
----+--------+------+-------
  1 | x      | NULL |  1.50
 22 | y, \"z\" | true | -3.25
(2 rows)
";
    assert_eq!(table, expected);
    assert_eq!(
        csv(ROWS),
        "a,b,c,d\n1,x,,1.50\n22,\"y, \"\"z\"\"\",true,-3.25\n"
    );
    let json = run(["sql", "--format", "json", "-c", ROWS]).succeeded();
    let rows: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["a"], 1);
    assert!(rows[0]["c"].is_null() && rows[0].get("c").is_some());
    assert_eq!(rows[1]["b"], "y, \"z\"");
}

#[test]
fn an_empty_result_keeps_its_header() {
    assert_eq!(csv("SELECT 1 AS a WHERE false"), "a\n");
    let table = run(["sql", "-c", "SELECT 1 AS a WHERE false"]).succeeded();
    assert_eq!(table, " a\n---\n(0 rows)\n");
}

#[test]
fn statements_from_arguments_files_and_stdin() {
    let folder = temp();
    let script = folder.path().join("script.sql");
    fs::write(&script, "SELECT\n  b\nFROM t;\n\\f json\nSELECT b FROM t").expect("written");
    let script = script.to_str().expect("UTF-8");
    let create = "CREATE TABLE t AS SELECT 7 AS b; INSERT INTO t VALUES (8)";
    let ran = run([
        "sql",
        "--format",
        "csv",
        "-c",
        create,
        "-c",
        "SELECT 1 AS a",
        "-f",
        script,
    ]);
    assert_eq!(ran.succeeded(), "a\n1\nb\n7\n8\n{\"b\":7}\n{\"b\":8}\n");
    let ran = run_with_input(
        ["sql", "--format", "csv"],
        "SELECT 1 AS a;\nSELECT ';' AS b",
    );
    assert_eq!(ran.succeeded(), "a\n1\nb\n;\n");
    let ran = run_with_input(["sql", "--format", "csv"], "SELECT 1 AS a;\n\\q\nnonsense");
    assert_eq!(ran.succeeded(), "a\n1\n");
}

#[test]
fn a_script_ends_at_its_first_error() {
    let ran = run_with_input(
        ["sql", "--format", "csv"],
        "SELECT 1 AS a;\nSELECT x;\nSELECT 2;\n",
    );
    assert_eq!(ran.stdout, "a\n1\n");
    ran.failed(5, &["'x' not found", "  | SELECT x;\n  |        ^"]);
    let ran = run(["sql", "-c", "SELECT 1 FROM nowhere", "-c", "SELECT 2"]);
    assert_eq!(ran.stdout, "");
    ran.failed(5, &["'nowhere' not found"]);
}

#[test]
fn errors_show_their_place_in_the_script() {
    let folder = temp();
    fs::write(
        folder.path().join("a.sql"),
        "SELECT 1;\n\nSELECT 2 +\n  );\n",
    )
    .expect("written");
    let ran = run_in(folder.path(), ["sql", "-f", "a.sql"]);
    ran.failed(5, &["syntax error", "--> a.sql:4:", "  |   );\n  |   ^"]);
    run_in(folder.path(), ["sql", "-f", "b.sql"]).failed(4, &["b.sql", "No such file"]);
}

#[test]
fn output_is_whole_or_not_there() {
    let folder = temp();
    let path = folder.path();
    let written =
        |arguments: &[&str]| run_in(path, [&["sql", "--format", "csv"], arguments].concat());
    written(&["-o", "a.csv", "-c", "SELECT 1 AS a", "-c", "SELECT 2 AS b"]).succeeded();
    assert_eq!(
        fs::read_to_string(path.join("a.csv")).expect("read"),
        "a\n1\nb\n2\n"
    );
    written(&[
        "-o",
        "b.csv",
        "-c",
        "SELECT 1 AS a",
        "-c",
        "SELECT nonsense",
    ])
    .failed(5, &[]);
    assert_eq!(files_in(path), ["a.csv"]);
    let ran = run_in(
        path,
        [
            "sql",
            "--format",
            "parquet",
            "-c",
            "SELECT 1 AS a",
            "-o",
            "a.parquet",
        ],
    );
    ran.succeeded();
    let twice = "SELECT 1 AS a; SELECT 2 AS a";
    let ran = run_in(
        path,
        ["sql", "--format", "parquet", "-c", twice, "-o", "b.parquet"],
    );
    ran.failed(2, &["one query"]);
    assert_eq!(files_in(path), ["a.csv", "a.parquet"]);
    assert_eq!(
        run_in(path, ["sql", "a.parquet", "-c", "SELECT * FROM a"]).succeeded(),
        " a\n---\n 1\n(1 row)\n"
    );
}

#[test]
fn commands_of_the_shell_work_in_scripts() {
    let folder = temp();
    fs::write(
        folder.path().join("inner.sql"),
        "SELECT 5 AS inner_value;\n",
    )
    .expect("written");
    let script = "CREATE TABLE t AS SELECT 1 AS a, 'x' AS b;\n\\d\n\\dt\n\\d t\n\\db\n\\timing on\n\
                  \\o out.csv\n\\f csv\n\\i inner.sql\n\\o\n\\d nowhere\n";
    fs::write(folder.path().join("outer.sql"), script).expect("written");
    let ran = run_in(
        folder.path(),
        ["sql", "--profile", "cxl-blades-1", "-f", "outer.sql"],
    );
    assert_eq!(ran.code, 5, "{ran:?}");
    for part in [
        "base table",
        "near_mib",
        "nullable",
        "capacity_gib",
        "modelled",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    for part in ["Timing is on.", "Time: ", "named nowhere"] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    let out = fs::read_to_string(folder.path().join("out.csv")).expect("read");
    assert_eq!(out, "inner_value\n5\n");
}

#[test]
fn tables_go_where_they_are_sent() {
    let script = "SELECT placement, far_bytes > 0 AS is_far FROM nearfar.tables \
                  WHERE table_name = 'region'";
    let arguments = [
        "sql",
        "--format",
        "csv",
        "--profile",
        "cxl-blades-1",
        "--tpch",
        "0.001",
    ];
    let ran = run([&arguments[..], &["--tablespace", "far", "-c", script]].concat());
    assert_eq!(ran.succeeded(), "placement,is_far\nfar,true\n");
    let moved = "ALTER TABLE region SET TABLESPACE far";
    let ran = run([&arguments[..], &["-c", moved, "-c", script]].concat());
    assert_eq!(ran.succeeded(), "placement,is_far\nfar,true\n");
}

#[test]
fn timing_tells_what_was_read_from_each_tier() {
    let arguments = [
        "sql",
        "--profile",
        "cxl-blades-1",
        "--tpch",
        "0.001",
        "--tablespace",
        "far",
    ];
    let ran = run([
        &arguments[..],
        &["--timing", "-c", "SELECT sum(l_tax) FROM lineitem"],
    ]
    .concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stderr.starts_with("Time: ") && ran.stderr.contains("; read far "),
        "{ran:?}"
    );
    let explain = "EXPLAIN ANALYZE SELECT sum(l_tax) FROM lineitem";
    let ran = run([&arguments[..], &["-c", explain]].concat()).succeeded();
    assert!(ran.contains("bytes_read_far="), "{ran}");
}

#[test]
fn cells_of_any_size_are_printed() {
    let ran = run([
        "sql",
        "-c",
        "SELECT repeat('ab', 5000) AS wide, 'ß\t\n' AS odd",
    ])
    .succeeded();
    assert!(
        ran.contains(&"ab".repeat(5000)) && ran.contains("ß\\t"),
        "{ran}"
    );
}

#[test]
fn a_script_that_includes_itself_is_an_error() {
    let folder = temp();
    let script = "SELECT 1 AS a;\n\\i again.sql\n";
    fs::write(folder.path().join("again.sql"), script).expect("written");
    let arguments = [
        "sql",
        "--format",
        "csv",
        "-f",
        "again.sql",
        "-o",
        "rows.csv",
    ];
    let ran = run_in(folder.path(), arguments);
    ran.failed(5, &["again.sql: more than 32 scripts within each other"]);
    assert_eq!(files_in(folder.path()), ["again.sql"]);
}
