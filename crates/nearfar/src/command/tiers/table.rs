//! Tiers as text: what is known, what is not and why, and what was probed.

use std::collections::BTreeMap;
use std::io::{self, Write};

use nearfar_measure::probe::{Check, ProbeResult, TOLERANCE, Verdict};
use nearfar_measure::{Kind, Summary};
use nearfar_topology::units::Bytes;
use nearfar_topology::{Known, Tier, Topology};

use super::Probed;
use crate::human::{BytesPerSecond, Nanoseconds};
use crate::output::grid::{Align, Grid};

const GAP: &str = "-";

/// Writes all of it.
pub fn write(topology: &Topology, probed: &[Probed], out: &mut dyn Write) -> io::Result<()> {
    tiers(topology).write_page(out)?;
    if !probed.is_empty() {
        writeln!(out)?;
        probes(topology, probed).write_page(out)?;
    }
    list(out, "notes", &notes(topology, probed))?;
    list(out, "unavailable", &gaps(topology, probed))
}

fn tiers(topology: &Topology) -> Grid {
    let mut grid = Grid::new([
        ("tier", Align::Left),
        ("kind", Align::Left),
        ("nodes", Align::Left),
        ("capacity", Align::Right),
        ("free", Align::Right),
        ("distance", Align::Right),
        ("read latency", Align::Right),
        ("write latency", Align::Right),
        ("read", Align::Right),
        ("write", Align::Right),
    ]);
    for tier in &topology.tiers {
        let nodes: Vec<String> = tier.nodes.iter().map(|node| node.0.to_string()).collect();
        let declared = &tier.declared;
        grid.row([
            tier.name.clone(),
            tier.kind.to_string(),
            if nodes.is_empty() {
                GAP.to_owned()
            } else {
                nodes.join(",")
            },
            cell(&tier.capacity_bytes, |bytes| Bytes(*bytes).to_string()),
            cell(&tier.free_bytes, |bytes| Bytes(*bytes).to_string()),
            cell(&tier.distance, u32::to_string),
            cell(&declared.read_latency_ns, |ns| Nanoseconds(*ns).to_string()),
            cell(&declared.write_latency_ns, |ns| {
                Nanoseconds(*ns).to_string()
            }),
            cell(&declared.read_bandwidth_bytes_per_s, |rate| {
                BytesPerSecond(*rate).to_string()
            }),
            cell(&declared.write_bandwidth_bytes_per_s, |rate| {
                BytesPerSecond(*rate).to_string()
            }),
        ]);
    }
    grid
}

fn cell<T>(known: &Known<T>, text: impl Fn(&T) -> String) -> String {
    known.value().map_or_else(|| GAP.to_owned(), text)
}

/// One row per tier and figure; what is declared, measured and modelled stays apart.
fn probes(topology: &Topology, probed: &[Probed]) -> Grid {
    let mut grid = Grid::new([
        ("tier", Align::Left),
        ("figure", Align::Left),
        ("declared", Align::Right),
        ("measured", Align::Right),
        ("modelled", Align::Right),
        ("to be modelled", Align::Right),
        ("verdict", Align::Left),
    ]);
    for (tier, probed) in topology.tiers.iter().zip(probed) {
        if let Ok(result) = probed {
            for figure in figures(tier, result) {
                grid.row(figure.cells(tier, result.kind));
            }
        }
    }
    grid
}

struct Figure<'a> {
    name: &'static str,
    declared: &'a Known<f64>,
    found: &'a Summary,
    check: Option<&'a Check>,
    text: fn(f64) -> String,
}

fn figures<'a>(tier: &'a Tier, result: &'a ProbeResult) -> [Figure<'a>; 3] {
    let checks = result.checks.as_ref();
    let declared = &tier.declared;
    let rate: fn(f64) -> String = |rate| BytesPerSecond(rate).to_string();
    [
        Figure {
            name: "idle latency",
            declared: &declared.read_latency_ns,
            found: &result.idle_latency_ns,
            check: checks.map(|checks| &checks.idle_latency_ns),
            text: |ns| Nanoseconds(ns).to_string(),
        },
        Figure {
            name: "read",
            declared: &declared.read_bandwidth_bytes_per_s,
            found: &result.read_bandwidth_bytes_per_s,
            check: checks.map(|checks| &checks.read_bandwidth_bytes_per_s),
            text: rate,
        },
        Figure {
            name: "write",
            declared: &declared.write_bandwidth_bytes_per_s,
            found: &result.write_bandwidth_bytes_per_s,
            check: checks.map(|checks| &checks.write_bandwidth_bytes_per_s),
            text: rate,
        },
    ]
}

impl Figure<'_> {
    fn cells(&self, tier: &Tier, kind: Kind) -> [String; 7] {
        let spread = |summary: &Summary| {
            let half = summary.spread() / 2.0 * 100.0;
            format!("{} ±{half:.0} %", (self.text)(summary.median))
        };
        let (measured, modelled) = match (self.check, kind) {
            (Some(check), _) => (spread(&check.machine), spread(&check.found)),
            (None, Kind::Modelled) => (String::new(), spread(self.found)),
            (None, _) => (spread(self.found), String::new()),
        };
        let to_be = self.check.map(|check| (self.text)(check.profile));
        [
            tier.name.clone(),
            self.name.to_owned(),
            cell(self.declared, |value| (self.text)(*value)),
            measured,
            modelled,
            to_be.unwrap_or_default(),
            self.check.map(verdict).unwrap_or_default(),
        ]
    }
}

fn verdict(check: &Check) -> String {
    let tolerance = TOLERANCE * 100.0;
    match check.verdict {
        Verdict::Within { error } => {
            format!("within {tolerance:.0} % ({:+.1} %)", error * 100.0)
        }
        Verdict::MachineSlower { .. } => "this machine has less".to_owned(),
        Verdict::Disturbed { waited_share, .. } => format!(
            "disturbed: a thread waited {:.0} % of the time",
            waited_share * 100.0
        ),
        Verdict::Off { error, .. } => format!("off by {:+.1} %", error * 100.0),
    }
}

fn notes(topology: &Topology, probed: &[Probed]) -> Vec<String> {
    let of_tier = |tier: &Tier| {
        let note = tier.note.as_ref()?;
        Some(format!("{}: {note}", tier.name))
    };
    let mut notes: Vec<String> = topology.tiers.iter().filter_map(of_tier).collect();
    let result = probed.iter().find_map(|probed| probed.as_ref().ok());
    if let Some(result) = result {
        notes.push(format!(
            "probed: median and half the spread of {} runs over {}; bandwidths of {} threads with \
             {}",
            result.idle_latency_ns.runs,
            Bytes(result.region_bytes as u64),
            result.threads,
            result.kernel,
        ));
    }
    if probed
        .iter()
        .flatten()
        .any(|result| result.checks.is_some())
    {
        notes.push(
            "to be modelled: the profile's figure, for bandwidths the share of the threads in use"
                .to_owned(),
        );
    }
    notes
}

/// What is not known, with one line per tier and reason.
fn gaps(topology: &Topology, probed: &[Probed]) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, tier) in topology.tiers.iter().enumerate() {
        let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (what, reason) in unknown(tier) {
            by_reason.entry(reason.to_owned()).or_default().push(what);
        }
        if let Some(Err(reason)) = probed.get(index) {
            by_reason.entry(reason.clone()).or_default().push("probe");
        }
        let line = |(reason, what): (String, Vec<&str>)| {
            format!("{}: {}: {reason}", tier.name, what.join(", "))
        };
        lines.extend(by_reason.into_iter().map(line));
    }
    let others = topology.unavailable.iter();
    lines.extend(others.map(|gap| format!("{}: {}", gap.what, gap.reason)));
    lines
}

fn unknown(tier: &Tier) -> impl Iterator<Item = (&'static str, &str)> {
    let declared = &tier.declared;
    [
        ("capacity", tier.capacity_bytes.reason()),
        ("free", tier.free_bytes.reason()),
        ("distance", tier.distance.reason()),
        ("read latency", declared.read_latency_ns.reason()),
        ("write latency", declared.write_latency_ns.reason()),
        (
            "read bandwidth",
            declared.read_bandwidth_bytes_per_s.reason(),
        ),
        (
            "write bandwidth",
            declared.write_bandwidth_bytes_per_s.reason(),
        ),
    ]
    .into_iter()
    .filter_map(|(what, reason)| Some((what, reason?)))
}

fn list(out: &mut dyn Write, title: &str, lines: &[String]) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}:")?;
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}
