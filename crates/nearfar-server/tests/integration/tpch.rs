//! TPC-H over the wire.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use nearfar_memory::{Placement, TierId};
use nearfar_sql::engine::Engine;
use nearfar_sql::load::{Load, Progress, tpch};
use nearfar_table::placement::ColumnPlacements;
use tokio_postgres::SimpleQueryMessage;

use crate::support::start;

const SCALE_FACTOR: f64 = 0.01;

pub fn load(engine: &Arc<Engine>) {
    for table in tpch::TABLES {
        let rows = tpch::rows(table, SCALE_FACTOR, 1).expect("generated");
        let load = Load {
            storage: engine.storage().clone(),
            name: table.to_owned(),
            placements: ColumnPlacements::all(Placement::Bind(TierId::NEAR)),
            progress: Arc::new(Progress::default()),
        };
        let loaded = load.batches(&rows.schema, rows.parts).expect("loaded");
        engine.register(loaded).expect("a free name");
    }
}

fn query(number: u32) -> String {
    let folder = Path::new("../nearfar-bench/src/tpch/queries");
    let path = folder.join(format!("q{number:02}.sql"));
    let text = fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // Of query 11 (TPC-H, section 2.4.11.3).
    text.replace("{fraction}", &format!("{}", 0.0001 / SCALE_FACTOR))
}

/// Both protocols answer alike: one in text, the other in binary form.
#[tokio::test(flavor = "multi_thread")]
async fn all_queries_are_answered_by_both_protocols() {
    let server = start().await;
    let engine = Arc::clone(&server.engine);
    tokio::task::spawn_blocking(move || load(&engine))
        .await
        .expect("loaded");
    let client = server.client().await;
    let mut answered = 0;
    for number in 1..=22 {
        let sql = query(number);
        let texts = client.simple_query(&sql).await;
        let texts = texts.unwrap_or_else(|error| panic!("query {number}: {error:?}"));
        let is_row = |message: &&SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(_));
        let count = texts.iter().filter(is_row).count();
        let sql = sql.trim().trim_end_matches(';');
        let rows = client.query(sql, &[]).await;
        let rows = rows.unwrap_or_else(|error| panic!("query {number}: {error:?}"));
        assert_eq!(rows.len(), count, "query {number}");
        answered += count;
    }
    assert!(answered > 22, "{answered}");
}
