//! The 22 queries give the same answers wherever the columns lie.

use nearfar_bench::tpch::{
    Event, Observer, Outcome, TpchError, TpchOptions, default_placements, parse_placement, run,
};
use nearfar_measure::Kind;
use nearfar_table::placement::{NearBudget, Strategy};
use std::sync::Mutex;

use crate::machine::{engine, fast_profile};

/// Few rows, all queries.
pub fn small() -> TpchOptions {
    TpchOptions {
        scale_factor: 0.01,
        runs: 1,
        ..TpchOptions::default()
    }
}

/// Collects what it is told.
#[derive(Default)]
struct Steps(Mutex<Vec<String>>);

impl Observer for Steps {
    fn on(&self, event: &Event<'_>) {
        let step = match event {
            Event::Loaded { table, rows, .. } => format!("{table} {rows}"),
            Event::Placing { placement, .. } => placement.to_string(),
            _ => return,
        };
        self.0.lock().expect("no panic").push(step);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_right_under_every_placement() {
    let steps = Steps::default();
    let engine = engine(Some(fast_profile()));
    let outcome = run(&engine, &small(), &steps).await.expect("a run");
    assert_eq!(outcome.checked.as_ref().map(Vec::len), Some(22));
    let placements: Vec<String> = outcome
        .placements
        .iter()
        .map(|placed| placed.placement.to_string())
        .collect();
    assert_eq!(
        placements,
        [
            "near",
            "far",
            "interleave:1:1",
            "interleave:2:1",
            "columns:25%"
        ]
    );
    assert_eq!(
        steps.0.lock().expect("no panic")[..3],
        ["region 5", "nation 25", "supplier 100"]
    );
    check_bytes(&outcome);
    check_times(&outcome);
    // The tables are still there, and placed as the last placement says: the answers must hold.
    crate::answers::check_against_memtable(&engine, small().scale_factor).await;
}

fn check_bytes(outcome: &Outcome) {
    let bytes = |index: usize| {
        let of = |bytes: Vec<(String, u64)>, tier: &str| {
            bytes
                .into_iter()
                .filter(|(name, _)| name == tier)
                .map(|(_, bytes)| bytes)
                .sum::<u64>()
        };
        let placed = &outcome.placements[index];
        let stored = |tier| of(placed.stored_bytes.clone(), tier);
        let read = |tier| of(placed.read_bytes(), tier);
        [stored("near"), stored("far"), read("near"), read("far")]
    };
    let ([near, none, near_read, none_read], [zero, far, zero_read, far_read]) =
        (bytes(0), bytes(1));
    assert!(near > 1 << 20 && near_read > 0 && far_read > 0);
    assert_eq!((none, none_read, zero, zero_read), (0, 0, 0, 0));
    assert_eq!(near, far);
    let [interleaved_near, interleaved_far, ..] = bytes(2);
    assert!(
        interleaved_near + interleaved_far <= near,
        "base pages waste no more than huge ones"
    );
    assert!(interleaved_far > 0);
    let [budgeted, ..] = bytes(4);
    assert!(budgeted > 0 && budgeted <= near / 4, "{budgeted} of {near}");
    assert!(
        outcome.placements[4]
            .near_columns
            .iter()
            .any(|name| name.starts_with("lineitem."))
    );
}

fn check_times(outcome: &Outcome) {
    let near = outcome.near().expect("all near");
    assert_eq!(near.kind, Kind::Measured);
    assert_eq!(near.relative_throughput(near), 1.0);
    for placed in &outcome.placements {
        assert_eq!(placed.queries.len(), 22);
        assert!(placed.queries.iter().all(|query| query.summary().runs == 1));
        assert!(placed.total().median > 0.0 && placed.geometric_mean() > 0.0);
    }
    assert!(
        outcome.placements[1..]
            .iter()
            .all(|placed| placed.kind == Kind::Modelled)
    );
}

#[tokio::test]
async fn what_cannot_run_is_said_before_anything_is_generated() {
    let error = async |options: &TpchOptions, far: bool| {
        let engine = engine(far.then(fast_profile));
        run(&engine, options, &()).await.expect_err("an error")
    };
    let with = |change: fn(&mut TpchOptions)| {
        let mut options = small();
        change(&mut options);
        options
    };
    let no_far = error(&small(), false).await;
    // A machine with a second node has a far tier of its own.
    if engine(None).tier("far").is_none() {
        assert!(matches!(&no_far, TpchError::NoFarTier { placement } if placement == "far"));
    }
    let unknown = error(&with(|options| options.queries = vec![6, 23]), true).await;
    assert!(matches!(
        unknown,
        TpchError::UnknownQuery { number: 23, .. }
    ));
    let runs = error(&with(|options| options.runs = 0), true).await;
    assert!(matches!(runs, TpchError::NoRuns));
    let scale = error(&with(|options| options.scale_factor = -1.0), true).await;
    assert!(matches!(scale, TpchError::ScaleFactor { .. }));
    let budget = |bytes| default_placements(NearBudget::Bytes(bytes));
    let large = TpchOptions {
        placements: budget(u64::MAX),
        ..small()
    };
    assert!(matches!(
        error(&large, true).await,
        TpchError::NearBudgetTooLarge { .. }
    ));
    let columns = TpchOptions {
        placements: budget(1),
        queries: vec![6],
        ..small()
    };
    let small = error(&columns, true).await;
    assert!(
        matches!(
            &small,
            TpchError::NearBudgetTooSmall {
                budget_bytes: 1,
                ..
            }
        ),
        "{small}"
    );
}

#[test]
fn columns_alone_take_the_near_budget() {
    let budget = NearBudget::Columns(16);
    assert_eq!(
        parse_placement("columns", budget),
        Ok(Strategy::ByAccess(budget))
    );
    assert_eq!(parse_placement("far", budget), Ok(Strategy::far()));
    assert!(parse_placement("near by", budget).is_err());
}
