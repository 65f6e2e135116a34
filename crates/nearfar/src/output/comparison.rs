//! Two results side by side.

use std::io::{self, Write};

use nearfar_measure::Kind;
use nearfar_measure::compare::{Comparison, Pair, belongs_to, compare_by};
use nearfar_measure::results::{Header, Metric};
use serde_json::{Value, json};

use super::figures;
use super::grid::{Align, Grid};
use crate::args::FigureFormat;
use crate::human::{BytesPerSecond, Nanoseconds};

/// A value with its unit, as people write it.
pub fn figure(value: f64, unit: &str) -> String {
    match unit {
        "B/s" => BytesPerSecond(value).to_string(),
        "ns" => Nanoseconds(value).to_string(),
        "1/s" => format!("{:.2} M/s", value / 1e6),
        _ => format!("{value:.2} {unit}"),
    }
}

/// Figures that both have, one a row.
pub fn print(names: &[String; 2], comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let mut grid = Grid::new([
        ("figure", Align::Left),
        ("of", Align::Left),
        (names[0].as_str(), Align::Right),
        (names[1].as_str(), Align::Right),
        ("ratio", Align::Right),
        ("intervals", Align::Left),
    ]);
    for pair in &comparison.pairs {
        grid.row([
            pair.metric.clone(),
            pair.of.clone(),
            format!(
                "{} {}",
                figure(pair.first.value, &pair.unit),
                pair.first.kind.name()
            ),
            format!(
                "{} {}",
                figure(pair.second.value, &pair.unit),
                pair.second.kind.name()
            ),
            match pair.ratio() {
                ratio if ratio.is_finite() => format!("{ratio:.3}"),
                _ => "n/a".to_owned(),
            },
            match pair.differs() {
                Some(true) => "apart",
                Some(false) => "overlap",
                None => "",
            }
            .to_owned(),
        ]);
    }
    grid.write_page(out)?;
    for (count, name) in [
        (comparison.only_first, &names[0]),
        (comparison.only_second, &names[1]),
    ] {
        if count > 0 {
            writeln!(out, "{count} figures are in {name} only")?;
        }
    }
    Ok(())
}

/// The header of figures of this machine's own memory and of a model, given how each was run.
pub fn header(measured: Value, modelled: Value) -> Header {
    figures::header(json!({ "measured": measured, "modelled": modelled }))
}

/// Pairs figures by these of their dimensions; published ones are no result.
pub fn by(dimensions: &[&str]) -> impl Fn(&[Metric], &[Metric]) -> Comparison {
    |own, modelled| {
        compare_by(own, modelled, |metric| {
            (metric.kind != Kind::Published).then(|| belongs_to(metric, dimensions))
        })
    }
}

/// Prints figures of this machine's own memory, those of the model of `profile`, and the ratios of those that both have.
pub fn print_with_model(
    format: FigureFormat,
    header: &Header,
    profile: &str,
    [own, modelled]: [Vec<Metric>; 2],
    compare: impl Fn(&[Metric], &[Metric]) -> Comparison,
) -> anyhow::Result<()> {
    let comparison = compare(&own, &modelled);
    let names = ["this machine".to_owned(), profile.to_owned()];
    let metrics = [own, modelled, ratios(&comparison)].concat();
    figures::print(format, header, &metrics, |_, out| {
        print(&names, &comparison, out)
    })
}

/// The ratios of all pairs, as lines of the results schema; over nothing there is none.
pub fn ratios(comparison: &Comparison) -> Vec<Metric> {
    let pairs = comparison.pairs.iter();
    let finite = pairs.filter(|pair| pair.ratio().is_finite());
    finite.map(ratio).collect()
}

fn ratio(pair: &Pair) -> Metric {
    let metric = Metric::new("ratio", pair.ratio(), "ratio", pair.second.kind)
        .with("of", pair.metric.as_str())
        .with("figure", pair.of.as_str())
        .with("first", pair.first.value)
        .with("second", pair.second.value)
        .with("first_kind", pair.first.kind.name())
        .with("second_kind", pair.second.kind.name());
    match pair.differs() {
        Some(differs) => metric.with("intervals_apart", differs),
        None => metric,
    }
}
