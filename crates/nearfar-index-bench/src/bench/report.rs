//! Comparisons as a page.

use nearfar_measure::Kind;
use nearfar_measure::report::{Bar, BarChart, Cell, Column, LineChart, Note, Report, Table};

use super::outcome::{IndexBenchOutcome, percentile, throughput_mops};
use crate::placed::{HOT_REQUESTS_SHARE, Mode, Policy};

impl IndexBenchOutcome {
    /// The page, without its header.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut report = Report::new("Tree indexes");
        match self.options.is_placed() {
            false => self.native_page(&mut report),
            true => self.placed_page(&mut report),
        }
        report
    }

    fn native_page(&self, report: &mut Report) {
        report.legend([Kind::Measured]);
        self.who_is_left_out(report);
        let mut series: Vec<(&str, usize)> = Vec::new();
        for one in &self.compared {
            let this = (one.workload.name, one.threads);
            if !series.contains(&this) {
                series.push(this);
            }
        }
        for (workload, threads) in series {
            let title = format!("{workload}, {threads} thread(s)");
            let mut chart = BarChart::new(title, "Mop/s").series("", Kind::Measured);
            let mine = |one: &&crate::native::Compared| {
                one.workload.name == workload && one.threads == threads
            };
            for one in self.compared.iter().filter(mine) {
                if let Some((summary, _)) = throughput_mops(one) {
                    let label = format!("{} {}", one.contestant, one.workload.distribution_name());
                    chart.group(label, [Bar::from(summary)]);
                }
            }
            report.bars(chart);
        }
        let columns = [
            Column::text("Map"),
            Column::number("Memory per key", "B", 1).kind(Kind::Measured),
            Column::number("Loading", "Mop/s", 2).kind(Kind::Measured),
        ];
        let mut table = Table::new("Memory and loading", columns);
        let mut seen = Vec::new();
        for one in &self.compared {
            if seen.contains(&one.contestant) {
                continue;
            }
            seen.push(one.contestant);
            let bytes = match one.loading.bytes {
                Some(bytes) => Cell::Number(bytes as f64 / self.keys.max(1) as f64),
                None => Cell::Unavailable("the allocator does not count".to_owned()),
            };
            let name = Cell::from(one.contestant.name());
            table.row([name, bytes, Cell::from(one.loading.keys_per_s / 1e6)]);
        }
        report.table(table);
    }

    fn who_is_left_out(&self, report: &mut Report) {
        for (_, reason) in &self.left_out {
            report.note(Note::Remark, reason);
        }
    }

    fn placed_page(&self, report: &mut Report) {
        report.legend([self.kind()]);
        let remark = match self.options.mode {
            Mode::Native => {
                "On this machine's own near and far memory. A rate is over the time that threads spent on operations, \
                 with what they waited for a processor."
            }
            Mode::Emulated => {
                "On this machine, whose threads are delayed for the far memory that they would \
                 have waited for. Near memory is this machine's own."
            }
            Mode::Virtual if self.options.sampled().is_some() => {
                "In virtual time, trees and caches as large as they are. Most operations are followed without being \
                 simulated; windows are, and throughput is given with the half of its 95 % confidence interval."
            }
            Mode::Virtual => {
                "In virtual time, on a machine whose caches are smaller by the factor by which the \
                 tree is. Pages change their device in the model only."
            }
        };
        report.note(Note::Remark, remark);
        self.who_is_left_out(report);
        self.hot_sets(report);
        self.unsure_runs(report);
        report.table(self.runs_table());
        let mut throughput = LineChart::new("Throughput over time", "ms", "Mop/s");
        let mut near = LineChart::new("Share of accesses to near memory", "ms", "");
        let mut bytes = LineChart::new("Share of the tree's bytes in near memory", "ms", "");
        for one in &self.placed {
            let ms = |moment: &crate::placed::Moment| moment.at.as_secs_f64() * 1e3;
            let series = one.outcome.series.iter();
            let rates = series
                .clone()
                .map(|one| (ms(one), one.operations_per_s / 1e6));
            throughput.line(one.label(), self.kind(), rates);
            let shares = series.clone().map(|one| (ms(one), one.near_bytes_share));
            bytes.line(one.label(), self.kind(), shares);
            let shares = series.filter_map(|one| Some((ms(one), one.near_accesses_share?)));
            near.line(one.label(), self.kind(), shares);
        }
        report.lines(throughput);
        match self.options.mode {
            Mode::Native => report.lines(bytes),
            Mode::Emulated | Mode::Virtual => report.lines(near),
        };
    }
}

impl IndexBenchOutcome {
    /// A row for each run under a policy.
    fn runs_table(&self) -> Table {
        let columns = [
            Column::text("Run"),
            Column::number("Throughput", "Mop/s", 2).kind(self.kind()),
            Column::number("± 95 %", "Mop/s", 2).kind(self.kind()),
            Column::number("Over interleave", "", 3).kind(self.kind()),
            Column::number("Hot set over last level", "", 2).kind(self.kind()),
            Column::number("p50", "ns", 0).kind(self.kind()),
            Column::number("p99", "ns", 0).kind(self.kind()),
            Column::number("Near bytes", "", 3).kind(self.kind()),
            Column::number("Moved", "MB", 2).kind(self.kind()),
        ];
        let mut table = Table::new("Runs", columns);
        for one in &self.placed {
            let latencies_ns = one.outcome.latencies.all();
            let at = |percent| match percentile(&latencies_ns, percent) {
                Some(value) => Cell::Number(value),
                None => Cell::Unavailable("no operation was sampled".to_owned()),
            };
            let near = one.outcome.series.last();
            let optional = |value: Option<f64>, reason: &str| match value {
                Some(value) => Cell::Number(value),
                None => Cell::Unavailable(reason.to_owned()),
            };
            let rate = one.outcome.operations_per_s / 1e6;
            let error = one
                .outcome
                .sampled
                .map(|sampled| sampled.error_share * rate);
            let interleaved = self.under(Policy::Interleave, one);
            let ratio = interleaved.map(|other| rate * 1e6 / other.outcome.operations_per_s);
            let hot_set = one.outcome.hot_set.map(|hot_set| hot_set.over_last_level());
            table.row([
                Cell::from(one.label().as_str()),
                Cell::from(rate),
                optional(error, "all of the measured time was simulated"),
                optional(ratio, "interleave was not run"),
                optional(hot_set, "known in virtual time, and not of traces"),
                at(50),
                at(99),
                Cell::from(near.map_or(0.0, |moment| moment.near_bytes_share)),
                Cell::from(one.outcome.moved_bytes as f64 / 1e6),
            ]);
        }
        table
    }

    /// How large the hot set of each workload is, and what that means.
    fn hot_sets(&self, report: &mut Report) {
        let mut told = Vec::new();
        for one in &self.placed {
            let Some(hot_set) = one.outcome.hot_set else {
                continue;
            };
            let of = (one.planned.contestant, &one.planned.workload);
            if told.contains(&of) {
                continue;
            }
            told.push(of);
            let share = one.outcome.tree_bytes * u64::from(self.options.near_percent) / 100;
            let text = format!(
                "{} {}: {:.0} % of the requests go to {:.1} MB of the tree, {:.2} times the last-level cache of {:.1} MB; \
                 {}.",
                of.1.name,
                of.0,
                HOT_REQUESTS_SHARE * 100.0,
                hot_set.bytes as f64 / 1e6,
                hot_set.over_last_level(),
                hot_set.last_level_bytes as f64 / 1e6,
                hot_set.meaning(share),
            );
            report.note(Note::Remark, text);
        }
    }

    /// Names runs that ended before they were as sure as was asked for.
    fn unsure_runs(&self, report: &mut Report) {
        for one in &self.placed {
            if let Some(sampled) = one.outcome.sampled.filter(|sampled| !sampled.is_reached()) {
                let text = format!(
                    "{}: {} windows give {:.1} % of error, and not the {:.1} % that were asked for.",
                    one.label(),
                    sampled.windows,
                    sampled.error_share * 100.0,
                    sampled.error_share_max * 100.0,
                );
                report.note(Note::Warning, text);
            }
        }
    }
}

impl super::PlacedRun {
    /// Its name on a page.
    #[must_use]
    pub fn label(&self) -> String {
        let planned = &self.planned;
        format!(
            "{} {} {} {}",
            planned.workload.name,
            planned.workload.distribution_name(),
            planned.contestant,
            self.policy
        )
    }
}
