//! What the operators of one thread get of an emulated tier, in virtual time.

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, collect,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use nearfar_memory::{
    Budgets, MachineRoots, MemorySystem, OverBudget, PageSize, Placement, RegionOptions, TierId,
    TierKind, TierSpec,
};
use nearfar_model::{BandwidthShare, Clock, EmulatedTier, EmulationParameters, VirtualClock};
use nearfar_table::placement::{ColumnPlacements, Storage};
use nearfar_table::table::{Table, TableBuilder, stored_schema};
use nearfar_table::tier_models::TierModels;
use std::sync::Arc;

use super::exec::{Input, OperatorInputExec, OperatorMemoryExec};
use super::usage::{Operator, Usage};
use crate::scan::{NearfarTable, ScanCosts};

const ROWS: i64 = 200_000;

/// A tier of which a core gets so many bytes in a nanosecond, and all of them far more.
fn parameters(core_bytes_per_ns: f64) -> EmulationParameters {
    EmulationParameters {
        latency_ns: 3200.0 / core_bytes_per_ns,
        near_latency_ns: 100.0,
        read_bandwidth_bytes_per_s: 400e9,
        write_bandwidth_bytes_per_s: 400e9,
        cores: 20,
        outstanding_sequential: 50.0,
        outstanding_random: 16.0,
        cache_bytes: None,
        copy_engine_bandwidth_bytes_per_s: None,
    }
}

fn system() -> Arc<MemorySystem> {
    let tier = |name: &str, kind| TierSpec::new(name, kind, [0], 64 << 20);
    let nowhere = MachineRoots {
        proc: "nowhere".into(),
        sys: "nowhere".into(),
        cgroup: "nowhere".into(),
    };
    let tiers = vec![
        tier("near", TierKind::LocalDram),
        tier("far", TierKind::Modelled),
        tier("farther", TierKind::Modelled),
    ];
    let budgets = Budgets::new().with_roots(nowhere);
    MemorySystem::from_specs(tiers, &budgets).expect("a system")
}

/// A table of numbers in no order, on `tier`.
fn table(system: &Arc<MemorySystem>, tier: TierId) -> Arc<Table> {
    let numbers = (0..ROWS).map(|row| row.wrapping_mul(-7_046_029_254_386_353_131));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).expect("a batch");
    let schema = stored_schema(&batch.schema());
    let placements = ColumnPlacements::all(Placement::Bind(tier));
    let storage = Storage {
        system: Arc::clone(system),
        options: RegionOptions {
            page_size: PageSize::Base,
            over_budget: OverBudget::Refuse,
        },
        temporary: None,
        pool: None,
        shelf: Arc::default(),
        models: TierModels::default(),
        index_workers: Arc::default(),
        traffic: Arc::default(),
    };
    let mut builder = TableBuilder::new(Arc::clone(&schema), placements.clone(), storage);
    builder.push(&batch).expect("pushed");
    let segments = builder.finish().expect("segments");
    Arc::new(Table::new("t", schema, segments, placements))
}

/// The sort at the root of `plan` with its memory on an emulated tier.
fn with_memory_on(plan: Arc<dyn ExecutionPlan>, usage: &Arc<Usage>) -> Arc<dyn ExecutionPlan> {
    let rows = Arc::clone(plan.children()[0]);
    let input = OperatorInputExec::new(rows, Arc::clone(usage), Input::Rows);
    let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    let sort = plan.replace_children(vec![Arc::new(input)], same);
    Arc::new(OperatorMemoryExec::new(
        sort.expect("a sort"),
        Arc::clone(usage),
    ))
}

/// Bytes per nanosecond that a core gets of each emulated tier.
const TIERS: [(&str, f64); 2] = [("far", 6.4), ("farther", 3.2)];

/// Sorts a table that lies on a tier with the sort's memory on another; how much longer that takes than
/// a core needs to transfer one byte after the other, as a share.
async fn beyond_one_core(table_on: usize, memory_on: usize) -> f64 {
    let system = system();
    let tiers = TIERS.map(|(name, _)| system.tier(name).expect("the tier"));
    let clock = Arc::new(VirtualClock::new());
    let models = TIERS.map(|(_, core_bytes_per_ns)| {
        let share = BandwidthShare::WholeDevice;
        let clock = Arc::clone(&clock) as _;
        EmulatedTier::with_clock(parameters(core_bytes_per_ns), share, clock).expect("a model")
    });
    let models = TierModels::new(tiers.into_iter().zip(models));
    let costs = ScanCosts::new(&system, &models, &Arc::default());
    let table = table(&system, tiers[table_on]);
    let provider = NearfarTable::new(table, Arc::clone(&costs));

    let config = SessionConfig::new().with_target_partitions(1);
    let context = SessionContext::new_with_config(config);
    let registered = context.register_table("t", Arc::new(provider));
    registered.expect("registered");
    let query = context.sql("SELECT n FROM t ORDER BY n").await;
    let plan = query.expect("planned").create_physical_plan().await;
    let plan = plan.expect("planned");
    assert_eq!(plan.name(), "SortExec");
    let tier = tiers[memory_on];
    let model = models.of(tier).cloned();
    let usage = Usage::new((tier, "far".to_owned()), model, Operator::Sort, 1);
    let rows = collect(with_memory_on(plan, &usage), context.task_ctx()).await;
    let rows: usize = rows.expect("rows").iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, ROWS as usize);

    let scanned_bytes = costs.bytes_read(tiers[table_on]) as f64;
    // A sort writes its rows and reads them.
    let sorted_bytes = (2 * 8 * ROWS) as f64;
    let of_core_ns = scanned_bytes / TIERS[table_on].1 + sorted_bytes / TIERS[memory_on].1;
    clock.now().as_ns() as f64 / of_core_ns - 1.0
}

#[tokio::test]
async fn a_far_scan_below_a_sort_with_far_memory_gets_one_core() {
    for (table_on, memory_on) in [(0, 0), (0, 1), (1, 0)] {
        let beyond = beyond_one_core(table_on, memory_on).await;
        assert!((0.0..0.02).contains(&beyond), "{beyond}");
    }
}
