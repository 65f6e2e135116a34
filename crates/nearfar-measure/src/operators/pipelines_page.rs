//! Pipelines as results and as a page.

use super::grid::GridOutcome;
use super::grid_page::{copies_text, median, with_method};
use super::pipelines::{PipelineConfiguration, PipelinePoint};
use crate::report::{LineChart, Report};
use crate::results::Metric;

impl PipelineConfiguration {
    /// What stays the same along a line over numbers of pipelines.
    fn series(&self) -> String {
        let ring = self.ring.map(|ring| {
            let copies = copies_text(ring.copiers, Some(ring.chunk_bytes), ring.method);
            format!("{copies}, rings of {}", ring.depth)
        });
        format!("{}{}", self.access.name(), ring.unwrap_or_default())
    }

    fn with(&self, metric: Metric) -> Metric {
        let metric = metric
            .with("pipelines", self.pipelines)
            .with("work", self.work.name())
            .with("access", self.access.name());
        let Some(ring) = self.ring else {
            return metric;
        };
        let metric = metric
            .with("copiers", ring.copiers.dimension())
            .with("chunk_bytes", ring.chunk_bytes)
            .with("ring_depth", ring.depth);
        with_method(metric, ring.method)
    }
}

impl GridOutcome {
    /// `concurrent_far_ratio_to_near`, `concurrent_bytes_per_s` and `concurrent_far_bytes` of a point.
    pub(super) fn of_pipelines(&self, point: &PipelinePoint) -> Vec<Metric> {
        const RATIO: &str = "concurrent_far_ratio_to_near";
        let one = &point.configuration;
        let method = one.ring.and_then(|ring| ring.method);
        if let Some(absent) = self.absent(RATIO, method) {
            return vec![one.with(absent)];
        }
        let ratio = self.metric(RATIO, point.ratios(), "ratio");
        let rates = point.bytes_per_s.iter().copied();
        let rates = self.metric("concurrent_bytes_per_s", rates, "B/s");
        let far = self.metric("concurrent_far_bytes", [point.far_bytes as f64], "B");
        let all = ratio.into_iter().chain(rates).chain(far);
        all.map(|metric| one.with(metric)).collect()
    }

    /// Adds charts over numbers of pipelines: throughput of each work, and bytes of the far tier.
    pub(super) fn add_pipelines(&self, report: &mut Report) {
        report.heading("Pipelines over the same far column at the same time");
        let same =
            |a: &PipelinePoint, b: &PipelinePoint| a.configuration.work == b.configuration.work;
        let mut works = self.pipelines.chunk_by(same).peekable();
        // The bytes are those of copies, whatever reads them.
        let far = works.peek().map(|points| self.far_chart(points));
        for points in works {
            report.lines(self.rate_chart(points));
        }
        if let Some(far) = far {
            report.lines(far);
        }
    }

    fn rate_chart(&self, points: &[PipelinePoint]) -> LineChart {
        let work = points[0].configuration.work.name();
        let title = format!("Bytes that all pipelines read ({work})");
        let mut chart = LineChart::new(title, "pipelines", "GB/s");
        let rate = |point: &PipelinePoint, rates: &[f64]| {
            let rate = median(rates.iter().copied())?;
            Some((point.configuration.pipelines as f64, rate * 1e-9))
        };
        let near = points.iter();
        let mut near: Vec<_> = near
            .filter_map(|point| rate(point, &point.near_bytes_per_s))
            .collect();
        near.dedup_by_key(|(pipelines, _)| *pipelines);
        chart.line("everything near", self.kind(), near);
        for (series, points) in by_series(points) {
            let line = points.iter();
            let line: Vec<_> = line
                .filter_map(|point| rate(point, &point.bytes_per_s))
                .collect();
            chart.line(series, self.kind(), line);
        }
        chart
    }

    fn far_chart(&self, points: &[PipelinePoint]) -> LineChart {
        let title = "Bytes that are read of the far tier";
        let mut chart = LineChart::new(title, "pipelines", "GB");
        for (series, points) in by_series(points) {
            let run = points.iter().filter(|point| !point.bytes_per_s.is_empty());
            let line = run.map(|point| {
                let pipelines = point.configuration.pipelines as f64;
                (pipelines, point.far_bytes as f64 * 1e-9)
            });
            chart.line(series, self.kind(), line);
        }
        chart
    }
}

/// The points of each series, in the order of their first ones.
fn by_series(points: &[PipelinePoint]) -> Vec<(String, Vec<&PipelinePoint>)> {
    let mut all: Vec<(String, Vec<&PipelinePoint>)> = Vec::new();
    for point in points {
        let series = point.configuration.series();
        match all.iter_mut().find(|(known, _)| *known == series) {
            Some((_, of_series)) => of_series.push(point),
            None => all.push((series, vec![point])),
        }
    }
    all
}
