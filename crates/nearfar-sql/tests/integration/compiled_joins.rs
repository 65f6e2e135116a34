//! Joins of rows that keys lead to: without being planned again they give what they give when they are planned.

use arrow::util::pretty::pretty_format_batches;
use datafusion::scalar::ScalarValue;
use nearfar_sql::engine::{Immediate, Session, StatementResult};
use nearfar_sql::sql::Statement;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any};
use proptest::test_runner::TestRunner;
use tokio::runtime::Runtime;

use super::support::{engine, error, run};

/// Orders, their lines, what they are of, and who has ordered: some of nobody, or of what is not there.
const TABLES: &str = "
    CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR, region INT);
    CREATE TABLE orders (id BIGINT PRIMARY KEY, customer INT, note CHAR(6));
    CREATE TABLE lines (o INT, n INT, item VARCHAR, amount DECIMAL(8, 2), PRIMARY KEY (o, n));
    CREATE TABLE items (code VARCHAR PRIMARY KEY, weight DOUBLE PRECISION, kind CHAR(6));
    CREATE INDEX of_customer ON orders (customer);
    CREATE INDEX of_item ON lines (item);
    CREATE INDEX of_kind ON items (kind);
    INSERT INTO customers SELECT v, 'name ' || v % 7, CASE WHEN v % 5 > 0 THEN v % 3 END FROM generate_series(1, 20) AS g (v);
    INSERT INTO orders SELECT v, CASE WHEN v % 6 > 0 THEN v % 25 END, 'note ' || v % 4 FROM generate_series(1, 60) AS g (v);
    INSERT INTO lines SELECT v % 70, v / 70, CASE WHEN v % 11 > 0 THEN 'item ' || v % 13 END, v * 0.5
    FROM generate_series(1, 260) AS g (v);
    INSERT INTO items SELECT 'item ' || v, v / 2.0, 'note ' || v % 4 FROM generate_series(1, 10) AS g (v);
    CALL nearfar.merge('lines');
    DELETE FROM lines WHERE o = 7;
    UPDATE orders SET customer = 3 WHERE id % 9 = 0;
    INSERT INTO lines VALUES (8, 100, 'item 3', NULL), (8, 101, 'item 90', 2)";

async fn filled() -> Session {
    let session = engine().session();
    run(&session, TABLES).await;
    session
}

fn read(session: &Session, sql: &str) -> Statement {
    session.read(sql).expect(sql).remove(0)
}

async fn text(result: StatementResult) -> String {
    match result {
        StatementResult::Rows(rows) => {
            let batches = rows.collect().await.expect("rows");
            pretty_format_batches(&batches)
                .expect("a table")
                .to_string()
        }
        StatementResult::Command(tag) => tag.to_string(),
    }
}

fn integers(values: &[i32]) -> Vec<ScalarValue> {
    values.iter().map(|value| (*value).into()).collect()
}

/// The answer of a statement that is carried out without being planned; none where it has to be planned.
async fn compiled(session: &Session, sql: &str, values: &[ScalarValue]) -> Option<String> {
    let statement = read(session, sql);
    if !session.compile(&statement, values).await.expect(sql) {
        return None;
    }
    match session.run_immediately(&statement, values).expect(sql) {
        Immediate::Ran(ran) => Some(text(ran.wait().expect(sql)).await),
        // It has too many rows.
        Immediate::NotNow => None,
        Immediate::Blocked => panic!("{sql} is of rows that nobody has locked"),
    }
}

/// The answer of the same statement by a plan: it has a function that others do not have.
async fn planned(session: &Session, sql: &str, values: &[ScalarValue]) -> String {
    let sql = sql.replacen("WHERE", "WHERE abs($1) >= 0 AND", 1);
    let statement = read(session, &sql);
    assert!(!session.compile(&statement, values).await.expect(&sql));
    text(session.run_with(&statement, values).await.expect(&sql)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_by_keys_give_what_is_planned() {
    let session = filled().await;
    let queries = [
        "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer WHERE o.id = $1",
        "SELECT c.name, o.id FROM customers c, orders o WHERE c.id = o.customer AND c.id = $1 AND o.id > $2 ORDER BY o.id",
        "SELECT o.id, n, i.weight FROM orders o JOIN lines l ON l.o = o.id JOIN items i ON i.code = l.item \
         WHERE o.id = $1 AND l.n < $2 ORDER BY n DESC LIMIT 3",
        "SELECT l.n, i.code, i.weight FROM lines l LEFT JOIN items i ON i.code = l.item AND i.weight < $2 WHERE l.o = $1 ORDER BY l.n",
        "SELECT o.id, c.name, l.n, i.weight FROM orders o LEFT JOIN customers c ON c.id = o.customer \
         LEFT JOIN lines l ON l.o = o.id AND l.amount > $2 LEFT JOIN items i ON i.code = l.item WHERE o.id = $1 ORDER BY l.n",
        "SELECT count(DISTINCT l.item), sum(l.amount), max(i.weight) FROM lines l JOIN items i ON i.code = l.item \
         WHERE l.o = $1 AND i.weight < $2",
        "SELECT count(*) FROM lines l JOIN items i ON i.code = l.item AND i.weight < $2 JOIN orders o ON o.id = l.o WHERE l.o = $1",
        "SELECT a.n, b.n FROM lines a JOIN lines b ON b.o = a.o AND b.n < a.n WHERE a.o = $1 AND a.n <> $2 ORDER BY 1, 2",
        "SELECT id, name, note FROM customers JOIN orders USING (id) WHERE customers.id = $1 AND $2 < 100",
        "SELECT l.n FROM lines l LEFT JOIN items i ON i.code = l.item WHERE l.o = $1 AND i.code IS NULL ORDER BY 1",
        "SELECT l.n, o.id FROM lines l JOIN orders o ON o.id = l.n WHERE l.o = $1 AND o.id <> 1 AND l.amount / (o.id - 1) > 0",
        "SELECT c.id, o.id FROM customers c JOIN orders o ON o.id = $2 WHERE c.id = $1",
        "SELECT i.code, l.o FROM items i JOIN lines l ON l.item = i.code WHERE i.code = 'item 3' AND l.n = $2 AND l.o <> $1 ORDER BY 2",
    ];
    let not_compiled = [
        // Texts of a declared length are compared without the blanks behind them.
        "SELECT o.id FROM orders o JOIN items i ON i.kind = o.note WHERE o.id = $1 AND i.weight < $2 ORDER BY 1",
        "SELECT o.id FROM orders o JOIN items i ON i.code = o.note WHERE o.id = $1 AND i.weight < $2 ORDER BY 1",
        "SELECT i.code, l.o FROM items i JOIN lines l ON l.item = i.code WHERE i.code = 'item ' || 3 AND l.n = $2 AND l.o <> $1 ORDER BY 2",
        "SELECT o.id FROM orders o RIGHT JOIN customers c ON c.id = o.customer WHERE o.id = $1 AND c.id > $2",
        "SELECT o.id FROM orders o JOIN (SELECT id FROM customers) c ON c.id = o.customer WHERE o.id = $1 AND c.id > $2",
        "SELECT o.id FROM orders o JOIN customers c ON c.region = o.customer WHERE o.id = $1 AND c.id > $2",
        "SELECT l.o FROM lines l JOIN customers c ON c.id = l.amount WHERE l.o = $1 AND c.id > $2",
    ];
    for changes in [
        "",
        "BEGIN; INSERT INTO orders VALUES (100, 3, 'new'); INSERT INTO lines VALUES (3, 90, 'item 4', 1), (100, 1, 'item 5', 1); \
         DELETE FROM items WHERE code = 'item 6'; UPDATE customers SET name = 'other' WHERE id = 3",
    ] {
        run(&session, changes).await;
        for given in [[3, 5], [3, 1], [7, 9], [8, 3], [12, 2], [100, 2], [999, 1]] {
            let values = integers(&given);
            for (sql, is_compiled) in (queries.iter().map(|sql| (sql, true)))
                .chain(not_compiled.iter().map(|sql| (sql, false)))
            {
                let found = compiled(&session, sql, &values).await;
                assert_eq!(found.is_some(), is_compiled, "{sql}");
                if let Some(found) = found {
                    let expected = planned(&session, sql, &values).await;
                    assert_eq!(found, expected, "{sql} with {given:?} after {changes:?}");
                }
            }
        }
    }
    run(&session, "ROLLBACK").await;
}

/// What a sequence of numbers chooses.
struct Choices(std::vec::IntoIter<u8>);

impl Choices {
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        let at = usize::from(self.0.next().unwrap_or(0));
        all[at % all.len()]
    }
}

/// A query of several tables, chosen by numbers.
fn query(numbers: Vec<u8>) -> String {
    let mut choices = Choices(numbers.into_iter());
    let tables = [
        ("customers", ["id", "name", "region"]),
        ("orders", ["id", "customer", "note"]),
        ("lines", ["o", "n", "item"]),
        ("items", ["code", "weight", "kind"]),
    ];
    let (first, columns) = choices.of(&tables[..3]);
    let mut joined = vec![("t0".to_owned(), columns)];
    let mut from = format!("{first} t0");
    for at in 1..=choices.of(&[1, 2, 3]) {
        let (table, columns) = choices.of(&tables);
        let (before, others) =
            joined[usize::from(choices.of(&[0_u8, 1, 2])) % joined.len()].clone();
        let own = choices.of(&columns[..2]);
        // Texts are compared with texts.
        let is_text = |column: &str| ["name", "note", "item", "code", "kind"].contains(&column);
        let alike: Vec<&str> = others
            .into_iter()
            .filter(|other| is_text(other) == is_text(own))
            .collect();
        let kind = choices.of(&["JOIN", "LEFT JOIN", "JOIN"]);
        let condition = match alike.is_empty() {
            true => format!("t{at}.{own} = t{at}.{own}"),
            false => format!("t{at}.{own} = {before}.{}", choices.of(&alike)),
        };
        let further = choices
            .of(&["", " AND t0.{} IS NOT NULL", " AND $2 > 3"])
            .replace("{}", joined[0].1[1]);
        from += &format!(" {kind} {table} t{at} ON {condition}{further}");
        joined.push((format!("t{at}"), columns));
    }
    let (last, columns) = joined.last().cloned().expect("a table");
    let condition = match choices.of(&[0, 1, 2, 3]) {
        0 => format!(" AND {last}.{} IS NULL", columns[1]),
        1 => format!(
            " AND ({last}.{0} IS NULL OR {last}.{0} IS NOT NULL)",
            columns[0]
        ),
        2 => format!(" AND t0.{} < $2", joined[0].1[0]),
        _ => String::new(),
    };
    let shown: Vec<String> = joined
        .iter()
        .flat_map(|(name, columns)| columns.map(|column| format!("{name}.{column}")))
        .collect();
    let order: Vec<String> = (1..=shown.len()).map(|at| at.to_string()).collect();
    format!(
        "SELECT {} FROM {from} WHERE t0.{} = $1{condition} ORDER BY {}",
        shown.join(", "),
        joined[0].1[0],
        order.join(", ")
    )
}

#[test]
fn chosen_joins_give_what_is_planned() {
    let runtime = Runtime::new().expect("threads");
    let session = runtime.block_on(filled());
    let counts = std::cell::Cell::new((0, 0));
    let config = ProptestConfig {
        cases: 400,
        ..ProptestConfig::default()
    };
    let cases = (vec(any::<u8>(), 24).prop_map(query), 0..30_i32, 0..10_i32);
    let result = TestRunner::new(config).run(&cases, |(sql, first, second)| {
        let values = integers(&[first, second]);
        let (ran, all) = counts.get();
        let found = runtime.block_on(compiled(&session, &sql, &values));
        counts.set((ran + usize::from(found.is_some()), all + 1));
        if let Some(found) = found {
            let expected = runtime.block_on(planned(&session, &sql, &values));
            assert_eq!(found, expected, "{sql} with {values:?}");
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let (ran, all) = counts.get();
    assert!(ran * 4 > all, "{ran} of {all} were not planned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_many_rows_are_planned() {
    let session = engine().session();
    let tables = "CREATE TABLE t (g INT, k INT, PRIMARY KEY (g, k)); CREATE TABLE u (k INT PRIMARY KEY, v INT);
                  INSERT INTO t SELECT value % 2 * (value % 300), value FROM generate_series(1, 5000);
                  INSERT INTO u SELECT value, value FROM generate_series(1, 5000)";
    run(&session, tables).await;
    let sql = "SELECT count(*) FROM t JOIN u ON u.k = t.k WHERE t.g = $1";
    let statement = read(&session, sql);
    for (given, count, is_compiled) in [
        (3, "17", true),
        (0, "2500", false),
        (0, "2500", false),
        (3, "17", true),
    ] {
        let ran = session.run_with(&statement, &integers(&[given])).await;
        assert!(text(ran.expect(sql)).await.contains(count), "{given}");
        let immediate = session.run_immediately(&statement, &integers(&[3]));
        assert_eq!(
            matches!(immediate, Ok(Immediate::Ran(_))),
            is_compiled,
            "{given}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_follow_their_tables() {
    let session = filled().await;
    let sql = "SELECT c.name FROM orders o JOIN customers c ON c.id = o.customer WHERE o.id = $1";
    let statement = read(&session, sql);
    let values = integers(&[8]);
    let name = |session: Session, statement: Statement, values: Vec<ScalarValue>| async move {
        text(session.run_with(&statement, &values).await.expect("a name")).await
    };
    assert!(session.compile(&statement, &values).await.expect(sql));
    assert!(
        name(session.clone(), statement.clone(), values.clone())
            .await
            .contains("name 1")
    );
    run(&session, "CREATE TEMP TABLE customers (id INT PRIMARY KEY, name VARCHAR); INSERT INTO customers VALUES (8, 'temporary')").await;
    assert!(
        name(session.clone(), statement.clone(), values.clone())
            .await
            .contains("temporary")
    );
    run(&session, "DROP TABLE customers; DROP INDEX of_customer; ALTER TABLE customers DROP CONSTRAINT customers_pkey").await;
    assert!(
        name(session.clone(), statement.clone(), values.clone())
            .await
            .contains("name 1")
    );
    run(&session, "DROP TABLE customers").await;
    assert!(session.run_with(&statement, &values).await.is_err());
    error(&session, "SELECT * FROM customers").await;
}
