//! Rows that compiled statements read, add, or of which they change some columns, held against the same statements, planned.

use std::collections::BTreeMap;

use arrow::util::pretty::pretty_format_batches;
use datafusion::scalar::ScalarValue;
use nearfar_sql::engine::{Immediate, ReadyRows, Session, StatementResult};
use nearfar_sql::sql::Statement;
use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::support::{engine, run, try_run, value};

/// Of all encodings: texts that are alike and texts that are not, numbers, what is stored as it comes, and nulls.
const T: &str = "CREATE TABLE t (k BIGINT PRIMARY KEY, i INT, n DECIMAL(12, 2), d DATE, f DOUBLE PRECISION, \
                 b BOOLEAN, few VARCHAR, many VARCHAR, w CHAR(5), u BIGINT NOT NULL UNIQUE, x INT UNIQUE, \
                 s SMALLINT, at TIMESTAMP, z TIMESTAMPTZ, r REAL); \
                 CREATE INDEX ON t (few, k DESC); CREATE INDEX ON t (i)";

/// Texts of rows, as they are compared.
const ALL: &str = "SELECT string_agg(concat_ws('|', k, i, n, d, f, b, few, many, '<' || w || '>', u, x, s, at, z, r), E'\\n' \
                   ORDER BY k) FROM t";

/// Rows as they are, in no order.
const ROWS: &str = "SELECT * FROM t WHERE k >= $1 AND k <= $2";

const KEYS: i64 = 12;

/// What is done to a row, and how that is written.
#[derive(Debug, Clone, Copy)]
enum Change {
    Integer,
    Decimal,
    Float,
    Boolean,
    Few,
    Many,
    Padded,
    Unique,
    Nullable,
    Key,
    Several,
    Insert,
    InsertSome,
    InsertTooLong,
    Delete,
}

impl Change {
    const ALL: [Self; 15] = [
        Self::Integer,
        Self::Decimal,
        Self::Float,
        Self::Boolean,
        Self::Few,
        Self::Many,
        Self::Padded,
        Self::Unique,
        Self::Nullable,
        Self::Key,
        Self::Several,
        Self::Insert,
        Self::InsertSome,
        Self::InsertTooLong,
        Self::Delete,
    ];

    /// With the key as the first parameter, and a number as the second.
    fn sql(self) -> &'static str {
        match self {
            Self::Integer => "UPDATE t SET i = i + $2 WHERE k = $1",
            Self::Decimal => "UPDATE t SET n = n + $2 WHERE k = $1",
            Self::Float => "UPDATE t SET f = -0.0 * $2 WHERE k = $1",
            Self::Boolean => "UPDATE t SET b = $2 > 3 WHERE k = $1",
            Self::Few => {
                "UPDATE t SET few = CASE WHEN $2 > 3 THEN 'more' ELSE NULL END WHERE k = $1"
            }
            Self::Many => {
                "UPDATE t SET many = CASE WHEN $2 > 5 THEN 'a text that no view has room for' ELSE 'short' END \
                 WHERE k = $1"
            }
            Self::Padded => "UPDATE t SET w = 'ab   ' WHERE k = $1 AND i <> $2",
            Self::Unique => "UPDATE t SET u = 1000 + $1 - $2 * 100 WHERE k = $1",
            Self::Nullable => {
                "UPDATE t SET x = CASE WHEN $2 > 3 THEN $2 ELSE NULL END WHERE k = $1"
            }
            Self::Key => "UPDATE t SET k = k + 1 WHERE k >= $1 AND k <= $2",
            Self::Insert => {
                "INSERT INTO t VALUES ($1, $2, $2, DATE '2024-02-03', $2, $2 > 3, NULL, \
                 'a text that no view has room for', 'ab    ', 5000 + $1, NULL, $2, '2024-02-03 04:05:06', '2024-02-03 04:05:06+02', $2)"
            }
            Self::InsertSome => "INSERT INTO t (u, k, n, few) VALUES (6000 + $2, $1, 1.005, 'few')",
            Self::InsertTooLong => "INSERT INTO t (k, u, w) VALUES ($1, $2, 'abcdef')",
            Self::Delete => "DELETE FROM t WHERE k = $1 AND i <> $2",
            Self::Several => "UPDATE t SET i = $2, few = many WHERE k >= $1 AND k <= $1 + 2",
        }
    }
}

/// What happens beside changes.
#[derive(Debug, Clone, Copy)]
enum Step {
    Change(Change, i64, Option<i32>),
    Begin,
    Commit,
    RollBack,
    Merge,
    Savepoint,
    RollBackTo,
}

fn step() -> impl Strategy<Value = Step> {
    let number = prop::option::weighted(0.9, 0..9_i32);
    let change = (prop::sample::select(&Change::ALL[..]), 0..KEYS, number);
    prop_oneof![
        8 => change.prop_map(|(change, key, number)| Step::Change(change, key, number)),
        1 => Just(Step::Begin),
        1 => Just(Step::Commit),
        1 => Just(Step::RollBack),
        1 => Just(Step::Merge),
        1 => Just(Step::Savepoint),
        1 => Just(Step::RollBackTo),
    ]
}

/// Sessions of two engines: one runs changes as they were compiled, the other plans them.
struct Both {
    compiled: Session,
    planned: Session,
    statements: BTreeMap<&'static str, Statement>,
}

impl Both {
    async fn new() -> Self {
        let (compiled, planned) = (engine().session(), engine().session());
        for session in [&compiled, &planned] {
            run(session, T).await;
            run(
                session,
                "INSERT INTO t (k, i, n, d, f, b, few, many, w, u, x) SELECT v, CASE WHEN v % 4 > 0 THEN v * 3 END, v / 7.0, DATE '2024-01-01' + v::INT, v / 3.0, v % 2 = 0, \
                 'few ' || v % 3, 'a text of its own for ' || v * 977, 'w' || v % 2, 1000 + v, CASE WHEN v % 3 = 0 THEN NULL ELSE 100 + v END \
                 FROM generate_series(0, 11) AS g(v)",
            )
            .await;
            run(session, "CALL nearfar.merge('t')").await;
        }
        let mut statements = BTreeMap::new();
        for change in Change::ALL {
            let statement = compiled.read(change.sql()).expect("a statement").remove(0);
            let is_compiled = compiled.compile(&statement, &given(0, Some(0))).await;
            assert!(is_compiled.expect("a statement"), "{change:?} is planned");
            statements.insert(change.sql(), statement);
        }
        let rows = compiled.read(ROWS).expect("a query").remove(0);
        let is_compiled = compiled.compile(&rows, &range(0)).await;
        assert!(is_compiled.expect("a query"), "{ROWS} is planned");
        statements.insert(ROWS, rows);
        Self {
            compiled,
            planned,
            statements,
        }
    }

    /// Runs a statement with both, which agree on what it gives.
    async fn run(&self, sql: &str) {
        let compiled = try_run(&self.compiled, sql).await.ok();
        let planned = try_run(&self.planned, sql).await.ok();
        assert_eq!(compiled, planned, "{sql}");
    }

    /// Reads rows with both, which come value by value where they were compiled.
    async fn read(&self, key: i64) {
        let ran = self
            .compiled
            .run_immediately(&self.statements[ROWS], &range(key));
        let ran = ran.and_then(Immediate::wait);
        let [from, to] = range(key).map(|value| value.to_string());
        let sql = ROWS.replace("$1", &from).replace("$2", &to);
        match (ran, try_run(&self.planned, &sql).await) {
            (Ok(Some(StatementResult::Rows(mut rows))), Ok(planned)) => {
                let rows = rows.take_ready().expect("rows").expect("few rows");
                assert!(matches!(rows, ReadyRows::Packed(_)), "{rows:?}");
                let batch = rows.into_batch().expect("rows");
                let read = pretty_format_batches(&[batch]).expect("rows").to_string();
                assert_eq!(lines(&read), lines(&planned), "{sql}");
            }
            (Err(_), Err(_)) => {}
            (ran, planned) => panic!("{sql}: {ran:?}, but planned {planned:?}"),
        }
    }

    async fn change(&self, change: Change, key: i64, number: Option<i32>) {
        let statement = &self.statements[change.sql()];
        let given = given(key, number);
        let ran = self.compiled.run_immediately(statement, &given);
        let ran = match ran.and_then(Immediate::wait) {
            // A range that ends at a null is left to the planner, as for a client, and nothing else is.
            Ok(None) if matches!(change, Change::Key) && number.is_none() => {
                self.compiled.run_with(statement, &given).await.map(Some)
            }
            ran => ran,
        };
        let sql = change.sql().replace("$1", &format!("{key}::BIGINT"));
        let number = number.map_or_else(|| "NULL".to_owned(), |number| number.to_string());
        let sql = sql.replace("$2", &format!("{number}::INT"));
        let planned = try_run(&self.planned, &sql).await;
        match (ran, planned) {
            (Ok(Some(StatementResult::Command(tag))), Ok(planned)) => {
                assert_eq!(tag.to_string(), planned, "{sql}");
            }
            (Err(_), Err(_)) => {}
            (ran, planned) => panic!("{sql}: {ran:?}, but planned {planned:?}"),
        }
    }
}

/// Few rows from a key on.
fn range(key: i64) -> [ScalarValue; 2] {
    [key.into(), (key + 2).into()]
}

/// The rows of a table that is shown, without an order.
fn lines(shown: &str) -> Vec<&str> {
    let rows = shown.lines().filter(|line| line.starts_with('|')).skip(1);
    let mut lines: Vec<&str> = rows.collect();
    lines.sort_unstable();
    lines
}

fn given(key: i64, number: Option<i32>) -> [ScalarValue; 2] {
    [key.into(), number.into()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn columns_that_are_not_changed_stay_what_they_are(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let both = Both::new().await;
            for step in &steps {
                match step {
                    Step::Change(change, key, number) => {
                        both.change(*change, *key, *number).await;
                        both.read(*key).await;
                    }
                    Step::Begin => both.run("BEGIN").await,
                    Step::Commit => both.run("COMMIT").await,
                    Step::RollBack => both.run("ROLLBACK").await,
                    Step::Merge => both.run("CALL nearfar.merge('t')").await,
                    Step::Savepoint => both.run("SAVEPOINT s").await,
                    Step::RollBackTo => both.run("ROLLBACK TO s").await,
                }
                both.run(ALL).await;
            }
            both.run("ROLLBACK").await;
            both.run(ALL).await;
            for session in [&both.compiled, &both.planned] {
                run(session, "CALL nearfar.check('t')").await;
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimals_of_many_digits_are_kept() {
    let session = engine().session();
    run(
        &session,
        "CREATE TABLE t (k BIGINT PRIMARY KEY, a INT, d DECIMAL(50, 2))",
    )
    .await;
    run(&session, "INSERT INTO t VALUES (1, 1, 1.25), (2, 2, NULL)").await;
    let sql = "UPDATE t SET a = a + $2 WHERE k = $1";
    let statement = session.read(sql).expect(sql).remove(0);
    for merge in ["", "CALL nearfar.merge('t')", ""] {
        run(&session, merge).await;
        for key in [1, 2, 1] {
            session
                .compile(&statement, &given(key, Some(1)))
                .await
                .expect(sql);
            let ran = session.run_immediately(&statement, &given(key, Some(1)));
            let ran = ran.and_then(Immediate::wait).expect(sql);
            assert!(ran.is_some(), "{sql} is planned");
        }
    }
    let rows = "SELECT string_agg(concat_ws('|', k, a, d), ', ' ORDER BY k) FROM t";
    assert_eq!(value(&session, rows).await, "1|7|1.25, 2|5");
}
