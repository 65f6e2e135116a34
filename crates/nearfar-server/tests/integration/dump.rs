//! `pg_dump --schema-only` as it comes, and what it writes, loaded into another server.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::support::{Running, code, not_tested, start};

const SCHEMA: &str = r#"
CREATE SCHEMA shop;
CREATE TABLE customers (id BIGSERIAL PRIMARY KEY, name VARCHAR(40) NOT NULL, email VARCHAR UNIQUE, born DATE,
    CHECK (name <> ''));
CREATE TABLE shop.orders (id INT GENERATED ALWAYS AS IDENTITY (START WITH 100),
    customer BIGINT NOT NULL REFERENCES customers ON DELETE CASCADE, total DECIMAL(12, 2) DEFAULT 0.0,
    placed TIMESTAMP DEFAULT now(), tags TEXT[], CONSTRAINT orders_key PRIMARY KEY (id),
    CONSTRAINT sane CHECK (total >= 0));
CREATE TABLE lines ("order" INT, "Line No" SMALLINT, what VARCHAR, price REAL, weight DOUBLE PRECISION, ok BOOLEAN,
    raw BYTEA, PRIMARY KEY ("order", "Line No"),
    CONSTRAINT f FOREIGN KEY ("order") REFERENCES shop.orders (id) DEFERRABLE INITIALLY DEFERRED);
CREATE INDEX ON lines (what DESC, price);
CREATE UNIQUE INDEX by_born ON customers USING masstree (born, name);
CREATE SEQUENCE tickets INCREMENT BY 10 MAXVALUE 1000 CYCLE;
CREATE TABLE seats (ticket BIGINT DEFAULT nextval('tickets'), row CHAR(2));
CREATE VIEW big AS SELECT id, total FROM shop.orders WHERE total > 100;
CREATE VIEW a_few AS SELECT id FROM big LIMIT 3;
"#;

/// A program of PostgreSQL's, if it is installed.
fn program(name: &str) -> Option<PathBuf> {
    let found = Command::new(name).arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(name.into());
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin").join(name)));
    programs.filter(|program| program.is_file()).max()
}

/// Runs a program as a client of a server.
async fn run(program: PathBuf, server: &Running, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-U", "me", "-p"]);
    command.arg(server.address.port().to_string());
    command.args(arguments);
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    ran.expect("no panic").expect("started")
}

/// The statements of a dump, without what differs each time. Types of expressions are as they were written.
fn statements(dump: &str) -> String {
    let is_kept = |line: &&str| !line.starts_with("\\") && !line.starts_with("--");
    let kept = dump.lines().filter(is_kept).collect::<Vec<_>>().join("\n");
    kept.replace("::REGCLASS", "::regclass")
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_are_dumped_and_loaded_again() {
    let (Some(pg_dump), Some(psql)) = (program("pg_dump"), program("psql")) else {
        return not_tested("pg_dump or psql is not installed");
    };
    let (first, second) = (start().await, start().await);
    let client = first.client().await;
    client.batch_execute(SCHEMA).await.expect("created");
    let dump = async |server: &Running| {
        let output = run(pg_dump.clone(), server, &["--schema-only", "-d", "me"]).await;
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let dumped = dump(&first).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dump.sql");
    std::fs::write(&file, &dumped).expect("written");
    let file = file.to_string_lossy().into_owned();
    let load = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "me", "-f", &file];
    let loaded = run(psql, &second, &load).await;
    assert!(loaded.status.success(), "{loaded:?}\n{dumped}");
    assert_eq!(statements(&dump(&second).await), statements(&dumped));
    let client = second.client().await;
    let rows = "INSERT INTO customers (name) VALUES ('ann'); INSERT INTO shop.orders (customer, total) VALUES (1, 200);
                INSERT INTO lines (\"order\", \"Line No\") VALUES (100, 1); INSERT INTO seats (row) VALUES ('a')";
    client.batch_execute(rows).await.expect("inserted");
    let row = client.query_one("SELECT id FROM a_few", &[]).await;
    assert_eq!(row.expect("a row").get::<_, i32>(0), 100);
    for (wrong, expected) in [
        ("INSERT INTO customers (name) VALUES ('')", "23514"),
        (
            "INSERT INTO customers (id, name) VALUES (1, 'bob')",
            "23505",
        ),
        ("INSERT INTO shop.orders (customer) VALUES (7)", "23503"),
        (
            "INSERT INTO shop.orders (id, customer) VALUES (7, 1)",
            "428C9",
        ),
        (
            "INSERT INTO lines (\"order\", \"Line No\") VALUES (7, 1)",
            "23503",
        ),
        ("INSERT INTO customers (name) VALUES (NULL)", "23502"),
    ] {
        assert_eq!(code(client.batch_execute(wrong).await), expected, "{wrong}");
    }
}
