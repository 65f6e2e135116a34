//! Programs under test: any command line, with its own metric or its time.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use regex::Regex;
use serde_json::Value;

use super::process::{Ended, Place, Process, find_program};
use super::storage::report;

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
    /// Names of the built-in ones (mao-2025, table V, as far as packages have them).
    pub const PRESETS: [&'static str; 5] = ["redis", "valkey", "db_bench", "fileserver", "varmail"];

    /// A built-in one. Those that are load on storage run on the file at `storage`.
    ///
    /// # Errors
    /// [`ApplicationError`] where it, its program or its file is missing.
    pub fn preset(name: &str, storage: Option<&Path>) -> Result<Self, ApplicationError> {
        let file = || {
            let path = storage.ok_or_else(|| ApplicationError::NoStorage {
                name: name.to_owned(),
            })?;
            need("fio", "fio").map(|_| path)
        };
        match name {
            "redis" => {
                need("redis-server", "redis-server")?;
                need("redis-benchmark", "redis-tools")?;
                key_value("redis")
            }
            "valkey" => {
                need("valkey-server", "valkey-server")?;
                need("valkey-benchmark", "valkey-tools")?;
                key_value("valkey")
            }
            "db_bench" => {
                need("db_bench", "rocksdb-tools")?;
                db_bench()
            }
            // Large files, two bytes written for one that is read.
            "fileserver" => Ok(fio(
                file()?,
                "--rw=randrw --rwmixread=33 --bs=1m --iodepth=4",
            )),
            // Small files, as many reads as writes, each of them waited for.
            "varmail" => Ok(fio(
                file()?,
                "--rw=randrw --rwmixread=50 --bs=16k --iodepth=1 --fsync=1",
            )),
            _ => Err(ApplicationError::Preset {
                name: name.to_owned(),
            }),
        }
    }

    /// Runs it to its end; its metric, or `None` if it was stopped.
    pub(super) fn measure(
        &self,
        place: Place,
        stop: &AtomicBool,
    ) -> Result<Option<f64>, ApplicationError> {
        let failed = |source| ApplicationError::Run {
            command: self.command.clone(),
            source,
        };
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.command]);
        let process = Process::start(shell, place).map_err(failed)?;
        let Some(ended) = process.wait(stop).map_err(failed)? else {
            return Ok(None);
        };
        self.value(&ended).map(Some)
    }

    fn value(&self, ended: &Ended) -> Result<f64, ApplicationError> {
        if !ended.status.success() {
            return Err(ApplicationError::Failed {
                command: self.command.clone(),
                status: ended.status.to_string(),
                words: ended.words(),
            });
        }
        let found = match &self.metric {
            ApplicationMetric::Seconds => Some(ended.elapsed.as_secs_f64()),
            ApplicationMetric::Pattern { pattern, .. } => {
                matched(pattern, &ended.output).or_else(|| matched(pattern, &ended.errors))
            }
            ApplicationMetric::Fio => report(&ended.output).and_then(|job| rate(&job)),
        };
        let found = found.filter(|value| value.is_finite() && *value > 0.0);
        found.ok_or_else(|| ApplicationError::NoMetric {
            command: self.command.clone(),
            words: ended.words(),
        })
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

fn need(program: &'static str, package: &'static str) -> Result<PathBuf, ApplicationError> {
    find_program(program).ok_or(ApplicationError::Missing { program, package })
}

/// A shell script that has a folder of its own, which it removes in the end, also when it is ended.
fn in_folder(body: &str) -> String {
    format!(
        "folder=$(mktemp -d) || exit 1\n\
         trap 'test -z \"$server\" || kill $server; rm -rf \"$folder\"' EXIT\n\
         trap 'exit 1' INT TERM\n{body}\n"
    )
}

/// As many gets as sets of 100 bytes, against a server that saves nothing.
fn key_value(name: &str) -> Result<Application, ApplicationError> {
    let body = format!(
        "{name}-server --port 0 --unixsocket \"$folder/socket\" --dir \"$folder\" --save '' \
         --appendonly no >/dev/null 2>&1 & server=$!\n\
         for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do\n\
         test -S \"$folder/socket\" && break; sleep 0.1; done\n\
         {name}-benchmark -s \"$folder/socket\" -t set,get -n 200000 -r 100000 -d 100 -P 16 -q"
    );
    let pattern = "(?:GET|SET): ([0-9.]+) requests per second";
    Ok(Application {
        command: in_folder(&body),
        metric: ApplicationMetric::pattern(pattern, false)?,
    })
}

/// Random reads of keys of 20 and values of 100 bytes (mao-2025, section IV-A).
fn db_bench() -> Result<Application, ApplicationError> {
    let body = "db_bench --benchmarks=fillrandom,readrandom --num=1000000 --reads=500000 \
                --key_size=20 --value_size=100 --db=\"$folder\"";
    Ok(Application {
        command: in_folder(body),
        metric: ApplicationMetric::pattern(r"readrandom\s*:.*?([0-9]+) ops/sec", false)?,
    })
}

/// A load of `fio` that has the shape of another program's.
fn fio(path: &Path, shape: &str) -> Application {
    let path = path.to_string_lossy();
    let quoted = path.replace('\'', "'\\''").replace(':', "\\:");
    Application {
        command: format!(
            "exec fio --name=nearfar --filename='{quoted}' {shape} --ioengine=libaio --direct=0 --thread \
             --time_based --ramp_time=1s --runtime=5s --allow_file_create=0 --output-format=json --eta=never"
        ),
        metric: ApplicationMetric::Fio,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, metric: ApplicationMetric) -> Result<Option<f64>, ApplicationError> {
        let command = command.to_owned();
        let application = Application { command, metric };
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
        let error = Application::preset("oracle", None).unwrap_err();
        assert!(error.to_string().contains("redis, valkey"), "{error}");
        let error = Application::preset("varmail", None).unwrap_err();
        assert!(error.to_string().contains("--storage"), "{error}");
    }

    #[test]
    fn a_folder_is_removed_also_when_the_script_fails() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "TMPDIR={}; export TMPDIR; {}",
            folder.path().display(),
            in_folder("test -d \"$folder\" || exit 5; echo 4; exit 3")
        );
        let error = run(&script, ApplicationMetric::Seconds).unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
