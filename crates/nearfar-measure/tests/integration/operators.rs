//! Operators over near and far buffers in virtual time: the shapes of geyer-2023.

use nearfar_measure::Kind;
use nearfar_measure::operators::{
    Access, FarJoinStrategy, GeyerFigure, OperatorMachine, Placement, far_joins, grouped_ratios,
    reproduce_geyer,
};
use nearfar_measure::report::Report;
use nearfar_model::simulation::Machine;
use nearfar_topology::{Known, Profile};

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
    assert_eq!(page.matches("class=\"heat\"").count().max(4), 4);
}

#[test]
fn grouped_copies_get_near_with_more_joins() {
    for profile in ["cxl-fpga", "geyer-upi", "geyer-upi2", "cxl-blades-4"] {
        let ratios = grouped_ratios(&machine(profile), &[1, 5, 20]);
        assert_eq!(ratios.len(), 12);
        let of = |joins, placement, access| {
            let found = ratios
                .iter()
                .find(|one| (one.joins, one.placement, one.access) == (joins, placement, access));
            found.unwrap().ratio
        };
        for placement in [Placement::SmallFar, Placement::LargeFar] {
            let [one, many] = [1, 20].map(|joins| of(joins, placement, Access::Grouped));
            assert!(
                many > one - 1e-9 && many <= 1.0 + 1e-9,
                "{profile} {placement:?} {one} {many}"
            );
        }
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
