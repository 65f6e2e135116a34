//! What of the scripts is known not to work yet.

use std::collections::{BTreeMap, BTreeSet};

/// Lines of `FILE REASON`, `FILE:LINE REASON`, `refused "SQLSTATE MESSAGE" REASON` or `# comment`.
const LIST: &str = include_str!("unsupported.txt");

/// Files, lines of files and errors that are listed, with the reason.
#[derive(Debug, Default)]
pub struct Known {
    files: BTreeMap<String, String>,
    records: BTreeMap<(String, usize), String>,
    /// How errors begin.
    refusals: Vec<String>,
}

impl Known {
    pub fn listed() -> Self {
        Self::parse(LIST)
    }

    fn parse(list: &str) -> Self {
        let mut known = Self::default();
        for line in list.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(refusal) = line.strip_prefix("refused \"") {
                let (beginning, _) = refusal
                    .split_once('"')
                    .unwrap_or_else(|| panic!("no end: {line}"));
                known.refusals.push(beginning.to_owned());
                continue;
            }
            let (place, reason) = line
                .split_once(' ')
                .unwrap_or_else(|| panic!("no reason: {line}"));
            let reason = reason.trim().to_owned();
            match place.rsplit_once(':') {
                Some((file, line)) => {
                    let line = line
                        .parse()
                        .unwrap_or_else(|_| panic!("no line number: {place}"));
                    known.records.insert((file.to_owned(), line), reason);
                }
                None => drop(known.files.insert(place.to_owned(), reason)),
            }
        }
        known
    }

    /// Whether a file is left out.
    pub fn leaves_out(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    /// Whether a record is known to fail in this way.
    pub fn has(&self, file: &str, line: usize, failure: &str) -> bool {
        let is_refusal = |beginning: &String| failure.starts_with(beginning.as_str());
        self.records.contains_key(&(file.to_owned(), line)) || self.refusals.iter().any(is_refusal)
    }

    /// The listed lines of a file that did not fail.
    pub fn not_among(&self, file: &str, failed: &BTreeSet<usize>) -> Vec<usize> {
        let lines = self.records.keys().filter(|(listed, _)| listed == file);
        lines
            .map(|(_, line)| *line)
            .filter(|line| !failed.contains(line))
            .collect()
    }
}

#[test]
fn lists_name_files_and_lines() {
    let list = "# why\n\na/b.test too slow\nc.test:7 no triggers\nc.test:9 none\n\
                refused \"42000 + cannot\" as elsewhere\n";
    let known = Known::parse(list);
    assert!(known.leaves_out("a/b.test") && !known.leaves_out("c.test"));
    assert!(known.has("c.test", 7, "1, not 2") && !known.has("c.test", 8, "1, not 2"));
    assert!(known.has("c.test", 8, "42000 + cannot be used"));
    assert_eq!(known.not_among("c.test", &BTreeSet::from([7])), [9]);
    Known::listed();
}
