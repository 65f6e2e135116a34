//! Ways to copy, and whether this machine has them.

use std::fmt;

use super::{bytes, idxd};

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
    /// A work queue of the kernel's driver idxd for Intel's Data Streaming Accelerator, the first that this process may
    /// use. What the device does not copy, the processor does.
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
        let reason = match self {
            Self::Cached => return Ok(()),
            Self::NonTemporal if cfg!(all(target_arch = "x86_64", not(miri))) => return Ok(()),
            Self::NonTemporal => "stores past the caches are written for x86-64 only".to_owned(),
            Self::Movdir64b if bytes::has_movdir64b() => return Ok(()),
            Self::Movdir64b => "this processor does not have the instruction".to_owned(),
            Self::Idxd => match idxd::queue() {
                Ok(_) => return Ok(()),
                Err(reason) => reason.to_owned(),
            },
        };
        Err(MethodUnavailable {
            method: self,
            reason,
        })
    }
}

impl fmt::Display for CopyMethod {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
