//! Core frequency (kernel documentation, cpufreq: `scaling_max_freq`).

use std::path::PathBuf;

use super::{Change, Knob};
use crate::error::RegulateError;
use crate::machine::MachineFiles;

/// The highest frequency of some processors.
#[derive(Debug, Clone)]
pub struct Frequency {
    /// File, lowest and present highest frequency of each, in kHz.
    processors: Vec<(String, f64, f64)>,
}

impl Frequency {
    /// That of the processors with these numbers.
    ///
    /// # Errors
    /// [`RegulateError::Unavailable`] without cpufreq.
    pub fn find(machine: &MachineFiles, processors: &[u32]) -> Result<Self, RegulateError> {
        let of = |processor: &u32| {
            let folder = format!("sys/devices/system/cpu/cpu{processor}/cpufreq");
            if !machine.path(&folder).exists() {
                return Err(RegulateError::Unavailable {
                    knob: "core frequency",
                    reason: format!("there is no /{folder}"),
                });
            }
            let number = |name: &str| {
                let file = format!("{folder}/{name}");
                let text = machine.read(&file)?;
                text.trim()
                    .parse::<f64>()
                    .map_err(|_| RegulateError::Garbled {
                        path: machine.path(&file),
                        content: text.clone(),
                        expected: "a frequency in kHz",
                    })
            };
            let file = format!("{folder}/scaling_max_freq");
            Ok((
                file,
                number("cpuinfo_min_freq")?,
                number("scaling_max_freq")?,
            ))
        };
        let processors = processors.iter().map(of).collect::<Result<_, _>>()?;
        Ok(Self { processors })
    }
}

impl Knob for Frequency {
    fn name(&self) -> &'static str {
        "frequency"
    }

    fn file(&self, machine: &MachineFiles) -> PathBuf {
        let first = self.processors.first();
        machine.path(first.map_or("sys/devices/system/cpu", |(file, ..)| file))
    }

    fn changes(&self, machine: &MachineFiles, granted: f64) -> Result<Vec<Change>, RegulateError> {
        let of = |(file, lowest, highest): &(String, f64, f64)| {
            let khz = (highest * granted).max(*lowest);
            (machine.path(file), format!("{khz:.0}\n"))
        };
        Ok(self.processors.iter().map(of).collect())
    }
}
