//! Processors of threads.

use crate::access::cpus::CpuList;
use crate::access::spec::{Pin, RunSpec, SpecError};

/// The processors that threads can be given.
pub(super) struct Processors<'a> {
    pub cpus: &'a [u32],
    /// Whose they are, for messages.
    pub owner: String,
    /// Whether they are virtual ones, each of which runs one thread.
    pub is_simulated: bool,
}

/// A processor for every thread; virtual ones also for threads that are not pinned.
pub(super) fn pins(
    spec: &RunSpec,
    processors: &Processors<'_>,
) -> Result<Vec<Vec<Option<u32>>>, SpecError> {
    let cpus = processors.cpus;
    let is_taken = |cpu: &u32| {
        spec.tasks
            .iter()
            .any(|task| matches!(&task.pin, Pin::Cpus(list) if list.0.contains(cpu)))
    };
    let mut free = cpus.iter().copied().filter(|cpu| !is_taken(cpu));
    let mut pins = Vec::new();
    for task in &spec.tasks {
        let threads = format!("task.{}.threads", task.name);
        match &task.pin {
            Pin::None if !processors.is_simulated => pins.push(vec![None; task.threads]),
            Pin::Auto | Pin::None => {
                let own: Vec<Option<u32>> = free.by_ref().take(task.threads).map(Some).collect();
                if own.len() < task.threads {
                    let or = match processors.is_simulated {
                        true => "",
                        false => ", or set pin = \"none\"",
                    };
                    let message = format!(
                        "{} threads, but {} of the {} processors of {} are left for them: ask for \
                         fewer{or}",
                        task.threads,
                        own.len(),
                        cpus.len(),
                        processors.owner,
                    );
                    return Err(spec.error(&threads, message));
                }
                pins.push(own);
            }
            Pin::Cpus(list) => {
                if let Some(cpu) = list.0.iter().find(|cpu| !cpus.contains(cpu)) {
                    let message = format!(
                        "processor {cpu} is not among those of {}: {}",
                        processors.owner,
                        CpuList(cpus.to_vec())
                    );
                    return Err(spec.error(&format!("task.{}.pin", task.name), message));
                }
                if task.threads > list.0.len() {
                    let message = format!(
                        "{} threads on {} pinned processors: pin more, or ask for fewer threads",
                        task.threads,
                        list.0.len()
                    );
                    return Err(spec.error(&threads, message));
                }
                pins.push(
                    list.0
                        .iter()
                        .take(task.threads)
                        .copied()
                        .map(Some)
                        .collect(),
                );
            }
        }
    }
    Ok(pins)
}
