//! Comparing answers: types do not matter, values do.

use arrow::array::{
    ArrayRef, Decimal128Array, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, StringViewArray,
};
use arrow::datatypes::Int32Type;
use nearfar_bench::tpch::answer::{Answer, Difference, Value};
use nearfar_bench::tpch::queries;
use nearfar_sql::engine::{Engine, StatementResult};
use nearfar_sql::load::tpch;
use std::sync::Arc;

use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;

/// Compares the answers of the tables in `engine` with those over freshly generated rows.
pub async fn check_against_memtable(engine: &Arc<Engine>, scale_factor: f64) {
    let own = SessionContext::new();
    for name in tpch::TABLES {
        let rows = tpch::rows(name, scale_factor, 1).expect("a table");
        let parts: Vec<Vec<RecordBatch>> = rows
            .parts
            .into_iter()
            .map(|part| part.map(|batch| batch.expect("rows")).collect())
            .collect();
        let table = MemTable::try_new(rows.schema, parts).expect("a table");
        own.register_table(name, Arc::new(table))
            .expect("a new name");
    }
    let session = engine.session();
    for number in queries::NUMBERS {
        let sql = queries::query(number, scale_factor).expect("a query");
        let expected = own
            .sql(&sql)
            .await
            .expect("a plan")
            .collect()
            .await
            .expect("rows");
        let Some(StatementResult::Rows(found)) = session.execute(&sql).await.expect("rows").pop()
        else {
            panic!("q{number} has no rows")
        };
        let found = found.collect().await.expect("rows");
        let read = |batches: &[RecordBatch]| Answer::from_batches(batches).expect("an answer");
        let difference = read(&expected).difference(&read(&found), queries::order_by(number));
        assert_eq!(difference, None, "q{number}");
    }
}

fn answer(columns: Vec<(&str, ArrayRef)>) -> Answer {
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    Answer::from_batches(&[batch]).expect("an answer")
}

#[test]
fn types_do_not_matter() {
    let decimals = Decimal128Array::from(vec![Some(150), Some(-200), None])
        .with_precision_and_scale(15, 2)
        .expect("a decimal");
    let wide = Decimal128Array::from(vec![Some(15_000), Some(-20_000), None])
        .with_precision_and_scale(38, 4)
        .expect("a decimal");
    let dictionary: DictionaryArray<Int32Type> = ["x", "y", "x"].into_iter().collect();
    let mine = answer(vec![
        ("k", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("d", Arc::new(decimals)),
        ("s", Arc::new(StringArray::from(vec!["x", "y", "x"]))),
    ]);
    let theirs = answer(vec![
        ("other", Arc::new(Int32Array::from(vec![1, 2, 3]))),
        ("names", Arc::new(wide)),
        ("here", Arc::new(dictionary)),
    ]);
    assert_eq!(mine.difference(&theirs, &[0]), None);
    let views = StringViewArray::from(vec!["x", "y", "z"]);
    let other = answer(vec![
        ("k", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        (
            "d",
            Arc::new(Float64Array::from(vec![Some(1.5), Some(-2.0), None])),
        ),
        ("s", Arc::new(views)),
    ]);
    let difference = mine.difference(&other, &[0]);
    let expected = Value::Text("x".to_owned());
    assert!(
        matches!(&difference, Some(Difference::Cell { column, expected: e, .. })
            if column == "s" && *e == expected),
        "{difference:?}"
    );
}

#[test]
fn a_rounded_decimal_agrees_with_a_float() {
    let decimal = |units: i128| {
        let array = Decimal128Array::from(vec![units]).with_precision_and_scale(19, 6);
        answer(vec![("avg", Arc::new(array.expect("a decimal")))])
    };
    let float = |value: f64| answer(vec![("avg", Arc::new(Float64Array::from(vec![value])))]);
    assert_eq!(decimal(49_985).difference(&float(0.049_985_295), &[]), None);
    assert!(decimal(49_985).difference(&float(0.049_987), &[]).is_some());
    assert_eq!(float(1.0).difference(&float(1.0 + 1e-10), &[]), None);
    assert!(float(1.0).difference(&float(1.0 + 1e-8), &[]).is_some());
}

/// 0.57 rounded to the other side is 0.58, and as floats they are a little more than 0.01 apart.
#[test]
fn a_decimal_rounded_to_the_other_side_agrees_with_a_float() {
    let exact = |units: i128| {
        let array = Decimal128Array::from(vec![units]).with_precision_and_scale(19, 2);
        answer(vec![("ratio", Arc::new(array.expect("19 digits")))])
    };
    let float = |value: f64| answer(vec![("ratio", Arc::new(Float64Array::from(vec![value])))]);
    for cents in 0..200 {
        let next = float((cents + 1) as f64 / 100.0);
        assert_eq!(exact(cents).difference(&next, &[]), None, "{cents}");
        assert_eq!(next.difference(&exact(cents), &[]), None, "{cents}");
        let behind = float((cents as f64 + 1.001) / 100.0);
        assert!(exact(cents).difference(&behind, &[]).is_some(), "{cents}");
    }
}

#[test]
fn order_matters_where_the_query_orders() {
    let rows = |keys: Vec<i64>, values: Vec<i64>| {
        answer(vec![
            ("key", Arc::new(Int64Array::from(keys))),
            ("value", Arc::new(Int64Array::from(values))),
        ])
    };
    let mine = rows(vec![1, 1, 2], vec![7, 8, 9]);
    assert_eq!(
        mine.difference(&rows(vec![1, 1, 2], vec![8, 7, 9]), &[0]),
        None
    );
    let swapped = rows(vec![2, 1, 1], vec![9, 7, 8]);
    assert_eq!(mine.difference(&swapped, &[]), None);
    assert!(matches!(
        mine.difference(&swapped, &[0]),
        Some(Difference::Order { row: 0, .. })
    ));
    let shorter = rows(vec![1], vec![7]);
    let difference = mine.difference(&shorter, &[0]);
    assert_eq!(
        difference,
        Some(Difference::Rows {
            expected: 3,
            found: 1
        })
    );
}

/// A row of a table with a key that need not be unique, an amount, a share, and a name.
type Row = (i64, Option<i64>, f64, String);

fn table(rows: &[Row]) -> Answer {
    let amounts = rows.iter().map(|row| row.1.map(i128::from));
    let amounts = Decimal128Array::from_iter(amounts).with_precision_and_scale(20, 2);
    answer(vec![
        (
            "key",
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        ),
        ("amount", Arc::new(amounts.expect("a decimal"))),
        (
            "share",
            Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.2))),
        ),
        (
            "name",
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.3))),
        ),
    ])
}

/// A sequence of numbers that looks random and is the same in every run (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    fn row(&mut self) -> Row {
        let amount = (self.below(5) > 0).then(|| self.below(200) as i64 - 100);
        let name = (0..self.below(3))
            .map(|_| ["a", "b"][self.below(2)])
            .collect();
        (
            self.below(5) as i64,
            amount,
            0.1 + self.below(900) as f64 / 1e3,
            name,
        )
    }

    fn rows(&mut self) -> Vec<Row> {
        (0..1 + self.below(19)).map(|_| self.row()).collect()
    }
}

const CASES: u64 = 500;

#[test]
fn any_order_is_the_same() {
    for seed in 1..=CASES {
        let mut numbers = Numbers(seed);
        let rows = numbers.rows();
        let mut shuffled = rows.clone();
        for index in (1..shuffled.len()).rev() {
            shuffled.swap(index, numbers.below(index + 1));
        }
        assert_eq!(
            table(&rows).difference(&table(&shuffled), &[]),
            None,
            "seed {seed}: {rows:?}"
        );
    }
}

#[test]
fn one_changed_cell_is_found() {
    for seed in 1..=CASES {
        let mut numbers = Numbers(seed);
        let rows = numbers.rows();
        let mut changed = rows.clone();
        let row = &mut changed[numbers.below(rows.len())];
        match seed % 4 {
            0 => row.0 += 1,
            1 => row.1 = row.1.map_or(Some(0), |_| None),
            2 => row.2 *= 1.0 + 1e-6,
            _ => row.3.push('c'),
        }
        let (mine, theirs) = (table(&rows), table(&changed));
        assert!(
            mine.difference(&theirs, &[]).is_some(),
            "seed {seed}: {rows:?}, {changed:?}"
        );
        assert!(
            theirs.difference(&mine, &[]).is_some(),
            "seed {seed}: {rows:?}, {changed:?}"
        );
    }
}
