//! Pipelines over the same far column at the same time.

use nearfar_kernels::copy::{
    Chunks, CopyCancel, CopyError, CopyMethod, CopyOptions, MethodCopier, streamed,
};
use nearfar_measure::operators::native::{OperatorTiers, TierRunError, check_room, tier_pipelines};
use nearfar_measure::operators::{
    Access, CopierCount, GridOutcome, OperatorGrid, OperatorMachine, PipelinePoint, PipelineWork,
};
use nearfar_measure::report::Report;
use nearfar_memory::{
    Budgets, MemorySystem, Placement, Region, RegionError, RegionOptions, TierId,
};
use nearfar_topology::{Profile, Topology};

/// Bytes of the column of the model.
const MODELLED_BYTES: u64 = 32_000_000;

const PROFILES: [&str; 5] = [
    "cxl-fpga",
    "geyer-upi",
    "geyer-upi2",
    "geyer-rdma",
    "cxl-blades-4",
];

fn machine(profile: &str) -> OperatorMachine {
    OperatorMachine::new(&Profile::builtin(profile).unwrap()).unwrap()
}

fn modelled(profile: &str, change: impl Fn(&mut OperatorGrid)) -> GridOutcome {
    let machine = machine(profile);
    let mut grid = OperatorGrid {
        threads: vec![1],
        joins: vec![1],
        far_threads: vec![0],
        ..OperatorGrid::of_machine(&machine)
    };
    change(&mut grid);
    grid.check_modelled().unwrap();
    GridOutcome::modelled(&machine, &grid)
}

fn of(
    outcome: &GridOutcome,
    work: PipelineWork,
    pipelines: usize,
    access: Access,
) -> &PipelinePoint {
    let is_asked = |one: &&PipelinePoint| {
        let one = &one.configuration;
        (one.work, one.pipelines, one.access) == (work, pipelines, access)
    };
    outcome.pipelines.iter().find(is_asked).unwrap()
}

/// Where a core is the bound, copies lose what the first of 123 chunks takes: nobody reads before.
const FIRST_CHUNK: f64 = 0.02;

#[test]
fn grouped_pipelines_are_no_slower_than_separate_ones_and_the_link_moves_the_column_once() {
    for profile in PROFILES {
        let outcome = modelled(profile, |grid| {
            grid.pipeline_works = PipelineWork::ALL.into()
        });
        for work in PipelineWork::ALL {
            for pipelines in [1, 2, 4, 8] {
                let point = |access| of(&outcome, work, pipelines, access);
                let [sync, own, grouped] = Access::ALL.map(point);
                let rates = [sync, own, grouped].map(|point| point.bytes_per_s[0]);
                for separate in &rates[..2] {
                    let is_no_slower = rates[2] >= separate * (1.0 - FIRST_CHUNK);
                    assert!(is_no_slower, "{profile} {work:?} {pipelines}: {rates:?}");
                }
                assert_eq!(grouped.far_bytes, MODELLED_BYTES);
                for separate in [sync, own] {
                    assert_eq!(separate.far_bytes, pipelines as u64 * MODELLED_BYTES);
                }
                let ratio = grouped.ratios().next().unwrap();
                assert!(ratio > 0.0 && ratio <= 1.0 + 1e-9, "{profile} {ratio}");
            }
        }
    }
}

#[test]
fn more_grouped_pipelines_read_more_and_separate_ones_share_the_link() {
    for profile in PROFILES {
        let outcome = modelled(profile, |_| ());
        let rate =
            |pipelines, access| of(&outcome, PipelineWork::Sum, pipelines, access).bytes_per_s[0];
        let grouped = [1, 2, 4, 8].map(|pipelines| rate(pipelines, Access::Grouped));
        assert!(grouped.is_sorted(), "{profile}: {grouped:?}");
        let link = machine(profile).far_bytes_per_s;
        for access in [Access::Synchronous, Access::Asynchronous] {
            let separate = rate(8, access);
            assert!(separate <= link * 1.0001, "{profile} {access:?} {separate}");
            assert!(
                grouped[3] > separate * 1.4,
                "{profile} {access:?} {separate}"
            );
        }
    }
}

#[test]
fn copiers_depth_and_chunks_of_the_model_bound_a_ring() {
    let rate = |copiers, depth, chunk_bytes| {
        let outcome = modelled("cxl-fpga", |grid| {
            (grid.pipelines, grid.pipeline_works) = (vec![2], vec![PipelineWork::Sum]);
            grid.accesses = vec![Access::Grouped];
            grid.copiers = vec![CopierCount::Fixed(copiers)];
            grid.ring_depths = vec![depth];
            grid.chunk_bytes = vec![chunk_bytes];
        });
        outcome.pipelines[0].bytes_per_s[0]
    };
    let chunk = 256 << 10;
    assert!(
        rate(1, 16, chunk) < rate(5, 16, chunk),
        "one copier is a bound"
    );
    assert!(
        rate(5, 1, chunk) < rate(5, 16, chunk),
        "one chunk is a bound"
    );
    // A whole column in one chunk is read when all of it was copied.
    assert!(rate(5, 16, 32 << 20) < rate(5, 16, chunk));
}

#[test]
fn pipelines_have_metrics_and_charts() {
    let outcome = modelled("cxl-fpga", |grid| {
        (grid.pipelines, grid.pipeline_works) = (vec![1, 4], vec![PipelineWork::Probe]);
    });
    let metrics = outcome.metrics();
    for name in [
        "concurrent_far_ratio_to_near",
        "concurrent_bytes_per_s",
        "concurrent_far_bytes",
    ] {
        let rows: Vec<_> = metrics.iter().filter(|one| one.metric == name).collect();
        assert_eq!(rows.len(), 2 * 3, "{name}");
        let accesses = rows.iter().map(|row| &row.dimensions["access"]);
        let expected = ["synchronous", "asynchronous", "grouped"];
        assert!(accesses.eq(expected.iter().chain(&expected)));
        for row in rows {
            let is_copied = row.dimensions["access"] != "synchronous";
            assert_eq!(row.dimensions["work"], "probe");
            for dimension in ["copiers", "chunk_bytes", "ring_depth"] {
                assert_eq!(row.dimensions.contains_key(dimension), is_copied);
            }
        }
    }
    let mut report = Report::new("operators");
    outcome.add_to(&mut report);
    let page = report.to_html();
    for text in [
        "Bytes that all pipelines read (probe)",
        "Bytes that are read of the far tier",
        "everything near",
        "grouped, 5 copiers, chunks of 256 KiB, rings of 16",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

fn emulated() -> OperatorTiers {
    let profile = Profile::builtin("cxl-blades-4").unwrap();
    OperatorTiers::new(Topology::this_machine().unwrap(), &profile).unwrap()
}

/// On this machine, with the far tier of a profile emulated, small enough for a test.
#[test]
fn pipelines_run_natively_over_an_emulated_tier() {
    let tiers = emulated();
    let grid = OperatorGrid {
        pipelines: vec![1, 2, 5],
        pipeline_works: vec![PipelineWork::Mixed],
        copiers: vec![CopierCount::Fixed(3), CopierCount::Adaptive],
        chunk_bytes: vec![4096, 1 << 30],
        ring_depths: vec![1, 4],
        ..OperatorGrid::of_processors(tiers.processors())
    };
    let bytes: usize = 300 << 10;
    check_room(&tiers, bytes, 1 << 16, &grid).unwrap();
    // Each run checks what its pipelines find.
    let points = tier_pipelines(&tiers, bytes, &grid, 2, |_| ()).unwrap();
    assert_eq!(points.len(), 3 * (1 + 8 + 8));
    for point in points {
        assert_eq!(point.bytes_per_s.len(), 2);
        assert!(point.ratios().all(|ratio| ratio > 0.0));
        let one = point.configuration;
        let copies = match one.access {
            Access::Grouped => 1,
            Access::Synchronous | Access::Asynchronous => one.pipelines,
        };
        assert_eq!(point.far_bytes, (copies * bytes) as u64, "{one:?}");
    }
}

#[test]
fn rings_that_do_not_fit_are_refused_before_they_are_made() {
    const COLUMN_BYTES: usize = 256 << 20;
    let tiers = emulated();
    let mut grid = OperatorGrid {
        threads: vec![1],
        far_threads: vec![0],
        // Rings have no more chunks than the column, and none that are larger.
        chunk_bytes: vec![256 << 10, 1 << 40],
        pipelines: vec![1],
        ..OperatorGrid::of_processors(1)
    };
    let check = |grid: &OperatorGrid| {
        grid.check().unwrap();
        check_room(&tiers, COLUMN_BYTES, 1 << 16, grid)
    };
    check(&grid).unwrap();
    (grid.pipelines, grid.ring_depths) = (vec![1, 1024], vec![4096]);
    match check(&grid) {
        Err(TierRunError::Room {
            options,
            needed_bytes,
            available_bytes,
            ..
        }) => {
            assert_eq!(options, "column, pipelines, chunk and ring-depth");
            assert!(needed_bytes > available_bytes);
            // A near column, its copies for all pipelines, and a far column of the same memory.
            let columns = needed_bytes / COLUMN_BYTES as u64;
            assert!((1025..=1026).contains(&columns), "{columns}");
        }
        other => panic!("{other:?}"),
    }
}

/// Near memory for copies comes from regions: whose budget does not hold them, copies nothing and keeps nothing.
#[test]
fn a_copy_whose_near_memory_has_no_budget_is_refused() {
    const CHUNK_BYTES: usize = 64 << 10;
    let topology = Topology::this_machine().unwrap();
    let budgets = Budgets::new().with("near", 4 * CHUNK_BYTES as u64);
    let system = MemorySystem::new(&topology, &budgets).unwrap();
    let far = vec![7_u8; 20 * CHUNK_BYTES];
    let copy = |depth: usize| -> Result<Vec<Result<usize, CopyError>>, RegionError> {
        let near = Placement::Bind(TierId::NEAR);
        let options = RegionOptions::default();
        let mut room = Region::allocate(&system, depth * CHUNK_BYTES, &near, options)?;
        let buffers: Vec<&mut [u8]> = room.as_mut_slice().chunks_mut(CHUNK_BYTES).collect();
        let options = CopyOptions {
            chunk_bytes: CHUNK_BYTES,
            ..CopyOptions::default()
        };
        let count = |chunks: &mut Chunks<'_, &mut [u8]>| {
            let mut count = 0;
            while let Some(chunk) = chunks.next_chunk()? {
                count += chunk.iter().filter(|byte| **byte == 7).count();
            }
            Ok(count)
        };
        let copier = MethodCopier::new(CopyMethod::Cached).unwrap();
        let cancel = CopyCancel::default();
        let counts = streamed(&far, buffers, options, &cancel, |_| copier, vec![count; 2]);
        Ok(counts.unwrap())
    };
    for depth in [5, 4, 100, 1, 5] {
        match copy(depth) {
            Ok(counts) => {
                assert!(depth <= 4, "{depth}");
                assert_eq!(counts, [Ok(far.len()), Ok(far.len())]);
            }
            Err(error) => {
                assert!(depth > 4, "{error}");
                let is_budget = matches!(error, RegionError::OverBudget { .. });
                assert!(is_budget, "{error:?}");
            }
        }
        assert_eq!(system.usage(TierId::NEAR).used_bytes(), 0);
    }
}
