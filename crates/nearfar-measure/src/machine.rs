//! The machine that results were taken on.

use std::fs;
use std::path::Path;

use nearfar_topology::Known;
use serde::{Deserialize, Serialize};

use crate::known;

/// What a reader needs to know of the machine to judge a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Processor model.
    #[serde(deserialize_with = "known::deserialize")]
    pub cpu: Known<String>,
    /// Processors that the process may use.
    #[serde(deserialize_with = "known::deserialize")]
    pub cpus: Known<u64>,
    /// Memory of the machine.
    #[serde(deserialize_with = "known::deserialize")]
    pub memory_bytes: Known<u64>,
    /// Kernel release.
    #[serde(deserialize_with = "known::deserialize")]
    pub kernel: Known<String>,
    /// Instruction set architecture.
    pub architecture: String,
    /// Whether a hypervisor lies between the process and the hardware.
    #[serde(deserialize_with = "known::deserialize")]
    pub virtualized: Known<bool>,
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        Self::read(Path::new("/proc"))
    }

    /// The machine that the proc file system at `proc` describes; `cpus` is always this one's.
    pub fn read(proc: &Path) -> Self {
        let cpu_info = text(&proc.join("cpuinfo"));
        let cpus = std::thread::available_parallelism();
        Self {
            cpu: field(&cpu_info, "model name"),
            cpus: match cpus {
                Ok(cpus) => Known::Value(cpus.get() as u64),
                Err(error) => Known::unavailable(error.to_string()),
            },
            memory_bytes: memory_bytes(&text(&proc.join("meminfo"))),
            kernel: text(&proc.join("sys/kernel/osrelease")).map(|line| line.trim().to_owned()),
            architecture: std::env::consts::ARCH.to_owned(),
            virtualized: field(&cpu_info, "flags")
                .map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
        }
    }
}

fn text(path: &Path) -> Known<String> {
    match fs::read_to_string(path) {
        Ok(text) => Known::Value(text),
        Err(error) => Known::unavailable(format!("{}: {error}", path.display())),
    }
}

/// The value of the first line `key : value`.
fn field(text: &Known<String>, key: &str) -> Known<String> {
    let text = match text {
        Known::Value(text) => text,
        Known::Unavailable(reason) => return Known::Unavailable(reason.clone()),
    };
    let value = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(name, value)| (name.trim() == key).then(|| value.trim().to_owned()));
    match value {
        Some(value) => Known::Value(value),
        None => Known::unavailable(format!("the kernel does not tell the {key}")),
    }
}

fn memory_bytes(meminfo: &Known<String>) -> Known<u64> {
    match field(meminfo, "MemTotal") {
        Known::Value(total) => {
            let kib = total
                .strip_suffix(" kB")
                .and_then(|kib| kib.trim().parse::<u64>().ok());
            match kib {
                Some(kib) => Known::Value(kib * 1024),
                None => Known::unavailable(format!("MemTotal is {total:?}, not a number of kB")),
            }
        }
        Known::Unavailable(reason) => Known::Unavailable(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_proc_tree() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir_all(proc.path().join("sys/kernel")).unwrap();
        fs::write(
            proc.path().join("cpuinfo"),
            "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu hypervisor avx2\n\n",
        )
        .unwrap();
        fs::write(
            proc.path().join("meminfo"),
            "MemTotal:       1024 kB\nMemFree: 1 kB\n",
        )
        .unwrap();
        fs::write(proc.path().join("sys/kernel/osrelease"), "6.12.1\n").unwrap();
        let machine = Machine::read(proc.path());
        assert_eq!(machine.cpu, Known::Value("Some CPU @ 2 GHz".to_owned()));
        assert_eq!(machine.memory_bytes, Known::Value(1 << 20));
        assert_eq!(machine.kernel, Known::Value("6.12.1".to_owned()));
        assert_eq!(machine.virtualized, Known::Value(true));
    }

    #[test]
    fn what_is_missing_has_a_reason() {
        let proc = tempfile::tempdir().unwrap();
        fs::write(proc.path().join("cpuinfo"), "processor\t: 0\n").unwrap();
        let machine = Machine::read(proc.path());
        assert_eq!(
            machine.cpu.reason(),
            Some("the kernel does not tell the model name")
        );
        assert!(machine.kernel.reason().unwrap().contains("osrelease"));
        assert!(!machine.memory_bytes.is_known());
    }
}
