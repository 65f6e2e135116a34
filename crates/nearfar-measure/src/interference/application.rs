//! Programs under test: any command line, with its own metric or its time.

use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use regex::Regex;
use serde_json::Value;

use super::storage::report;
use crate::process::{Ended, Place, Process};

/// What of a run counts.
#[derive(Debug, Clone)]
pub enum ApplicationMetric {
    /// How long it takes, in seconds; less is better.
    Seconds,
    /// The number that the first group of a pattern finds in its output, or the whole of it where there
    /// is no group; the mean where it finds several.
    Pattern {
        /// The pattern.
        pattern: Regex,
        /// Whether less is better, as of a latency.
        lower_is_better: bool,
    },
    /// Bytes per second of a report of `fio`.
    Fio,
}

impl ApplicationMetric {
    /// The number that a pattern finds.
    ///
    /// # Errors
    /// [`ApplicationError::Pattern`] for one that is no regular expression.
    pub fn pattern(text: &str, lower_is_better: bool) -> Result<Self, ApplicationError> {
        let pattern = Regex::new(text).map_err(|source| ApplicationError::Pattern {
            text: text.to_owned(),
            // Its other lines show where in the pattern it is.
            reason: source
                .to_string()
                .lines()
                .last()
                .unwrap_or_default()
                .to_owned(),
        })?;
        Ok(Self::Pattern {
            pattern,
            lower_is_better,
        })
    }

    /// The number that it finds in what a program has written; none where there is none, and of a time.
    pub fn number(&self, text: &str) -> Option<f64> {
        let found = match self {
            Self::Seconds => None,
            Self::Pattern { pattern, .. } => matched(pattern, text),
            Self::Fio => report(text).and_then(|job| rate(&job)),
        };
        found.filter(|number| number.is_finite())
    }

    /// Whether less is better.
    pub fn lower_is_better(&self) -> bool {
        match self {
            Self::Seconds => true,
            Self::Pattern {
                lower_is_better, ..
            } => *lower_is_better,
            Self::Fio => false,
        }
    }
}

/// A program under test.
#[derive(Debug, Clone)]
pub struct Application {
    /// Its command line, for `sh`.
    pub command: String,
    /// What of a run counts.
    pub metric: ApplicationMetric,
    /// Whether its command line says where its memory lies, so that nothing is told to the kernel.
    pub places_itself: bool,
}

/// Why an application cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplicationError {
    /// A pattern that is no regular expression.
    #[error("{text:?} is no regular expression: {}", reason.trim_start_matches("error: "))]
    Pattern {
        /// The pattern.
        text: String,
        /// Why.
        reason: String,
    },
    /// No preset of that name.
    #[error("there is no application {name:?}; there are: {}", Application::PRESETS.join(", "))]
    Preset {
        /// The name.
        name: String,
    },
    /// A preset whose program is not installed.
    #[error("{program} is not among the folders of PATH: install {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// A preset that is a command of a program which was not named.
    #[error("application {name:?} is a command of this program, which was not named")]
    NoProgram {
        /// The preset.
        name: String,
    },
    /// A preset that needs a file to run on.
    #[error("application {name:?} runs on storage: name a file by --storage")]
    NoStorage {
        /// The preset.
        name: String,
    },
    /// A tier whose memory the kernel does not give to programs.
    #[error(
        "tier {tier} has no node of the kernel: the memory of an application cannot be put there"
    )]
    NoNode {
        /// The tier.
        tier: String,
    },
    /// The program cannot be run.
    #[error("{command:?} cannot be run")]
    Run {
        /// The command line.
        command: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The program failed.
    #[error("{command:?} ended with {status}: {words}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// What it said.
        words: String,
    },
    /// The program does not end.
    #[error("{command:?} does not end within {} s", limit.as_secs_f64())]
    Slow {
        /// The command line.
        command: String,
        /// What it was given.
        limit: Duration,
    },
    /// The output has no such number.
    #[error(
        "the output of {command:?} has no positive number where the metric is looked for: {words}"
    )]
    NoMetric {
        /// The command line.
        command: String,
        /// What it said.
        words: String,
    },
}

impl Application {
    /// Runs it to its end, or until it is stopped, which is none.
    fn run(&self, place: Place, stop: &AtomicBool) -> Result<Option<Ended>, ApplicationError> {
        let failed = |source| ApplicationError::Run {
            command: self.command.clone(),
            source,
        };
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.command]);
        let process = Process::start(shell, place).map_err(failed)?;
        process.wait(stop).map_err(failed)
    }

    /// Runs it to its end; its metric, or `None` if it was stopped.
    pub(super) fn measure(
        &self,
        place: Place,
        stop: &AtomicBool,
    ) -> Result<Option<f64>, ApplicationError> {
        let Some(ended) = self.run(place, stop)? else {
            return Ok(None);
        };
        match self.number(&ended)? {
            value if value > 0.0 => Ok(Some(value)),
            _ => Err(self.no_metric(&ended)),
        }
    }

    /// Runs it to its end, wherever the kernel puts it; its metric, which may be none of what there could be.
    ///
    /// # Errors
    /// [`ApplicationError::Slow`] for one that does not end within `limit`, after which it is ended; what else keeps it
    /// from being measured.
    pub fn measure_within(&self, limit: Duration) -> Result<f64, ApplicationError> {
        let stop = &AtomicBool::new(false);
        let (running, ended) = mpsc::channel::<()>();
        let ended = thread::scope(|scope| {
            scope.spawn(move || {
                if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    stop.store(true, Ordering::Relaxed);
                }
            });
            let ended = self.run(Place::default(), stop);
            drop(running);
            ended
        });
        match ended? {
            Some(ended) => self.number(&ended),
            None => Err(ApplicationError::Slow {
                command: self.command.clone(),
                limit,
            }),
        }
    }

    fn number(&self, ended: &Ended) -> Result<f64, ApplicationError> {
        if !ended.status.success() {
            return Err(ApplicationError::Failed {
                command: self.command.clone(),
                status: ended.status.to_string(),
                words: ended.words(),
            });
        }
        let found = match &self.metric {
            ApplicationMetric::Seconds => Some(ended.elapsed.as_secs_f64()),
            metric => metric
                .number(&ended.output)
                .or_else(|| metric.number(&ended.errors)),
        };
        found.ok_or_else(|| self.no_metric(ended))
    }

    fn no_metric(&self, ended: &Ended) -> ApplicationError {
        ApplicationError::NoMetric {
            command: self.command.clone(),
            words: ended.words(),
        }
    }
}

/// The mean of the numbers that a pattern finds.
fn matched(pattern: &Regex, text: &str) -> Option<f64> {
    let numbers = pattern.captures_iter(text).map(|found| {
        let group = found.get(1).or_else(|| found.get(0))?;
        group.as_str().replace(',', "").trim().parse::<f64>().ok()
    });
    let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
    let count = numbers.len() as f64;
    (count > 0.0).then(|| numbers.iter().sum::<f64>() / count)
}

/// Bytes per second that a job of `fio` read and wrote.
fn rate(job: &Value) -> Option<f64> {
    let of = |direction: &str| job[direction]["bw_bytes"].as_f64();
    Some(of("read")? + of("write")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, metric: ApplicationMetric) -> Result<Option<f64>, ApplicationError> {
        let command = command.to_owned();
        let application = Application {
            command,
            metric,
            places_itself: false,
        };
        application.measure(Place::default(), &AtomicBool::new(false))
    }

    fn pattern(text: &str) -> ApplicationMetric {
        ApplicationMetric::pattern(text, false).unwrap()
    }

    #[test]
    fn metrics_are_found_where_they_are() {
        let output = "echo 'a: 1,000 per s'; echo 'b: 3000 per s'";
        let found = run(output, pattern("([0-9,]+) per s"));
        assert_eq!(found.unwrap(), Some(2000.0), "the mean of both");
        let errors = run("echo 12.5 >&2", pattern("[0-9.]+"));
        assert_eq!(
            errors.unwrap(),
            Some(12.5),
            "without a group, in its errors"
        );
        let time = run("sleep 0.05", ApplicationMetric::Seconds)
            .unwrap()
            .unwrap();
        assert!(time >= 0.05);
        let report = r#"echo '{"jobs":[{"read":{"bw_bytes":5},"write":{"bw_bytes":7}}]}'"#;
        assert_eq!(run(report, ApplicationMetric::Fio).unwrap(), Some(12.0));
    }

    #[test]
    fn a_number_is_read_once_and_within_a_time() {
        let of = |command: &str| Application {
            command: command.to_owned(),
            metric: pattern("rate ([0-9.]+)"),
            places_itself: false,
        };
        let second = Duration::from_secs(1);
        let quick = of("echo 'rate 12.5'; echo 'rate 0' >&2");
        assert_eq!(quick.measure_within(20 * second).unwrap(), 12.5);
        // Nothing is a number of a service that stands still.
        let still = of("echo 'rate 0'");
        assert_eq!(still.measure_within(20 * second).unwrap(), 0.0);
        let began = std::time::Instant::now();
        let slow = of("sleep 60").measure_within(second / 10).unwrap_err();
        assert!(
            slow.to_string().contains("does not end within 0.1 s"),
            "{slow}"
        );
        assert!(began.elapsed() < 30 * second);
        assert_eq!(pattern("rate ([0-9e]+)").number("rate 1e999"), None);
    }

    #[test]
    fn what_goes_wrong_is_told_with_the_programs_words() {
        let failed = run("echo no luck >&2; exit 7", ApplicationMetric::Seconds).unwrap_err();
        let text = failed.to_string();
        assert!(
            text.contains("exit status: 7") && text.contains("no luck"),
            "{text}"
        );
        for output in ["echo nothing", "echo 'rate 0'", "echo 'rate 1e999'"] {
            let error = run(output, pattern("rate ([0-9e]+)")).unwrap_err();
            assert!(
                matches!(error, ApplicationError::NoMetric { .. }),
                "{error}"
            );
        }
        let error = ApplicationMetric::pattern("(", false).unwrap_err();
        assert!(error.to_string().contains("no regular expression"));
    }
}
