//! Operators over near and far buffers in virtual time: the shapes of geyer-2023.

use nearfar_kernels::copy::CopyMethod;
use nearfar_measure::Kind;
use nearfar_measure::operators::native::{
    OperatorTiers, TierRunError, check_room, tier_joins, tier_sums,
};
use nearfar_measure::operators::{
    Access, CopierCount, FarJoinStrategy, GeyerFigure, GridOutcome, JoinPoint, OperatorGrid,
    OperatorMachine, Placement, far_joins, reproduce_geyer,
};
use nearfar_measure::report::Report;
use nearfar_measure::results::Metric;
use nearfar_model::simulation::Machine;
use nearfar_topology::{Known, Profile, Topology};

fn machine(profile: &str) -> OperatorMachine {
    OperatorMachine::new(&Profile::builtin(profile).unwrap()).unwrap()
}

/// Shapes that the model has not; docs/operators.md says what limits it.
const UNMET: [&str; 2] = [
    "CXL: no loss while cores are free",
    "gaps between tiers shrink with more joins",
];

#[test]
fn the_published_shapes() {
    let outcome = reproduce_geyer(&GeyerFigure::ALL).unwrap();
    assert_eq!(outcome.shapes.len(), 14);
    let unmet = outcome.shapes.iter().filter(|shape| !shape.is_met);
    let unmet: Vec<_> = unmet.map(|shape| shape.name).collect();
    assert_eq!(unmet, UNMET, "{:#?}", outcome.shapes);
}

#[test]
fn a_figure_runs_alone_and_again_alike() {
    let first = reproduce_geyer(&[GeyerFigure::Fig4]).unwrap();
    assert_eq!(first.curves.len(), 4);
    assert!(first.maps.is_empty());
    assert_eq!(first, reproduce_geyer(&[GeyerFigure::Fig4]).unwrap());
    let metrics = first.metrics();
    assert!(metrics.iter().all(|metric| metric.kind == Kind::Modelled));
    assert_eq!(metrics[0].metric, "shapes_met");
    assert_eq!(metrics[1].value.get(), Some(3.0));
}

#[test]
fn the_page_has_every_chart_map_and_shape() {
    let outcome = reproduce_geyer(&GeyerFigure::ALL).unwrap();
    let mut report = Report::new("geyer-2023");
    outcome.add_to(&mut report);
    let page = report.to_html();
    for shape in &outcome.shapes {
        assert!(
            page.contains(&shape.name.replace('&', "&amp;")),
            "{}",
            shape.name
        );
    }
    assert_eq!(page.matches("<svg").count(), 2 + 1 + 4);
    // Two sizes of remote buffers for CXL and for RDMA.
    assert_eq!(page.matches("class=\"heat\"").count(), 4);
}

#[test]
fn grouped_copies_get_near_with_more_joins() {
    let profiles = [
        "cxl-fpga",
        "geyer-upi",
        "geyer-upi2",
        "geyer-rdma",
        "cxl-blades-4",
    ];
    for profile in profiles {
        let machine = machine(profile);
        let grid = OperatorGrid {
            threads: vec![machine.cores / 2],
            joins: vec![1, 5, 20],
            ..OperatorGrid::of_machine(&machine)
        };
        let outcome = GridOutcome::modelled(&machine, &grid);
        assert_eq!(outcome.joins.len(), 18);
        let of = |joins, placement, access| ratio(&outcome, joins, placement, access);
        for placement in Placement::ALL {
            let [one, many] = [1, 20].map(|joins| of(joins, placement, Access::Grouped));
            assert!(
                many > one - 1e-9 && many <= 1.0 + 1e-9,
                "{profile} {placement:?} {one} {many}"
            );
        }
    }
}

/// The modelled ratio to everything near of one configuration.
fn ratio(outcome: &GridOutcome, joins: usize, placement: Placement, access: Access) -> f64 {
    let is_asked = |one: &&JoinPoint| {
        let one = &one.configuration;
        (one.joins, one.placement, one.access) == (joins, placement, access)
    };
    let found = outcome.joins.iter().find(is_asked).unwrap();
    found.ratios().next().unwrap()
}

#[test]
fn what_is_shared_is_copied_once_only_where_joins_are_grouped() {
    let machine = machine("cxl-fpga");
    let of = |threads, access, group| {
        let grid = OperatorGrid {
            threads: vec![threads],
            joins: vec![20],
            accesses: vec![access],
            group,
            ..OperatorGrid::of_machine(&machine)
        };
        let outcome = GridOutcome::modelled(&machine, &grid);
        ratio(&outcome, 20, Placement::LargeFar, access)
    };
    let half = machine.cores / 2;
    let alone = of(half, Access::Asynchronous, None);
    let five = of(half, Access::Grouped, Some(5));
    let all = of(half, Access::Grouped, None);
    assert!(alone < five && five < all, "{alone} {five} {all}");
    // Copies for other threads keep the link busy, but of one thread the next column is copied while it joins.
    let begins_with_its_join = of(1, Access::Asynchronous, None);
    let ahead = of(1, Access::Grouped, Some(1));
    assert!(
        ahead > begins_with_its_join + 0.01 && ahead <= 1.0 + 1e-9,
        "{begins_with_its_join} {ahead}"
    );
}

#[test]
fn copiers_and_chunks_of_the_model_are_parameters() {
    let machine = machine("cxl-fpga");
    let grid = OperatorGrid {
        threads: vec![8],
        joins: vec![5],
        accesses: vec![Access::Grouped],
        copiers: [1, 5].map(CopierCount::Fixed).into(),
        chunk_bytes: vec![64 << 10, 8 << 20],
        ..OperatorGrid::of_machine(&machine)
    };
    let outcome = GridOutcome::modelled(&machine, &grid);
    let of = |copiers, chunk_bytes| {
        let is_asked = |one: &&JoinPoint| {
            let copies = one.configuration.copies.unwrap();
            one.configuration.placement == Placement::LargeFar
                && (copies.copiers.fixed(), copies.chunk_bytes)
                    == (Some(copiers), Some(chunk_bytes))
        };
        outcome.joins.iter().find(is_asked).unwrap().bytes_per_s[0]
    };
    assert!(of(1, 64 << 10) < of(5, 64 << 10), "one copier is a bound");
    // A whole column in one chunk keeps four of five copiers from helping with it.
    assert!(of(5, 8 << 20) <= of(5, 64 << 10));
    let chunks = |metric: &&Metric| metric.metric == "grouped_far_ratio_to_near";
    let metrics = outcome.metrics();
    let rows: Vec<_> = metrics.iter().filter(chunks).collect();
    assert_eq!(rows.len(), 2 * 2 * 2);
    for name in [
        "joins",
        "threads",
        "placement",
        "copiers",
        "chunk_bytes",
        "group",
    ] {
        assert!(
            rows.iter().all(|row| row.dimensions.contains_key(name)),
            "{name}"
        );
    }
}

#[test]
fn copiers_in_the_share_of_threads_join_less_and_copy_as_much() {
    let machine = machine("cxl-fpga");
    let run = |copiers_in_share| {
        let grid = OperatorGrid {
            threads: vec![28],
            joins: vec![5],
            copiers: vec![CopierCount::Fixed(5)],
            copiers_in_share,
            ..OperatorGrid::of_machine(&machine)
        };
        grid.check_modelled().unwrap();
        GridOutcome::modelled(&machine, &grid)
    };
    let (on_top, in_share) = (run(false), run(true));
    for (on_top, in_share) in on_top.joins.iter().zip(&in_share.joins) {
        // Everything near is as it was, and who reads far columns has no copiers.
        assert_eq!(on_top.near_bytes_per_s, in_share.near_bytes_per_s);
        let [more, less] = [on_top, in_share].map(|one| one.bytes_per_s[0]);
        match on_top.configuration.access {
            Access::Synchronous => assert_eq!(more, less),
            Access::Asynchronous | Access::Grouped => {
                assert!(less <= more * 1.001, "{less} {more}")
            }
        }
    }
    let metrics = in_share.metrics();
    let of = |name| metrics.iter().filter(move |one| one.metric == name);
    let joining = |one: &Metric| one.dimensions["joining_threads"] == 23;
    assert!(of("grouped_far_ratio_to_near").all(joining));
}

#[test]
fn threads_that_serve_rdma_take_cores() {
    // One core is free: enough for one of them, but not for eight.
    let rdma = machine("geyer-rdma");
    let rate = |threads| {
        let machine = rdma.clone().with_rdma_threads(threads).unwrap();
        let grid = OperatorGrid {
            threads: vec![machine.cores - 1],
            joins: vec![1],
            accesses: vec![Access::Synchronous],
            ..OperatorGrid::of_machine(&machine)
        };
        GridOutcome::modelled(&machine, &grid).joins[0].bytes_per_s[0]
    };
    let (one, eight) = (rate(1), rate(8));
    assert!(eight < one * 0.9, "{eight} {one}");
    assert_eq!(rdma.clone().with_rdma_threads(2), Ok(rdma.clone()));
    for threads in [0, 1025] {
        let error = rdma.clone().with_rdma_threads(threads).unwrap_err();
        assert_eq!(error.field, "rdma-threads");
    }
    let error = machine("cxl-fpga").with_rdma_threads(2).unwrap_err();
    assert!(error.to_string().contains("geyer-rdma"), "{error}");
}

#[test]
fn copies_that_the_machine_cannot_make_are_unavailable_and_the_others_run() {
    let topology = Topology::this_machine().unwrap();
    let tiers = OperatorTiers::new(topology, &Profile::builtin("cxl-blades-4").unwrap()).unwrap();
    let grid = OperatorGrid {
        threads: vec![1],
        joins: vec![1],
        accesses: vec![Access::Grouped],
        copy_methods: CopyMethod::ALL.into(),
        ..OperatorGrid::of_processors(1)
    };
    let joins = tier_joins(&tiers, 1 << 16, &grid, 1, |_| ()).unwrap();
    assert_eq!(joins.len(), 2 * CopyMethod::ALL.len());
    let outcome = GridOutcome {
        far: tiers.far_name().to_owned(),
        profile: None,
        sums: Vec::new(),
        joins,
        pipelines: Vec::new(),
    };
    let metrics = outcome.metrics();
    for method in CopyMethod::ALL {
        let of_method = metrics.iter().filter(|one| {
            one.metric == "grouped_far_ratio_to_near"
                && one.dimensions["copy_method"] == method.name()
        });
        let values: Vec<_> = of_method.map(|one| &one.value).collect();
        assert_eq!(values.len(), 2, "{method}");
        match method.check() {
            Ok(()) => assert!(values.iter().all(|value| value.is_known())),
            Err(error) => {
                let reasons = values.iter().map(|value| value.reason());
                assert!(reasons.eq([Some(&*error.reason); 2]), "{method}");
            }
        }
    }
}

#[test]
fn the_page_of_a_grid_has_a_map_and_a_chart_of_every_part() {
    let machine = machine("geyer-upi2");
    let grid = OperatorGrid::of_machine(&machine);
    let outcome = GridOutcome::modelled(&machine, &grid);
    let mut report = Report::new("operators");
    outcome.add_to(&mut report);
    let page = report.to_html();
    // Sums; joins on half of the cores and on all of them.
    assert_eq!(page.matches("class=\"heat\"").count(), 1 + 2);
    // And three charts of pipelines: of each work, and of bytes.
    assert_eq!(page.matches("<svg").count(), 2 + 3);
    for series in [
        "synchronous, small columns far",
        "grouped, large column far, 5 copiers",
    ] {
        assert!(page.contains(series), "{series}");
    }
}

/// Sums and joins on this machine, with the far tier of a profile emulated, small enough for a test.
#[test]
fn sums_and_joins_run_natively_over_an_emulated_tier() {
    let topology = Topology::this_machine().unwrap();
    let tiers = OperatorTiers::new(topology, &Profile::builtin("cxl-blades-4").unwrap()).unwrap();
    let grid = OperatorGrid {
        threads: vec![1, 3],
        far_threads: vec![0, 2],
        far_shares: vec![0.25],
        joins: vec![1, 5],
        copiers: vec![CopierCount::Fixed(5), CopierCount::Adaptive],
        chunk_bytes: vec![4096, 1 << 20],
        group: Some(2),
        ..OperatorGrid::of_processors(tiers.processors())
    };
    // Each run checks what its threads find.
    let sums = tier_sums(&tiers, 1 << 20, &grid, 2, |_| ()).unwrap();
    assert_eq!(sums.len(), 4);
    assert!(
        sums.iter()
            .all(|one| one.bytes_per_s.len() == 2 && one.bytes_per_s[0] > 0.0)
    );
    let wide = OperatorGrid {
        integer_bytes: Some(8),
        ..grid.clone()
    };
    let sums = tier_sums(&tiers, 1 << 20, &wide, 1, |_| ()).unwrap();
    assert!(sums.iter().all(|one| one.integer_bytes == Some(8)));
    let joins = tier_joins(&tiers, 100_000, &grid, 1, |_| ()).unwrap();
    assert_eq!(joins.len(), 2 * 2 * 2 * (1 + 4 + 4));
    assert!(
        joins
            .iter()
            .all(|one| one.ratios().all(|ratio| ratio > 0.0))
    );
    let in_share = OperatorGrid {
        threads: vec![3],
        copiers: vec![CopierCount::Fixed(2)],
        copiers_in_share: true,
        ..grid
    };
    in_share.check().unwrap();
    for point in tier_joins(&tiers, 100_000, &in_share, 1, |_| ()).unwrap() {
        assert!(point.ratios().all(|ratio| ratio > 0.0));
    }
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_made() {
    let topology = Topology::this_machine().unwrap();
    let tiers = OperatorTiers::new(topology, &Profile::builtin("cxl-blades-4").unwrap()).unwrap();
    let small = OperatorGrid {
        threads: vec![1, 2],
        ..OperatorGrid::of_processors(2)
    };
    check_room(&tiers, 1 << 20, 1 << 20, &small).unwrap();
    let refused = |buffer_bytes: usize, large_bytes: usize, grid: &OperatorGrid| match check_room(
        &tiers,
        buffer_bytes,
        large_bytes,
        grid,
    ) {
        Err(TierRunError::Room {
            options,
            needed_bytes,
            available_bytes,
            ..
        }) if needed_bytes > available_bytes => options,
        other => panic!("{other:?}"),
    };
    let (sums, joins) = (
        "column, threads and far-threads",
        "large, threads, joins and group",
    );
    assert_eq!(refused(1 << 44, 1 << 20, &small), sums);
    assert_eq!(refused(usize::MAX & !4095, 1 << 20, &small), sums);
    assert_eq!(refused(1 << 20, 1 << 44, &small), joins);
    assert_eq!(refused(1 << 20, usize::MAX, &small), joins);
    let mut many = small.clone();
    (many.joins, many.threads) = (vec![1000], vec![1024]);
    assert_eq!(refused(1 << 12, 1 << 30, &many), joins);
    let mut far = small;
    far.far_threads = vec![1024];
    assert_eq!(refused(1 << 34, 1 << 20, &far), sums);
}

#[test]
fn reads_of_an_emulated_tier_take_as_long_as_its_link() {
    let mut profile = Profile::builtin("cxl-blades-1").unwrap();
    profile.far.read_bandwidth_bytes_per_s = Known::Value(100e6 * f64::from(profile.cores));
    let tiers = OperatorTiers::new(Topology::this_machine().unwrap(), &profile).unwrap();
    if tiers.profile().is_none() {
        return; // This machine has a far tier of its own.
    }
    let bound = 100e6 * tiers.processors() as f64;
    let grid = OperatorGrid {
        threads: vec![1],
        far_threads: vec![1],
        far_shares: vec![1.0],
        joins: vec![2],
        copiers: vec![CopierCount::Fixed(2)],
        ..OperatorGrid::of_processors(1)
    };
    let bytes = 1 << 20;
    // Half of all bytes are far, and the link has few bytes for a start.
    let sums = tier_sums(&tiers, bytes, &grid, 1, |_| ()).unwrap();
    let rate = sums[0].bytes_per_s[0] / 2.0;
    assert!(rate < 1.2 * bound, "{rate} of {bound}");
    let joins = tier_joins(&tiers, bytes, &grid, 1, |_| ()).unwrap();
    for point in joins {
        let one = point.configuration;
        // Of the bytes that are joined: half of them, or the shared column once for both joins.
        let is_shared = one.placement == Placement::LargeFar && one.access == Access::Grouped;
        let far = point.bytes_per_s[0] * if is_shared { 0.25 } else { 0.5 };
        assert!(far < 1.2 * bound, "{far} of {bound}: {one:?}");
    }
}

#[test]
fn a_profile_without_far_bandwidth_is_refused() {
    let mut profile = Profile::builtin("cxl-fpga").unwrap();
    profile.far.read_bandwidth_bytes_per_s = Known::unavailable("nobody says");
    let error = OperatorMachine::new(&profile).unwrap_err();
    assert!(error.to_string().contains("cxl-fpga") && error.to_string().contains("nobody says"));
}

#[test]
fn prefetching_makes_up_for_much_of_a_far_table() {
    let machine = Machine::new(&Profile::builtin("cxl-blades-4").unwrap()).unwrap();
    let joins = far_joins(&machine, 4).unwrap();
    let of = |strategy| *joins.iter().find(|join| join.strategy == strategy).unwrap();
    let [plain, prefetching, divided] = FarJoinStrategy::ALL.map(of);
    assert!(prefetching.far_rows_per_s >= plain.far_rows_per_s);
    assert!(divided.ratio() >= 0.85, "{joins:?}");
    assert!(plain.ratio() < 0.6, "{joins:?}");
}
