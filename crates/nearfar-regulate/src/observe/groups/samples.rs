//! Groups by events of the processors (`perf stat --for-each-cgroup`; Intel's offcore events).

use std::process::Command;

use nearfar_topology::perf::{Count, check_sapphire_rapids_events};

use super::super::perf::{INTERVAL_MS, Interval, Perf};
use super::super::slow_tier::LINE_BYTES;
use super::{BYTES_PER_S, GroupObserver, GroupsSeen, LEAST_BYTES_PER_S, Residence, Sureness};
use crate::error::RegulateError;
use crate::machine::{MachineFiles, check_group};

/// Lines that a core got from this socket's memory of any kind, those of them from DRAM, and lines stored past the
/// caches, wherever they go.
const SOCKET: &str = "ocr.reads_to_core.l3_miss_local_socket";
const DRAM: &str = "ocr.reads_to_core.local_dram";
const STREAMED: &str = "ocr.streaming_wr.any_response";

/// Lines that groups read from this socket's memory that is no DRAM, and lines that they store past the caches.
#[derive(Debug)]
pub struct GroupSamples {
    perf: Perf,
    groups: Vec<String>,
    /// Where it is known, stores of groups that have nothing on slow tiers are not counted.
    residence: Option<Residence>,
}

impl GroupSamples {
    /// Samples groups of cgroup v2 on this machine.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] for a processor whose events are not known, without `perf` or without the
    /// right to count, and for a captured machine; [`RegulateError::Group`].
    pub fn start(
        machine: &MachineFiles,
        groups: &[String],
        residence: Option<Residence>,
    ) -> Result<Self, RegulateError> {
        for group in groups {
            check_group(group)?;
            if group.contains(',') {
                return Err(unavailable(format!("perf takes no comma in {group}")));
            }
        }
        if !machine.is_this_one() {
            return Err(unavailable("perf counts on this machine only".to_owned()));
        }
        check_sapphire_rapids_events().map_err(unavailable)?;
        let events = [SOCKET, DRAM, STREAMED].join(",");
        let mut perf = Command::new("perf");
        perf.args(["stat", "-j", "-a", "-I", INTERVAL_MS, "-e", &events]);
        perf.args(["--for-each-cgroup", &groups.join(",")]);
        Self::counted_by(perf, groups, residence)
    }

    /// What a command counts, which prints what `perf stat -j -I --for-each-cgroup` does.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] where it prints no counts.
    pub fn counted_by(
        command: Command,
        groups: &[String],
        residence: Option<Residence>,
    ) -> Result<Self, RegulateError> {
        Ok(Self {
            perf: Perf::start(command).map_err(unavailable)?,
            groups: groups.to_vec(),
            residence,
        })
    }

    fn seen(&self, interval: &Interval) -> Result<GroupsSeen, RegulateError> {
        let mut seen = GroupsSeen::nothing(self.groups.len(), self.sureness());
        seen.counted_percent = interval.counted_percent();
        for (index, group) in self.groups.iter().enumerate() {
            let of_group = |count: &&Count| count.group.as_ref() == Some(group);
            let counts: Vec<&Count> = interval.counts.iter().filter(of_group).collect();
            let streams = match &self.residence {
                Some(residence) => residence.is_on_slow_tier(index)?,
                None => true,
            };
            seen.slow[index] = LINE_BYTES * slow_lines(&counts, streams) / interval.seconds;
        }
        Ok(seen)
    }
}

/// Lines to and from slow tiers. A group of which nothing was counted did not run; where only some was not, nothing
/// is known.
fn slow_lines(counts: &[&Count], streams: bool) -> f64 {
    let is_idle = counts.iter().all(|count| !count.value.is_known());
    let of = |name: &str| {
        let is_it = |count: &&&Count| count.event.eq_ignore_ascii_case(name);
        match counts.iter().find(is_it) {
            Some(_) if is_idle => 0.0,
            Some(count) => count.value.get().unwrap_or(f64::NAN),
            None => f64::NAN,
        }
    };
    let (reads, streamed) = (of(SOCKET) - of(DRAM), of(STREAMED));
    // The events are scaled each for itself, and may differ by more than there is.
    let reads = if reads < 0.0 { 0.0 } else { reads };
    if streams { reads + streamed } else { reads }
}

fn unavailable(reason: String) -> RegulateError {
    RegulateError::Unavailable {
        knob: "sampling of groups",
        reason,
    }
}

impl GroupObserver for GroupSamples {
    fn tells(&self) -> String {
        "lines that each group reads from its socket's memory but DRAM or stores past the caches, by perf: modified lines that leave the caches are missing".to_owned()
    }

    fn sureness(&self) -> Sureness {
        Sureness::Sampled
    }

    fn unit(&self) -> &'static str {
        BYTES_PER_S
    }

    fn least(&self) -> f64 {
        LEAST_BYTES_PER_S
    }

    fn look(&mut self, now_ms: f64) -> Result<GroupsSeen, RegulateError> {
        let latest = self.perf.latest(now_ms).map_err(unavailable)?.cloned();
        match latest {
            Some(interval) => self.seen(&interval),
            None => Ok(GroupsSeen::nothing(self.groups.len(), self.sureness())),
        }
    }
}
