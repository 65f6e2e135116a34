//! Smaller trees on smaller machines.

use std::str::FromStr;
use std::time::Duration;

use nearfar_model::simulation::Machine;

/// What is kept in proportion to the published experiment's caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScaleRule {
    /// The number of keys.
    Keys,
    /// The bytes of the tree: zhao-2026's has 4.9 GB for its 20 million keys (table 2), several
    /// times ours, so that its hot region is far larger than the last-level cache.
    #[default]
    Bytes,
    /// Nothing: the machine and its intervals are what they are, whatever the tree's size is.
    None,
}

impl ScaleRule {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Keys, Self::Bytes, Self::None];

    /// The word in arguments and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Bytes => "bytes",
            Self::None => "none",
        }
    }
}

impl FromStr for ScaleRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|rule| rule.name() == text);
        found.ok_or_else(|| format!("there are: {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// How much smaller than the published experiment a run is.
///
/// Twenty million keys and minutes of time are too much for a simulation. Keys, or the tree's bytes,
/// are fewer by a factor; caches, and the intervals of background workers, are divided by the same
/// factor, so that as large a part of the tree fits each cache, each key is used as often between
/// two looks of a worker, and as large a part of the tree is moved in it. Latencies, bandwidths,
/// cores and the sizes of nodes stay. A time of the run stands for `factor` times as long.
///
/// What this changes: a tree with fewer keys has fewer levels (the logarithm of the factor), of
/// which the caches hold the same share, and no cache gets smaller than a few lines per way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Published keys, or bytes, over simulated ones.
    pub factor: f64,
}

/// Keys of the experiments of zhao-2026 (section 6.1), and the bytes of its tree of them (table 2).
const KEYS_ZHAO_2026: u64 = 20_000_000;
const BYTES_ZHAO_2026: u64 = 4_900_000_000;

/// The least bytes of each cache.
const L1_BYTES_MIN: u64 = 2 << 10;
const L2_BYTES_MIN: u64 = 4 << 10;
const L3_BYTES_MIN: u64 = 32 << 10;

impl Scale {
    /// The scale of a run with so many keys in a tree of so many bytes.
    #[must_use]
    pub fn new(rule: ScaleRule, keys: u64, tree_bytes: u64) -> Self {
        let (published, simulated) = match rule {
            ScaleRule::Keys => (KEYS_ZHAO_2026, keys),
            ScaleRule::Bytes => (BYTES_ZHAO_2026, tree_bytes),
            ScaleRule::None => return Self { factor: 1.0 },
        };
        Self {
            factor: (published as f64 / simulated.max(1) as f64).max(1.0),
        }
    }

    /// The machine with smaller caches, of which so many cores take part. Where cores' own caches
    /// cannot get as small, the last level gets smaller by what they have too much: cores find lines
    /// in each other's.
    #[must_use]
    pub fn machine(&self, machine: &Machine, cores: usize) -> Machine {
        let scaled = |bytes: u64, least: u64| {
            let smaller = (bytes as f64 / self.factor) as u64;
            smaller.max(least).min(bytes)
        };
        let own = |machine: &Machine| machine.l2_bytes_of(cores);
        let all_bytes = (machine.l3_bytes + own(machine)) as f64 / self.factor;
        let l3_bytes_max = machine.l3_bytes;
        let mut machine = machine.clone();
        let parts = u64::from(machine.parts_of_shared_cores());
        machine.core.l1_bytes = scaled(machine.core.l1_bytes, parts * L1_BYTES_MIN);
        machine.core.l2_bytes = scaled(machine.core.l2_bytes, parts * L2_BYTES_MIN);
        let rest = (all_bytes as u64).saturating_sub(own(&machine));
        machine.l3_bytes = rest.max(L3_BYTES_MIN).min(l3_bytes_max);
        machine
    }

    /// An interval of the published system in the time of the run.
    #[must_use]
    pub fn interval(&self, published: Duration) -> Duration {
        published.div_f64(self.factor)
    }
}
