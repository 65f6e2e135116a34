//! Grids of sums and joins as results and as a page.

use nearfar_kernels::copy::CopyMethod;
use serde_json::Value;

use super::grid::{CopierCount, GridOutcome, JoinConfiguration, JoinPoint, SumPoint};
use super::joins::{Access, Placement};
use crate::report::{HeatMap, LineChart, Report};
use crate::results::Metric;
use crate::statistics::Summary;

/// A value of a point, such as the median over its rounds.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Summary::of(values).map(|summary| summary.median)
}

fn percent(share: f64) -> f64 {
    (share * 1e4).round() * 1e-2
}

impl Access {
    const fn ratio_name(self) -> &'static str {
        match self {
            Self::Synchronous => "synchronous_far_ratio_to_near",
            Self::Asynchronous => "asynchronous_far_ratio_to_near",
            Self::Grouped => "grouped_far_ratio_to_near",
        }
    }
}

impl CopierCount {
    /// As a dimension of results.
    pub(super) fn dimension(self) -> Value {
        match self {
            Self::Fixed(count) => count.into(),
            Self::Adaptive => self.to_string().into(),
        }
    }
}

/// Copies in the names of lines; the method where it is not the default one.
pub(super) fn copies_text(
    copiers: CopierCount,
    chunk_bytes: Option<usize>,
    method: Option<CopyMethod>,
) -> String {
    let chunk = chunk_bytes.map(|bytes| match bytes % 1024 {
        0 => format!(", chunks of {} KiB", bytes / 1024),
        _ => format!(", chunks of {bytes} B"),
    });
    let method = method.filter(|method| *method != CopyMethod::default());
    let method = method.map(|method| format!(", {method}"));
    let (chunk, method) = (chunk.unwrap_or_default(), method.unwrap_or_default());
    format!(", {copiers} copiers{chunk}{method}")
}

/// A figure of copies by this method.
pub(super) fn with_method(metric: Metric, method: Option<CopyMethod>) -> Metric {
    match method {
        Some(method) => metric.with("copy_method", method.name()),
        None => metric,
    }
}

impl JoinConfiguration {
    /// What stays the same along a line over numbers of joins.
    fn series(&self) -> String {
        let placement = match self.placement {
            Placement::SmallFar => "small columns far",
            Placement::LargeFar => "large column far",
        };
        let copies = self
            .copies
            .map(|copies| copies_text(copies.copiers, copies.chunk_bytes, copies.method));
        let access = self.access.name();
        format!("{access}, {placement}{}", copies.unwrap_or_default())
    }
}

impl GridOutcome {
    /// All figures.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = Vec::new();
        for point in &self.sums {
            metrics.extend(self.of_sum(point));
        }
        for point in &self.joins {
            metrics.extend(self.of_joins(point));
        }
        for point in &self.pipelines {
            metrics.extend(self.of_pipelines(point));
        }
        metrics
    }

    /// A figure over the rounds; of a model, which has one round, without a spread.
    pub(super) fn metric(
        &self,
        name: &str,
        values: impl IntoIterator<Item = f64>,
        unit: &str,
    ) -> Option<Metric> {
        let summary = Summary::of(values)?;
        let metric = match summary.runs {
            1 => Metric::new(name, summary.median, unit, self.kind()),
            _ => Metric::of_runs(name, &summary, unit, self.kind()),
        };
        Some(self.placed(metric))
    }

    fn placed(&self, metric: Metric) -> Metric {
        let metric = metric.with("tier", &*self.far);
        match &self.profile {
            Some(profile) => metric.with("profile", &**profile),
            None => metric,
        }
    }

    /// A ratio that there is none of, as this machine cannot copy by the method.
    pub(super) fn absent(&self, name: &str, method: Option<CopyMethod>) -> Option<Metric> {
        let error = method?.check().err()?;
        let absent = Metric::unavailable(name, &error.reason, "ratio", self.kind());
        Some(self.placed(absent))
    }

    fn of_sum(&self, point: &SumPoint) -> Vec<Metric> {
        let of = |metric: Metric| {
            let metric = metric
                .with("threads", point.threads)
                .with("far_threads", point.far_threads)
                .with("far_share_percent", percent(point.far_share));
            match point.integer_bytes {
                Some(bytes) => metric.with("integer_bytes", bytes),
                None => metric,
            }
        };
        let rates = self.metric("sum_bytes_per_s", point.bytes_per_s.iter().copied(), "B/s");
        let ratio = self
            .alone(point)
            .filter(|_| point.far_threads > 0)
            .map(|alone| {
                let rounds = point.bytes_per_s.iter().zip(&alone.bytes_per_s);
                rounds
                    .map(|(with, without)| with / without)
                    .collect::<Vec<_>>()
            });
        let ratio = ratio.and_then(|rounds| self.metric("sum_ratio_to_near", rounds, "ratio"));
        rates.into_iter().chain(ratio).map(of).collect()
    }

    /// The sums of the same threads without far ones.
    fn alone(&self, point: &SumPoint) -> Option<&SumPoint> {
        let is_same = |one: &&SumPoint| {
            one.far_threads == 0
                && one.threads == point.threads
                && one.far_share.total_cmp(&point.far_share).is_eq()
        };
        self.sums.iter().find(is_same)
    }

    fn of_joins(&self, point: &JoinPoint) -> Vec<Metric> {
        let one = &point.configuration;
        let of = |metric: Metric| {
            let metric = metric
                .with("joins", one.joins)
                .with("threads", one.threads)
                .with("far_share_percent", percent(one.far_share))
                .with("placement", one.placement.name())
                .with("access", one.access.name());
            let Some(copies) = one.copies else {
                return metric;
            };
            let metric = metric
                .with("copiers", copies.copiers.dimension())
                .with("group", copies.group);
            let metric = match copies.in_share {
                true => metric.with("joining_threads", one.joining()),
                false => metric,
            };
            let metric = with_method(metric, copies.method);
            match copies.chunk_bytes {
                Some(bytes) => metric.with("chunk_bytes", bytes),
                None => metric,
            }
        };
        let method = one.copies.and_then(|copies| copies.method);
        if let Some(absent) = self.absent(one.access.ratio_name(), method) {
            return vec![of(absent)];
        }
        let ratio = self.metric(one.access.ratio_name(), point.ratios(), "ratio");
        let rates = point.bytes_per_s.iter().copied();
        let rates = self.metric("joins_bytes_per_s", rates, "B/s");
        ratio.into_iter().chain(rates).map(of).collect()
    }

    /// Adds heat maps of sums, of joins a chart and a heat map for each number of threads and share, and charts of
    /// pipelines.
    pub fn add_to(&self, report: &mut Report) {
        report.heading("Sums of near and far buffers (geyer-2023, figures 2 and 3)");
        for map in self.sum_maps() {
            report.heat(map);
        }
        report.heading("Joins one after the other (geyer-2023, figure 5)");
        let same = |a: &JoinPoint, b: &JoinPoint| {
            let (a, b) = (&a.configuration, &b.configuration);
            a.threads == b.threads && a.far_share.total_cmp(&b.far_share).is_eq()
        };
        for points in self.joins.chunk_by(same) {
            report
                .lines(self.join_chart(points))
                .heat(self.join_map(points));
        }
        self.add_pipelines(report);
    }

    fn sum_maps(&self) -> Vec<HeatMap> {
        let same = |a: &SumPoint, b: &SumPoint| a.far_share.total_cmp(&b.far_share).is_eq();
        let of_share = |points: &[SumPoint]| {
            let mut far: Vec<usize> = points.iter().map(|point| point.far_threads).collect();
            far.sort_unstable();
            far.dedup();
            let share = percent(points[0].far_share);
            let mut map = HeatMap::new(
                format!("Far buffers of {share} %"),
                "GB/s, by far threads",
                self.kind(),
                "threads",
                far.iter().map(ToString::to_string),
            );
            let same_threads = |a: &SumPoint, b: &SumPoint| a.threads == b.threads;
            for row in points.chunk_by(same_threads) {
                let cell = |far: &usize| {
                    let point = row.iter().find(|point| point.far_threads == *far)?;
                    Some(median(point.bytes_per_s.iter().copied())? * 1e-9)
                };
                map.row(row[0].threads.to_string(), far.iter().map(cell));
            }
            map
        };
        self.sums.chunk_by(same).map(of_share).collect()
    }

    /// The name of what some points have in common.
    fn title(points: &[JoinPoint]) -> String {
        let JoinConfiguration {
            threads, far_share, ..
        } = points[0].configuration;
        let threads = match threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        format!("{threads}, small columns of {} %", percent(far_share))
    }

    fn join_chart(&self, points: &[JoinPoint]) -> LineChart {
        let mut chart = LineChart::new(Self::title(points), "joins", "GB/s");
        for series in series(points) {
            let of_series = points
                .iter()
                .filter(|point| point.configuration.series() == series);
            let line = of_series.filter_map(|point| {
                let rate = median(point.bytes_per_s.iter().copied())?;
                Some((point.configuration.joins as f64, rate * 1e-9))
            });
            let line: Vec<_> = line.collect();
            chart.line(series, self.kind(), line);
        }
        chart
    }

    fn join_map(&self, points: &[JoinPoint]) -> HeatMap {
        let mut joins: Vec<usize> = points.iter().map(|one| one.configuration.joins).collect();
        joins.sort_unstable();
        joins.dedup();
        let mut map = HeatMap::new(
            Self::title(points),
            "% of everything near, by joins",
            self.kind(),
            "columns",
            joins.iter().map(ToString::to_string),
        );
        for series in series(points) {
            let cell = |joins: &usize| {
                let mut of_series = points.iter();
                let point = of_series.find(|point| {
                    point.configuration.joins == *joins && point.configuration.series() == series
                })?;
                Some((median(point.ratios())? * 100.0).round())
            };
            let cells: Vec<_> = joins.iter().map(cell).collect();
            map.row(series.clone(), cells);
        }
        map
    }
}

/// Their series, each once, in their order.
fn series(points: &[JoinPoint]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for point in points {
        let series = point.configuration.series();
        if !all.contains(&series) {
            all.push(series);
        }
    }
    all
}
