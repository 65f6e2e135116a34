//! Ways to copy, and whether this machine has them.

use std::fmt;
use std::path::Path;

use super::bytes;

/// How bytes are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyMethod {
    /// Loads and stores through the caches, by the platform's `memcpy`: what is read soon is there.
    #[default]
    Cached,
    /// Stores past the caches: no line of the destination is fetched, and none stays.
    NonTemporal,
    /// The instruction `MOVDIR64B`: a line each, past the caches.
    Movdir64b,
    /// A work queue of the kernel's driver idxd for Intel's Data Streaming Accelerator.
    Idxd,
}

/// The machine cannot copy in this way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("copies by {method} are unavailable: {reason}")]
pub struct MethodUnavailable {
    /// What was asked for.
    pub method: CopyMethod,
    /// Why it cannot be had.
    pub reason: String,
}

impl CopyMethod {
    /// All ways.
    pub const ALL: [Self; 4] = [Self::Cached, Self::NonTemporal, Self::Movdir64b, Self::Idxd];

    /// Its word in commands and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::NonTemporal => "non-temporal",
            Self::Movdir64b => "movdir64b",
            Self::Idxd => "idxd",
        }
    }

    /// Whether this machine has it.
    ///
    /// # Errors
    /// [`MethodUnavailable`] with the reason.
    pub fn check(self) -> Result<(), MethodUnavailable> {
        self.check_on(Path::new("/sys"))
    }

    /// As [`Self::check`], with accelerators of the sysfs at this root.
    ///
    /// # Errors
    /// [`MethodUnavailable`] with the reason.
    pub fn check_on(self, sysfs: &Path) -> Result<(), MethodUnavailable> {
        let reason = match self {
            Self::Cached => return Ok(()),
            Self::NonTemporal if cfg!(target_arch = "x86_64") => return Ok(()),
            Self::NonTemporal => "stores past the caches are written for x86-64 only".to_owned(),
            Self::Movdir64b if bytes::has_movdir64b() => return Ok(()),
            Self::Movdir64b => "this processor does not have the instruction".to_owned(),
            Self::Idxd => no_queue(sysfs),
        };
        Err(MethodUnavailable {
            method: self,
            reason,
        })
    }
}

/// Why no work queue is used.
fn no_queue(sysfs: &Path) -> String {
    let folder = sysfs.join("bus/dsa/devices");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return "the kernel has no bus of such accelerators: the driver idxd is not loaded"
            .to_owned();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut queues: Vec<String> = names.filter(|name| name.starts_with("wq")).collect();
    queues.sort_unstable();
    match queues.first() {
        None => "the driver idxd has no work queue".to_owned(),
        Some(queue) => {
            format!("there is the work queue {queue}, but nothing here submits to it yet")
        }
    }
}

impl fmt::Display for CopyMethod {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accelerators_are_unavailable_with_the_reason() {
        let reason = |sysfs: &Path| CopyMethod::Idxd.check_on(sysfs).unwrap_err().reason;
        let folder = std::env::temp_dir().join(format!("nearfar-idxd-{}", std::process::id()));
        assert!(reason(&folder).contains("not loaded"));
        let devices = folder.join("bus/dsa/devices");
        std::fs::create_dir_all(devices.join("dsa0")).unwrap();
        assert!(reason(&folder).contains("no work queue"));
        std::fs::create_dir(devices.join("wq0.0")).unwrap();
        assert!(reason(&folder).contains("wq0.0"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
