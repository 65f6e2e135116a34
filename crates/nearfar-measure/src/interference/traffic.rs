//! What is under test, and what runs beside it.

use std::fmt;

use crate::access::Operation;

/// What a thread does to memory, line after line (mao-2025, section III-B).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryOperation {
    /// Loads.
    Load,
    /// Stores through the caches.
    Store,
    /// Stores past the caches.
    NonTemporalStore,
}

impl MemoryOperation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Load, Self::Store, Self::NonTemporalStore];

    /// The paper's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "ld",
            Self::Store => "st",
            Self::NonTemporalStore => "ntst",
        }
    }

    /// The operation of access benchmarks.
    pub(super) const fn operation(self) -> Operation {
        match self {
            Self::Load => Operation::Read,
            Self::Store => Operation::Write,
            Self::NonTemporalStore => Operation::WriteNonTemporal,
        }
    }
}

/// How a thread copies from one tier to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyOperation {
    /// Loads, and stores through the caches.
    Cached,
    /// Loads, and stores past the caches.
    NonTemporal,
    /// One instruction for a line (`movdir64b`).
    Direct,
}

impl CopyOperation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cached, Self::NonTemporal, Self::Direct];

    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cached => "copy",
            Self::NonTemporal => "copy-nt",
            Self::Direct => "movdir64b",
        }
    }

    /// The operation of access benchmarks.
    pub(super) const fn operation(self) -> Operation {
        match self {
            Self::Cached => Operation::Copy,
            Self::NonTemporal => Operation::CopyNonTemporal,
            Self::Direct => Operation::CopyDirect,
        }
    }
}

/// What is done to storage, 4 KiB after 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoragePattern {
    /// Reads in order.
    Read,
    /// Reads at random places.
    RandomRead,
    /// Writes in order.
    Write,
    /// Writes at random places.
    RandomWrite,
}

impl StoragePattern {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::RandomRead, Self::Write, Self::RandomWrite];

    /// The word of `fio`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::RandomRead => "randread",
            Self::Write => "write",
            Self::RandomWrite => "randwrite",
        }
    }

    /// Whether it changes what is stored.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::RandomWrite)
    }
}

/// What is under test, or runs beside it. Its text, such as `far ntst`, `near to far movdir64b` or
/// `ssd randread`, names it in results and selections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Traffic {
    /// Accesses to one tier.
    Memory {
        /// The tier.
        tier: String,
        /// What is done to it.
        operation: MemoryOperation,
    },
    /// Copies between tiers, or within one.
    Copy {
        /// The tier that is read.
        from: String,
        /// The tier that is written.
        to: String,
        /// How.
        operation: CopyOperation,
    },
    /// Requests to storage.
    Storage(StoragePattern),
    /// A program that the user names.
    Application,
}

impl Traffic {
    /// What can be under test: every operation on every tier, and every pattern on storage.
    pub(super) fn subjects(tiers: &[String]) -> Vec<Self> {
        let of_tier = |tier: &String| {
            MemoryOperation::ALL.map(|operation| Self::Memory {
                tier: tier.clone(),
                operation,
            })
        };
        let memory = tiers.iter().flat_map(of_tier);
        memory
            .chain(StoragePattern::ALL.map(Self::Storage))
            .collect()
    }

    /// What can run beside: that, and every copy in every direction.
    pub(super) fn backgrounds(tiers: &[String]) -> Vec<Self> {
        let mut all = Self::subjects(tiers);
        let storage = all.split_off(all.len() - StoragePattern::ALL.len());
        for operation in CopyOperation::ALL {
            for from in tiers {
                all.extend(tiers.iter().map(|to| Self::Copy {
                    from: from.clone(),
                    to: to.clone(),
                    operation,
                }));
            }
        }
        all.extend(storage);
        all
    }

    /// Whether a selection such as `far ntst`, `ssd` or `ld` means it: all its words are among those of
    /// its text.
    pub(super) fn is_selected_by(&self, selection: &str) -> bool {
        let text = self.to_string();
        let has = |word: &str| text.split(' ').any(|own| own == word);
        let mut words = selection.split_whitespace().peekable();
        words.peek().is_some() && words.all(has)
    }

    /// Whether it is a process of its own.
    pub(super) const fn is_process(&self) -> bool {
        matches!(self, Self::Storage(_) | Self::Application)
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { tier, operation } => write!(formatter, "{tier} {}", operation.name()),
            Self::Copy {
                from,
                to,
                operation,
            } => write!(formatter, "{from} to {to} {}", operation.name()),
            Self::Storage(pattern) => write!(formatter, "ssd {}", pattern.name()),
            Self::Application => formatter.write_str("application"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_traffic_has_a_text_of_its_own_and_is_selected_by_its_words() {
        let tiers = ["near", "far"].map(str::to_owned);
        let all = Traffic::backgrounds(&tiers);
        assert_eq!(all.len(), 6 + 12 + 4);
        let selected = |words: &str| all.iter().filter(|one| one.is_selected_by(words)).count();
        assert!(all.iter().all(|one| selected(&one.to_string()) >= 1));
        assert_eq!(selected("far ntst"), 1);
        assert_eq!(selected("ssd"), 4);
        assert_eq!(selected("movdir64b"), 4);
        assert_eq!(selected("near to far movdir64b"), 2, "words, in any order");
        assert_eq!((selected(""), selected("nothing")), (0, 0));
    }
}
