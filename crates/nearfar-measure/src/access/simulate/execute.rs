//! One repetition of a run in virtual time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nearfar_model::simulation::{AddressMap, Machine, MachineError, Program, Simulation};

use super::worker::{Area, Assignment, Tally, Worker};
use crate::access::kernels::LINE_BYTES;
use crate::access::noise::ThreadNoise;
use crate::access::outcome::{Repetition, Simulated, TierLines};
use crate::access::plan::{PlannedPlacement, PlannedRun, Window};
use crate::access::run::{Queue, Worked};
use crate::access::spec::{Length, TaskSpec};

/// Lines that are followed between two looks at whether the user wants to stop.
const LINES_AT_ONCE: u64 = 200_000;

/// Parts of a run by volume: of a thread that ends, the time is known to one of them.
const PARTS: u64 = 200;

const PAGE_BYTES: u64 = 4096;

/// Which thread made each timed access of a core.
type Timed = Rc<RefCell<Vec<usize>>>;

/// The virtual threads of a run, by task and thread in one list.
struct Threads {
    cores: Vec<Vec<Box<dyn Program>>>,
    /// By core.
    timed: Vec<Timed>,
    tallies: Vec<Rc<Tally>>,
}

/// Runs one repetition; `None` if it was stopped.
///
/// # Errors
/// [`MachineError`] where the machine has not that many threads.
pub(crate) fn simulate(
    machine: &Machine,
    run: &PlannedRun,
    repetition: u32,
    stop: &AtomicBool,
) -> Result<Option<Repetition>, MachineError> {
    let Some(window) = &run.window else {
        unreachable!("a plan in virtual time has a window for every run");
    };
    let began = Instant::now();
    let (map, areas) = map(run);
    let mut threads = threads(machine, run, window, &areas, repetition);
    let cores = std::mem::take(&mut threads.cores);
    let simulation = Simulation::on_cores(machine, map, cores, window.caches)?;
    let mut clock = Clock {
        simulation,
        stop,
        now_ns: 0.0,
        ended_ns: vec![None; threads.tallies.len()],
    };
    let Some(measured) = clock.measure(run, window, &threads) else {
        return Ok(None);
    };
    let mut worked = measured.worked.into_iter();
    let tasks = run.spec.tasks.iter();
    let tasks = tasks.map(|task| worked.by_ref().take(task.threads).collect());
    Ok(Some(Repetition {
        tasks: tasks.collect(),
        noise: None,
        elapsed: began.elapsed(),
        simulated: Some(Simulated {
            elapsed_ns: measured.elapsed_ns,
            lines: clock.simulation.lines(),
            traffic: traffic(machine, &measured.read, &measured.written)?,
        }),
    }))
}

/// Lines of every tier, by those of the devices.
fn traffic(
    machine: &Machine,
    read: &[u64],
    written: &[u64],
) -> Result<Vec<TierLines>, MachineError> {
    let tiers = machine.tiers.iter().map(|(name, tier)| {
        let devices = machine.devices(*name, tier.devices)?;
        let sum = |lines: &[u64]| devices.iter().map(|device| lines[*device as usize]).sum();
        Ok(TierLines {
            tier: name.name(),
            read: sum(read),
            written: sum(written),
        })
    });
    tiers.collect()
}

/// The pages of all regions, one region after the other.
fn map(run: &PlannedRun) -> (AddressMap, Rc<[Area]>) {
    let mut map = AddressMap::new();
    let mut areas = Vec::new();
    let mut page = 0;
    for region in &run.regions {
        areas.push(Area {
            base: page * PAGE_BYTES,
            bytes: region.bytes as u64,
        });
        let PlannedPlacement::Simulated(parts) = &region.placement else {
            unreachable!("a plan in virtual time places regions on devices");
        };
        for part in parts {
            map.add(page, part.pages, part.cycle.clone());
            page += part.pages;
        }
    }
    (map, areas.into())
}

fn threads(
    machine: &Machine,
    run: &PlannedRun,
    window: &Window,
    areas: &Rc<[Area]>,
    repetition: u32,
) -> Threads {
    let tasks = &run.spec.tasks;
    let foreground = tasks.iter().filter(|task| !task.background);
    let busy = Rc::new(Cell::new(foreground.map(|task| task.threads).sum()));
    let pins = run.pins.iter().flatten().flatten();
    let mut threads_of_core: BTreeMap<u32, usize> = BTreeMap::new();
    for cpu in pins {
        *threads_of_core.entry(cpu % machine.cores).or_default() += 1;
    }
    let mut cores: BTreeMap<u32, (Vec<Box<dyn Program>>, Timed)> = BTreeMap::new();
    let mut tallies = Vec::new();
    for (task, pins) in tasks.iter().zip(&run.pins) {
        let queue = Rc::new(match window.is_part {
            true => Queue::endless(&run.spec, task),
            false => Queue::new(&run.spec, task),
        });
        let task = Rc::new(task.clone());
        for (thread, cpu) in pins.iter().enumerate() {
            let core = cpu.unwrap_or_default() % machine.cores;
            let (programs, timed) = cores.entry(core).or_default();
            let tally = Rc::new(Tally::default());
            let beside = threads_of_core.get(&core).copied().unwrap_or(1);
            programs.push(Box::new(Worker::new(Assignment {
                task: Rc::clone(&task),
                queue: Rc::clone(&queue),
                areas: Rc::clone(areas),
                tally: Rc::clone(&tally),
                busy: Rc::clone(&busy),
                timed: Rc::clone(timed),
                index: tallies.len(),
                share: thread as f64 / task.threads as f64,
                seed: run.spec.seed.wrapping_add(u64::from(repetition) << 32),
                batch_bytes: run.spec.batch_bytes,
                begins_within: window.is_part,
                line_interval_ps: line_interval_ps(&task, machine, beside),
            })));
            tallies.push(tally);
        }
    }
    let (cores, timed) = cores.into_values().unzip();
    Threads {
        cores,
        timed,
        tallies,
    }
}

/// Time that a limited thread lets pass per line, beyond what the core takes for it. Of threads that
/// share a core, each waits for its part: the core makes their accesses in turn.
fn line_interval_ps(task: &TaskSpec, machine: &Machine, threads_of_core: usize) -> Option<u32> {
    let limit = task.limit_bytes_per_s?;
    let steps = task.steps.iter();
    let (bytes, lines) = steps.fold((0, 0), |(bytes, lines), step| {
        let lines_of_access = step.access_bytes.div_ceil(LINE_BYTES);
        (
            bytes + step.access_bytes * step.count,
            lines + lines_of_access * step.count,
        )
    });
    let of_line = bytes as f64 / lines as f64;
    let ns = of_line * task.threads as f64 / limit * 1e9 / threads_of_core as f64;
    let core_ns = machine.core.access_ns + machine.core.line_ns;
    (ns > core_ns).then_some(((ns - core_ns) * 1e3) as u32)
}

/// What the window of a run gave.
struct Measured {
    /// By thread.
    worked: Vec<Worked>,
    elapsed_ns: f64,
    /// Lines read and written, by device.
    read: Vec<u64>,
    written: Vec<u64>,
}

/// A simulation and when its threads ended.
struct Clock<'a> {
    simulation: Simulation,
    stop: &'a AtomicBool,
    now_ns: f64,
    ended_ns: Vec<Option<f64>>,
}

impl Clock<'_> {
    /// Follows the run to the end of its window; what its threads and devices did in it.
    fn measure(
        &mut self,
        run: &PlannedRun,
        window: &Window,
        threads: &Threads,
    ) -> Option<Measured> {
        if window.warm_lines > 0 {
            self.follow(window.warm_lines, f64::MAX, LINES_AT_ONCE, threads)?;
        }
        let start_ns = self.now_ns;
        let lines_before = self.simulation.memory_lines();
        let before: Vec<(u64, u64)> = threads
            .tallies
            .iter()
            .map(|tally| (tally.bytes.get(), tally.accesses.get()))
            .collect();
        let timed_before: Vec<usize> = (0..threads.timed.len())
            .map(|core| self.simulation.samples_ns(core).len())
            .collect();
        let until_ns = match run.spec.length {
            Length::Time(time) => start_ns + time.as_secs_f64() * 1e9,
            Length::Volume(_) => f64::MAX,
        };
        if window.is_part {
            let lines = window.warm_lines + window.lines;
            self.follow(lines, until_ns, LINES_AT_ONCE, threads)?;
        } else {
            let step = (window.lines / PARTS).clamp(1, LINES_AT_ONCE);
            self.follow(u64::MAX, until_ns, step, threads)?;
        }
        let ends = self.ended_ns.iter().map(|end| end.unwrap_or(self.now_ns));
        let mut worked: Vec<Worked> = threads
            .tallies
            .iter()
            .zip(before)
            .zip(ends)
            .map(|((tally, (bytes, accesses)), end_ns)| Worked {
                bytes: tally.bytes.get() - bytes,
                accesses: tally.accesses.get() - accesses,
                elapsed: duration(end_ns - start_ns),
                samples_ns: Vec::new(),
                noise: ThreadNoise::default(),
            })
            .collect();
        for (core, before) in timed_before.into_iter().enumerate() {
            let timed = threads.timed[core].borrow();
            let samples = self.simulation.samples_ns(core).zip(timed.iter());
            for (ns, thread) in samples.skip(before) {
                worked[*thread].samples_ns.push(ns as f32);
            }
        }
        let lines = self.simulation.memory_lines();
        Some(Measured {
            worked,
            elapsed_ns: self.now_ns - start_ns,
            read: since(lines.0, &lines_before.0),
            written: since(lines.1, &lines_before.1),
        })
    }

    /// Runs until `lines` were touched in all, or a time has come; `None` if it was stopped.
    fn follow(&mut self, lines: u64, until_ns: f64, step: u64, threads: &Threads) -> Option<()> {
        loop {
            let next = self.simulation.lines().saturating_add(step).min(lines);
            self.now_ns = self.simulation.advance(next, until_ns);
            for (tally, ended_ns) in threads.tallies.iter().zip(&mut self.ended_ns) {
                if tally.has_ended.get() {
                    ended_ns.get_or_insert(self.now_ns);
                }
            }
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            let is_over = self.now_ns >= until_ns || self.simulation.is_done();
            if is_over || self.simulation.lines() >= lines {
                return Some(());
            }
        }
    }
}

/// What has come to each count since `before`.
fn since(now: Vec<u64>, before: &[u64]) -> Vec<u64> {
    let counts = now.into_iter().zip(before);
    counts.map(|(now, before)| now - before).collect()
}

/// A time that is not zero, so that rates are finite.
fn duration(ns: f64) -> Duration {
    Duration::from_secs_f64(ns * 1e-9).max(Duration::from_nanos(1))
}
