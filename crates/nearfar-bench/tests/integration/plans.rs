//! Plans of all queries, over small data.

use arrow::util::pretty::pretty_format_batches;
use nearfar_bench::tpch::Suite;
use nearfar_memory::{Placement, TierId};
use nearfar_sql::engine::{Engine, Session, StatementResult};
use nearfar_sql::load::{Load, Progress};
use nearfar_table::placement::ColumnPlacements;
use std::sync::Arc;

use crate::machine::engine;

const SCALE_FACTOR: f64 = 0.01;

fn loaded(suite: Suite) -> Arc<Engine> {
    let engine = engine(None);
    for name in suite.tables() {
        let rows = suite.rows(name, SCALE_FACTOR, 2).expect("a table");
        let load = Load {
            storage: engine.storage().clone(),
            name: (*name).to_owned(),
            placements: ColumnPlacements::all(Placement::Bind(TierId::NEAR)),
            progress: Arc::new(Progress::default()),
        };
        let table = load.batches(&rows.schema, rows.parts).expect("rows");
        engine.register(table).expect("a new name");
    }
    engine
}

async fn plan(session: &Session, sql: &str) -> String {
    let explained = session.execute(&format!("EXPLAIN {sql}")).await;
    let Some(StatementResult::Rows(rows)) = explained.expect(sql).pop() else {
        panic!("{sql} has no plan")
    };
    let rows = rows.collect().await.expect(sql);
    let table = pretty_format_batches(&rows).expect("a text").to_string();
    table.lines().map(without_numbers).collect()
}

/// A line without its padding, and without the numbers of names that the planner has made: each pass counts on.
fn without_numbers(line: &str) -> String {
    let mut text = String::new();
    for char in line.trim_matches(['|', '-', '+', ' ']).chars() {
        if !(char.is_ascii_digit() && text.ends_with('_')) {
            text.push(char);
        }
    }
    text.push('\n');
    text
}

/// The rules that come twice in the one pass are those that a second pass needs.
async fn has_plans_of_two_passes(suite: Suite) {
    let engine = loaded(suite);
    let (one, two) = (engine.session(), engine.session());
    let passes = "SET datafusion.optimizer.max_passes = 2";
    two.execute(passes).await.expect("a setting");
    for number in suite.numbers() {
        let sql = suite.query(number, SCALE_FACTOR).expect("a query");
        assert_eq!(plan(&one, &sql).await, plan(&two, &sql).await, "q{number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_plan_of_tpch_needs_a_second_pass() {
    has_plans_of_two_passes(Suite::TpcH).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_plan_of_tpcds_needs_a_second_pass() {
    has_plans_of_two_passes(Suite::TpcDs).await;
}
