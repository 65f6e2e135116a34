//! Going on with results that were begun.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use serde_json::Value;

use super::plan::PlannedRun;
use crate::results::{Header, Metric, ReadError, read};

/// The metric that ends a run.
const LAST_METRIC: &str = "run_seconds";

/// Why results cannot be gone on with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The results cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// They were taken with other settings.
    #[error(
        "the results were taken with other settings ({differing}): resume with the same \
         specification and flags, or write to another file"
    )]
    OtherSettings {
        /// Settings that differ.
        differing: String,
    },
}

/// Runs that results hold completely.
#[derive(Debug)]
pub struct Kept {
    /// The header.
    pub header: Header,
    /// The figures of complete runs, in order.
    pub metrics: Vec<Metric>,
    runs: BTreeSet<String>,
}

impl Kept {
    /// Reads results whose last line may have been cut off, and checks that they were taken with
    /// `settings`.
    ///
    /// # Errors
    /// [`ResumeError`].
    pub fn read(
        mut input: impl BufRead,
        settings: &BTreeMap<String, String>,
    ) -> Result<Self, ResumeError> {
        let mut text = String::new();
        input.read_to_string(&mut text).map_err(ReadError::Io)?;
        // What does not end with a line feed was not written to its end.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let (header, metrics) = read(whole.as_bytes())?;
        check(&header, settings)?;
        let is_last = |metric: &&Metric| metric.metric == LAST_METRIC;
        let runs: BTreeSet<String> = metrics.iter().filter(is_last).filter_map(run_of).collect();
        let is_kept = |metric: &Metric| run_of(metric).is_some_and(|run| runs.contains(&run));
        let metrics = metrics.into_iter().filter(is_kept).collect();
        Ok(Self {
            header,
            metrics,
            runs,
        })
    }

    /// Whether they hold this run.
    pub fn has(&self, run: &PlannedRun) -> bool {
        self.has_run(&run.id())
    }

    /// Whether they hold the run of this name.
    pub fn has_run(&self, id: &str) -> bool {
        self.runs.contains(id)
    }

    /// Number of runs they hold.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }
}

fn run_of(metric: &Metric) -> Option<String> {
    Some(metric.dimensions.get("run")?.as_str()?.to_owned())
}

fn check(header: &Header, settings: &BTreeMap<String, String>) -> Result<(), ResumeError> {
    let found = header
        .configuration
        .get("settings")
        .and_then(Value::as_object);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found: BTreeMap<String, String> = found
        .map(|found| {
            found
                .iter()
                .map(|(name, value)| (name.clone(), text(value)))
                .collect()
        })
        .unwrap_or_default();
    let names: BTreeSet<&String> = found.keys().chain(settings.keys()).collect();
    let differing = names
        .into_iter()
        .filter(|name| found.get(*name) != settings.get(*name));
    let differing: Vec<&str> = differing.map(String::as_str).collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(ResumeError::OtherSettings {
        differing: differing.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Kind, ResultsWriter};

    fn results(settings: Value) -> Vec<u8> {
        let mut text = Vec::new();
        let header = Header::new("1", vec![], serde_json::json!({ "settings": settings }));
        let mut writer = ResultsWriter::new(&mut text, &header).unwrap();
        for (name, run) in [("a", "one"), ("run_seconds", "one"), ("a", "two")] {
            let metric = Metric::new(name, 1.0, "s", Kind::Measured).with("run", run);
            writer.metric(&metric).unwrap();
        }
        text
    }

    #[test]
    fn incomplete_runs_are_left_out() {
        let mut text = results(serde_json::json!({"time": "1s"}));
        text.extend(b"{\"metric\":\"cut o");
        let settings = BTreeMap::from([("time".to_owned(), "1s".to_owned())]);
        let kept = Kept::read(&text[..], &settings).unwrap();
        assert_eq!((kept.runs(), kept.metrics.len()), (1, 2));
    }

    #[test]
    fn other_settings_are_refused_by_name() {
        let text = results(serde_json::json!({"time": "1s", "seed": "3"}));
        let settings = BTreeMap::from([("time".to_owned(), "2s".to_owned())]);
        let error = Kept::read(&text[..], &settings).unwrap_err();
        assert!(error.to_string().contains("seed, time"), "{error}");
        let error = Kept::read(&b"{}"[..], &settings).unwrap_err();
        assert!(
            matches!(error, ResumeError::Read(ReadError::Empty)),
            "{error}"
        );
    }
}
