//! `cargo xtask testbed`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::arguments::{Format, MachineArguments, Subset, TestbedArguments};
use crate::build;
use crate::guest::{Accelerator, End, Job, Launcher, Place, Step};
use crate::image::Image;
use crate::packages;
use crate::suite::{self, CHECKS, Check, Outcome};
use crate::topology::{Topology, find};

/// Runs the command.
pub fn run(arguments: &TestbedArguments) -> Result<ExitCode> {
    let checks = select(arguments)?;
    if arguments.list {
        print!("{}", suite::list(&checks));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &arguments.shell {
        return shell(arguments, find(name)?);
    }
    if let Some(name) = &arguments.command_topology {
        return command(arguments, find(name)?);
    }
    run_suite(arguments, &checks)
}

/// The checks that the arguments name.
fn select(arguments: &TestbedArguments) -> Result<Vec<&'static Check>> {
    for name in &arguments.topologies {
        find(name)?;
    }
    let is_chosen = |check: &&Check| {
        let names = &arguments.topologies;
        let in_subset = arguments.subset != Some(Subset::Ci) || check.ci;
        let is_named = names.is_empty() || names.iter().any(|name| name == check.topology);
        let only = arguments.only.as_deref();
        in_subset && is_named && only.is_none_or(|text| check.mentions(text))
    };
    Ok(CHECKS.iter().filter(is_chosen).collect())
}

/// Gets ready to start machines.
pub fn launcher(arguments: &MachineArguments) -> Result<Launcher> {
    packages::check()?;
    let image = Image::open_or_build()?;
    let accelerator = Accelerator::choose(arguments.accelerator, &image)?;
    let versions = image.versions()?;
    eprintln!(
        "Linux {} on qemu {} ({accelerator:?})",
        versions.kernel,
        versions.of("qemu-system-x86")
    );
    Ok(Launcher::new(image, accelerator).verbose(arguments.verbose))
}

/// A place for a machine's files, which stays where the arguments say so.
pub fn place(arguments: &MachineArguments, name: &str) -> Result<Place> {
    if !arguments.keep {
        return Place::temporary();
    }
    let folder = tempfile::Builder::new()
        .prefix(&format!("nearfar-testbed-{name}-"))
        .tempdir()?
        .keep();
    eprintln!("{name}: files are kept in {}", folder.display());
    Ok(Place::at(&folder))
}

fn run_suite(arguments: &TestbedArguments, checks: &[&'static Check]) -> Result<ExitCode> {
    ensure!(!checks.is_empty(), "nothing of that subset runs there");
    let started = Instant::now();
    let launcher = launcher(&arguments.machine)?;
    let built = build::tests(&suite::packages(checks))?;
    let verbose = arguments.machine.verbose;
    let mut place = |name: &str| place(&arguments.machine, name);
    let mut told =
        |outcome: &Outcome, output: &str| tell(arguments.format, verbose, outcome, output);
    let outcomes = suite::run(&launcher, &built, checks, &mut place, &mut told)?;
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    if arguments.format == Format::Text {
        println!(
            "\n{}\n{} passed, {failed} failed",
            suite::table(&outcomes),
            outcomes.len() - failed
        );
    }
    eprintln!("all of it took {:.0} s", started.elapsed().as_secs_f64());
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn tell(format: Format, verbose: bool, outcome: &Outcome, output: &str) {
    match format {
        Format::Json => match serde_json::to_string(outcome) {
            Ok(line) => println!("{line}"),
            Err(error) => eprintln!("an outcome cannot be written: {error}"),
        },
        Format::Text => {
            let word = if outcome.passed { "ok" } else { "FAILED" };
            println!("{} {} ... {word}", outcome.topology, outcome.test);
        }
    }
    if let Some(reason) = &outcome.reason {
        eprintln!("{} {}: {reason}", outcome.topology, outcome.test);
    }
    if (verbose || !outcome.passed) && !output.is_empty() {
        eprintln!("{}", output.trim_end());
    }
}

/// Files of the host by the names that the guest knows them by.
fn named(files: &[PathBuf]) -> Result<Vec<(String, PathBuf)>> {
    let name = |file: &PathBuf| {
        let name = file.file_name().context("a file without a name")?;
        let name = name.to_str().context("a name that is no text")?;
        Ok((name.to_owned(), file.clone()))
    };
    files.iter().map(name).collect()
}

fn shell(arguments: &TestbedArguments, topology: &Topology) -> Result<ExitCode> {
    let launcher = launcher(&arguments.machine)?;
    let job = Job {
        programs: named(&arguments.files)?,
        steps: Vec::new(),
        shell: true,
    };
    eprintln!("booting {}; leave with Ctrl-D", topology.name);
    let mut machine = launcher.start(topology, &job, place(&arguments.machine, topology.name)?)?;
    match machine.wait(Duration::MAX, |_| {})? {
        End::Off => Ok(ExitCode::SUCCESS),
        end => bail!("{end:?}\n{}", machine.exchange().last_words()),
    }
}

fn command(arguments: &TestbedArguments, topology: &Topology) -> Result<ExitCode> {
    let launcher = launcher(&arguments.machine)?;
    let mut programs = named(&arguments.files)?;
    let mut command = arguments.command.clone();
    let program = Path::new(&command[0]);
    if command[0].contains('/') && program.is_file() {
        let passed = named(&[program.to_owned()])?;
        command[0] = format!("/programs/{}", passed[0].0);
        programs.extend(passed);
    }
    let step = Step {
        command,
        environment: Vec::new(),
        limit: Duration::from_secs(arguments.timeout),
    };
    let job = Job {
        programs,
        steps: vec![step],
        shell: false,
    };
    let mut machine = launcher.start(topology, &job, place(&arguments.machine, topology.name)?)?;
    let mut written = [0, 0];
    let end = machine.wait(job.limit() + Duration::from_secs(60), |exchange| {
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| exchange.step_file(0, name));
        // A reader that has gone away is no reason to leave the machine running for.
        let _ = follow(&stdout, &mut written[0], &mut io::stdout());
        let _ = follow(&stderr, &mut written[1], &mut io::stderr());
    })?;
    let exchange = machine.exchange();
    if let Some(folder) = &arguments.out {
        copy_folder(&exchange.out(), folder)
            .with_context(|| format!("cannot bring files to {}", folder.display()))?;
    }
    match exchange.exit_code(0) {
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))),
        None => bail!(
            "the machine ended early: {end:?}\n{}",
            exchange.last_words()
        ),
    }
}

/// Writes what came to a file since the last time.
fn follow(file: &Path, written: &mut usize, to: &mut dyn Write) -> io::Result<()> {
    let bytes = fs::read(file).unwrap_or_default();
    if bytes.len() > *written {
        to.write_all(&bytes[*written..])?;
        to.flush()?;
        *written = bytes.len();
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, target) = {
            let entry = entry?;
            (entry.path(), to.join(entry.file_name()))
        };
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
