//! Tables of several segments, each encoded in its own way, give the answers that DataFusion's own
//! tables in memory give: statistics, orders and join orders included.

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int64Array, NullArray, RecordBatch, StringViewArray,
};
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use nearfar_memory::{Placement, TierId};
use nearfar_sql::engine::{Engine, Session};
use nearfar_sql::load::{Load, Progress};
use nearfar_table::placement::ColumnPlacements;
use proptest::prelude::*;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::support::{options, run};

const LARGE: i128 = 10i128.pow(37);

/// How the rows of one segment look.
#[derive(Clone, Copy)]
enum Look {
    /// Rising keys, few strings, small decimals.
    Sorted,
    /// Keys in no order, strings all distinct, decimals too far apart for codes.
    Scattered,
    /// Nulls wherever they are allowed.
    Empty,
    /// Negative numbers.
    Negative,
}

/// Rows of a segment: `id`, `k`, `k2` and `x` for joins, a decimal, a wide decimal, a string, a float, and
/// a column without a type.
fn rows(look: Look, ids: Range<i64>) -> RecordBatch {
    let mix = |id: i64| (id.wrapping_mul(0x9E37_79B9).rotate_left(17) % 1000).abs();
    let key = |id: i64| match look {
        Look::Scattered => ids.start + (id * 7919) % (ids.end - ids.start),
        Look::Negative => -id,
        _ => id,
    };
    let some = |id: i64| !matches!(look, Look::Empty) && id % 13 != 0;
    let sign = if matches!(look, Look::Negative) {
        -1
    } else {
        1
    };
    let wide = |id: i64| match look {
        Look::Scattered => {
            Some(if id % 2 == 0 { 9 * LARGE } else { -9 * LARGE } + i128::from(id % 5))
        }
        _ => some(id).then(|| i128::from(id % 7) - 3),
    };
    let text = |id: i64| match look {
        Look::Scattered => Some(format!("a text of its own, number {}", mix(id) * id)),
        _ => some(id).then(|| ["oak", "ash", "elm", ""][mix(id) as usize % 4].to_owned()),
    };
    let decimals = |values: Decimal128Array, precision, scale| -> ArrayRef {
        Arc::new(
            values
                .with_precision_and_scale(precision, scale)
                .expect("a decimal"),
        )
    };
    let all = || ids.clone();
    let integers = |value: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
        Arc::new(Int64Array::from_iter(all().map(value)))
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", integers(&|id| Some(key(id)))),
        ("k", integers(&|id| some(id).then(|| mix(id) % 40))),
        ("k2", integers(&|id| Some(mix(id) % 9))),
        ("x", integers(&|id| some(id).then(|| sign * (id % 50)))),
        (
            "d",
            decimals(
                Decimal128Array::from_iter(
                    all().map(|id| some(id).then(|| i128::from(sign * mix(id)))),
                ),
                10,
                2,
            ),
        ),
        (
            "w",
            decimals(Decimal128Array::from_iter(all().map(wide)), 38, 0),
        ),
        ("s", Arc::new(StringViewArray::from_iter(all().map(text)))),
        (
            "f",
            Arc::new(Float64Array::from_iter(
                all().map(|id| some(id).then(|| mix(id) as f64 / 4.0)),
            )),
        ),
        (
            "nothing",
            Arc::new(NullArray::new((ids.end - ids.start) as usize)),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .expect("a batch")
}

/// The tables and their segments: `a` is one sorted segment that several threads read, `b` has every
/// look, `c` is small, `e` has no rows, `g` only negative numbers.
fn tables() -> Vec<(&'static str, Vec<RecordBatch>)> {
    vec![
        (
            "a",
            vec![
                rows(Look::Sorted, 0..40_000),
                rows(Look::Sorted, 40_000..41_000),
            ],
        ),
        (
            "b",
            vec![
                rows(Look::Sorted, 0..3000),
                rows(Look::Scattered, 3000..6000),
                rows(Look::Empty, 6000..6500),
                rows(Look::Negative, 0..500),
            ],
        ),
        ("c", vec![rows(Look::Sorted, 0..60)]),
        ("e", vec![rows(Look::Sorted, 0..1).slice(0, 0)]),
        (
            "g",
            vec![rows(Look::Negative, 0..800), rows(Look::Sorted, 0..10)],
        ),
    ]
}

struct Both {
    runtime: tokio::runtime::Runtime,
    nearfar: Session,
    datafusion: SessionContext,
}

fn both() -> &'static Both {
    static ONCE: OnceLock<Both> = OnceLock::new();
    ONCE.get_or_init(|| {
        let engine = Engine::new(options()).expect("an engine");
        let nearfar = engine.session();
        let config = SessionConfig::new().with_target_partitions(2);
        let datafusion = SessionContext::new_with_config(config);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        for (name, segments) in tables() {
            let schema = segments[0].schema();
            let load = Load {
                storage: engine.storage().clone(),
                name: name.to_owned(),
                placements: ColumnPlacements::all(Placement::Bind(TierId::NEAR)),
                progress: Arc::new(Progress::default()),
            };
            let first = Box::new(std::iter::once(Ok(segments[0].clone())));
            let table = load.batches(&schema, vec![first]).expect("loaded");
            nearfar.register(table).expect("registered");
            for more in &segments[1..] {
                let more = MemTable::try_new(more.schema(), vec![vec![more.clone()]]);
                let context = nearfar.context();
                context
                    .register_table("more", Arc::new(more.expect("a table")))
                    .expect("registered");
                runtime.block_on(run(
                    &nearfar,
                    &format!("INSERT INTO {name} SELECT * FROM more"),
                ));
                context.deregister_table("more").expect("gone");
            }
            let reference = MemTable::try_new(schema, vec![segments]).expect("a table");
            datafusion
                .register_table(name, Arc::new(reference))
                .expect("registered");
        }
        Both {
            runtime,
            nearfar,
            datafusion,
        }
    })
}

/// The rows of a query, sorted unless it orders them; or that it fails.
fn answer(context: &SessionContext, sql: &str) -> Vec<String> {
    let collected = both()
        .runtime
        .block_on(async { context.sql(sql).await?.collect().await });
    let batches = match collected {
        Ok(batches) => batches,
        Err(_) => return vec!["an error".to_owned()],
    };
    let text = pretty_format_batches(&batches)
        .expect("formatted")
        .to_string();
    let lines = text.lines().skip(3).filter(|line| line.starts_with('|'));
    let mut rows: Vec<String> = lines.map(|line| line.replace(' ', "")).collect();
    if !sql.contains("order by") {
        rows.sort();
    }
    rows
}

#[track_caller]
fn check(sql: &str) {
    let both = both();
    let ours = answer(both.nearfar.context(), sql);
    assert_eq!(ours, answer(&both.datafusion, sql), "{sql}");
}

#[test]
fn statistics_answer_as_rows_do() {
    for table in ["a", "b", "c", "e", "g"] {
        for column in ["id", "k", "k2", "x", "d", "w", "s", "f"] {
            check(&format!(
                "select count(*), count({column}), min({column}), max({column}) from {table}"
            ));
            check(&format!(
                "select count(distinct {column}), count(*) from {table}"
            ));
            check(&format!(
                "select count(distinct {column}), count(distinct k), max({column}) from {table}"
            ));
        }
        check(&format!("select count(nothing), count(*) from {table}"));
        check(&format!(
            "select count(*) from {table} where nothing is null"
        ));
    }
}

#[test]
fn filters_without_columns_keep_or_drop_all() {
    for filter in [
        "(select count(*) from c) > 0",
        "(select count(*) from c) > 60",
        "(select max(k) from c where k < 0) is null",
        "(select min(id) from c) = (select min(id) from a) and x > 3",
    ] {
        check(&format!("select count(*), min(x) from b where {filter}"));
    }
}

#[test]
fn filters_that_fail_on_some_values_fail_on_rows_only() {
    check("select count(*) from b where id between 1 and 20 and s = 'oak' and length(s) = 3");
    check("select id from c where s = 'oak' and cast(coalesce(nullif(s, 'oak'), '1') as int) = 1");
    check("select id from c where k > 5 and 10 / (k - 3) > 0");
}

#[test]
fn orders_are_kept() {
    for sql in [
        "select id, x from a order by id limit 20",
        "select id from a order by id desc limit 7",
        "select id from a where x = 7 order by id",
        "select id, s from b order by id, s, x limit 100",
        "select array_agg(d * 2 order by id desc) from c",
        "select array_agg(d * 2 order by id desc nulls last) from c",
        "select nth_value(d * 2, 1 order by id desc nulls last), first_value(d + 1 order by id) from c",
        "select string_agg(s, ',' order by id desc) from c",
        "select k, count(*) from a group by k order by k",
        "select l.id from a l join a r on l.id = r.id where r.x = 3 order by l.id limit 50",
    ] {
        check(sql);
    }
}

#[test]
fn no_predicate_of_a_join_is_lost() {
    for sql in [
        "select count(*) from a join b on a.k = b.k join c on a.x + b.x = c.x and a.k2 = c.k2 \
         where a.id < 300 and b.id < 300",
        "select count(*) from a, b, c where a.id = b.id and b.x + c.x = a.x and a.k2 = c.k2",
        "select count(*) from a, b, c where a.k2 = c.k2 and a.id = b.id and a.x < b.x + c.x",
        "select count(*), sum(a.x) from a, b, c, g \
         where a.id = b.id and b.k = c.k and c.x = g.x and a.k2 + g.k2 > b.k2 and b.id < 200",
        "select count(*) from b left join c on b.k = c.k join g on g.id = b.id",
        "select count(*) from b where not exists (select 1 from c, g where c.k = g.k and c.x = b.x)",
        "select count(*) from a join b using (id) join g using (id) where a.s <> b.s or g.d < 0",
    ] {
        check(sql);
    }
}

/// DataFusion by itself loses rows of the first of these.
#[test]
fn joins_whose_nulls_are_equal_keep_their_rows_beside_others() {
    let nearfar = both().nearfar.context();
    let joined = |on: &str| {
        format!("select count(*) from b join c on {on} join g on g.k2 = c.k2 where b.id < 100")
    };
    let null_safe = joined("b.k is not distinct from c.k");
    let spelled_out = joined("(b.k = c.k or (b.k is null and c.k is null))");
    check(&spelled_out);
    assert_eq!(answer(nearfar, &null_safe), answer(nearfar, &spelled_out));
}

#[test]
fn decimals_are_computed_and_refused_alike() {
    for sql in [
        "select sum(d * (1 - d)), sum(d * d * d), min(d - 5), max(-d) from b",
        "select sum(cast(d as decimal(4, 2)) * 2) from c",
        "select sum(cast(d as decimal(3, 2)) * 2) from c",
        "select sum(cast(d as decimal(12, 4)) * d) from b",
        "select k2, sum(d * x), count(d) from b group by k2",
        "select sum(w) from c",
        "select max(w), min(w) from b where w > 0",
    ] {
        check(sql);
    }
}

#[test]
fn a_random_number_is_drawn_per_row() {
    let both = both();
    let sql = "select count(*) from a where k2 >= 0 and random() < 0.5";
    let count = answer(both.nearfar.context(), sql).concat();
    let count: f64 = count.trim_matches('|').parse().expect("a number");
    assert!(
        (18_000.0..23_000.0).contains(&count),
        "{count} of 41,000 rows"
    );
}

fn condition(alias: &'static str) -> impl Strategy<Value = String> {
    let operator = prop::sample::select(vec!["<", "<=", "=", ">=", ">", "<>"]);
    let number = prop::sample::select(vec!["id", "k", "k2", "x", "d", "w"]);
    prop_oneof![
        (number, operator.clone(), -60i64..4000)
            .prop_map(move |(c, o, v)| format!("{alias}.{c} {o} {v}")),
        (operator, prop::sample::select(vec!["oak", "b", ""]))
            .prop_map(move |(o, v)| format!("{alias}.s {o} '{v}'")),
        prop::sample::select(vec!["k", "x", "d", "w", "s", "f"])
            .prop_map(move |c| format!("{alias}.{c} is null")),
        prop::collection::vec(-50i64..50, 1..4).prop_map(move |values| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!("{alias}.x in ({})", values.join(", "))
        }),
        Just(format!("{alias}.s like '%a%'")),
        Just(format!("not ({alias}.k < 20)")),
    ]
}

fn equality(left: &'static str, right: &'static str) -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec!["id", "k", "x"]);
    prop_oneof![
        4 => key.clone().prop_map(move |k| format!("{left}.{k} = {right}.{k}")),
        1 => key.prop_map(move |k| format!("{left}.{k} + 1 = {right}.{k}")),
        1 => Just(format!("{left}.k = {right}.k and {left}.k2 = {right}.k2")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_aggregate(
        table in prop::sample::select(vec!["a", "b", "g"]),
        first in condition("t"),
        second in condition("t"),
        or in any::<bool>(),
    ) {
        let or = if or { "or" } else { "and" };
        let from = format!("from {table} t where {first} {or} {second}");
        check(&format!(
            "select count(*), count(distinct t.x), min(t.s), max(t.d), sum(t.x), min(t.w), max(t.f) {from}"
        ));
        check(&format!("select t.k, count(t.w), sum(t.d * 2), min(t.s) {from} group by t.k"));
        check(&format!(
            "select t.k, count(*), count(t.w), sum(t.x), sum(t.d * 2), max(t.d) {from} group by t.k"
        ));
        check(&format!("select t.s, t.x, count(t.f), min(t.k) {from} group by t.s, t.x"));
    }

    #[test]
    fn any_join(
        ab in equality("a", "b"),
        bc in equality("b", "c"),
        ca in equality("c", "a"),
        filter in condition("b"),
        closed in any::<bool>(),
    ) {
        let more = if closed { format!("and {ca}") } else { String::new() };
        check(&format!(
            "select count(*), sum(a.x), min(b.s), max(c.id) from a, b, c \
             where {ab} and {bc} {more} and {filter} and a.id < 900 and b.id between -50 and 400 \
             and c.id < 25"
        ));
    }
}

/// The values of a printed answer.
fn cells(answer: &str) -> Vec<Vec<String>> {
    let rows = answer.lines().filter(|line| line.starts_with('|')).skip(1);
    let of_row = |row: &str| {
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    rows.map(of_row).collect()
}

/// PostgreSQL's order: NaN is greater than all, infinities are values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extremes_of_groups_are_those_of_ordered_rows() {
    let session = Engine::new(options()).expect("an engine").session();
    for width in ["DOUBLE PRECISION", "REAL"] {
        let rows = format!(
            "(SELECT g, CAST(v AS {width}) AS v FROM (VALUES (1, 'Infinity'), (2, '-Infinity'), (3, 'NaN'), \
               (4, '1'), (4, 'NaN'), (4, '2'), (5, 'NaN'), (5, '-Infinity'), (6, NULL), (7, '-0.5')) AS x (g, v)) x"
        );
        let of_groups = [
            ["1", "inf", "inf"],
            ["2", "-inf", "-inf"],
            ["3", "NaN", "NaN"],
            ["4", "1.0", "NaN"],
            ["5", "-inf", "NaN"],
            ["6", "", ""],
            ["7", "-0.5", "-0.5"],
        ];
        let statements: [(String, &[[&str; 3]]); 4] = [
            (
                format!("SELECT 0, min(v), max(v) FROM {rows}"),
                &[["0", "-inf", "NaN"]],
            ),
            (
                format!("SELECT g, min(v), max(v) FROM {rows} GROUP BY g ORDER BY g"),
                &of_groups,
            ),
            (
                format!(
                    "SELECT g, min(v), 'least' FROM {rows} WHERE g IN (3, 4) GROUP BY g ORDER BY 2 LIMIT 1"
                ),
                &[["4", "1.0", "least"]],
            ),
            (
                format!(
                    "SELECT max(g), max(v), 'greatest' FROM {rows} GROUP BY g ORDER BY 2 DESC NULLS LAST, 1 LIMIT 2"
                ),
                &[["3", "NaN", "greatest"], ["4", "NaN", "greatest"]],
            ),
        ];
        for (sql, expected) in statements {
            assert_eq!(cells(&run(&session, &sql).await), expected, "{sql}");
        }
    }
}
