//! Built-in applications (mao-2025, table V, as far as packages have them).
//!
//! A thread of `sh` runs on the processors of the application, so that `nproc` tells their number.

use std::path::{Path, PathBuf};

use super::application::{Application, ApplicationError, ApplicationMetric};
use crate::process::find_program;

/// What built-in applications run on, as far as it was named.
#[derive(Debug, Clone, Copy, Default)]
pub struct PresetInputs<'a> {
    /// The file of those that are load on storage.
    pub storage: Option<&'a Path>,
    /// This program, of which some are commands.
    pub program: Option<&'a Path>,
    /// The tier of those that place their memory themselves; near if none is named.
    pub tier: Option<&'a str>,
}

/// A type of applications and of what runs beside them (mao-2025, section IV).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplicationType {
    /// Programs that work on files, beside far memory.
    A,
    /// Programs in far memory, beside storage.
    B,
    /// Programs in near memory, beside far memory.
    C,
    /// Programs in far memory, beside near memory.
    D,
}

impl ApplicationType {
    /// The tier that the memory of the program comes from; none where files are what it works on.
    pub const fn on(self) -> Option<&'static str> {
        match self {
            Self::A => None,
            Self::B | Self::D => Some("far"),
            Self::C => Some("near"),
        }
    }

    /// What runs beside it, in words of a selection.
    pub const fn beside(self) -> &'static [&'static str] {
        match self {
            Self::A | Self::C => &["far ld", "far st", "far ntst"],
            Self::B => &["ssd"],
            Self::D => &["near ld", "near st", "near ntst"],
        }
    }
}

impl Application {
    /// Names of the built-in ones.
    pub const PRESETS: [&'static str; 7] = [
        "redis",
        "valkey",
        "db_bench",
        "fileserver",
        "varmail",
        "pagerank",
        "inference",
    ];

    /// A built-in one.
    ///
    /// # Errors
    /// [`ApplicationError`] where it, its program or its file is missing.
    pub fn preset(name: &str, inputs: PresetInputs<'_>) -> Result<Self, ApplicationError> {
        let file = || {
            let path = inputs.storage.ok_or_else(|| ApplicationError::NoStorage {
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
            "fileserver" => Ok(fio(file()?, "--rw=randrw --rwmixread=33 --bs=1m")),
            // Small files, as many reads as writes, each of them waited for.
            "varmail" => Ok(fio(
                file()?,
                "--rw=randrw --rwmixread=50 --bs=16k --fsync=1",
            )),
            "pagerank" | "inference" => match inputs.program {
                Some(program) => own(program, name, inputs.tier),
                None => Err(ApplicationError::NoProgram {
                    name: name.to_owned(),
                }),
            },
            _ => Err(ApplicationError::Preset {
                name: name.to_owned(),
            }),
        }
    }
}

fn need(program: &'static str, package: &'static str) -> Result<PathBuf, ApplicationError> {
    find_program(program).ok_or(ApplicationError::Missing { program, package })
}

/// A word of a shell that stands for any text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A shell script that has a folder of its own, which it removes in the end, also when it is ended.
fn in_folder(body: &str) -> String {
    format!(
        "folder=$(mktemp -d) || exit 1\n\
         trap 'test -z \"$server\" || kill $server; rm -rf \"$folder\"' EXIT\n\
         trap 'exit 1' INT TERM\n{body}\n"
    )
}

/// Clients that get beside as many that set, 100 bytes, against a server that saves nothing and has most keys. What
/// counts is the mean of both rates.
fn key_value(name: &str) -> Result<Application, ApplicationError> {
    let body = format!(
        "{name}-server --port 0 --unixsocket \"$folder/socket\" --dir \"$folder\" --save '' \
         --appendonly no >\"$folder/log\" 2>&1 & server=$!\n\
         tries=100; until test -S \"$folder/socket\"; do\n\
         tries=$((tries - 1)); if test $tries = 0 || ! kill -0 $server 2>/dev/null; then\n\
         tail -n 3 \"$folder/log\" >&2; server=; exit 1; fi; sleep 0.1; done\n\
         load() {{ {name}-benchmark -s \"$folder/socket\" -c 25 -r 100000 -d 100 -P 16 -q \"$@\"; }}\n\
         load -t set -n 500000 >\"$folder/filled\" || exit 1\n\
         load -t set -n 1000000 & sets=$!\n\
         load -t get -n 1000000 || exit 1\n\
         wait $sets"
    );
    let pattern = "(?:GET|SET): ([0-9.]+) requests per second";
    Ok(Application {
        command: in_folder(&body),
        metric: ApplicationMetric::pattern(pattern, false)?,
        places_itself: false,
    })
}

/// Random reads of keys of 20 and values of 100 bytes (mao-2025, section IV-A), all of which are found.
fn db_bench() -> Result<Application, ApplicationError> {
    let body = "load=\"db_bench --db=$folder/db --num=1000000 --key_size=20 --value_size=100\"\n\
                $load --benchmarks=fillseq >\"$folder/filled\" 2>&1 || { tail -n 3 \"$folder/filled\" >&2; exit 1; }\n\
                $load --benchmarks=readrandom --use_existing_db=1 --reads=500000 --threads=$(nproc)";
    Ok(Application {
        command: in_folder(body),
        metric: ApplicationMetric::pattern(r"readrandom\s*:.*?([0-9]+) ops/sec", false)?,
        places_itself: false,
    })
}

/// A load of `fio` that has the shape of another program's: a thread for each processor, through the page cache.
fn fio(path: &Path, shape: &str) -> Application {
    let path = quoted(&path.to_string_lossy().replace(':', "\\:"));
    Application {
        command: format!(
            "exec fio --name=nearfar --filename={path} {shape} --ioengine=psync --direct=0 --thread \
             --numjobs=$(nproc) --group_reporting --time_based --ramp_time=1s --runtime=5s \
             --allow_file_create=0 --output-format=json --eta=never"
        ),
        metric: ApplicationMetric::Fio,
        places_itself: false,
    }
}

/// A command of this program, which prints what each of its trials or tokens takes.
fn own(program: &Path, command: &str, tier: Option<&str>) -> Result<Application, ApplicationError> {
    let program = quoted(&program.to_string_lossy());
    let tier = quoted(tier.unwrap_or("near"));
    let pattern = r#""metric":"(?:trial|token)_seconds","value":([0-9.e-]+)"#;
    Ok(Application {
        command: format!("exec {program} measure {command} --placement {tier} --format json"),
        metric: ApplicationMetric::pattern(pattern, true)?,
        places_itself: true,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::process::Place;

    fn run(application: &Application) -> Result<Option<f64>, ApplicationError> {
        application.measure(Place::default(), &AtomicBool::new(false))
    }

    #[test]
    fn what_is_missing_is_told() {
        let told = |name: &str| {
            let error = Application::preset(name, PresetInputs::default()).unwrap_err();
            error.to_string()
        };
        assert!(
            told("oracle").contains("redis, valkey"),
            "{}",
            told("oracle")
        );
        assert!(told("varmail").contains("--storage"), "{}", told("varmail"));
        assert!(
            told("pagerank").contains("this program"),
            "{}",
            told("pagerank")
        );
    }

    #[test]
    fn a_folder_is_removed_also_when_the_script_fails() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "TMPDIR={}; export TMPDIR; {}",
            folder.path().display(),
            in_folder("test -d \"$folder\" || exit 5; echo 4; exit 3")
        );
        let error = run(&Application {
            command: script,
            metric: ApplicationMetric::Seconds,
            places_itself: false,
        });
        let error = error.unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn pagerank_is_a_command_of_the_program_that_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("it's here");
        let script = "#!/bin/sh\necho \"$@\" >&2\n\
                      echo '{\"metric\":\"trial_seconds\",\"value\":1.5e-1,\"unit\":\"s\"}'\n";
        std::fs::write(&program, script).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, executable).unwrap();
        let inputs = PresetInputs {
            program: Some(&program),
            tier: Some("far"),
            ..PresetInputs::default()
        };
        let inference = Application::preset("inference", inputs).unwrap();
        assert!(
            inference.command.contains("measure inference"),
            "{inference:?}"
        );
        let application = Application::preset("pagerank", inputs).unwrap();
        assert!(application.metric.lower_is_better() && application.places_itself);
        assert!(
            application
                .command
                .ends_with("--placement 'far' --format json")
        );
        assert_eq!(run(&application).unwrap(), Some(0.15));
    }

    /// Runs what is installed on this machine; a preset whose program is not there is left out.
    #[test]
    fn what_is_installed_runs_and_has_its_metric() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("load");
        std::fs::write(&file, vec![7; 8 << 20]).unwrap();
        let inputs = PresetInputs {
            storage: Some(&file),
            ..PresetInputs::default()
        };
        for (name, least) in [("redis", 1e3), ("valkey", 1e3), ("varmail", 1e4)] {
            let application = match Application::preset(name, inputs) {
                Ok(application) => application,
                Err(ApplicationError::Missing { .. }) => continue,
                Err(error) => panic!("{name}: {error}"),
            };
            let short = application
                .command
                .replace("000000", "000")
                .replace("runtime=5s", "runtime=1s");
            let value = run(&Application {
                command: short,
                ..application
            });
            let value = value.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(value > Some(least), "{name}: {value:?}");
        }
        assert_eq!(std::fs::metadata(&file).unwrap().len(), 8 << 20);
    }
}
