//! TPC-H's answers after its tables were changed and changed back.

use nearfar_sql::engine::{Session, StatementResult};
use nearfar_sql::load::{Load, Progress, tpch};
use nearfar_table::placement::ColumnPlacements;
use std::sync::Arc;

use crate::answers::check_against_memtable;
use crate::machine::engine;
use nearfar_memory::{Placement, TierId};

const SCALE_FACTOR: f64 = 0.01;

async fn run(session: &Session, sql: &str) {
    for result in session.execute(sql).await.expect(sql) {
        if let StatementResult::Rows(rows) = result {
            rows.collect().await.expect(sql);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_right_after_rows_went_and_came_back() {
    let engine = engine(None);
    for name in tpch::TABLES {
        let rows = tpch::rows(name, SCALE_FACTOR, 2).expect("a table");
        let load = Load {
            storage: engine.storage().clone(),
            name: name.to_owned(),
            placements: ColumnPlacements::all(Placement::Bind(TierId::NEAR)),
            progress: Arc::new(Progress::default()),
        };
        let table = load.batches(&rows.schema, rows.parts).expect("rows");
        engine.register(table).expect("a new name");
    }
    let session = engine.session();
    run(&session, "SET merge_rows = never").await;
    for (name, key) in [
        ("lineitem", "l_orderkey * 7 + l_linenumber"),
        ("orders", "o_orderkey * 3"),
        ("part", "p_partkey"),
        ("customer", "c_custkey + 1"),
        ("nation", "n_nationkey"),
    ] {
        for (divisor, rest) in [(5, 2), (11, 0), (3, 1)] {
            let some = format!("({key}) % {divisor} = {rest}");
            run(
                &session,
                &format!(
                    "CREATE TEMP TABLE kept AS SELECT * FROM {name} WHERE {some};
                     BEGIN; DELETE FROM {name} WHERE {some}; COMMIT;
                     INSERT INTO {name} SELECT * FROM kept;
                     DROP TABLE kept"
                ),
            )
            .await;
        }
    }
    run(
        &session,
        "BEGIN; UPDATE part SET p_size = p_size + 1; UPDATE part SET p_size = p_size - 1; COMMIT;
         CALL nearfar.merge('orders')",
    )
    .await;
    check_against_memtable(&engine, SCALE_FACTOR).await;
    for name in tpch::TABLES {
        run(&session, &format!("CALL nearfar.merge('{name}')")).await;
    }
    check_against_memtable(&engine, SCALE_FACTOR).await;
}
