//! SQLite's sqllogictest corpus, through the server.
//!
//! The corpus is not part of this repository: the long run reads it from the folder that
//! `NEARFAR_CORPUS` names. What is not supported yet is listed in `unsupported.txt`; anything else that
//! fails fails the run, and what is listed and works is named.

mod answer;
mod known;
mod run;
mod script;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::StreamExt;

use known::Known;
use run::{Limits, Outcome, run};

/// The folder with the scripts, such as `test/` of the corpus.
const FOLDER: &str = "NEARFAR_CORPUS";
/// Only scripts with this in their path.
const FILTER: &str = "NEARFAR_CORPUS_FILES";
/// One query in so many is run.
const ONE_IN: &str = "NEARFAR_CORPUS_ONE_IN";
/// Seconds that a script may take.
const FILE_SECONDS: &str = "NEARFAR_CORPUS_FILE_SECONDS";
/// Failures of a script that are shown.
const SHOWN_FAILURES: usize = 5;

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A pipe whose reader has gone means that the test is over.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn number_of(name: &str) -> Option<usize> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number")),
    )
}

/// Scripts below a folder, by their path in it.
fn scripts(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries =
            fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display()));
        for entry in entries {
            let path = entry.expect("an entry").path();
            let is_script = path
                .extension()
                .is_some_and(|extension| extension == "test");
            if path.is_dir() {
                folders.push(path);
            } else if is_script {
                let name = path
                    .strip_prefix(folder)
                    .expect("below")
                    .display()
                    .to_string();
                found.push((name, path));
            }
        }
    }
    found.sort();
    found
}

/// Sums over scripts.
#[derive(Default)]
struct Totals {
    files: usize,
    clean_files: usize,
    cut_short: usize,
    passed: usize,
    unsupported: usize,
    as_postgres: usize,
    foreign: usize,
    left_out: usize,
    failed: usize,
    /// How often something failed in the same way, and where it did first.
    ways: BTreeMap<String, (usize, String)>,
}

impl Totals {
    fn add(&mut self, outcome: Outcome) {
        self.files += 1;
        self.clean_files += usize::from(outcome.failures.is_empty());
        self.cut_short += usize::from(outcome.is_cut_short);
        self.passed += outcome.passed;
        self.unsupported += outcome.unsupported;
        self.as_postgres += outcome.as_postgres;
        self.foreign += outcome.foreign;
        self.left_out += outcome.left_out;
        self.failed += outcome.failures.len();
        for failure in outcome.failures {
            let (place, how) = failure.split_once(": ").unwrap_or(("", &failure));
            let how = how.lines().next().unwrap_or_default();
            let way: String = match how.starts_with(|letter: char| letter.is_ascii_digit()) {
                // An SQLSTATE and a message, in which numbers and names differ.
                true => how
                    .split(['\'', '"'])
                    .next()
                    .unwrap_or_default()
                    .chars()
                    .take(100)
                    .collect(),
                false => "wrong values".to_owned(),
            };
            let first = || (0, place.to_owned());
            self.ways.entry(way).or_insert_with(first).0 += 1;
        }
    }

    fn text(&self) -> String {
        let Self {
            files,
            clean_files,
            cut_short,
            passed,
            unsupported,
            as_postgres,
            foreign,
            left_out,
            failed,
            ..
        } = self;
        let mut text = format!(
            "{clean_files} of {files} files without a failure, {cut_short} cut short; records: {passed} passed, {failed} failed, \
             {as_postgres} as PostgreSQL has them, {unsupported} not supported, {foreign} of other engines, {left_out} left out"
        );
        for (way, (count, place)) in &self.ways {
            text.push_str(&format!("\n{count} times, first at {place}: {way}"));
        }
        text
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_passes_only_with_the_right_answers() {
    let limits = Limits {
        one_query_in: 1,
        file: Duration::from_secs(120),
    };
    let known = Known::default();
    let right = "statement ok\nCREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)\n\n\
                 statement ok\nCREATE INDEX i ON t(a)\n\n\
                 statement ok\nREINDEX i\n\n\
                 statement ok\nINSERT INTO t VALUES(2,''),(1,NULL)\n\n\
                 statement error\nINSERT INTO t VALUES(2,'x')\n\n\
                 query IT rowsort\nSELECT a, b FROM t\n----\n1\nNULL\n2\n(empty)\n\n\
                 statement error\nSELECT c FROM t\n\n";
    let outcome = run("right", right, &known, limits).await;
    assert_eq!((outcome.passed, outcome.unsupported), (6, 1), "{outcome:?}");
    assert!(outcome.failures.is_empty(), "{outcome:?}");
    let wrong = "statement ok\nSELECT c FROM t\n\nstatement error\nSELECT 1\n\nquery I\nSELECT 1\n----\n2\n\n\
                 query II\nSELECT 1\n----\n1\n\n";
    let outcome = run("wrong", wrong, &known, limits).await;
    assert_eq!(outcome.failures.len(), 4, "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes hours and needs the corpus: .ci/nightly corpus FOLDER"]
async fn the_corpus_passes_but_for_what_is_listed() {
    let folder = std::env::var_os(FOLDER).unwrap_or_else(|| panic!("{FOLDER} names no folder"));
    let filter = std::env::var(FILTER).unwrap_or_default();
    let limits = Limits {
        one_query_in: number_of(ONE_IN).unwrap_or(1).max(1),
        file: Duration::from_secs(number_of(FILE_SECONDS).unwrap_or(1800) as u64),
    };
    let scripts = scripts(Path::new(&folder)).into_iter();
    let scripts: Vec<_> = scripts.filter(|(name, _)| name.contains(&filter)).collect();
    assert!(!scripts.is_empty(), "no scripts");
    let (known, begun, mut totals) = (Known::listed(), Instant::now(), Totals::default());
    let listed = &known;
    let outcomes = scripts.iter().map(|(name, path)| async move {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, run(name, &text, listed, limits).await)
    });
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut outcomes = futures::stream::iter(outcomes).buffer_unordered(threads);
    while let Some((name, outcome)) = outcomes.next().await {
        let seconds = begun.elapsed().as_secs();
        say(&format!(
            "{name}: {} passed, {} failed ({seconds} s)",
            outcome.passed,
            outcome.failures.len()
        ));
        for failure in outcome.failures.iter().take(SHOWN_FAILURES) {
            say(&format!("  {failure}"));
        }
        for line in &outcome.passing_now {
            say(&format!(
                "  {name}:{line} is listed as not supported and passes"
            ));
        }
        totals.add(outcome);
    }
    say(&totals.text());
    assert_eq!(totals.failed, 0, "{}", totals.text());
}
