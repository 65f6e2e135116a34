//! The part of placement that runs within tree operations.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use nearfar_memory::{MAX_TIERS, TierId};
use nearfar_model::Probe;

/// How tiers for new nodes are chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocation {
    /// Upper nodes near, down to a level that is adjusted as memory fills, and never a node nearer
    /// than its parent (zhao-2026, section 4.1).
    Layered,
    /// All nodes on one tier, as long as it has room.
    Bound(TierId),
    /// Runs of 4 KiB of nodes on tiers in turn, so many runs on each, near to far, as the kernel's
    /// weighted interleave does with pages.
    Interleaved(Vec<u32>),
    /// Inner nodes near, leaves on the farthest tier.
    InnerNear,
}

/// Which uses of nodes are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracking {
    /// None.
    Off,
    /// Uses of leaves, as [`LeafCounter`] counts them.
    Leaf,
    /// One of so many uses of leaves, chosen by chance, so that lines with counters change seldom.
    Sampled(u32),
    /// Uses of every node on the way (for comparison: zhao-2026, section 6.5).
    Path,
}

/// The uses of a leaf since they were last halved; stays at its largest number.
///
/// Up to [`LeafCounter::EXACT_USES`] each is counted. From there on, one in so many is, by chance, for as
/// many, a thirty-second to a sixty-fourth of the number (Morris, "Counting large numbers of events in small
/// registers", 1978): a tenth of the number is its standard error, and a hot leaf's line goes from core to
/// core some 32 times while its uses double, however many these are.
#[derive(Debug, Default)]
pub struct LeafCounter(AtomicU16);

impl LeafCounter {
    /// Uses up to which each is counted.
    pub const EXACT_USES: u16 = 64;

    /// A counter that begins at `uses`, as that of a node that replaces another.
    #[must_use]
    pub fn new(uses: u16) -> Self {
        Self(AtomicU16::new(uses))
    }

    /// How many uses the next one that is counted stands for.
    #[inline]
    #[must_use]
    pub fn step(&self) -> u16 {
        match self.uses() {
            0..Self::EXACT_USES => 1,
            uses => 1 << (uses.ilog2() - (Self::EXACT_USES.ilog2() - 1)),
        }
    }

    /// Counts `uses` uses. Two calls at the same moment may count as one: the counter says how hot, not
    /// how often.
    #[inline]
    pub fn count(&self, uses: u16) {
        self.0.store(self.uses().saturating_add(uses), Relaxed);
    }

    /// The uses.
    #[inline]
    #[must_use]
    pub fn uses(&self) -> u16 {
        self.0.load(Relaxed)
    }

    /// The uses, which begin at zero again.
    pub fn take(&self) -> u16 {
        self.0.swap(0, Relaxed)
    }

    /// Halves the uses.
    pub fn cool(&self) {
        self.0.store(self.uses() / 2, Relaxed);
    }
}

/// A node to be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewNode {
    /// Nodes above it: zero for the root.
    pub level: u32,
    /// Whether it is a leaf.
    pub is_leaf: bool,
    /// The tier of its parent; of no meaning for the root.
    pub parent: TierId,
    /// Its size.
    pub bytes: usize,
}

/// Bytes of one run of an interleaved allocation.
const RUN_BYTES: u32 = 4096;

/// What a tree asks as it works: the tier of a new node, and whether to count a use.
///
/// Everything can be changed while the tree is in use.
#[derive(Debug)]
pub struct Frontend {
    allocation: Allocation,
    farthest: TierId,
    /// Per tier, the level from which on new nodes go farther (L_fast of zhao-2026 for tier 0).
    boundaries: [AtomicU8; MAX_TIERS],
    /// 0 off, 1 leaf, 2 path, above: one in so many less two.
    tracking: AtomicU32,
    /// Leaves that scans pass of which one is counted.
    passed_one_in: AtomicU32,
    /// Bytes that interleaved allocations have passed, all threads together.
    interleaved_bytes: AtomicU64,
}

/// Numbers of [`Frontend::tracking`].
const TRACK_OFF: u32 = 0;
const TRACK_LEAF: u32 = 1;
const TRACK_PATH: u32 = 2;

impl Frontend {
    /// A frontend over tiers up to `farthest`. All levels begin near.
    #[must_use]
    pub fn new(allocation: Allocation, tracking: Tracking, farthest: TierId) -> Self {
        let frontend = Self {
            allocation,
            farthest,
            boundaries: std::array::from_fn(|_| AtomicU8::new(u8::MAX)),
            tracking: AtomicU32::new(TRACK_OFF),
            passed_one_in: AtomicU32::new(1),
            interleaved_bytes: AtomicU64::new(0),
        };
        frontend.set_tracking(tracking);
        frontend
    }

    /// Everything near, nothing tracked: a tree on one kind of memory.
    #[must_use]
    pub fn all_near() -> Self {
        Self::new(Allocation::Bound(TierId::NEAR), Tracking::Off, TierId::NEAR)
    }

    /// How tiers are chosen.
    #[must_use]
    pub fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// Chooses which uses are counted from now on.
    pub fn set_tracking(&self, tracking: Tracking) {
        let number = match tracking {
            Tracking::Off => TRACK_OFF,
            Tracking::Leaf | Tracking::Sampled(0 | 1) => TRACK_LEAF,
            Tracking::Path => TRACK_PATH,
            Tracking::Sampled(one_in) => one_in.saturating_add(TRACK_PATH),
        };
        self.tracking.store(number, Relaxed);
    }

    /// Counts one in so many of the leaves that scans pass; with 0 or 1, each.
    pub fn set_passed_one_in(&self, one_in: u32) {
        self.passed_one_in.store(one_in.max(1), Relaxed);
    }

    /// The level from which on new nodes go farther than `tier` (L_fast).
    #[must_use]
    pub fn boundary(&self, tier: TierId) -> u8 {
        self.boundaries[tier.index()].load(Relaxed)
    }

    /// Sets the level from which on new nodes go farther than `tier`.
    pub fn set_boundary(&self, tier: TierId, level: u8) {
        self.boundaries[tier.index()].store(level, Relaxed);
    }

    /// The tier where a new node is to go, if there is room.
    #[inline]
    #[must_use]
    pub fn tier_for(&self, node: NewNode) -> TierId {
        match &self.allocation {
            Allocation::Bound(tier) => *tier,
            Allocation::InnerNear if node.is_leaf => self.farthest,
            Allocation::InnerNear => TierId::NEAR,
            Allocation::Layered => self.layered(node),
            Allocation::Interleaved(runs) => self.interleaved(runs, node.bytes),
        }
    }

    /// The nearest tier whose boundary is below the node, and not nearer than the parent.
    fn layered(&self, node: NewNode) -> TierId {
        let first = if node.level == 0 {
            0
        } else {
            node.parent.index()
        };
        let level = u8::try_from(node.level).unwrap_or(u8::MAX);
        let tiers = first..self.farthest.index();
        tiers
            .filter_map(TierId::from_index)
            .find(|tier| level < self.boundary(*tier))
            .unwrap_or(self.farthest)
    }

    fn interleaved(&self, runs: &[u32], bytes: usize) -> TierId {
        let cycle: u64 = runs.iter().map(|count| u64::from(*count)).sum();
        if cycle == 0 {
            return TierId::NEAR;
        }
        let passed = self.interleaved_bytes.fetch_add(bytes as u64, Relaxed);
        let mut run = passed / u64::from(RUN_BYTES) % cycle;
        for (index, count) in runs.iter().enumerate() {
            if run < u64::from(*count) {
                return TierId::from_index(index)
                    .unwrap_or(self.farthest)
                    .min(self.farthest);
            }
            run -= u64::from(*count);
        }
        self.farthest
    }

    /// Counts a use of a leaf, if uses are counted.
    #[inline]
    pub fn use_leaf<P: Probe>(&self, counter: &LeafCounter, probe: &P) {
        if self.is_counted() {
            count(counter, probe);
        }
    }

    /// Counts a use of a leaf that will be changed next, if uses are counted: each one, however many there are.
    /// The store takes the line that the lock is on away from other cores, ahead of the lock.
    #[inline]
    pub fn use_leaf_to_change<P: Probe>(&self, counter: &LeafCounter, probe: &P) {
        if self.is_counted() {
            count_as(counter, 1, probe);
        }
    }

    /// Whether this use of a leaf is one of those that are counted.
    #[inline]
    fn is_counted(&self) -> bool {
        match self.tracking.load(Relaxed) {
            TRACK_OFF => false,
            TRACK_LEAF | TRACK_PATH => true,
            one_in => is_sampled(one_in - TRACK_PATH),
        }
    }

    /// Counts a use of a leaf by a scan, if uses are counted: of the scan's first leaf, after which
    /// `is_first` is false, and of one in so many of those that it passes then. It has asked for these
    /// ahead, so that it waits less for them.
    #[inline]
    pub fn scan_leaf<P: Probe>(&self, counter: &LeafCounter, is_first: &mut bool, probe: &P) {
        let one_in = self.passed_one_in.load(Relaxed);
        if std::mem::take(is_first) || one_in == 1 || is_sampled(one_in) {
            self.use_leaf(counter, probe);
        }
    }

    /// Counts a use of an inner node, if those are counted.
    #[inline]
    pub fn use_inner<P: Probe>(&self, counter: &LeafCounter, probe: &P) {
        if self.tracking.load(Relaxed) == TRACK_PATH {
            count(counter, probe);
        }
    }
}

#[inline]
fn count<P: Probe>(counter: &LeafCounter, probe: &P) {
    let step = counter.step();
    if step == 1 || is_sampled(step.into()) {
        count_as(counter, step, probe);
    } else {
        probe.read(std::ptr::from_ref(counter).addr(), size_of::<LeafCounter>());
    }
}

#[inline]
fn count_as<P: Probe>(counter: &LeafCounter, uses: u16, probe: &P) {
    probe.write(std::ptr::from_ref(counter).addr(), size_of::<LeafCounter>());
    counter.count(uses);
}

std::thread_local! {
    /// Of this thread's generator: never zero.
    static STATE: Cell<u32> = const { Cell::new(FIRST_STATE) };
}

const FIRST_STATE: u32 = 0x9E37_79B9;

/// Begins the chance again by which this thread counts uses. A run that is to be the same each time begins so.
pub fn seed_chance(seed: u64) {
    let mixed = (seed ^ (seed >> 32)) as u32 ^ FIRST_STATE;
    STATE.set(if mixed == 0 { FIRST_STATE } else { mixed });
}

/// True once in `one_in` calls on average, by a generator of this thread (xorshift, Marsaglia).
#[inline]
fn is_sampled(one_in: u32) -> bool {
    let mut state = STATE.get();
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    STATE.set(state);
    (u64::from(state) * u64::from(one_in)) >> 32 == 0
}

#[cfg(test)]
mod tests {
    use nearfar_model::Native;

    use super::*;

    fn far(index: usize) -> TierId {
        TierId::from_index(index).unwrap()
    }

    fn node(level: u32, parent: TierId) -> NewNode {
        NewNode {
            level,
            is_leaf: false,
            parent,
            bytes: 64,
        }
    }

    #[test]
    fn a_node_is_never_nearer_than_its_parent() {
        let frontend = Frontend::new(Allocation::Layered, Tracking::Off, far(2));
        frontend.set_boundary(TierId::NEAR, 2);
        frontend.set_boundary(far(1), 4);
        assert_eq!(
            frontend.tier_for(node(0, far(2))),
            TierId::NEAR,
            "the root has no parent"
        );
        assert_eq!(frontend.tier_for(node(1, TierId::NEAR)), TierId::NEAR);
        assert_eq!(frontend.tier_for(node(1, far(1))), far(1));
        assert_eq!(frontend.tier_for(node(2, TierId::NEAR)), far(1));
        assert_eq!(frontend.tier_for(node(4, far(1))), far(2));
        assert_eq!(frontend.tier_for(node(1, far(2))), far(2));
    }

    #[test]
    fn interleaving_keeps_its_weights() {
        let frontend = Frontend::new(Allocation::Interleaved(vec![1, 3]), Tracking::Off, far(1));
        let near = (0..4000).filter(|_| frontend.tier_for(node(1, far(1))) == TierId::NEAR);
        let share = near.count() as f64 / 4000.0;
        assert!((share - 0.25).abs() < 0.02, "{share}");
    }

    #[test]
    fn counters_stay_at_their_largest_number() {
        let counter = LeafCounter::new(u16::MAX - 1);
        counter.count(2);
        assert_eq!(counter.uses(), u16::MAX);
        counter.count(counter.step());
        assert_eq!(counter.uses(), u16::MAX);
        counter.cool();
        assert_eq!(counter.uses(), u16::MAX / 2);
    }

    #[test]
    fn steps_follow_the_uses() {
        let step = |uses| LeafCounter::new(uses).step();
        let expected = [
            (0, 1),
            (63, 1),
            (64, 2),
            (127, 2),
            (128, 4),
            (u16::MAX, 1024),
        ];
        for (uses, expected) in expected {
            assert_eq!(step(uses), expected, "{uses}");
        }
    }

    #[test]
    fn many_uses_are_counted_by_chance_and_about_right() {
        let frontend = Frontend::new(Allocation::Layered, Tracking::Leaf, far(1));
        let expected = 20_000;
        let (mut sum, mut squares, mut stores) = (0.0, 0.0, 0_u32);
        let counters = 400;
        for _ in 0..counters {
            let counter = LeafCounter::default();
            for _ in 0..expected {
                let before = counter.uses();
                frontend.use_leaf(&counter, &Native);
                stores += u32::from(counter.uses() != before);
            }
            let off = f64::from(counter.uses()) / f64::from(expected) - 1.0;
            sum += off;
            squares += off * off;
        }
        let (mean, error) = (
            sum / f64::from(counters),
            (squares / f64::from(counters)).sqrt(),
        );
        assert!(mean.abs() < 0.03, "{mean}");
        assert!((0.07..0.13).contains(&error), "{error}");
        assert!((250..450).contains(&(stores / counters as u32)), "{stores}");
    }

    #[test]
    fn a_seed_begins_the_chance_again() {
        let choices = |seed| {
            seed_chance(seed);
            (0..64).map(|_| is_sampled(2)).collect::<Vec<_>>()
        };
        let first = choices(7);
        assert_eq!(choices(7), first);
        assert_ne!(choices(8), first);
        // The seed that would leave nothing of the state.
        assert!(choices(FIRST_STATE.into()).contains(&true));
    }

    #[test]
    fn sampling_counts_one_in_so_many() {
        let frontend = Frontend::new(Allocation::Layered, Tracking::Sampled(16), far(1));
        let counter = LeafCounter::default();
        for _ in 0..16_000 {
            frontend.use_leaf(&counter, &Native);
        }
        assert!((500..1500).contains(&counter.uses()), "{}", counter.uses());
        frontend.use_inner(&counter, &Native);
        frontend.set_tracking(Tracking::Leaf);
        for (one_in, passed) in [(1, 60..61), (8, 30..95)] {
            frontend.set_passed_one_in(one_in);
            let (counter, mut is_first) = (LeafCounter::default(), false);
            for _ in 0..60 * one_in {
                frontend.scan_leaf(&counter, &mut is_first, &Native);
            }
            assert!(passed.contains(&counter.uses()), "{}", counter.uses());
        }
        frontend.set_tracking(Tracking::Off);
        let before = counter.uses();
        frontend.use_leaf(&counter, &Native);
        assert_eq!(counter.uses(), before);
    }
}
