//! A comparison as text.

use std::io::{self, Write};

use nearfar_bench::bench::{BenchOutcome, Comparison, Ended, Missed, Turns};
use nearfar_measure::Summary;
use nearfar_topology::units::Bytes;

use crate::human::BytesPerSecond;
use crate::output::grid::{Align, Grid};

/// Writes all of it.
pub fn write(outcome: &BenchOutcome, out: &mut dyn Write) -> io::Result<()> {
    let options = &outcome.options;
    writeln!(
        out,
        "{} scale factor {}, all near, {} threads, {} runs {}; ratios are Nearfar's time over \
         the other's",
        options.suite,
        options.scale_factor,
        options.threads,
        options.runs,
        match options.turns {
            Turns::Alternating => "in turn",
            Turns::Apart => "of each engine alone",
        }
    )?;
    for comparison in &outcome.comparisons {
        writeln!(out, "\n{} ({})", comparison.who, comparison.version)?;
        write_queries(comparison, &comparison.who.to_string(), out)?;
        if let Some(Ended { query, reason }) = &comparison.ended {
            let who = comparison.who;
            writeln!(
                out,
                "q{query} and those after it are not compared: {who} ended ({reason})"
            )?;
        }
    }
    for (setting, comparison) in &outcome.without {
        writeln!(out, "\nwith {setting} on, over the time with it off")?;
        write_queries(comparison, "off", out)?;
    }
    writeln!(
        out,
        "\nloading {} of Parquet files",
        Bytes(outcome.file_bytes)
    )?;
    loads(outcome).write_page(out)?;
    if let Some(ratio) = outcome.best_ratio() {
        writeln!(out, "\nagainst the better rival in each query: {ratio:.3}")?;
    }
    let Some(counting) = &outcome.counting else {
        return Ok(());
    };
    let counting = counting.geometric_mean_ratio();
    writeln!(
        out,
        "\ncounting accesses: {:.3} times the time without ({} over the runs)",
        counting.median,
        range(&counting)
    )
}

fn write_queries(comparison: &Comparison, rival: &str, out: &mut dyn Write) -> io::Result<()> {
    queries(comparison, rival).write_page(out)?;
    for Missed { query, reason } in &comparison.missed {
        writeln!(out, "q{query} is left out: {reason}")?;
    }
    Ok(())
}

fn queries(comparison: &Comparison, rival: &str) -> Grid {
    let mut columns = vec![
        ("query", Align::Left),
        ("Nearfar", Align::Right),
        (rival, Align::Right),
        ("ratio", Align::Right),
        ("over the runs", Align::Right),
    ];
    // Memory is measured beside others only.
    if comparison
        .queries
        .iter()
        .any(|query| query.memory.is_some())
    {
        columns.extend([
            ("Nearfar's peak", Align::Right),
            ("peak ratio", Align::Right),
        ]);
    }
    let mut grid = Grid::new(columns);
    for query in &comparison.queries {
        let ratio = query.ratio();
        let mut row = vec![
            format!("q{}", query.number),
            milliseconds(&query.nearfar_summary()),
            milliseconds(&query.rival_summary()),
            format!("{:.2}", ratio.median),
            range(&ratio),
        ];
        if let Some(memory) = &query.memory {
            let peak = memory
                .nearfar
                .peak_bytes
                .map(|bytes| Bytes(bytes).to_string());
            let ratio = memory.peak_ratio().map(|ratio| format!("{ratio:.2}"));
            row.extend([peak, ratio].map(|shown| shown.unwrap_or_else(|| "-".to_owned())));
        }
        grid.row(row);
    }
    let mean = comparison.geometric_mean_ratio();
    let (median, range) = (format!("{:.3}", mean.median), range(&mean));
    grid.row(["geomean", "", "", &median, &range]);
    grid
}

fn milliseconds(summary: &Summary) -> String {
    format!("{:.1} ms", summary.median * 1e3)
}

fn range(summary: &Summary) -> String {
    format!("{:.2}-{:.2}", summary.min, summary.max)
}

fn loads(outcome: &BenchOutcome) -> Grid {
    let mut grid = Grid::new([
        ("engine", Align::Left),
        ("time", Align::Right),
        ("over the runs", Align::Right),
        ("rate", Align::Right),
        ("kept", Align::Right),
        ("peak over kept", Align::Right),
    ]);
    for loads in &outcome.loads {
        let seconds = loads.seconds();
        let kept = loads.kept_bytes().map(|kept| kept.values().sum::<u64>());
        grid.row([
            loads.who.to_string(),
            format!("{:.2} s", seconds.median),
            range(&seconds),
            BytesPerSecond(outcome.file_bytes as f64 / seconds.median).to_string(),
            kept.map(|bytes| Bytes(bytes).to_string())
                .unwrap_or_default(),
            loads
                .peak_ratio()
                .map_or_else(|| "-".to_owned(), |ratio| format!("{:.2}", ratio.median)),
        ]);
    }
    grid
}
