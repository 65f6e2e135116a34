//! Bytes, and waits, by tier and task.

use nearfar_memory::{MAX_TIERS, TierId};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What bytes are moved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Task {
    /// Queries that read tables.
    Scan,
    /// Statements that an index leads to their rows. They never wait.
    Point,
    /// Rows of a statement that are many enough to be put where their table is.
    Load,
    /// Merges of what was written to tables.
    Merge,
    /// Columns that are moved from tier to tier.
    Move,
    /// What operators spill to the memory of another tier, and read again.
    Spill,
}

impl Task {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Scan,
        Self::Point,
        Self::Load,
        Self::Merge,
        Self::Move,
        Self::Spill,
    ];

    /// Its word in tables and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Point => "point",
            Self::Load => "load",
            Self::Merge => "merge",
            Self::Move => "move",
            Self::Spill => "spill",
        }
    }
}

/// What was moved, and waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes that were not read, as another scan had just brought them near.
    pub saved_bytes: u64,
    /// How often a turn was waited for.
    pub waits: u64,
    /// For how long, all waits together.
    pub wait: Duration,
}

impl AddAssign for Moved {
    fn add_assign(&mut self, other: Self) {
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.saved_bytes += other.saved_bytes;
        self.waits += other.waits;
        self.wait += other.wait;
    }
}

/// The counters of one account. Each is exact, and there is no order among them.
#[derive(Debug, Default)]
pub(super) struct Counters([[Counter; Task::ALL.len()]; MAX_TIERS]);

#[derive(Debug, Default)]
struct Counter {
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    saved_bytes: AtomicU64,
    waits: AtomicU64,
    wait_ns: AtomicU64,
}

impl Counters {
    fn at(&self, tier: TierId, task: Task) -> &Counter {
        &self.0[tier.index()][task as usize]
    }

    pub(super) fn of(&self, tier: TierId, task: Task) -> Moved {
        let counter = self.at(tier, task);
        Moved {
            read_bytes: counter.read_bytes.load(Relaxed),
            written_bytes: counter.written_bytes.load(Relaxed),
            saved_bytes: counter.saved_bytes.load(Relaxed),
            waits: counter.waits.load(Relaxed),
            wait: Duration::from_nanos(counter.wait_ns.load(Relaxed)),
        }
    }

    /// Those of which there is anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TierId, Task, Moved)> + '_ {
        let tiers = (0..MAX_TIERS).filter_map(TierId::from_index);
        let all = tiers.flat_map(|tier| Task::ALL.map(|task| (tier, task)));
        let counted = all.map(|(tier, task)| (tier, task, self.of(tier, task)));
        counted.filter(|(.., moved)| *moved != Moved::default())
    }

    pub(super) fn add(&self, tier: TierId, task: Task, moved: Moved) {
        let counter = self.at(tier, task);
        let wait_ns = u64::try_from(moved.wait.as_nanos()).unwrap_or(u64::MAX);
        let all = [
            (&counter.read_bytes, moved.read_bytes),
            (&counter.written_bytes, moved.written_bytes),
            (&counter.saved_bytes, moved.saved_bytes),
            (&counter.waits, moved.waits),
            (&counter.wait_ns, wait_ns),
        ];
        for (counter, added) in all.into_iter().filter(|(_, added)| *added > 0) {
            counter.fetch_add(added, Relaxed);
        }
    }

    pub(super) fn add_all(&self, other: &Self) {
        for (tier, task, moved) in other.iter() {
            self.add(tier, task, moved);
        }
    }
}
