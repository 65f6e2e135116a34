//! The instructions that benchmarks consist of.
//!
//! An access of a given size is made of **units**: one general register for 8 bytes, vector
//! registers of 16 and 32 bytes, and from 64 bytes on the widest vectors of the machine, as in
//! weisgut-2025, section 3. Each unit is one instruction, written in assembly: the compiler can
//! neither drop it nor choose another.
//!
//! Several threads may access the same bytes concurrently, which plain Rust accesses must not. Every
//! instruction here is as good as relaxed atomic accesses to the words that it covers, and nothing
//! depends on what it finds; so benchmarks may race, and Rust's memory model still has no data race.

mod chain;
mod copy;
mod target;
mod ticks;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(not(target_arch = "x86_64"))]
#[path = "portable.rs"]
mod x86;

pub(crate) use self::chain::{Chain, Walk};
pub(crate) use self::copy::CopyKernel;
pub(crate) use self::target::Target;
pub(crate) use self::ticks::Ticks;
pub(crate) use self::x86::{Kernel, await_reads, fence, sampled};

use std::fmt;
use std::str::FromStr;

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Loads.
    Read,
    /// Stores through the caches.
    Write,
    /// Stores past the caches (`movnti`, `movntdq`).
    WriteNonTemporal,
    /// 64-byte direct stores (`movdir64b`).
    WriteDirect,
    /// Loads the lines into the caches, stores, writes the lines back (`clwb`) and waits
    /// (`mfence`): weisgut-2025, section 4.4.
    WriteFlush,
    /// Reads of 8 bytes, each of which tells where the next one is.
    Chase,
    /// Loads of one region and stores to another, through the caches.
    Copy,
    /// The same with stores past the caches.
    CopyNonTemporal,
    /// Copies of lines by one instruction (`movdir64b`), as mao-2025, section III-B uses them.
    CopyDirect,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 9] = [
        Self::Read,
        Self::Write,
        Self::WriteNonTemporal,
        Self::WriteDirect,
        Self::WriteFlush,
        Self::Chase,
        Self::Copy,
        Self::CopyNonTemporal,
        Self::CopyDirect,
    ];

    /// Its word in specifications and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteNonTemporal => "write-nt",
            Self::WriteDirect => "write-movdir64b",
            Self::WriteFlush => "write-flush",
            Self::Chase => "chase",
            Self::Copy => "copy",
            Self::CopyNonTemporal => "copy-nt",
            Self::CopyDirect => "copy-movdir64b",
        }
    }

    /// Whether it changes memory.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::Chase)
    }

    /// Whether it reads one region and writes another.
    pub const fn copies(self) -> bool {
        matches!(self, Self::Copy | Self::CopyNonTemporal | Self::CopyDirect)
    }

    /// Why no machine has it for accesses of this size.
    pub(crate) fn impossible(self, access_bytes: usize) -> Option<String> {
        match self {
            Self::Chase if access_bytes != 8 => {
                Some("a chain of dependent reads has accesses of 8 bytes".to_owned())
            }
            Self::WriteDirect | Self::CopyDirect if access_bytes < 64 => {
                Some("movdir64b stores 64 bytes: no instruction stores less directly".to_owned())
            }
            _ => None,
        }
    }

    /// Why this machine lacks it.
    pub(crate) fn missing(self) -> Option<String> {
        x86::missing(self)
    }

    /// Why this machine cannot have it for accesses of this size.
    pub(crate) fn unavailable(self, access_bytes: usize) -> Option<String> {
        self.impossible(access_bytes).or_else(|| self.missing())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("{text:?} is no operation; there are: {}", names()))
    }
}

/// Where the next access is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// Behind the last one.
    Sequential,
    /// At any multiple of the access size, uniformly.
    Random,
}

impl Pattern {
    /// Its word in specifications and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Random => "random",
        }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sequential" => Ok(Self::Sequential),
            "random" => Ok(Self::Random),
            _ => Err(format!(
                "{text:?} is no pattern; there are: sequential, random"
            )),
        }
    }
}

/// Some accesses of one size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accesses {
    pub pattern: Pattern,
    /// Offset of the first one, if sequential.
    pub first_bytes: usize,
    /// Their number.
    pub count: usize,
    /// Size of each, a power of two of at least 8.
    pub access_bytes: usize,
    /// What decides the places of random ones.
    pub seed: u64,
}

/// Places of random accesses: multiples of the access size, by SplitMix64 and Lemire's
/// multiplication.
#[derive(Debug, Clone, Copy)]
struct Places {
    state: u64,
    slots: u64,
    access_bytes: usize,
}

impl Places {
    fn new(accesses: &Accesses, target_bytes: usize) -> Self {
        Self {
            state: accesses.seed,
            slots: (target_bytes / accesses.access_bytes) as u64,
            access_bytes: accesses.access_bytes,
        }
    }

    /// The offset of the next one: below `slots * access_bytes`.
    #[inline(always)]
    fn next(&mut self) -> usize {
        self.state = self.state.wrapping_add(STEP);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let slot = (u128::from(mixed) * u128::from(self.slots)) >> 64;
        slot as usize * self.access_bytes
    }
}

/// What the state of [`Places`] grows by.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Bytes of each instruction of an operation that this machine has.
pub(crate) fn unit_bytes(operation: Operation, access_bytes: usize) -> usize {
    match operation.copies() {
        true => CopyKernel::new(operation, access_bytes).unit_bytes(),
        false => Kernel::new(operation, access_bytes).unit_bytes(),
    }
}

/// Ticks of all that `work` accesses, with everything before it done and itself waited for.
pub(crate) fn timed(work: impl FnOnce()) -> u64 {
    fence();
    let began = ticks::before();
    work();
    fence();
    ticks::after() - began
}

impl Kernel {
    /// Makes the accesses and waits for each of them before the next.
    pub(crate) fn run_fenced(&self, target: &Target<'_>, accesses: &Accesses) {
        self.run_each(target, accesses, || (), fence);
    }

    /// Makes the accesses, each when all that was read before it is there, as if that told where it is.
    pub(crate) fn run_dependent(&self, target: &Target<'_>, accesses: &Accesses) {
        self.run_each(target, accesses, await_reads, || ());
    }

    /// Makes the accesses, and something before and behind each of them.
    #[inline(always)]
    fn run_each(
        &self,
        target: &Target<'_>,
        accesses: &Accesses,
        before: impl Fn(),
        after: impl Fn(),
    ) {
        for index in 0..accesses.count {
            let one = Accesses {
                first_bytes: match accesses.pattern {
                    Pattern::Sequential => accesses.first_bytes + index * accesses.access_bytes,
                    Pattern::Random => accesses.first_bytes,
                },
                count: 1,
                seed: accesses.seed.wrapping_add(STEP.wrapping_mul(index as u64)),
                ..*accesses
            };
            before();
            self.run(target, &one);
            after();
        }
    }
}

#[cfg(test)]
mod tests;
