//! Lists and tables for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::checks::{Check, Work};
use super::outcome::Outcome;
use crate::topology::ALL;

/// What runs where.
pub fn list(checks: &[&Check]) -> String {
    let mut text = String::new();
    for topology in &ALL {
        let _ = writeln!(text, "{}: {}", topology.name, topology.summary);
        for check in checks
            .iter()
            .filter(|check| check.topology == topology.name)
        {
            let subset = if check.ci { "" } else { " (not in CI)" };
            let _ = writeln!(text, "  {}{subset}", check.feature);
            match check.work {
                Work::Tests { package, tests } => {
                    for test in tests {
                        let _ = writeln!(text, "    {package}: {}", check.test_name(test));
                    }
                }
                Work::Command { command, .. } => {
                    let _ = writeln!(text, "    in the guest: {}", command.replace('\n', "; "));
                }
                Work::Failover { .. } => {
                    let _ = writeln!(text, "    one host is killed, the other takes over");
                }
            }
        }
    }
    text
}

/// Features by topology: how many tests of how many passed.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut cells: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for outcome in outcomes {
        let cell = cells
            .entry((outcome.feature, outcome.topology))
            .or_default();
        cell.0 += usize::from(outcome.passed);
        cell.1 += 1;
    }
    let has = |name: &str| outcomes.iter().any(|outcome| outcome.topology == name);
    let topologies: Vec<&str> = ALL
        .iter()
        .map(|t| t.name)
        .filter(|name| has(name))
        .collect();
    let mut features: Vec<&str> = Vec::new();
    for outcome in outcomes {
        if !features.contains(&outcome.feature) {
            features.push(outcome.feature);
        }
    }
    let cell = |feature: &str, topology: &str| match cells.get(&(feature, topology)) {
        None => String::new(),
        Some((passed, all)) if passed == all => format!("{passed} passed"),
        Some((passed, all)) => format!("{} of {all} FAILED", all - passed),
    };
    let mut rows = vec![
        [&["feature"], &topologies[..]]
            .concat()
            .iter()
            .map(|s| (*s).to_owned())
            .collect::<Vec<_>>(),
    ];
    for feature in features {
        let cells = topologies.iter().map(|topology| cell(feature, topology));
        rows.push([feature.to_owned()].into_iter().chain(cells).collect());
    }
    aligned(&rows)
}

/// Rows of a Markdown table.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths);
        let padded = padded.map(|(cell, &width)| format!(" {cell:width$} |"));
        format!("|{}\n", padded.collect::<String>())
    };
    let rule = widths
        .iter()
        .map(|&width| format!("-{}-|", "-".repeat(width)));
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        text += &line(row);
        if index == 0 {
            text += &format!("|{}\n", rule.clone().collect::<String>());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(feature: &'static str, topology: &'static str, passed: bool) -> Outcome {
        Outcome {
            topology,
            feature,
            package: None,
            test: String::new(),
            passed,
            check_seconds: 0.0,
            reason: None,
        }
    }

    #[test]
    fn features_are_counted_by_topology() {
        let outcomes = [
            outcome("discovery", "far-node", true),
            outcome("placement", "far-node", true),
            outcome("placement", "far-node", false),
            outcome("discovery", "one-node", true),
        ];
        let expected = "\
| feature   | one-node | far-node      |
|-----------|----------|---------------|
| discovery | 1 passed | 1 passed      |
| placement |          | 1 of 2 FAILED |
";
        assert_eq!(table(&outcomes), expected);
    }
}
