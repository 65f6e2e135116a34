//! The table and the regulators as results for programs.

use nearfar_model::simulation::Explained;

use super::causes::Causes;
use super::curves::{BackgroundCurve, Curves};
use super::matrix::{InterplayCell, InterplayTable};
use super::regulators::{RegulatedPoint, RegulatorFigure, Regulators};
use super::system::System;
use crate::results::{Kind, Metric};

impl InterplayTable {
    /// `class_right_percent` of all cells and by `system`, then `change_percent` of every cell,
    /// published and modelled, with its class as `effect`.
    pub fn metrics(&self) -> Vec<Metric> {
        let share = |system| {
            let value = self.right_percent(system);
            Metric::new("class_right_percent", value, "%", Kind::Modelled)
                .with("figure", InterplayTable::name())
        };
        let mut metrics = vec![share(None).with("cells", self.cells.len())];
        let systems = System::ALL.into_iter();
        metrics.extend(systems.map(|system| {
            let metric = share(Some(system)).with("profile", system.profile());
            metric.with("system", system.name())
        }));
        metrics.extend(self.cells.iter().flat_map(changes));
        metrics
    }
}

fn changes(cell: &InterplayCell) -> [Metric; 2] {
    let label = |value: f64, kind, effect: &str| {
        Metric::new("change_percent", value, "%", kind)
            .with("figure", InterplayTable::name())
            .with("system", cell.system.name())
            .with("device", &*cell.device)
            .with("operation", &*cell.operation)
            .with("background", &*cell.background)
            .with("background_operation", &*cell.background_operation)
            .with("effect", effect)
    };
    let published = cell.published_percent;
    [
        label(published, Kind::Published, cell.published().name()),
        label(
            cell.modelled_percent,
            Kind::Modelled,
            cell.modelled().name(),
        )
        .with("threads", cell.threads)
        .with("background_threads", cell.background_threads),
    ]
}

impl Regulators {
    /// `mean_error_points` of all settings of which a number is published, then `recovered_percent`,
    /// `aggressor_gb_per_s` and `near_latency_ns` of every setting, and what was published of it.
    pub fn metrics(&self) -> Vec<Metric> {
        let mean = self.mean_error_points().map(|points| {
            let metric = Metric::new("mean_error_points", points, "points", Kind::Modelled);
            metric.with("figure", self.figure.name())
        });
        let points = self.points.iter();
        let points = points.flat_map(|point| of_point(self.figure, point));
        mean.into_iter().chain(points).collect()
    }
}

fn of_point(figure: RegulatorFigure, point: &RegulatedPoint) -> Vec<Metric> {
    let label = |metric: Metric| {
        metric
            .with("figure", figure.name())
            .with("knob", point.knob)
            .with("setting", point.setting)
    };
    let modelled =
        |name: &str, value: f64, unit: &str| label(Metric::new(name, value, unit, Kind::Modelled));
    let mut metrics = vec![
        modelled("recovered_percent", point.recovered_percent, "%"),
        modelled("victim_gb_per_s", point.victim_gb_per_s, "GB/s"),
        modelled("aggressor_gb_per_s", point.aggressor_gb_per_s, "GB/s"),
        modelled("near_latency_ns", point.near_latency_ns, "ns"),
    ];
    for (name, value) in [
        ("lowest", point.published.0),
        ("highest", point.published.1),
    ] {
        if let Some(value) = value {
            let metric = Metric::new("recovered_percent", value, "%", Kind::Published);
            metrics.push(label(metric).with("bound", name));
        }
    }
    metrics
}

impl Curves {
    /// `shapes_met` of `shapes` and `shape` of each (1: met), and of every curve its largest `change_percent`, published
    /// and modelled, and that of every number of threads as `change_percent_by_threads`.
    pub fn metrics(&self) -> Vec<Metric> {
        let count =
            |name: &str, count: usize| Metric::new(name, count as f64, "count", Kind::Modelled);
        let met = self.shapes.iter().filter(|shape| shape.is_met).count();
        let mut metrics = vec![count("shapes_met", met), count("shapes", self.shapes.len())];
        metrics.extend(
            self.shapes
                .iter()
                .map(|shape| count("shape", usize::from(shape.is_met)).with("text", shape.text)),
        );
        metrics.extend(self.curves.iter().flat_map(of_curve));
        let of_figure = |metric: Metric| {
            let metric = metric.with("figure", self.figure.name());
            metric.with("system", self.system.name())
        };
        metrics.into_iter().map(of_figure).collect()
    }
}

fn of_curve(curve: &BackgroundCurve) -> Vec<Metric> {
    let label = |name: &str, value: f64, unit: &str, kind| {
        let metric = Metric::new(name, value, unit, kind)
            .with("tested", curve.tested)
            .with("beside", curve.background);
        match curve.drive_gb_per_s {
            Some(rate) => metric.with("drive_gb_per_s", rate),
            None => metric,
        }
    };
    let mut metrics = Vec::new();
    if let Some(published) = curve.published_percent {
        metrics.push(label("change_percent", published, "%", Kind::Published));
    }
    let largest = label(
        "change_percent",
        curve.change_percent(),
        "%",
        Kind::Modelled,
    );
    metrics.push(match curve.largest() {
        Some(point) => largest.with("background_threads", point.threads),
        None => largest,
    });
    metrics.push(label(
        "alone_gb_per_s",
        curve.alone_gb_per_s,
        "GB/s",
        Kind::Modelled,
    ));
    metrics.extend(curve.points.iter().map(|point| {
        let change = point.change_percent;
        label("change_percent_by_threads", change, "%", Kind::Modelled)
            .with("background_threads", point.threads)
            .with("background_gb_per_s", point.background_gb_per_s)
    }));
    metrics
}

impl Causes {
    /// `mape_percent` of the ratios, `counter_ratio` of every event, published and modelled, and of every group `place_ns`
    /// by place, its entries of the request table and its bandwidth, alone and beside.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        if let Some(mean) = self.mape_percent() {
            metrics.push(Metric::new("mape_percent", mean, "%", Kind::Modelled));
        }
        for ratio in &self.ratios {
            let label = |metric: Metric| metric.with("event", ratio.event);
            let published = Metric::new("counter_ratio", ratio.published, "", Kind::Published);
            metrics.push(label(published));
            let mut modelled = Metric::new("counter_ratio", 0.0, "", Kind::Modelled);
            modelled.value = ratio.modelled.clone();
            metrics.push(label(modelled).with("meaning", ratio.meaning));
        }
        for group in &self.groups {
            let runs = [("alone", group.alone), ("beside", Some(group.beside))];
            for (run, explained) in runs {
                let of = explained.iter().flat_map(of_places);
                let label = |metric: Metric| {
                    let metric = metric.with("group", group.name).with("run", run);
                    metric.with("threads", group.threads)
                };
                metrics.extend(of.map(label));
            }
        }
        let of_figure = |metric: Metric| {
            let metric = metric.with("figure", Self::name());
            metric.with("system", self.system.name())
        };
        metrics.into_iter().map(of_figure).collect()
    }
}

fn of_places(explained: &Explained) -> Vec<Metric> {
    let modelled = |name: &str, value, unit: &str| Metric::new(name, value, unit, Kind::Modelled);
    let places = [
        ("fill buffers", explained.fill_buffers_ns),
        ("L2 queue", explained.l2_queue_ns),
        ("request table", explained.table_ns),
        ("link", explained.link_ns),
        ("device", explained.device_ns),
    ];
    let mut metrics: Vec<Metric> = places
        .into_iter()
        .map(|(place, value)| modelled("place_ns", value, "ns").with("place", place))
        .collect();
    metrics.push(modelled("held_ns", explained.held_ns, "ns"));
    metrics.push(modelled("table_entries", explained.entries, "count"));
    metrics.push(modelled("gb_per_s", explained.gb_per_s, "GB/s"));
    metrics
}
