//! `nearfar regulate`.

mod metric;
mod replay;

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use nearfar_regulate::attribution::Attribution;
use nearfar_regulate::control::{Controller, Goal, Published, TierAware};
use nearfar_regulate::error::RegulateError;
use nearfar_regulate::journal::{Journal, Restored};
use nearfar_regulate::knob::{Bandwidth, Frequency, Knob, Pin, Quota};
use nearfar_regulate::machine::{MachineFiles, check_apart};
use nearfar_regulate::observe::{NearProbe, Observer, Pressure, Traffic};
use nearfar_regulate::regulator::{Candidate, Regulator};
use nearfar_regulate::report::Report;
use nearfar_regulate::virtual_time::Recording;
use nearfar_topology::IdList;

use crate::args::{
    ControllerName, DecisionFormat, KnobName, RegulateAction, RegulateArgs, RegulateRunArgs,
    WatchName,
};
use crate::exit::{Exit, Failed};
use crate::interrupt::Interrupts;
use crate::machine;
use crate::message;
use crate::output::file::Output;

/// Runs the command.
pub fn run(args: &RegulateArgs) -> anyhow::Result<()> {
    if let Some(RegulateAction::Restore { journal, root }) = &args.action {
        let (_, restored) = Journal::recover(journal, &MachineFiles::below(root))?;
        say(&restored, "nothing was left to restore");
        return Ok(());
    }
    if let Some(trace) = &args.run.replay {
        return replay::run(&args.run, trace);
    }
    regulate(&args.run)
}

/// The controller that was asked for.
fn controller(args: &RegulateRunArgs) -> anyhow::Result<Box<dyn Controller>> {
    let victim = match args.near_latency_max {
        None => args.goal / 100.0,
        Some(ratio) if args.watch == WatchName::Latency => 1.0 / ratio,
        Some(_) => {
            let message = "--near-latency-max is a goal for --watch latency: give --goal";
            return Err(Failed::new(Exit::Usage, message).into());
        }
    };
    let goal = Goal {
        victim,
        floor: args.floor / 100.0,
    };
    let goal = goal.check()?;
    Ok(match args.controller {
        ControllerName::TierAware => Box::new(TierAware::new(goal)),
        ControllerName::Published => Box::new(Published::new(goal)),
    })
}

fn regulate(args: &RegulateRunArgs) -> anyhow::Result<()> {
    let controller = controller(args)?;
    let recording = args.record.as_ref().map(|_| Recording::new(&args.groups));
    let mut recording = recording.transpose()?;
    let machine = MachineFiles::below(&args.root);
    check_apart(&args.groups)?;
    // What an earlier regulator has left is restored before anything is read.
    let journal = match args.dry_run {
        true => None,
        false => {
            let mut journal = recover(&args.journal, &machine)?;
            lock(args, &mut journal)?;
            Some(journal)
        }
    };
    let candidates = candidates(args, &machine)?;
    let observer = observer(args, &machine)?;
    let attribution = attribution(args, &machine)?;
    let sure = observer.sureness().name();
    message::print(&format!("watching: {} ({sure})", observer.tells()));
    let report = Report::new(observer.as_ref(), attribution.as_ref());
    let mut regulator = Regulator::new(machine, observer, controller, candidates, journal);
    if let Some(attribution) = attribution {
        message::print(&format!("telling causes by: {}", attribution.tells()));
        regulator = regulator.attributed_by(attribution);
    }
    let outcome = steps(&mut regulator, &report, args, recording.as_mut());
    let restored = regulator.end()?;
    say(&restored, "nothing was changed");
    let kept = match args.record.as_ref().zip(recording) {
        Some((path, recording)) => keep(&recording, path),
        None => Ok(()),
    };
    outcome.and(kept)
}

/// Locks what is to be changed, before it is read.
fn lock(args: &RegulateRunArgs, journal: &mut Journal) -> Result<(), RegulateError> {
    for group in &args.groups {
        journal.lock_group(group)?;
    }
    match args.knob {
        KnobName::Bandwidth => journal.lock_bandwidth(),
        KnobName::Frequency => journal.lock_frequencies(),
        KnobName::Quota | KnobName::Pin => Ok(()),
    }
}

/// Writes what the groups did.
fn keep(recording: &Recording, path: &Path) -> anyhow::Result<()> {
    let Some(trace) = recording.trace() else {
        message::print("no group has moved anything: there is no trace");
        return Ok(());
    };
    let mut output = Output::create(path)?;
    output.with(|out| out.write_all(trace.as_bytes()))?;
    output.finish()
}

/// The groups that may be slowed, each with its knob.
fn candidates(
    args: &RegulateRunArgs,
    machine: &MachineFiles,
) -> anyhow::Result<Vec<Candidate<'static>>> {
    let of = |group: &String| -> anyhow::Result<Candidate<'static>> {
        Ok(Candidate::new(group, knob(args, machine, group)?))
    };
    args.groups.iter().map(of).collect()
}

/// What tells which of several groups is the cause, and what a single one moves, which is the cause since it was named.
fn attribution(
    args: &RegulateRunArgs,
    machine: &MachineFiles,
) -> anyhow::Result<Option<Attribution<'static>>> {
    let (found, missing) = Attribution::find(machine, &args.groups, &args.servers)?;
    if found.is_none() {
        let reasons = missing.join("; ");
        let nothing = |what: &str| {
            let message = format!("nothing tells {what}: {reasons}");
            Err(Failed::new(Exit::Unavailable, message).into())
        };
        if args.groups.len() > 1 {
            return nothing("which group is the cause, so give one");
        }
        if args.record.is_some() {
            return nothing("what the group moves, so that there is nothing to record");
        }
    }
    for reason in missing {
        message::print(&reason);
    }
    Ok(found)
}

fn recover(folder: &Path, machine: &MachineFiles) -> anyhow::Result<Journal> {
    let (journal, restored) = Journal::recover(folder, machine)?;
    say_outlived(&restored);
    for file in &restored.files {
        message::print(&format!(
            "restored {}, which a regulator had left",
            file.display()
        ));
    }
    Ok(journal)
}

fn knob(
    args: &RegulateRunArgs,
    machine: &MachineFiles,
    group: &str,
) -> anyhow::Result<Box<dyn Knob>> {
    Ok(match args.knob {
        KnobName::Quota => Box::new(Quota::find(machine, group, args.threads.get())?),
        KnobName::Bandwidth => {
            let bytes_per_s = args.bandwidth.map(|gb_per_s| gb_per_s * 1e9);
            let found = Bandwidth::find(machine, group, bytes_per_s);
            if let Err(error @ RegulateError::Absolute { .. }) = &found {
                let message = format!("{error}, with --bandwidth");
                return Err(Failed::new(Exit::Usage, message).into());
            }
            Box::new(found?)
        }
        KnobName::Pin => Box::new(Pin::find(
            machine,
            group,
            &victims_processors(args, machine)?,
        )?),
        KnobName::Frequency if args.processors.is_empty() => {
            let message = "the frequency of which processors? Give --processors";
            return Err(Failed::new(Exit::Usage, message).into());
        }
        KnobName::Frequency if args.groups.len() > 1 => {
            let message = "the frequency is that of --processors: give one --group";
            return Err(Failed::new(Exit::Usage, message).into());
        }
        KnobName::Frequency => Box::new(Frequency::find(machine, &args.processors)?),
    })
}

fn victims_processors(args: &RegulateRunArgs, machine: &MachineFiles) -> anyhow::Result<IdList> {
    match (&args.victim_processors, &args.victim) {
        (Some(processors), _) => Ok(processors.clone()),
        (None, Some(victim)) => Ok(Pin::processors_of(machine, victim)?),
        (None, None) => {
            let message = "away from whose cores? Give --victim or --victim-processors";
            Err(Failed::new(Exit::Usage, message).into())
        }
    }
}

fn observer(args: &RegulateRunArgs, machine: &MachineFiles) -> anyhow::Result<Box<dyn Observer>> {
    if args.metric.is_named() && args.watch != WatchName::Metric {
        let message = "a number of the victim is for --watch metric";
        return Err(Failed::new(Exit::Usage, message).into());
    }
    let victim = || {
        let message = "whose traffic or pressure? Give --victim";
        let none = || Failed::new(Exit::Usage, message);
        args.victim.as_deref().ok_or_else(none)
    };
    Ok(match args.watch {
        WatchName::Latency => Box::new(NearProbe::new()),
        WatchName::Traffic => Box::new(Traffic::find(machine, victim()?)?),
        WatchName::Pressure => Box::new(Pressure::find(machine, victim()?)?),
        WatchName::Metric => Box::new(metric::of(&args.metric)?),
    })
}

/// Steps until the time is over or Ctrl-C comes, and writes every step in which something changes.
fn steps(
    regulator: &mut Regulator<'_>,
    report: &Report,
    args: &RegulateRunArgs,
    mut recording: Option<&mut Recording>,
) -> anyhow::Result<()> {
    let period = Duration::from_secs_f64(regulator.period_ms() * 1e-3);
    machine::front()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let start = Instant::now();
        let mut output = Output::stdout();
        while args.seconds.is_none_or(|seconds| start.elapsed() < seconds) {
            let decision = regulator.step(start.elapsed().as_secs_f64() * 1e3)?;
            if let Some(recording) = &mut recording {
                recording.see(&decision);
            }
            let lines = match args.format {
                DecisionFormat::Text => report.text(&decision),
                DecisionFormat::Json => report.json(&decision).into_iter().collect(),
            };
            output.with(|out| write(&lines, out))?;
            let pause = async { tokio::time::sleep(period).await };
            interrupts.during(pause).await?;
        }
        output.finish()
    })
}

/// Whoever reads sees each decision as soon as it is made.
fn write(lines: &[String], out: &mut dyn Write) -> std::io::Result<()> {
    for line in lines {
        writeln!(out, "{line}")?;
    }
    match lines.is_empty() {
        true => Ok(()),
        false => out.flush(),
    }
}

fn say(restored: &Restored, nothing: &str) {
    for file in &restored.files {
        message::print(&format!("restored {}", file.display()));
    }
    for file in &restored.vanished {
        message::print(&format!(
            "{} is gone, and nothing to restore",
            file.display()
        ));
    }
    say_outlived(restored);
    if *restored == Restored::default() {
        message::print(nothing);
    }
}

/// Says what a journal of an earlier boot has left alone.
fn say_outlived(restored: &Restored) {
    for file in &restored.outlived {
        message::print(&format!(
            "{} was changed before the machine was booted the last time: it is left as it is",
            file.display()
        ));
    }
}
