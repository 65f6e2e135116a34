//! Two hosts: one is killed, the other has to cope with that. Over one memory, it takes over what the first had
//! published; over RDMA, it finds out what it has lost.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::checks::{Check, Work};
use super::outcome::{Found, Outcome, of_test, seconds};
use super::run::{programs, test_step};
use crate::build::Built;
use crate::guest::{Job, Launcher, Machine, Place};
use crate::topology::Topology;

/// Tells the host whether enough has happened for the first machine to be killed; either machine says so.
const PUBLISHED: &str = "published";
/// Tells the standby that the writer is dead.
const TAKE_OVER: &str = "take-over";

/// Runs the writer on one host and the standby on another, kills the writer's host in the middle of
/// its work, and has the standby check everything. The check's tests are the writer and the standby.
pub fn run(
    launcher: &Launcher,
    built: &Built,
    topology: &'static Topology,
    check: &Check,
    place: Place,
) -> Result<Found> {
    let Work::Failover { package, tests } = check.work else {
        bail!("{} is no failover", check.feature);
    };
    let [writer, standby] = tests.map(|test| check.test_name(test));
    let limit = Duration::from_secs(check.limit_seconds);
    let started = Instant::now();
    let common = place.own().join("common");
    let shared = common.join("shared");
    fs::create_dir_all(&shared)?;
    let start = |test: &str, host: u8, name: &str| -> Result<Machine> {
        let own = place.own().join(name);
        fs::create_dir_all(&own)?;
        let job = Job {
            programs: programs(built, &[package].into())?,
            steps: vec![test_step(package, &[test.to_owned()], limit)],
            shell: false,
        };
        launcher.start(topology, &job, Place::at(&own).of_host(host, &common))
    };
    let mut writing = start(&writer, 1, "writer")?;
    let mut waiting = start(&standby, 2, "standby")?;
    let published =
        || fs::read_to_string(shared.join(PUBLISHED)).is_ok_and(|text| !text.is_empty());
    let has_written = writing.wait_until(limit, |exchange| {
        exchange.exit_code(0).is_some() || exchange.setup_failure().is_some() || published()
    })? && published();
    writing.kill()?;
    fs::write(shared.join(TAKE_OVER), "")?;
    waiting.wait(limit, |_| {})?;

    let stdout = waiting.exchange().output(0, "stdout");
    let took_over = of_test(&stdout, &standby) == Some(true);
    let outcome = |test: String, passed: bool, reason: &str| Outcome {
        topology: topology.name,
        feature: check.feature,
        package: Some(package),
        test,
        passed,
        check_seconds: seconds(started.elapsed()),
        reason: (!passed).then(|| reason.to_owned()),
    };
    let machines = [&writing, &waiting];
    Ok(Found {
        emulator_failed: machines
            .iter()
            .any(|machine| machine.exchange().died_of_the_emulator()),
        outcomes: vec![
            (
                outcome(
                    writer,
                    has_written,
                    "it was not used before it was to be killed",
                ),
                said(&writing, has_written),
            ),
            (
                outcome(standby, took_over, "it failed"),
                said(&waiting, took_over),
            ),
        ],
    })
}

/// What a machine printed, with its last words where it failed.
fn said(machine: &Machine, passed: bool) -> String {
    let exchange = machine.exchange();
    let output = ["stdout", "stderr"].map(|name| exchange.output(0, name));
    let last_words = match passed {
        true => String::new(),
        false => exchange.last_words(),
    };
    output.concat() + &last_words
}
