//! What the paper says of its figures, held against the model.

use super::figures::{Curve, GeyerFigure, Map};

/// A published shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Its figure.
    pub figure: GeyerFigure,
    /// What the paper says.
    pub name: &'static str,
    /// Whether the model has it.
    pub is_met: bool,
    /// What the model has.
    pub found: String,
}

/// A value that is held: at least this much of what it was, in per cent.
const HELD_PERCENT: f64 = 97.0;
/// Dark cells of a map, in per cent of its largest value.
const DARK_PERCENT: f64 = 90.0;

impl Shape {
    /// The shapes of a figure; those of figure 3 are of maps.
    pub(super) fn of(figure: GeyerFigure, curves: &[Curve], maps: &[Map]) -> Vec<Self> {
        match figure {
            GeyerFigure::Fig2 => of_sums(curves),
            GeyerFigure::Fig3 => of_maps(maps),
            GeyerFigure::Fig4 => of_joins(curves),
            GeyerFigure::Fig5 => of_grouped(curves),
        }
    }

    fn new(figure: GeyerFigure, name: &'static str, is_met: bool, found: String) -> Self {
        Self {
            figure,
            name,
            is_met,
            found,
        }
    }
}

/// The curve of a chart whose name begins so.
fn curve<'a>(curves: &'a [Curve], chart: &str, name: &str) -> &'a [(f64, f64)] {
    let found = curves
        .iter()
        .find(|curve| curve.chart.starts_with(chart) && curve.name == name);
    found.map_or(&[], |curve| &curve.points)
}

fn last(points: &[(f64, f64)]) -> f64 {
    points.last().map_or(f64::NAN, |point| point.1)
}

fn at(points: &[(f64, f64)], x: f64) -> f64 {
    let found = points.iter().find(|point| point.0 == x);
    found.map_or(f64::NAN, |point| point.1)
}

fn of_sums(curves: &[Curve]) -> Vec<Shape> {
    let figure = GeyerFigure::Fig2;
    let half = |name| last(curve(curves, "local threads on 50", name));
    let full = |name| last(curve(curves, "local threads on 100", name));
    // Remote threads with which a line is first below what counts as held.
    let falls = |name| {
        let points = curve(curves, "local threads on 100", name);
        let first = points.iter().find(|point| point.1 < HELD_PERCENT);
        first.map_or(f64::INFINITY, |point| point.0)
    };
    let others = ["UPI", "CXL", "UPI2"];
    let of_all = |of: &dyn Fn(&'static str) -> f64| {
        let found = ["UPI", "CXL", "UPI2", "RDMA"].map(|name| format!("{name} {:.0} %", of(name)));
        found.join(", ")
    };
    vec![
        Shape::new(
            figure,
            "50 %: UPI and CXL rise, UPI2 holds",
            half("UPI") > 100.0 && half("CXL") > 100.0 && half("UPI2") >= HELD_PERCENT,
            of_all(&half),
        ),
        Shape::new(
            figure,
            "50 %: RDMA falls",
            half("RDMA") < 100.0,
            of_all(&half),
        ),
        Shape::new(
            figure,
            "100 %: UPI, CXL and UPI2 hold",
            others.iter().all(|name| full(name) >= HELD_PERCENT),
            of_all(&full),
        ),
        Shape::new(
            figure,
            "100 %: RDMA falls first",
            others.iter().all(|name| falls("RDMA") < falls(name)),
            format!(
                "RDMA is below {HELD_PERCENT} % from {} remote threads on",
                falls("RDMA")
            ),
        ),
    ]
}

/// Columns of each row that are dark.
fn dark(map: &Map) -> Vec<usize> {
    let of_row = |row: &Vec<f64>| row.iter().filter(|value| **value >= DARK_PERCENT).count();
    map.values.iter().map(of_row).collect()
}

/// The lowest value over that without a remote thread, where cores are free for all threads.
fn lowest_with_free_cores(map: &Map) -> f64 {
    let mut lowest = f64::INFINITY;
    for (local, row) in map.local.iter().zip(&map.values) {
        for (remote, value) in map.remote.iter().zip(row) {
            if local + remote <= map.cores && *local >= map.cores / 2 {
                lowest = lowest.min(value / row[0]);
            }
        }
    }
    lowest
}

fn of_maps(maps: &[Map]) -> Vec<Shape> {
    let figure = GeyerFigure::Fig3;
    let of = |name: &str| {
        maps.iter()
            .filter(|map| map.name.starts_with(name))
            .collect::<Vec<_>>()
    };
    let (cxl, rdma) = (of("CXL"), of("RDMA"));
    let ([small, large], [_, rdma]) = (&cxl[..], &rdma[..]) else {
        return Vec::new();
    };
    let steps = dark(small);
    let is_staircase = steps.is_sorted() && steps.first() < steps.last();
    let lowest = lowest_with_free_cores(small);
    let darks = [small, large].map(|map| dark(map).iter().sum::<usize>());
    let (rows, columns) = (rdma.local.len() - 1, rdma.remote.len() - 1);
    let corner = rdma.values[rows][columns];
    let beside = rdma.values[rows][columns / 2].min(rdma.values[rows][0]);
    vec![
        Shape::new(
            figure,
            "CXL: a staircase",
            is_staircase,
            format!("dark columns by row: {steps:?}"),
        ),
        Shape::new(
            figure,
            "CXL: no loss while cores are free",
            lowest * 100.0 >= HELD_PERCENT,
            format!(
                "at least {:.0} % of no remote thread, from half of the cores on",
                lowest * 100.0
            ),
        ),
        Shape::new(
            figure,
            "CXL: the dark part moves left with larger buffers",
            darks[1] < darks[0],
            format!("{} dark cells, then {}", darks[0], darks[1]),
        ),
        Shape::new(
            figure,
            "RDMA: a dip at the lower right",
            corner < beside,
            format!("{corner:.0} % in the corner, {beside:.0} % to the left of it"),
        ),
    ]
}

fn of_joins(curves: &[Curve]) -> Vec<Shape> {
    let figure = GeyerFigure::Fig4;
    let of = |name| curve(curves, "slowdown", name);
    let mut points = curves
        .iter()
        .flat_map(|curve| &curve.points)
        .filter(|point| point.0 > 1.0);
    let is_below = points.all(|(joins, slowdown)| slowdown < joins);
    let ends = ["UPI", "CXL", "UPI2", "RDMA"].map(|name| format!("{name} {:.1}", last(of(name))));
    let found = format!("ten joins: {}", ends.join(", "));
    let apart = (last(of("UPI")) / last(of("CXL")) - 1.0).abs();
    vec![
        Shape::new(figure, "all below y = x", is_below, found.clone()),
        Shape::new(figure, "UPI about CXL", apart < 0.15, found.clone()),
        Shape::new(
            figure,
            "UPI2 above RDMA",
            last(of("UPI2")) > last(of("RDMA")),
            found,
        ),
    ]
}

fn of_grouped(curves: &[Curve]) -> Vec<Shape> {
    let figure = GeyerFigure::Fig5;
    let of = |how: &str, name: &str| curve(curves, &format!("50 % of the cores, {how}"), name);
    let gap = |joins: f64| {
        let values = ["UPI (i)", "CXL (i)", "UPI2 (i)", "RDMA (i)"]
            .map(|name| at(of("grouped", name), joins));
        let (min, max) = (
            values.iter().copied().fold(f64::INFINITY, f64::min),
            values.iter().copied().fold(0.0, f64::max),
        );
        max / min
    };
    let gap_large =
        |joins: f64| at(of("grouped", "UPI (ii)"), joins) / at(of("grouped", "CXL (ii)"), joins);
    let slowest_of_first =
        at(of("grouped", "UPI (i)"), 20.0).min(at(of("grouped", "CXL (i)"), 20.0));
    let fastest_of_second =
        at(of("grouped", "UPI2 (i)"), 20.0).max(at(of("grouped", "RDMA (i)"), 20.0));
    // How much the placement and the access matter on CXL, as factors.
    let factor = |a: f64, b: f64| (a / b).max(b / a);
    let by_placement = factor(
        at(of("grouped", "CXL (i)"), 20.0),
        at(of("grouped", "CXL (ii)"), 20.0),
    );
    let by_access = factor(
        at(of("grouped", "CXL (ii)"), 20.0),
        at(of("synchronous", "CXL (ii)"), 20.0),
    );
    vec![
        Shape::new(
            figure,
            "gaps between tiers shrink with more joins",
            gap(20.0) < gap(1.0) && gap_large(20.0) < gap_large(1.0),
            format!(
                "(i) from {:.2} to {:.2}, UPI over CXL (ii) from {:.2} to {:.2}",
                gap(1.0),
                gap(20.0),
                gap_large(1.0),
                gap_large(20.0)
            ),
        ),
        Shape::new(
            figure,
            "UPI and CXL above UPI2 and RDMA",
            slowest_of_first > fastest_of_second,
            format!("{slowest_of_first:.0} GB/s at least, {fastest_of_second:.0} GB/s at most"),
        ),
        Shape::new(
            figure,
            "placement matters less than grouping",
            by_placement < by_access,
            format!("a factor of {by_placement:.2} by placement, {by_access:.2} by access"),
        ),
    ]
}
