//! Memory bandwidth allocation (kernel documentation, resctrl: `MB` and `SMBA` of `schemata`).

use std::path::PathBuf;

use super::{Change, Knob};
use crate::error::RegulateError;
use crate::machine::{MachineFiles, check_group};

const KNOB: &str = "memory bandwidth allocation";
const ROOT: &str = "sys/fs/resctrl";
/// What AMD limits, best first: only what goes to CXL memory, or all. Intel has the latter.
const RESOURCES: [&str; 2] = ["SMBA", "MB"];
/// More than the limit that AMD has for none, and less than that of Intel's in MiB/s (`mba_MBps`).
const EIGHTHS_MAX: f64 = 1e8;

/// What a limit is a number of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    /// Of what the processor has: Intel's.
    Percent,
    /// Of bytes in a second, so many.
    Bytes(f64),
}

impl Unit {
    /// That of a machine on which the largest limit is this one.
    fn of(largest: f64) -> Self {
        match largest {
            ..=100.0 => Self::Percent,
            ..EIGHTHS_MAX => Self::Bytes(1e9 / 8.0),
            _ => Self::Bytes(f64::from(1 << 20)),
        }
    }
}

/// The limits of memory bandwidth of one resource group, of which it keeps a share in each domain. Other lines of its
/// `schemata` are neither written nor given back.
///
/// Where a machine has limits of slow memory (`SMBA`), those are lowered, and what the group has of near memory is
/// left alone. Limits in per cent are lowered from what they are. Absolute ones are, when nothing is limited, far above
/// what a group can move, and so are lowered from that.
#[derive(Debug, Clone)]
pub struct Bandwidth {
    file: String,
    /// The resource's lines.
    before: String,
    resource: &'static str,
    least: f64,
    step: f64,
    /// What the group moves in a domain, in the unit of its limits; infinite in per cent.
    moved: f64,
}

impl Bandwidth {
    /// That of a group which moves `domain_bytes_per_s` in a domain, as a last-level cache is, when nothing limits it:
    /// needed where limits are absolute, as AMD's are.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] without resctrl or its limits; [`RegulateError::Absolute`] where it has to be
    /// known what the group moves; [`RegulateError::Group`], [`RegulateError::Vanished`].
    pub fn find(
        machine: &MachineFiles,
        group: &str,
        domain_bytes_per_s: Option<f64>,
    ) -> Result<Self, RegulateError> {
        check_group(group)?;
        let info = |resource: &str| format!("{ROOT}/info/{resource}");
        let has = |resource: &&&str| machine.path(&info(resource)).exists();
        let Some(resource) = RESOURCES.iter().find(has) else {
            let info = info("MB");
            return Err(unavailable(format!(
                "there is no /{info}: resctrl is not mounted, or has no MB"
            )));
        };
        let file = format!("{ROOT}/{group}/schemata");
        let text = machine.read(&file)?;
        let mut limits = limits(machine, &file, &text, resource)?;
        if limits.is_empty() {
            return Err(unavailable(format!("there is no {resource} in /{file}")));
        }
        // The root's are, if nobody has lowered them, those of a group without a limit.
        let root = format!("{ROOT}/schemata");
        if let Ok(text) = machine.read(&root) {
            limits.extend(self::limits(machine, &root, &text, resource)?);
        }
        let moved = match Unit::of(limits.into_iter().fold(0.0, f64::max)) {
            Unit::Percent => f64::INFINITY,
            Unit::Bytes(bytes) => match domain_bytes_per_s {
                Some(bytes_per_s) => bytes_per_s / bytes,
                None => return Err(RegulateError::Absolute { resource }),
            },
        };
        let step = number(machine, resource, "bandwidth_gran")?.max(1.0);
        // The kernel keeps what is not written, which others may change meanwhile.
        let is_its = |line: &&str| domains(line, resource).is_some();
        Ok(Self {
            file,
            before: text.split_inclusive('\n').filter(is_its).collect(),
            resource,
            least: number(machine, resource, "min_bandwidth")?.max(step),
            step,
            moved,
        })
    }

    /// A limit of which a share is granted.
    fn lowered(&self, limit: f64, granted: f64) -> f64 {
        let steps = (limit.min(self.moved) * granted / self.step).floor();
        // A group that has less than the least already keeps it.
        (steps * self.step).max(self.least).min(limit)
    }

    fn line(&self, domains: &str, granted: f64) -> String {
        let of = |domain: &str| match domain.split_once('=') {
            Some((number, limit)) => {
                let limit = limit.trim().parse().unwrap_or(f64::INFINITY);
                format!("{}={:.0}", number.trim(), self.lowered(limit, granted))
            }
            None => domain.to_owned(),
        };
        let domains: Vec<String> = domains.split(';').map(of).collect();
        format!("{}:{}\n", self.resource, domains.join(";"))
    }
}

fn unavailable(reason: String) -> RegulateError {
    RegulateError::Unavailable { knob: KNOB, reason }
}

/// What a line tells of a resource.
fn domains<'a>(line: &'a str, resource: &str) -> Option<&'a str> {
    line.trim().strip_prefix(resource)?.strip_prefix(':')
}

/// The limits of a resource in a `schemata`, by domain.
fn limits(
    machine: &MachineFiles,
    file: &str,
    text: &str,
    resource: &str,
) -> Result<Vec<f64>, RegulateError> {
    let garbled = |domain: &str| RegulateError::Garbled {
        path: machine.path(file),
        content: domain.chars().take(120).collect(),
        expected: "a domain with its limit",
    };
    let lines = text.lines().filter_map(|line| domains(line, resource));
    lines
        .flat_map(|domains| domains.split(';'))
        .map(|domain| {
            let limit = domain.split_once('=').map(|(_, limit)| limit.trim());
            limit
                .and_then(|limit| limit.parse().ok())
                .ok_or_else(|| garbled(domain))
        })
        .collect()
}

/// What the machine tells of its limits.
fn number(machine: &MachineFiles, resource: &str, name: &str) -> Result<f64, RegulateError> {
    let file = format!("{ROOT}/info/{resource}/{name}");
    let text = machine.read(&file)?;
    text.trim()
        .parse::<f64>()
        .map_err(|_| RegulateError::Garbled {
            path: machine.path(&file),
            content: text.clone(),
            expected: "a limit of bandwidth",
        })
}

impl Knob for Bandwidth {
    fn name(&self) -> &'static str {
        "bandwidth"
    }

    fn file(&self, machine: &MachineFiles) -> PathBuf {
        machine.path(&self.file)
    }

    fn changes(&self, machine: &MachineFiles, granted: f64) -> Result<Vec<Change>, RegulateError> {
        let text = match granted < 1.0 {
            true => {
                let lines = self.before.lines();
                let lines = lines.filter_map(|line| domains(line, self.resource));
                lines.map(|domains| self.line(domains, granted)).collect()
            }
            false => self.before.clone(),
        };
        Ok(vec![(machine.path(&self.file), text)])
    }
}
