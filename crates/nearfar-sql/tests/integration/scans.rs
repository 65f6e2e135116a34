//! Scans of Nearfar tables give what DataFusion's own tables in memory give.

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringViewArray,
};
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use nearfar_memory::{Placement, TierId};
use nearfar_sql::engine::{Engine, Session};
use nearfar_sql::load::{Load, Progress};
use nearfar_table::placement::ColumnPlacements;
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

const ROWS: i64 = 40_000;

/// A table with every encoding: sorted keys, nulls, few and many strings, decimals, dates, floats.
fn batch() -> RecordBatch {
    let rows = || 0..ROWS;
    let scrambled = |i: i64| i.wrapping_mul(7919) % 1009;
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "id",
            Arc::new(Int64Array::from_iter_values(rows().map(|i| i / 2))),
        ),
        (
            "small",
            Arc::new(Int32Array::from_iter(
                rows().map(|i| (i % 11 != 0).then_some((scrambled(i) % 50) as i32)),
            )),
        ),
        (
            "word",
            Arc::new(StringViewArray::from_iter(rows().map(|i| {
                (i % 17 != 0)
                    .then(|| ["oak", "ash", "elm", "a rather long word"][scrambled(i) as usize % 4])
            }))),
        ),
        (
            "text",
            Arc::new(StringViewArray::from_iter(rows().map(|i| {
                (i % 19 != 0).then(|| format!("row {} of many", scrambled(i) * i))
            }))),
        ),
        (
            "price",
            Arc::new(
                Decimal128Array::from_iter_values(
                    rows().map(|i| i128::from(scrambled(i)) * 100 - 500),
                )
                .with_precision_and_scale(15, 2)
                .expect("a decimal"),
            ),
        ),
        (
            "day",
            Arc::new(Date32Array::from_iter_values(
                rows().map(|i| 8000 + (i / 20) as i32),
            )),
        ),
        (
            "weight",
            Arc::new(Float64Array::from_iter(
                rows().map(|i| (i % 23 != 0).then_some(scrambled(i) as f64 / 3.0)),
            )),
        ),
    ];
    let nothing = Int64Array::from_iter((0..ROWS).map(|_| None::<i64>));
    let columns = columns
        .into_iter()
        .chain([("nothing", Arc::new(nothing) as ArrayRef)]);
    RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, true))).expect("a batch")
}

struct Contenders {
    runtime: tokio::runtime::Runtime,
    nearfar: Session,
    datafusion: SessionContext,
}

fn contenders() -> &'static Contenders {
    static ONCE: OnceLock<Contenders> = OnceLock::new();
    ONCE.get_or_init(|| {
        let batch = batch();
        let engine = Engine::new(super::support::options()).expect("an engine");
        let load = Load {
            storage: engine.storage().clone(),
            name: "t".to_owned(),
            placements: ColumnPlacements::all(Placement::Weighted(vec![(
                TierId::NEAR,
                NonZeroU32::MIN,
            )])),
            progress: Arc::new(Progress::default()),
        };
        let rows = (0..ROWS as usize)
            .step_by(5000)
            .map(|at| batch.slice(at, 5000));
        let parts = vec![Box::new(rows.map(Ok).collect::<Vec<_>>().into_iter()) as _];
        let table = load.batches(&batch.schema(), parts).expect("loaded");
        let nearfar = engine.session();
        nearfar.register(table).expect("registered");
        let datafusion =
            SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
        let reference = MemTable::try_new(batch.schema(), vec![vec![batch]]).expect("a table");
        datafusion
            .register_table("t", Arc::new(reference))
            .expect("registered");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        Contenders {
            runtime,
            nearfar,
            datafusion,
        }
    })
}

fn rows_of(context: &SessionContext, sql: &str) -> Vec<String> {
    let batches = contenders()
        .runtime
        .block_on(async { context.sql(sql).await?.collect().await })
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let text = pretty_format_batches(&batches)
        .expect("formatted")
        .to_string();
    // Without the frame and the column names.
    let mut rows: Vec<String> = text
        .lines()
        .skip(3)
        .filter(|line| line.starts_with('|'))
        .map(str::to_owned)
        .collect();
    rows.sort();
    rows
}

fn check(sql: &str) {
    let contenders = contenders();
    let ours = rows_of(contenders.nearfar.context(), sql);
    let theirs = rows_of(&contenders.datafusion, sql);
    assert_eq!(ours.len(), theirs.len(), "{sql}");
    assert_eq!(ours, theirs, "{sql}");
}

#[test]
fn filters_of_every_kind() {
    for filter in [
        "id = 77",
        "id between 100 and 120 and small > 10",
        "10 > small",
        "small is null",
        "small is not null and word is null",
        "word = 'oak'",
        "word <> 'oak'",
        "word in ('oak', 'elm')",
        "word like '%long%'",
        "word > 'b' and word < 'f'",
        "coalesce(word, 'none') = 'none'",
        "text like 'row 1%' and price < 100",
        "price = 95.00 or small = 3",
        "day >= date '1995-01-01' and day < date '1995-02-01'",
        "weight > 300.5",
        "weight is null and id < 1000",
        "id < -5",
        "id > 1000000",
        "small = 3 and small = 4",
        "id in (1, 5, 9, 200000)",
        "not (small < 25)",
        "small <> 7 and small <> 9 and id <> 3 and id < 900",
        "small in (1, 7, 8, 9, 30) and small not in (7, 8)",
        "id not in (0, 1, 19999) and small = 3",
        "(id < 10 or id between 500 and 600 or id = 19999) and small > 3",
        "id > -9223372036854775807 and id < 9223372036854775807 and small = 3",
        "id <= -9223372036854775807 or id >= 9223372036854775807",
        "small between 10 and 5",
        "price in (95.00, -5.00, 9999999999.00)",
        "day in (date '1995-01-01', date '1995-01-03') or day > date '1996-01-01'",
        "nothing <> 1",
        "nothing not in (1, 2)",
        "small < (select avg(small) from t)",
        "false",
        "null",
    ] {
        check(&format!("select * from t where {filter}"));
    }
}

#[test]
fn joins_aggregates_and_limits() {
    for sql in [
        "select count(*), min(id), max(price), sum(small), avg(weight) from t",
        "select min(nothing), max(nothing), count(nothing), count(distinct nothing) from t",
        "select count(*) from t where nothing = 0 or nothing is null",
        "select word, count(*), sum(price), min(day) from t group by word",
        "select id, count(*), sum(price) from t group by id having count(*) > 1",
        "select a.id, b.text from t a join t b on a.id = b.id where a.small = 7 and b.word = 'ash'",
        "select count(*) from t a where exists (select 1 from t b where b.id = a.id and b.small = 3)",
        "select count(*) from t a where a.small not in (select small from t where small > 5)",
        "select count(*) from (select * from t limit 12345)",
        "select id from t order by id desc, small limit 7",
        "select count(distinct text), count(distinct word) from t where small < 20",
        "select a.word, c.word, count(*) from t a, t b, t c \
         where a.id = b.id and b.id = c.id and a.small = 9 and c.price > 10 group by 1, 2",
        "select sum(price * (1 - price) * (2 + price)), sum(price * small) from t",
    ] {
        check(sql);
    }
}

fn listed(values: &[i64]) -> String {
    let texts: Vec<String> = values.iter().map(i64::to_string).collect();
    texts.join(", ")
}

fn term() -> impl Strategy<Value = String> {
    let operator = prop::sample::select(vec!["<", "<=", "=", ">=", ">", "<>"]);
    prop_oneof![
        (operator.clone(), -10i64..ROWS).prop_map(|(o, v)| format!("id {o} {v}")),
        (operator.clone(), -2i64..52).prop_map(|(o, v)| format!("small {o} {v}")),
        (operator.clone(), -600i64..2000).prop_map(|(o, v)| format!("price {o} {v}.5")),
        (
            operator.clone(),
            prop::sample::select(vec!["oak", "b", "zoo", ""])
        )
            .prop_map(|(o, v)| format!("word {o} '{v}'")),
        (operator, 0i64..400).prop_map(|(o, v)| format!("weight {o} {v}")),
        prop::collection::vec(-2i64..52, 1..9).prop_map(|v| format!("small in ({})", listed(&v))),
        prop::collection::vec(0..ROWS, 1..9).prop_map(|v| format!("id not in ({})", listed(&v))),
        (1991..1998_i32, 1..13_i32, 1991..1998_i32).prop_map(|(year, month, until)| {
            format!("day between date '{year}-{month:02}-01' and date '{until}-12-31'")
        }),
        prop::sample::select(vec![i64::MIN + 1, i64::MAX]).prop_map(|v| format!("id > {v}")),
        Just("small is null".to_owned()),
        Just("word is not null".to_owned()),
        Just("text like '%7%'".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_filter(terms in prop::collection::vec((term(), any::<bool>()), 1..4)) {
        let mut filter = String::from("true");
        for (term, or) in terms {
            filter = format!("({filter} {} {term})", if or { "or" } else { "and" });
            filter = filter.replace("(true or", "(false or");
        }
        check(&format!("select id, text, price, count(*) from t where {filter} group by 1, 2, 3"));
    }
}
