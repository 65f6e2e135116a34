//! A run as a page for people.

use nearfar_measure::report::{Bar, BarChart, Cell, Column, Note, Report, Table};
use nearfar_measure::results::Header;
use nearfar_measure::{Kind, Summary};

use super::outcome::{BytesByTier, Outcome, PlacementOutcome};
use super::published::{self, PublishedThroughput};
use super::suite::Suite;

/// The page of `outcome`. `header` tells the machine and the command to repeat the run with.
pub fn report(outcome: &Outcome, header: &Header) -> Report {
    let mut report = Report::new(format!("{} on near and far memory", outcome.options.suite));
    report.subtitle(format!(
        "Scale factor {}, {} queries, {} threads, {} placements",
        outcome.options.scale_factor,
        outcome.options.queries.len(),
        outcome.threads,
        outcome.placements.len()
    ));
    introduce(&mut report, outcome);
    if let Some(near) = outcome.near() {
        throughput(&mut report, outcome, near);
        queries(&mut report, outcome);
        bytes(&mut report, outcome);
    }
    tables(&mut report, outcome);
    report.heading("Machine and configuration").header(header);
    report.heading("How to repeat this").paragraph(format!(
        "{} nearfar {}",
        "The data are generated and the queries fixed; only times differ from run to run. Command:",
        shell_words(&header.command)
    ));
    report.footer(format!("nearfar {}", header.version));
    report
}

/// Arguments as they are to be typed in a shell.
fn shell_words(arguments: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,.+%@/".contains(c);
    let words = arguments.iter().map(|argument| {
        if !argument.is_empty() && argument.chars().all(is_plain) {
            argument.clone()
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn introduce(report: &mut Report, outcome: &Outcome) {
    let checked = match &outcome.checked {
        Some(checked) => format!(
            "The answers to {} of {} queries were checked against DataFusion's own tables in memory.",
            checked.len(),
            outcome.options.queries.len()
        ),
        None => "The answers were not checked in this run.".to_owned(),
    };
    report.paragraph(format!(
        "The queries of {} over tables whose columns lie on near memory, on far memory, or on \
         both. {checked}",
        outcome.options.suite
    ));
    if let Some(after) = outcome.far.as_ref().and_then(|far| far.modelled.as_ref()) {
        report.note(
            Note::Remark,
            format!(
                "The far tier is {after}. Scans of far columns are held to its latency and to its \
                 bandwidth; joins and aggregates work in near memory."
            ),
        );
    }
    let noisy: Vec<String> = outcome
        .placements
        .iter()
        .filter(|placed| placed.runs_differ())
        .map(|placed| {
            format!(
                "{} ({:.0} %)",
                placed.placement,
                placed.total().spread() * 100.0
            )
        })
        .collect();
    if !noisy.is_empty() {
        report.note(
            Note::Warning,
            format!(
                "Runs differ by much, so that small differences mean nothing: {}.",
                noisy.join(", ")
            ),
        );
    }
    report.legend([Kind::Measured, Kind::Modelled, Kind::Published]);
}

fn throughput(report: &mut Report, outcome: &Outcome, near: &PlacementOutcome) {
    report.heading("Throughput relative to all near");
    let others = outcome.placements.get(1..).unwrap_or_default();
    let kind = others.first().map_or(Kind::Measured, |placed| placed.kind);
    let mut chart = BarChart::new("Throughput relative to all near", "ratio")
        .series("this run", kind)
        .series(published::SYSTEM, Kind::Published)
        .reference(1.0, "all near");
    for placed in others {
        let published = match outcome.options.suite {
            Suite::TpcH => published::hyrise_for(&placed.placement),
            Suite::TpcDs => None,
        };
        let bars = std::iter::once(Bar::from(placed.relative_throughput_of_runs(near)));
        let bars = bars.chain(published.as_ref().map(published_bar));
        chart.group(placed.placement.to_string(), bars);
    }
    report.bars(chart).table(summary_table(outcome, near));
    if outcome.options.suite == Suite::TpcH {
        published_throughput(report);
    }
}

fn published_throughput(report: &mut Report) {
    report.subheading("Published for Hyrise").paragraph(
        "For orientation: another database, ten concurrent clients, scale factor 100, and real devices.",
    );
    let columns = [
        Column::text("Placement"),
        Column::text("What"),
        Column::number("Lowest", "ratio", 2).kind(Kind::Published),
        Column::number("Highest", "ratio", 2).kind(Kind::Published),
        Column::text("Source"),
    ];
    let mut table = Table::new("Throughput relative to all data in CPU memory", columns);
    for figure in published::hyrise() {
        table.row([
            Cell::from(figure.placement),
            Cell::from(figure.what),
            Cell::from(figure.low),
            Cell::from(figure.high),
            Cell::from(figure.source),
        ]);
    }
    report.table(table);
}

fn published_bar(figure: &PublishedThroughput) -> Bar {
    Bar::from(Summary::of_runs(figure.low, [figure.high]))
}

fn summary_table(outcome: &Outcome, near: &PlacementOutcome) -> Table {
    let columns = [
        Column::text("Placement"),
        Column::text("Kind"),
        Column::number("Total", "s", 3),
        Column::number("Least", "s", 3),
        Column::number("Most", "s", 3),
        Column::number("Geometric mean", "ms", 2),
        Column::number("Relative throughput", "ratio", 3),
        Column::number("Relative geometric mean", "ratio", 3),
    ];
    let mut table = Table::new(
        format!("All queries, {} runs", outcome.options.runs),
        columns,
    );
    for placed in &outcome.placements {
        let total = placed.total();
        table.row([
            Cell::from(placed.placement.to_string()),
            Cell::from(placed.kind.name()),
            Cell::from(total.median),
            Cell::from(total.min),
            Cell::from(total.max),
            Cell::from(placed.geometric_mean() * 1e3),
            Cell::from(placed.relative_throughput(near)),
            Cell::from(placed.relative_geometric_mean(near)),
        ]);
    }
    table
}

fn queries(report: &mut Report, outcome: &Outcome) {
    report.heading("Queries");
    let mut chart = BarChart::new("Median time of each query", "ms");
    for placed in &outcome.placements {
        chart = chart.series(placed.placement.to_string(), placed.kind);
    }
    for (index, number) in outcome.options.queries.iter().enumerate() {
        let bars = outcome.placements.iter().map(|placed| {
            let seconds = placed.queries[index].seconds.iter();
            Summary::of(seconds.map(|seconds| seconds * 1e3)).map_or(Bar::from(f64::NAN), Bar::from)
        });
        chart.group(format!("q{number}"), bars);
    }
    report.bars(chart);
}

fn bytes(report: &mut Report, outcome: &Outcome) {
    report.heading("Bytes per tier");
    let tiers = |bytes: &BytesByTier| bytes.iter().map(|(tier, _)| tier.clone()).collect();
    let tiers: Vec<String> = outcome
        .placements
        .first()
        .map(|placed| tiers(&placed.stored_bytes))
        .unwrap_or_default();
    let mut columns = vec![Column::text("Placement")];
    for what in ["stored", "read per run"] {
        columns.extend(
            tiers.iter().map(|tier| {
                Column::number(format!("{tier}, {what}"), "MB", 1).kind(Kind::Measured)
            }),
        );
    }
    columns.push(Column::text("Columns near"));
    let mut table = Table::new(
        "Where the data lie, and what scans of all queries read",
        columns,
    );
    for placed in &outcome.placements {
        let mut cells = vec![Cell::from(placed.placement.to_string())];
        cells.extend(megabytes(&tiers, &placed.stored_bytes));
        cells.extend(megabytes(&tiers, &placed.read_bytes()));
        cells.push(Cell::from(placed.near_columns.join(", ")));
        table.row(cells);
    }
    report.table(table);
}

fn megabytes<'a>(tiers: &'a [String], bytes: &'a BytesByTier) -> impl Iterator<Item = Cell> + 'a {
    tiers
        .iter()
        .map(|tier| match bytes.iter().find(|(name, _)| name == tier) {
            Some((_, bytes)) => Cell::from(*bytes as f64 / 1e6),
            None => Cell::Empty,
        })
}

fn tables(report: &mut Report, outcome: &Outcome) {
    report.heading("Tables");
    let columns = [
        Column::text("Table"),
        Column::number("Rows", "", 0).kind(Kind::Measured),
        Column::number("As Arrow", "MB", 1).kind(Kind::Measured),
        Column::number("Stored", "MB", 1).kind(Kind::Measured),
        Column::number("Generated and loaded in", "s", 2).kind(Kind::Measured),
    ];
    let mut table = Table::new("Loading, all near", columns);
    for loaded in &outcome.tables {
        table.row([
            Cell::from(loaded.name.as_str()),
            Cell::from(loaded.rows as f64),
            Cell::from(loaded.arrow_bytes as f64 / 1e6),
            Cell::from(loaded.stored_bytes as f64 / 1e6),
            Cell::from(loaded.elapsed.as_secs_f64()),
        ]);
    }
    report.table(table);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_typed_again() {
        let words = [
            "tpch",
            "--placement=interleave:2:1",
            "--report",
            "my page's.html",
            "",
        ];
        assert_eq!(
            shell_words(&words.map(str::to_owned)),
            r"tpch --placement=interleave:2:1 --report 'my page'\''s.html' ''"
        );
    }
}
