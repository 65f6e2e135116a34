//! Damaged files: every reader gives a result or an error, whatever it is given.
//!
//! Texts that are right are cut, spliced and overwritten. `docs/measure.md` says how to run more
//! cases than `cargo test` does.

use std::collections::BTreeMap;

use nearfar_measure::Kind;
use nearfar_measure::access::{Document, Flag, Plan, Preset, report, resume};
use nearfar_measure::compare;
use nearfar_measure::reproduce::{Figure, Points};
use nearfar_measure::results::{Header, Metric, ResultsWriter, read};
use nearfar_topology::Profile;
use proptest::prelude::*;
use proptest::sample::Index;

/// Words that mean something in one of the formats, and numbers at the ends of ranges.
const WORDS: [&str; 44] = [
    "[region.a]\n",
    "[task.b]\n",
    "[[task.b.steps]]\n",
    "[matrix]\n",
    "matrix:\n",
    "region:\n",
    "task:\n",
    "operation",
    "chase",
    "write-flush",
    "write-movdir64b",
    "placement",
    "split:near=50%,far",
    "weighted:near=4294967295,far=1",
    "interleave:far0,far1,remote",
    "threads",
    "rest",
    "auto",
    "tiers",
    "limit",
    "1KB/s",
    "sample",
    "fence",
    "true",
    "volume",
    "time",
    "1ns",
    "size",
    "= ",
    ": ",
    "- ",
    "\n",
    "  ",
    "\"",
    "0",
    "-1",
    "1e308",
    "18446744073709551615",
    "NaN",
    "{",
    "[",
    ",",
    "\u{feff}",
    "\u{2028}é",
];

/// One damage.
#[derive(Debug, Clone)]
enum Damage {
    Delete(Index, u8),
    Repeat(Index, u8),
    Word(Index, Index),
    Byte(Index, u8),
    Splice(Index, Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, length)| Damage::Delete(at, length)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, length)| Damage::Repeat(at, length)),
        (any::<Index>(), any::<Index>()).prop_map(|(at, word)| Damage::Word(at, word)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        (any::<Index>(), any::<Index>()).prop_map(|(at, from)| Damage::Splice(at, from)),
    ]
}

/// One of the texts, damaged; what is no UTF-8 any more is replaced.
fn damaged(texts: Vec<String>) -> impl Strategy<Value = String> {
    let choice = (any::<Index>(), prop::collection::vec(damage(), 0..8));
    choice.prop_map(move |(text, damages)| {
        let mut bytes = text.get(&texts).clone().into_bytes();
        for damage in damages {
            apply(&mut bytes, &damage, &texts);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage, texts: &[String]) {
    let length = bytes.len() + 1;
    let range = |at: &Index, count: u8| {
        let from = at.index(length);
        from..(from + usize::from(count)).min(length - 1)
    };
    match damage {
        Damage::Delete(at, count) => drop(bytes.drain(range(at, *count))),
        Damage::Repeat(at, count) => {
            let range = range(at, *count);
            let part = bytes[range.clone()].to_vec();
            bytes.splice(range.end..range.end, part);
        }
        Damage::Word(at, word) => {
            let at = at.index(length);
            bytes.splice(at..at, word.get(&WORDS).bytes());
        }
        Damage::Byte(at, byte) => bytes.splice(range(at, 1), [*byte]).for_each(drop),
        Damage::Splice(at, from) => {
            let other = from.get(texts).as_bytes();
            let from = from.index(other.len() + 1);
            let at = at.index(length);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
    }
}

const YAML: &str = "name: scan\nrepetitions: 2\nregion:\n  columns: {size: 1GiB, placement: near}\n  chain:\n    \
                    size: 256MiB\ntask:\n  scan:\n    access: 4096\n    region: columns\n    background: true\n  \
                    copy:\n    steps:\n      - operation: read\n        access: 256\n        region: columns\n      \
                    - {operation: write-nt, count: 2, region: chain}\nmatrix:\n  task.scan.limit: [1GB/s, 4GB/s]\n  \
                    threads: auto\n";

fn specifications() -> Vec<String> {
    let presets = Preset::ALL.map(|preset| preset.text.to_owned());
    let points = [Figure::Fig4, Figure::Fig5].map(|figure| {
        let specification = figure.points().points[7].experiment.specification();
        specification.unwrap()
    });
    let all = presets.into_iter().chain(points);
    all.chain([YAML.to_owned()]).collect()
}

fn results() -> String {
    let mut text = Vec::new();
    let configuration = serde_json::json!({ "settings": { "name": "x", "time": "1s" } });
    let header = Header::new("1", vec!["measure".to_owned()], configuration);
    let mut writer = ResultsWriter::new(&mut text, &header).unwrap();
    for (name, unit) in [
        ("bandwidth_bytes_per_s", "B/s"),
        ("latency_ns", "ns"),
        ("run_seconds", "s"),
    ] {
        for threads in [1, 2] {
            let metric = Metric::new(name, 2.5e9, unit, Kind::Modelled)
                .with("run", format!("threads={threads}"))
                .with("task", "one")
                .with("operation", "read")
                .with("placement", "split:near=90%,far")
                .with("access_bytes", 64 * threads)
                .with("threads", threads)
                .with("noise", serde_json::json!(["a thread waited"]))
                .with("ci95_low", 1.0)
                .with("ci95_high", 3e9);
            writer.metric(&metric).unwrap();
        }
    }
    writer
        .metric(&Metric::unavailable(
            "counter",
            "no perf",
            "count",
            Kind::Measured,
        ))
        .unwrap();
    String::from_utf8(text).unwrap()
}

fn points() -> Vec<String> {
    let head = |text: &str| text.lines().take(6).collect::<Vec<_>>().join("\n");
    let figures = [
        include_str!("../../src/reproduce/data/fig04.csv"),
        include_str!("../../src/reproduce/data/fig05.csv"),
        include_str!("../../src/reproduce/data/fig07.csv"),
        include_str!("../../src/reproduce/data/fig09.csv"),
        include_str!("../../src/reproduce/data/fig11.csv"),
    ];
    figures.map(head).to_vec()
}

proptest! {
    #[test]
    fn damaged_specifications_are_plans_or_refused(text in damaged(specifications()), yaml in any::<bool>()) {
        let name = if yaml { "x.yaml" } else { "x.toml" };
        let document = match Document::parse(name, &text) {
            Ok(document) => document,
            Err(error) => {
                prop_assert!(error.to_string().starts_with(name), "{error}");
                return Ok(());
            }
        };
        let profile = Profile::builtin("cxl-blades-4").unwrap();
        match Plan::simulated(&document, &profile, None) {
            Ok(plan) => prop_assert!(!plan.runs.is_empty() && plan.runs.iter().all(|run| !run.id().is_empty())),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn damaged_flags_are_applied_or_refused(path in "[a-z0-9.]{0,24}", value in damaged(WORDS.map(str::to_owned).to_vec())) {
        let mut document = Document::parse("x.toml", Preset::ALL[4].text).unwrap();
        let values = value.split('|').map(str::to_owned).collect();
        let flag = Flag { flag: "--set".to_owned(), path, values };
        if document.apply(&[flag]).is_ok() {
            let profile = Profile::builtin("cxl-blades-4").unwrap();
            let _ = Plan::simulated(&document, &profile, Some(1));
        }
    }

    #[test]
    fn damaged_results_are_read_or_refused(text in damaged(vec![results()]), other in damaged(vec![results()])) {
        let settings = BTreeMap::from([("name".to_owned(), "x".to_owned())]);
        let _ = resume::Kept::read(text.as_bytes(), &settings);
        match read(text.as_bytes()) {
            Ok((header, metrics)) => {
                prop_assert!(report::page(&header, &metrics).to_html().ends_with("</html>\n"));
                if let Ok((other_header, others)) = read(other.as_bytes()) {
                    let comparison = compare::compare(&metrics, &others);
                    prop_assert!(comparison.pairs.len() <= metrics.len());
                    compare::page(["a", "b"], [&header, &other_header], &comparison).to_html();
                }
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn damaged_points_are_read_or_refused(text in damaged(points())) {
        match Points::parse("x.csv", &text) {
            Ok(points) => for point in &points.points {
                if let Some(specification) = point.experiment.specification() {
                    prop_assert!(Document::parse("point", &specification).is_ok(), "{specification}");
                }
            },
            Err(error) => prop_assert!(error.to_string().starts_with("x.csv"), "{error}"),
        }
    }
}
