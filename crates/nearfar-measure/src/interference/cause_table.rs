//! What was found of causes, alone and beside, where the change of a pair is largest.

use nearfar_topology::Known;

use super::table::Table;
use crate::results::Metric;

/// Figures that are about causes, and what tells several of them apart.
const FIGURES: [(&str, &str); 4] = [
    ("cause", "cause"),
    ("kernel_function_percent", "function"),
    ("place_ns", "place"),
    ("table_entries", ""),
];

/// A figure about causes, of one pair.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseChange {
    /// What is under test.
    pub tested: String,
    /// What ran beside it.
    pub beside: String,
    /// What the figure is, such as `load L2 miss latency`.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// Without the background; `None` where there is no such figure, as of the background itself.
    pub alone: Option<f64>,
    /// With it, or why it is not known.
    pub together: Known<f64>,
    /// For how much of the time that was counted, alone or together, in per cent, where it was counted. Less than 100:
    /// it was scaled.
    pub counted_percent: Option<f64>,
}

impl CauseChange {
    /// With over without the background, where both are known and not zero.
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.together.get()? / self.alone?;
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

impl Table {
    /// What these figures tell of causes; nothing where nobody has watched.
    pub fn causes(&self, metrics: &[Metric]) -> Vec<CauseChange> {
        let mut changes = Vec::new();
        for cell in &self.cells {
            let Some((curve, point)) = cell.largest() else {
                continue;
            };
            let of_point = |metric: &&Metric, beside: Option<(&str, usize)>| {
                let is = |name: &str, value: serde_json::Value| {
                    metric.dimensions.get(name) == Some(&value)
                };
                let is_beside = match beside {
                    None => !metric.dimensions.contains_key("beside"),
                    Some((beside, threads)) => {
                        is("beside", beside.into()) && is("background_threads", threads.into())
                    }
                };
                is("tested", cell.tested.as_str().into())
                    && is("threads", curve.threads.into())
                    && is_beside
            };
            let beside = Some((cell.beside.as_str(), point.background_threads));
            let with = metrics.iter().filter(|metric| of_point(metric, beside));
            let without: Vec<(String, &Metric)> = metrics
                .iter()
                .filter(|metric| of_point(metric, None))
                .filter_map(|metric| Some((name(metric)?, metric)))
                .collect();
            changes.extend(with.filter_map(|metric| {
                let what = name(metric)?;
                let alone = without.iter().find(|(name, _)| *name == what);
                let alone = alone.map(|(_, metric)| *metric);
                let counted = [Some(metric), alone].into_iter().flatten();
                Some(CauseChange {
                    counted_percent: counted.filter_map(counted_percent).reduce(f64::min),
                    tested: cell.tested.clone(),
                    beside: cell.beside.clone(),
                    alone: alone.and_then(|metric| metric.value.get()),
                    together: metric.value.clone(),
                    unit: metric.unit.clone(),
                    what,
                })
            }));
        }
        changes
    }
}

fn counted_percent(metric: &Metric) -> Option<f64> {
    metric.dimensions.get("counted_percent")?.as_f64()
}

/// Each reason why figures are not known, once, with what they are.
pub fn unavailable(causes: &[CauseChange]) -> Vec<(&str, Vec<&str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for change in causes {
        let Some(reason) = change.together.reason() else {
            continue;
        };
        let what = change.what.as_str();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, figures)) if figures.contains(&what) => {}
            Some((_, figures)) => figures.push(what),
            None => reasons.push((reason, vec![what])),
        }
    }
    reasons
}

/// What a figure about causes is; `None` of all others.
fn name(metric: &Metric) -> Option<String> {
    let (kind, of) = FIGURES.iter().find(|(name, _)| *name == metric.metric)?;
    let text = |name: &str| {
        metric
            .dimensions
            .get(name)
            .and_then(serde_json::Value::as_str)
    };
    let name = match *kind {
        "table_entries" => "entries of the request table",
        "kernel_function_percent" => text(of).unwrap_or("kernel functions"),
        _ => text(of)?,
    };
    Some(match text("whose") {
        Some(whose) => format!("{name}, {whose}"),
        None => name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Kind;

    fn metric(name: &str, value: f64, beside: Option<usize>) -> Metric {
        let metric = Metric::new(name, value, "ns", Kind::Modelled)
            .with("tested", "near ld")
            .with("threads", 2);
        match beside {
            Some(threads) => metric
                .with("beside", "far ntst")
                .with("background_threads", threads),
            None => metric,
        }
    }

    fn tested(value: f64, beside: Option<usize>) -> Metric {
        metric("bandwidth_bytes_per_s", value, beside)
            .with("role", "tested")
            .with("values", serde_json::json!([value]))
    }

    #[test]
    fn causes_are_those_of_the_largest_change() {
        let place = |value, beside| {
            metric("place_ns", value, beside)
                .with("place", "link")
                .with("whose", "tested")
        };
        let others = |value| {
            metric("place_ns", value, Some(8))
                .with("place", "link")
                .with("whose", "background")
        };
        let counter = |percent: f64, beside| {
            metric("cause", 1.0, beside)
                .with("cause", "load L2 miss latency")
                .with("counted_percent", percent)
        };
        let mut lacking = metric("cause", 0.0, Some(8)).with("cause", "last-level occupancy");
        lacking.value = Known::unavailable("no resctrl");
        let metrics = [
            tested(10.0, None),
            place(100.0, None),
            tested(8.0, Some(4)),
            place(150.0, Some(4)),
            tested(2.0, Some(8)),
            place(300.0, Some(8)),
            others(70.0),
            counter(50.0, None),
            counter(100.0, Some(8)),
            lacking,
        ];
        let causes = Table::of(&metrics).causes(&metrics);
        let found: Vec<(&str, Option<f64>, Option<f64>)> = causes
            .iter()
            .map(|change| (change.what.as_str(), change.alone, change.ratio()))
            .collect();
        let expected = [
            ("link, tested", Some(100.0), Some(3.0)),
            ("link, background", None, None),
            ("load L2 miss latency", Some(1.0), Some(1.0)),
            ("last-level occupancy", None, None),
        ];
        assert_eq!(found, expected);
        let counted = causes.iter().map(|change| change.counted_percent);
        assert!(counted.eq([None, None, Some(50.0), None]));
        let twice = [causes.clone(), causes].concat();
        assert_eq!(
            unavailable(&twice),
            [("no resctrl", vec!["last-level occupancy"])]
        );
    }
}
