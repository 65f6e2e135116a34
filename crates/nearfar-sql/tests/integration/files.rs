//! Tables from files and to files.

use super::support::{error, region_bytes, run, two_tiers, value};
use nearfar_sql::load::{FileFormat, file_plan};
use nearfar_sql::scan::table_of;
use nearfar_table::table::Order;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const ROWS: &str = "SELECT CAST(value AS INT) AS id, 'name ' || (value % 7) AS name,
                           CAST(value AS DECIMAL(12, 2)) AS price, DATE '2024-01-01' AS day
                    FROM generate_series(1, 20000)";
const SUMS: &str =
    "SELECT count(*) AS c, sum(id) AS i, min(name) AS a, max(name) AS z, sum(price) AS p,
                           min(day) AS d FROM";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_format_goes_out_and_comes_in() {
    let (folder, session) = (folder(), two_tiers().session());
    run(&session, &format!("CREATE TABLE t AS {ROWS}")).await;
    let expected = run(&session, &format!("{SUMS} t")).await;
    for format in ["parquet", "csv", "arrow"] {
        let file = path(&folder, &format!("t.{format}"));
        assert_eq!(
            run(&session, &format!("COPY t TO '{file}'")).await,
            "COPY 20000"
        );
        let columns = "(id INT, name VARCHAR, price DECIMAL(12, 2), day DATE)";
        let copied = format!("CREATE OR REPLACE TABLE copied {columns}; COPY copied FROM '{file}'");
        assert_eq!(run(&session, &copied).await, "CREATE TABLE\nINSERT 20000");
        assert_eq!(
            run(&session, &format!("{SUMS} copied")).await,
            expected,
            "{format}"
        );
        let external = format!(
            "CREATE EXTERNAL TABLE e_{format} {} STORED AS {format} LOCATION '{file}'",
            if format == "csv" { columns } else { "" }
        );
        run(&session, &external).await;
        assert_eq!(
            run(&session, &format!("{SUMS} e_{format}")).await,
            expected,
            "{format}"
        );
        run(
            &session,
            &format!("CREATE OR REPLACE TABLE loaded TABLESPACE far AS SELECT * FROM e_{format}"),
        )
        .await;
        assert_eq!(
            run(&session, &format!("{SUMS} loaded")).await,
            expected,
            "{format}"
        );
        let message = error(
            &session,
            &format!("ALTER TABLE e_{format} SET TABLESPACE far"),
        )
        .await;
        assert!(message.contains("not a table in memory"), "{message}");
        run(&session, &format!("DROP TABLE e_{format}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_of_csv() {
    let (folder, session) = (folder(), two_tiers().session());
    let file = path(&folder, "rows.txt");
    fs::write(&file, "1|a\n2|b\n").expect("a file");
    run(&session, "CREATE TABLE t (a INT, b VARCHAR)").await;
    let copy = format!("COPY t FROM '{file}' (FORMAT csv, HEADER false, DELIMITER '|')");
    assert_eq!(run(&session, &copy).await, "INSERT 2");
    assert_eq!(
        value(&session, "SELECT string_agg(b, '' ORDER BY a) FROM t").await,
        "ab"
    );
    for (sql, part) in [
        (
            format!("COPY t FROM '{file}'"),
            "names no format by its ending",
        ),
        (
            format!("COPY t FROM '{file}' (FORMAT xml)"),
            "parquet, csv and arrow are read",
        ),
        (
            format!("COPY t (a) FROM '{file}'"),
            "a list of columns is not supported",
        ),
        ("COPY t FROM STDIN".to_owned(), "STDIN"),
    ] {
        let message = error(&session, &sql).await;
        assert!(message.contains(part), "{sql}: {message}");
    }
}

/// A Parquet file of some rows.
async fn parquet(folder: &TempDir) -> String {
    let file = path(folder, "good.parquet");
    run(
        &two_tiers().session(),
        &format!("COPY ({ROWS}) TO '{file}'"),
    )
    .await;
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_files_are_named_and_leave_nothing() {
    let (folder, engine) = (folder(), two_tiers());
    let session = engine.session();
    run(
        &session,
        "CREATE TABLE t (id INT, name VARCHAR, price DECIMAL(12, 2), day DATE)",
    )
    .await;
    let bytes = fs::read(parquet(&folder).await).expect("a file");
    let mut flipped = bytes.clone();
    flipped[4..400].fill(0xAB);
    for (name, contents) in [
        ("truncated.parquet", &bytes[..bytes.len() / 2]),
        ("short.parquet", &bytes[..3]),
        ("wrong.parquet", b"id,name\n1,one\n" as &[u8]),
        ("flipped.parquet", &flipped[..]),
    ] {
        let file = path(&folder, name);
        fs::write(&file, contents).expect("a file");
        let message = error(&session, &format!("COPY t FROM '{file}'")).await;
        assert!(message.contains(name), "{message}");
        let load = format!(
            "CREATE EXTERNAL TABLE {0}_e STORED AS PARQUET LOCATION '{file}';
             CREATE TABLE {0}_t AS SELECT * FROM {0}_e",
            name.split_once('.').expect("an ending").0
        );
        let message = error(&session, &load).await;
        assert!(message.contains(name), "{message}");
        let plan = file_plan(Path::new(&file), FileFormat::Parquet, 2).await;
        assert!(plan.is_err() || name == "flipped.parquet", "{name}");
    }
    let missing = path(&folder, "missing.parquet");
    for sql in [
        format!("COPY t FROM '{missing}'"),
        format!("CREATE EXTERNAL TABLE m STORED AS PARQUET LOCATION '{missing}'"),
    ] {
        let message = error(&session, &sql).await;
        assert!(message.contains("missing.parquet"), "{sql}: {message}");
    }
    assert_eq!(value(&session, "SELECT count(*) FROM t").await, "0");
    assert_eq!(region_bytes(&engine), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_do_not_fit_are_told() {
    let (folder, session) = (folder(), two_tiers().session());
    let file = parquet(&folder).await;
    run(
        &session,
        "CREATE TABLE two (a INT, b INT); CREATE TABLE four (a INT, b INT, c INT, d INT)",
    )
    .await;
    let message = error(&session, &format!("COPY two FROM '{file}'")).await;
    assert!(
        message.contains("it has 4 columns, but table `two` has 2"),
        "{message}"
    );
    let message = error(&session, &format!("COPY four FROM '{file}'")).await;
    assert!(message.contains("for type integer: \"name "), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_keep_the_order_of_their_file() {
    let (folder, session) = (folder(), two_tiers().session());
    let file = path(&folder, "sorted.parquet");
    let out =
        format!("COPY ({ROWS} ORDER BY id) TO '{file}' OPTIONS ('format.max_row_group_size' 1000)");
    run(&session, &out).await;
    let load = format!(
        "SET datafusion.optimizer.repartition_file_min_size = 1;
         CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '{file}';
         CREATE TABLE t AS SELECT * FROM e"
    );
    run(&session, &load).await;
    let provider = session
        .context()
        .table_provider("t")
        .await
        .expect("a table");
    let table = table_of(provider.as_ref()).expect("in memory").snapshot();
    assert!(table.main().len() > 1, "one partition only");
    assert_eq!(table.summary().columns[0].order, Order::Rising);
}
