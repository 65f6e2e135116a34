//! Who takes part, by name.

use std::fmt;
use std::str::FromStr;

use nearfar_index::BPlusTreeOptions;

use super::open::OpenError;
use super::value::WORD_BYTES;

/// A map that can be tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Contestant {
    /// Our adaptive radix tree.
    Art,
    /// Our B+tree.
    BPlusTree {
        /// Bytes of its nodes.
        node_bytes: usize,
    },
    /// Our Masstree.
    Masstree,
    /// The standard library's B-tree behind a lock.
    StdMap,
    /// A map of another crate.
    Rival(Rival),
}

/// A map of another crate, which builds with the feature `rivals` have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rival {
    /// `congee`.
    Congee,
    /// The crate `masstree`.
    Masstree,
    /// `ferntree`.
    Ferntree,
    /// `bplustree`.
    BPlusTree,
    /// `scc::TreeIndex`.
    Scc,
    /// `crossbeam-skiplist`.
    Skiplist,
}

impl Rival {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Congee,
        Self::Masstree,
        Self::Ferntree,
        Self::BPlusTree,
        Self::Scc,
        Self::Skiplist,
    ];

    /// The word in arguments and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Congee => "congee",
            Self::Masstree => "masstree-crate",
            Self::Ferntree => "ferntree",
            Self::BPlusTree => "bplustree-crate",
            Self::Scc => "scc",
            Self::Skiplist => "skiplist",
        }
    }
}

/// Bytes of what a map is to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryBytes {
    /// Of the longest key.
    pub key_max: usize,
    /// Of each value.
    pub value: usize,
}

impl EntryBytes {
    /// An integer and a word.
    pub const WORDS: Self = Self {
        key_max: size_of::<u64>(),
        value: WORD_BYTES,
    };
}

/// The longest key of the crate `masstree` (0.9.5), which panics with longer ones.
const MASSTREE_CRATE_KEY_BYTES_MAX: usize = 256;

/// Node sizes of our B+tree, with their names.
const NODE_SIZES: [(usize, &str); 5] = [
    (256, "btree-256"),
    (512, "btree-512"),
    (1024, "btree-1024"),
    (BPlusTreeOptions::NODE_BYTES_DEFAULT, "btree"),
    (4096, "btree-4096"),
];

/// A name that nobody has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no map is named {name:?}; there are: {}", Contestant::names())]
pub struct UnknownContestant {
    /// The name asked for.
    pub name: String,
}

impl Contestant {
    /// Everybody, the B+tree with nodes of the usual size.
    pub const ALL: [Self; 10] = [
        Self::Art,
        Self::BPlusTree {
            node_bytes: BPlusTreeOptions::NODE_BYTES_DEFAULT,
        },
        Self::Masstree,
        Self::StdMap,
        Self::Rival(Rival::Congee),
        Self::Rival(Rival::Masstree),
        Self::Rival(Rival::Ferntree),
        Self::Rival(Rival::BPlusTree),
        Self::Rival(Rival::Scc),
        Self::Rival(Rival::Skiplist),
    ];

    /// Those that are part of this build: all with the feature `rivals`.
    pub fn built() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|one| one.is_built())
    }

    /// Whether it is part of this build.
    #[must_use]
    pub const fn is_built(self) -> bool {
        cfg!(feature = "rivals") || !matches!(self, Self::Rival(_))
    }

    /// The word in arguments and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Art => "art",
            Self::BPlusTree { node_bytes } => {
                let found = NODE_SIZES.iter().find(|(bytes, _)| *bytes == node_bytes);
                found.map_or("btree of another size", |(_, name)| name)
            }
            Self::Masstree => "masstree",
            Self::StdMap => "std-btreemap",
            Self::Rival(rival) => rival.name(),
        }
    }

    /// Whether it is one of ours.
    #[must_use]
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Art | Self::BPlusTree { .. } | Self::Masstree)
    }

    /// Why it has no map of such keys and values, if it has none.
    #[must_use]
    pub fn refusal(self, has_integer_keys: bool, bytes: EntryBytes) -> Option<OpenError> {
        let contestant = self;
        if !self.is_built() {
            return Some(OpenError::NotBuilt { contestant });
        }
        let takes_words_only = matches!(self, Self::Rival(Rival::Congee | Rival::Ferntree));
        let takes_integers_only = takes_words_only || matches!(self, Self::BPlusTree { .. });
        if takes_integers_only && !has_integer_keys {
            return Some(OpenError::KeysNotTaken { contestant });
        }
        let bytes_max = match self {
            Self::Rival(Rival::Masstree) => MASSTREE_CRATE_KEY_BYTES_MAX,
            _ => usize::MAX,
        };
        if bytes.key_max > bytes_max {
            return Some(OpenError::KeysTooLong {
                contestant,
                bytes: bytes.key_max,
                bytes_max,
            });
        }
        let is_taken = !takes_words_only || bytes.value == WORD_BYTES;
        (!is_taken).then_some(OpenError::ValuesNotTaken { contestant })
    }

    /// All names, for messages.
    fn names() -> String {
        let sizes = NODE_SIZES.map(|(_, name)| name).join(", ");
        format!("{}, {sizes}", Self::ALL.map(Self::name).join(", "))
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Contestant {
    type Err = UnknownContestant;

    fn from_str(name: &str) -> Result<Self, UnknownContestant> {
        let sizes = NODE_SIZES
            .into_iter()
            .map(|(node_bytes, _)| Self::BPlusTree { node_bytes });
        let found = Self::ALL
            .into_iter()
            .chain(sizes)
            .find(|one| one.name() == name);
        found.ok_or_else(|| UnknownContestant {
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contestant_is_found_by_its_name() {
        for contestant in Contestant::ALL {
            assert_eq!(contestant.name().parse(), Ok(contestant));
        }
        for rival in Rival::ALL {
            assert!(Contestant::ALL.contains(&Contestant::Rival(rival)));
        }
        let error = "b-tree".parse::<Contestant>().unwrap_err();
        assert!(
            error.to_string().contains("congee, masstree-crate"),
            "{error}"
        );
    }

    #[test]
    fn keys_that_are_too_long_are_refused_with_both_lengths() {
        let of = |key_max| EntryBytes {
            key_max,
            ..EntryBytes::WORDS
        };
        for contestant in Contestant::built() {
            let takes_strings = contestant.refusal(false, of(8)).is_none();
            let refusal = contestant.refusal(false, of(257));
            if contestant == Contestant::Rival(Rival::Masstree) {
                assert!(contestant.refusal(false, of(256)).is_none());
                let error = refusal.expect("longer than it takes").to_string();
                assert!(error.contains("256") && error.contains("257"), "{error}");
            } else {
                assert_eq!(refusal.is_none(), takes_strings, "{contestant}");
            }
        }
    }

    #[test]
    fn a_rival_that_is_not_built_names_the_feature() {
        for rival in Rival::ALL {
            let contestant = Contestant::Rival(rival);
            let has_feature = cfg!(feature = "rivals");
            assert_eq!(contestant.is_built(), has_feature);
            let refusal = contestant.refusal(true, EntryBytes::WORDS);
            assert_eq!(refusal.is_none(), has_feature);
            assert_eq!(
                OpenError::NotBuilt { contestant }.to_string(),
                format!(
                    "{rival} is not part of this build: build with --features rivals",
                    rival = rival.name()
                )
            );
        }
    }
}
