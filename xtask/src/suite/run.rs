//! Running checks, topology by topology.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::checks::{Check, Work};
use super::failover;
use super::outcome::{Found, Outcome, of_test, seconds};
use crate::build::Built;
use crate::guest::{End, Job, Launcher, Place, Step};
use crate::topology::{ALL, Topology};

/// How often a machine is started that the emulator fails.
const ATTEMPTS_MAX: u32 = 3;

/// Where the program under test lies in a guest, for the tests that run it.
const PROGRAM: &str = "/programs/nearfar";

/// Runs `checks` and tells `told` each outcome as soon as it is known.
pub fn run(
    launcher: &Launcher,
    built: &Built,
    checks: &[&Check],
    place: &mut dyn FnMut(&str) -> Result<Place>,
    told: &mut dyn FnMut(&Outcome, &str),
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for topology in &ALL {
        let of_topology = |check: &&&Check| check.topology == topology.name;
        let (scenarios, steps): (Vec<&Check>, Vec<&Check>) = checks
            .iter()
            .filter(of_topology)
            .partition(|check| matches!(check.work, Work::Failover { .. }));
        let mut found = Vec::new();
        if !steps.is_empty() {
            found = unless_emulator_fails(|| {
                run_steps(launcher, built, topology, &steps, place(topology.name)?)
            })?;
        }
        for check in scenarios {
            found.extend(unless_emulator_fails(|| {
                failover::run(launcher, built, topology, check, place(topology.name)?)
            })?);
        }
        for (outcome, output) in found {
            told(&outcome, &output);
            outcomes.push(outcome);
        }
    }
    Ok(outcomes)
}

/// What `run` finds, or what it finds when it is run again because the emulator failed.
fn unless_emulator_fails(mut run: impl FnMut() -> Result<Found>) -> Result<Vec<(Outcome, String)>> {
    for _ in 1..ATTEMPTS_MAX {
        let found = run()?;
        if !found.emulator_failed {
            return Ok(found.outcomes);
        }
        eprintln!("a machine died of a fault of the emulator, and is started again");
    }
    Ok(run()?.outcomes)
}

/// Packages whose tests `checks` run.
pub fn packages(checks: &[&Check]) -> BTreeSet<&'static str> {
    let package = |check: &&Check| match check.work {
        Work::Tests { package, .. } | Work::Failover { package, .. } => Some(package),
        Work::Command { .. } => None,
    };
    checks.iter().filter_map(package).collect()
}

/// Files of the host by the names that the guest knows them by.
pub fn programs(
    built: &Built,
    packages: &BTreeSet<&'static str>,
) -> Result<Vec<(String, PathBuf)>> {
    let mut programs = BTreeMap::new();
    for package in packages {
        let test = built.tests.get(*package);
        let test = test.with_context(|| format!("the tests of {package} were not built"))?;
        programs.insert(test_program(package), test.clone());
        if *package == "nearfar" {
            let program = built.programs.get("nearfar");
            let program = program.context("the program nearfar was not built")?;
            programs.insert("nearfar".to_owned(), program.clone());
        }
    }
    Ok(programs.into_iter().collect())
}

fn test_program(package: &str) -> String {
    format!("tests-of-{package}")
}

/// The step that runs one or several tests of `package`, alone and one after another.
pub fn test_step(package: &str, tests: &[String], limit: Duration) -> Step {
    let mut command = vec![format!("/programs/{}", test_program(package))];
    let options = ["--exact", "--ignored", "--test-threads=1"];
    command.extend(options.map(str::to_owned));
    command.extend(tests.iter().cloned());
    Step {
        command,
        environment: vec![("NEARFAR_PROGRAM".to_owned(), PROGRAM.to_owned())],
        limit,
    }
}

fn step_of(check: &Check) -> Step {
    let limit = Duration::from_secs(check.limit_seconds);
    match check.work {
        Work::Tests { package, tests } => {
            let names: Vec<String> = tests.iter().map(|test| check.test_name(test)).collect();
            test_step(package, &names, limit)
        }
        Work::Command { command, .. } => Step {
            command: ["sh", "-exc", command].map(str::to_owned).to_vec(),
            environment: Vec::new(),
            limit,
        },
        Work::Failover { .. } => unreachable!("has machines of its own"),
    }
}

fn run_steps(
    launcher: &Launcher,
    built: &Built,
    topology: &'static Topology,
    checks: &[&Check],
    place: Place,
) -> Result<Found> {
    let job = Job {
        programs: programs(built, &packages(checks))?,
        steps: checks.iter().map(|check| step_of(check)).collect(),
        shell: false,
    };
    let started = Instant::now();
    let mut machine = launcher.start(topology, &job, place)?;
    let mut boot = None;
    let mut ends: Vec<Option<Duration>> = vec![None; checks.len()];
    let end = machine.wait(job.limit() + Duration::from_secs(60), |exchange| {
        if boot.is_none() && exchange.is_ready() {
            boot = Some(started.elapsed());
        }
        for (step, end) in ends.iter_mut().enumerate() {
            if end.is_none() && exchange.exit_code(step).is_some() {
                *end = Some(started.elapsed());
            }
        }
    })?;
    let boot = boot.unwrap_or_default();
    eprintln!(
        "{}: ready after {:.1} s, done after {:.1} s",
        topology.name,
        boot.as_secs_f64(),
        started.elapsed().as_secs_f64()
    );
    let mut found = Vec::new();
    let mut before = boot;
    for (step, check) in checks.iter().enumerate() {
        let exchange = machine.exchange();
        let (stdout, stderr) = (
            exchange.output(step, "stdout"),
            exchange.output(step, "stderr"),
        );
        let ended = Ended {
            code: exchange.exit_code(step),
            seconds: seconds(ends[step].unwrap_or(before).saturating_sub(before)),
            end: &end,
        };
        before = ends[step].unwrap_or(before);
        let mut of_check = outcomes(check, &ended, &stdout);
        let mut output = format!("{stdout}{stderr}");
        if of_check.iter().any(|outcome| !outcome.passed) {
            output += &exchange.last_words();
        }
        // The output is that of the whole check: it is told once, with the first that failed.
        let speaker = of_check
            .iter()
            .position(|outcome| !outcome.passed)
            .unwrap_or(0);
        for (index, outcome) in of_check.drain(..).enumerate() {
            let output = if index == speaker {
                output.clone()
            } else {
                String::new()
            };
            found.push((outcome, output));
        }
    }
    Ok(Found {
        outcomes: found,
        emulator_failed: machine.exchange().died_of_the_emulator(),
    })
}

/// How a check's step ended.
struct Ended<'a> {
    /// `None` where it did not.
    code: Option<i32>,
    seconds: f64,
    /// The end of its machine.
    end: &'a End,
}

/// The outcomes of a check, one for each of its tests.
fn outcomes(check: &Check, ended: &Ended, stdout: &str) -> Vec<Outcome> {
    let reason = match (ended.code, ended.end) {
        (Some(137), _) => "it was killed: out of memory, or out of time".to_owned(),
        (Some(code), _) => format!("it ended with code {code}"),
        (None, End::Off) => "it was not run".to_owned(),
        (None, End::SetupFailed(reason)) => format!("the machine's memory: {reason}"),
        (None, End::BootTimedOut) => "the machine did not boot in time".to_owned(),
        (None, End::TimedOut) => "the machine was not done in time".to_owned(),
        (None, End::Died(reason)) => format!("the machine died: {reason}"),
    };
    let outcome = |package, test: String, passed: bool, reason: &str| Outcome {
        topology: check.topology,
        feature: check.feature,
        package,
        test,
        passed,
        check_seconds: ended.seconds,
        reason: (!passed).then(|| reason.to_owned()),
    };
    match check.work {
        Work::Tests { package, tests } => {
            let tests = tests.iter().map(|test| check.test_name(test));
            let told = tests.map(|test| match of_test(stdout, &test) {
                Some(true) => outcome(Some(package), test, true, ""),
                Some(false) => outcome(Some(package), test, false, "it failed"),
                None if ended.code == Some(0) => {
                    outcome(Some(package), test, false, "the package has no such test")
                }
                None => outcome(Some(package), test, false, &reason),
            });
            told.collect()
        }
        Work::Command { expected, .. } => {
            let is_there = stdout.contains(expected);
            let passed = ended.code == Some(0) && is_there;
            let reason = match ended.code {
                Some(0) => format!("its output has no {expected:?}"),
                _ => reason,
            };
            vec![outcome(None, check.feature.to_owned(), passed, &reason)]
        }
        Work::Failover { .. } => unreachable!("has machines of its own"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECK: Check = Check {
        topology: "far-node",
        feature: "placement",
        work: Work::Tests {
            package: "nearfar-memory",
            tests: &["one", "two"],
        },
        limit_seconds: 7,
        ci: true,
    };

    #[test]
    fn only_what_the_emulator_failed_is_run_again() {
        for (failures, runs) in [(0, 1), (1, 2), (2, 3), (9, 3)] {
            let mut count = 0;
            let found = unless_emulator_fails(|| {
                count += 1;
                Ok(Found {
                    outcomes: Vec::new(),
                    emulator_failed: count <= failures,
                })
            });
            assert!(found.is_ok());
            assert_eq!(count, runs, "{failures} failures");
        }
    }

    fn reasons(code: Option<i32>, end: &End, stdout: &str) -> Vec<Option<String>> {
        let ended = Ended {
            code,
            seconds: 1.0,
            end,
        };
        let found = outcomes(&CHECK, &ended, stdout);
        found.into_iter().map(|outcome| outcome.reason).collect()
    }

    #[test]
    fn tests_run_by_their_full_names_and_alone() {
        let step = step_of(&CHECK);
        assert_eq!(
            step.command.join(" "),
            "/programs/tests-of-nearfar-memory --exact --ignored --test-threads=1 \
             testbed::far_node::one testbed::far_node::two"
        );
    }

    #[test]
    fn a_test_that_was_not_seen_to_pass_has_failed() {
        let one = "test testbed::far_node::one ... ok\n";
        let told = |reason: &str| vec![None, Some(reason.to_owned())];
        assert_eq!(
            reasons(Some(137), &End::Off, one),
            told("it was killed: out of memory, or out of time")
        );
        assert_eq!(
            reasons(None, &End::Died("qemu ended".into()), one),
            told("the machine died: qemu ended")
        );
        assert_eq!(
            reasons(Some(0), &End::Off, one),
            told("the package has no such test")
        );
        let both = format!("{one}test testbed::far_node::two ... FAILED\n");
        assert_eq!(reasons(Some(101), &End::Off, &both), told("it failed"));
    }
}
