//! Instruction sets that kernels are written for.

use std::fmt;

/// An instruction set with its own variant of every kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// No vector intrinsics: runs on every machine.
    Portable,
    /// 32-byte vectors, and a count of bits.
    Avx2,
    /// 64-byte vectors with masks (the subsets F and BW), and all of AVX2.
    Avx512,
}

/// The machine lacks an instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this machine has no {isa}; its widest instruction set is {}",
    Isa::widest()
)]
pub struct UnsupportedIsa {
    /// What was asked for.
    pub isa: Isa,
}

impl Isa {
    /// All that this machine can run, narrowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        let all = [Self::Portable, Self::Avx2, Self::Avx512];
        all.into_iter().filter(|isa| isa.is_available())
    }

    /// The widest that this machine can run.
    pub fn widest() -> Self {
        Self::available().last().unwrap_or(Self::Portable)
    }

    /// Whether this machine can run it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// Its name for results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_has_the_portable_one() {
        let available: Vec<Isa> = Isa::available().collect();
        assert_eq!(available.first(), Some(&Isa::Portable));
        assert_eq!(available.last(), Some(&Isa::widest()));
        assert!(available.is_sorted());
    }
}
