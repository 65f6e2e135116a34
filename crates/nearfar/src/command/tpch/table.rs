//! A run as text.

use std::io::{self, Write};

use nearfar_bench::tpch::published::{self, PublishedThroughput};
use nearfar_bench::tpch::{BytesByTier, Outcome, PlacementOutcome, Suite};
use nearfar_measure::{Kind, Summary};
use nearfar_topology::units::Bytes;

use crate::human::Elapsed;
use crate::output::grid::{Align, Grid};

/// Writes the comparison of the placements and the times of the queries.
pub fn write(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let options = &outcome.options;
    let (queries, runs) = (options.queries.len(), options.runs);
    writeln!(
        out,
        "{}: scale factor {}, queries {queries}, runs {runs}, threads {}",
        options.suite, options.scale_factor, outcome.threads
    )?;
    let far = outcome.far.as_ref();
    if let Some(modelled) = far.and_then(|far| far.modelled.as_ref()) {
        writeln!(out, "tier far: {modelled}")?;
    }
    match &outcome.checked {
        Some(checked) => writeln!(
            out,
            "answers: {} of {queries} equal those of DataFusion's own tables",
            checked.len()
        )?,
        None => writeln!(out, "answers: not checked")?,
    }
    for (query, reason) in &outcome.unchecked {
        writeln!(out, "  q{query} does not equal DataFusion's: {reason}")?;
    }
    if let Some(near) = outcome.near() {
        writeln!(out)?;
        placements(outcome, near).write_page(out)?;
        writeln!(out)?;
        queries_grid(outcome).write_page(out)?;
    }
    notes(outcome, out)
}

fn placements(outcome: &Outcome, near: &PlacementOutcome) -> Grid {
    let mut columns = vec![
        ("placement".to_owned(), Align::Left),
        ("kind".to_owned(), Align::Left),
    ];
    columns.extend(
        near.stored_bytes
            .iter()
            .map(|(tier, _)| (tier.clone(), Align::Right)),
    );
    let names = [
        "total",
        "spread",
        "geomean",
        "throughput",
        "geomean ratio",
        "Hyrise, published",
    ];
    columns.extend(names.map(|name| (name.to_owned(), Align::Right)));
    let mut grid = Grid::new(columns);
    for placed in &outcome.placements {
        let total = placed.total();
        let mut cells = vec![placed.placement.to_string(), placed.kind.name().to_owned()];
        cells.extend(bytes(&placed.stored_bytes));
        cells.extend([
            seconds(total.median),
            if total.runs > 1 {
                spread(&total)
            } else {
                String::new()
            },
            seconds(placed.geometric_mean()),
            format!("{:.3}", placed.relative_throughput(near)),
            format!("{:.3}", placed.relative_geometric_mean(near)),
            published_for(outcome, placed)
                .map(published_range)
                .unwrap_or_default(),
        ]);
        grid.row(cells);
    }
    grid
}

fn spread(total: &Summary) -> String {
    format!("±{:.1} %", total.spread() / 2.0 * 100.0)
}

fn bytes(by_tier: &BytesByTier) -> impl Iterator<Item = String> + '_ {
    by_tier.iter().map(|(_, bytes)| Bytes(*bytes).to_string())
}

/// Figures of others are of TPC-H.
fn published_for(outcome: &Outcome, placed: &PlacementOutcome) -> Option<PublishedThroughput> {
    match outcome.options.suite {
        Suite::TpcH => published::hyrise_for(&placed.placement),
        Suite::TpcDs => None,
    }
}

fn published_range(figure: PublishedThroughput) -> String {
    if figure.low == figure.high {
        format!("{:.2}", figure.low)
    } else {
        format!("{:.2}-{:.2}", figure.low, figure.high)
    }
}

fn queries_grid(outcome: &Outcome) -> Grid {
    let placements = outcome.placements.iter();
    let placements = placements.map(|placed| (placed.placement.to_string(), Align::Right));
    let mut grid = Grid::new(std::iter::once(("query".to_owned(), Align::Left)).chain(placements));
    for (index, number) in outcome.options.queries.iter().enumerate() {
        let times = outcome
            .placements
            .iter()
            .filter_map(|placed| placed.queries.get(index));
        let times = times.map(|query| seconds(query.summary().median));
        grid.row(std::iter::once(format!("q{number}")).chain(times));
    }
    grid
}

fn seconds(seconds: f64) -> String {
    match std::time::Duration::try_from_secs_f64(seconds) {
        Ok(elapsed) => Elapsed(elapsed).to_string(),
        Err(_) => "-".to_owned(),
    }
}

fn notes(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nnotes:")?;
    writeln!(
        out,
        "  total, geomean: median over the runs; throughput: time of all near over time"
    )?;
    if outcome
        .placements
        .iter()
        .any(|placed| placed.kind == Kind::Modelled)
    {
        writeln!(
            out,
            "  modelled: scans of far columns are held to the profile's latency and bandwidth; joins \
             and\n  aggregates work near"
        )?;
    }
    if outcome.options.suite == Suite::TpcH {
        writeln!(
            out,
            "  published: for orientation, {} (weisgut-2025 section 6.3)",
            published::SYSTEM
        )?;
    }
    for placed in &outcome.placements {
        if placed.runs_differ() {
            let percent = placed.total().spread() / 2.0 * 100.0;
            writeln!(
                out,
                "  {}: runs differ by ±{percent:.0} %, read it with care",
                placed.placement
            )?;
        }
    }
    Ok(())
}
