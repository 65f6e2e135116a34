//! Who moves what while a run goes on.

use std::cell::Cell;
use std::ops::{ControlFlow, Range};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nearfar_index::placement::{PlacedTree, Placer, Worker};
use nearfar_memory::TierId;
use nearfar_model::simulation::Recorder;

use super::cores::Traffic;
use super::live::WorkerNs;
use super::pages::PagePolicy;
use super::space::{PageTable, Space};
use crate::map::{OrderedMap, Session};
use crate::placed::PageRule;
use crate::workload::{KeySpace, Pick};

/// Whoever moves nodes or pages, if anybody.
pub(super) enum Migrator<T: PlacedTree> {
    /// Nobody.
    Nobody,
    /// The framework.
    Framework(Box<Framework<T>>),
    /// A policy of pages.
    Pages(Box<Pages>),
}

/// The framework, whose work takes its time: what it does is done once the virtual core has looked
/// at as many leaves as the framework does, and what it moves keeps the core busy.
pub(super) struct Framework<T: PlacedTree> {
    placer: Placer<Arc<T>>,
    /// Lines of inner nodes that a walk over the leaves reads per leaf.
    inner_lines_per_leaf: f64,
    is_looking: bool,
    /// Leaves that each worker has looked at so far.
    scanned: ByWorker,
    moved: [u64; 2],
    /// Leaves that each worker looked at in the last step, which the virtual core looks at before the next one.
    looked: ByWorker,
    /// Bytes that each worker moved in the last step.
    moves: ByWorker,
    /// Time of the virtual core for each worker, but for the phase that it is in.
    busy_ns: WorkerNs,
    /// When that phase began, and the time by then in which there was nothing to do; none where operations are followed.
    phase: Option<(Duration, Duration)>,
    /// When it was looked last what is due.
    looked_at: Duration,
    /// Where operations are followed: when the virtual core is done with what it is at.
    busy_until: Duration,
    pace: Pace,
}

/// A number for each worker, in the order of [`Worker::ALL`].
type ByWorker = [u64; Worker::ALL.len()];

/// How fast the virtual core is that places, as windows have shown it.
#[derive(Debug, Clone, Copy)]
struct Pace {
    ns_per_look: f64,
    ns_per_move: f64,
}

/// Until a window has shown it: four lines of far memory under way (`docs/model-virtual.md` has the window that
/// allows them), and for a node one read after the other of some levels.
const PACE_AT_FIRST: Pace = Pace {
    ns_per_look: 70.0,
    ns_per_move: 1_000.0,
};

/// A policy of pages at work.
pub(super) struct Pages {
    policy: PagePolicy,
    page_bytes: u64,
    look_every: Duration,
    next: Duration,
    moved_pages: u64,
    near_pages: usize,
    pages: usize,
}

/// Bytes of a node, for the accesses of those that move it.
const NODE_BYTES: u64 = 256;
/// Looks that are fed together.
const FED_TOGETHER: u64 = 10;
/// No virtual core looks at a leaf, or moves a node, in less time than this.
const LEAST_NS_PER_LOOK: u64 = 10;
const LEAST_NS_PER_MOVE: u64 = 40;
/// The share of all pages that one look moves at most.
const PAGES_PER_LOOK: f64 = 0.02;
/// The tier of pages that are not near.
const FAR: u8 = 1;

impl<T: PlacedTree> Migrator<T> {
    /// How often policies of pages look at them.
    pub(super) const PAGE_LOOK: Duration = Duration::from_millis(500);

    /// The framework.
    pub(super) fn framework(placer: Placer<Arc<T>>) -> Self {
        let (scanned, moved) = (scanned_by(&placer), moved_bytes(&placer));
        let mut looked = ByWorker::default();
        let passes = placer.statistics().passes;
        looked[Worker::Trigger as usize] = scanned.iter().sum::<u64>() / passes.max(1);
        let mut migrator = Self::Framework(Box::new(Framework {
            inner_lines_per_leaf: 0.0,
            scanned,
            looked,
            moves: ByWorker::default(),
            busy_ns: Default::default(),
            phase: None,
            looked_at: Duration::ZERO,
            placer,
            is_looking: false,
            moved,
            busy_until: Duration::ZERO,
            pace: PACE_AT_FIRST,
        }));
        migrator.measure_tree();
        migrator
    }

    /// Finds out how many inner nodes a walk over the leaves meets.
    pub(super) fn measure_tree(&mut self) {
        let Self::Framework(framework) = self else {
            return;
        };
        let (mut leaves, mut leaf_bytes) = (0_u64, 0_u64);
        let tree = framework.placer.tree();
        let _ = tree.visit_leaves(&mut |leaf| {
            leaves += 1;
            leaf_bytes += leaf.bytes as u64;
            ControlFlow::Continue(())
        });
        let inner_bytes = tree.memory().used_bytes().saturating_sub(leaf_bytes);
        framework.inner_lines_per_leaf = inner_bytes as f64 / 64.0 / leaves.max(1) as f64;
    }

    /// A policy of pages over one heap: the first pages of the tree are near, as many as may be, as
    /// if it had been filled until it was full.
    pub(super) fn with_pages<S: KeySpace, M: OrderedMap<S::Key>>(
        &mut self,
        (rule, shift): (PageRule, u32),
        heaps: Vec<Range<usize>>,
        (map, keys): (&M, &Rc<S>),
        (share, look_every): (f64, Duration),
    ) -> Rc<Space> {
        let all = heaps[0].len().div_ceil(1 << shift);
        let table = PageTable {
            shift,
            tiers: vec![Cell::new(0); all],
            uses: vec![Cell::new(0); all],
        };
        let space = Rc::new(Space::new(heaps, Some(table)));
        touch_all(map, keys, &space);
        let Some(pages) = space.pages() else {
            return space;
        };
        let table = pages.borrow();
        let used: Vec<usize> = (0..all)
            .filter(|page| table.uses[*page].get() > 0)
            .collect();
        let near_pages = ((used.len() as f64 * share).round() as usize).max(1);
        // Pages that hold nothing yet are far: near memory is full.
        table.tiers.iter().for_each(|tier| tier.set(FAR));
        for page in used.iter().take(near_pages) {
            table.tiers[*page].set(0);
        }
        table.uses.iter().for_each(|uses| uses.set(0));
        let last = used.last().map_or(0, |page| page + 1);
        // What lies behind the tree stays far.
        let per_look = ((used.len() as f64 * PAGES_PER_LOOK) as usize).max(1);
        drop(table);
        pages.borrow_mut().tiers.truncate(last);
        pages.borrow_mut().uses.truncate(last);
        *self = Self::Pages(Box::new(Pages {
            policy: PagePolicy::new(rule, last, near_pages, per_look),
            page_bytes: 1 << shift,
            look_every,
            next: look_every,
            moved_pages: 0,
            near_pages,
            pages: used.len(),
        }));
        space
    }

    /// Does what is due at `now`, and leaves its accesses to the virtual core.
    pub(super) fn look(&mut self, now: Duration, space: &Space, traffic: &Traffic) {
        match self {
            Self::Nobody => {}
            Self::Framework(framework) => framework.look(now, traffic),
            Self::Pages(pages) => pages.look(now, space, Some(traffic)),
        }
    }

    /// Does what is due at `now`, as if it took no time.
    pub(super) fn settle(&mut self, now: Duration, space: &Space) {
        match self {
            Self::Nobody => {}
            Self::Framework(framework) => framework.settle(now),
            Self::Pages(pages) => pages.look(now, space, None),
        }
    }

    /// Does what is due up to `now`, each at its time and for as long as it takes the virtual core.
    pub(super) fn follow(&mut self, now: Duration) {
        if let Self::Framework(framework) = self {
            framework.follow(now);
        }
    }

    /// Leaves what the virtual core is at to it for a window of so long from `now` on.
    pub(super) fn feed(&self, (now, time): (Duration, Duration), traffic: &Traffic) {
        if let Self::Framework(framework) = self
            && framework.busy_until > now
        {
            framework.feed(time, traffic);
        }
    }

    /// Takes back what a window of so long has left of it, and notes how fast the virtual core was, which has
    /// taken so many operations.
    pub(super) fn take_back(&mut self, time: Duration, taken: u64, traffic: &Traffic) {
        traffic.clear();
        if let Self::Framework(framework) = self
            && taken > 0
        {
            framework.note_pace(time, taken);
        }
    }

    /// Time of the virtual core so far for each of the framework's workers.
    pub(super) fn busy_ns(&self, traffic: &Traffic) -> Option<WorkerNs> {
        let Self::Framework(framework) = self else {
            return None;
        };
        let under_way = framework.charged(framework.phase_ns(traffic));
        Some(std::array::from_fn(|worker| {
            framework.busy_ns[worker] + under_way[worker]
        }))
    }

    /// Bytes that the framework keeps beside the tree.
    pub(super) fn metadata_bytes(&self) -> Option<u64> {
        match self {
            Self::Framework(framework) => Some(framework.placer.metadata_bytes()),
            Self::Nobody | Self::Pages(_) => None,
        }
    }

    /// The share of the pages that are near, where pages are moved.
    pub(super) fn near_pages_share(&self) -> Option<f64> {
        match self {
            Self::Pages(pages) => Some(pages.near_pages as f64 / pages.pages.max(1) as f64),
            _ => None,
        }
    }

    /// Bytes moved since the run began.
    pub(super) fn moved_bytes(&self, before: u64) -> u64 {
        match self {
            Self::Nobody => 0,
            Self::Framework(framework) => framework.moved.iter().sum::<u64>() - before,
            Self::Pages(pages) => pages.moved_pages * pages.page_bytes,
        }
    }
}

impl<T: PlacedTree> Framework<T> {
    fn settle(&mut self, now: Duration) {
        self.placer.step(now);
        self.scanned = scanned_by(&self.placer);
        self.moved = moved_bytes(&self.placer);
    }

    fn look(&mut self, now: Duration, traffic: &Traffic) {
        self.looked_at = now;
        if !traffic.is_idle() {
            return;
        }
        if !self.is_looking {
            if self.placer.next_wakeup() <= now {
                self.end_phase(traffic);
                self.is_looking = true;
                let [near, far] = self.used_bytes();
                let lines = self.lines_to_look_at();
                let far_lines = (lines as f64 * self.far_share()) as u64;
                traffic.look(far_lines, 1, far);
                traffic.look(lines - far_lines, 0, near);
            }
            return;
        }
        self.end_phase(traffic);
        self.is_looking = false;
        let all = self.used_bytes().into_iter().max().unwrap_or(0);
        let [promoted, demoted] = self.step(now);
        for (tiers, bytes) in [((1, 0), promoted), ((0, 1), demoted)] {
            // Each node is found from the root.
            traffic.look(
                bytes.div_ceil(NODE_BYTES) * u64::from(self.placer.tree().height()),
                0,
                all,
            );
            traffic.push(bytes, NODE_BYTES, tiers, all);
        }
    }

    /// As [`Self::look`], with the time that the virtual core takes.
    fn follow(&mut self, now: Duration) {
        loop {
            let wakeup = if self.is_looking {
                Duration::ZERO
            } else {
                self.placer.next_wakeup()
            };
            let due = self.busy_until.max(wakeup);
            if due > now {
                return;
            }
            let ns = if self.is_looking {
                let bytes: u64 = self.step(due).iter().sum();
                bytes.div_ceil(NODE_BYTES) as f64 * self.pace.ns_per_move
            } else {
                self.lines_to_look_at() as f64 * self.pace.ns_per_look
            };
            self.is_looking = !self.is_looking;
            self.charge(ns);
            self.busy_until = due + Duration::from_secs_f64(ns / 1e9);
        }
    }

    /// Queues more of what the virtual core is at than it can do in so much time.
    fn feed(&self, time: Duration, traffic: &Traffic) {
        let [near, far] = self.used_bytes();
        let ns = time.as_nanos() as u64;
        if self.is_looking {
            // Both tiers in turn, as leaves come in the order of keys.
            let part = FED_TOGETHER as f64 * self.far_share();
            for _ in 0..(ns / LEAST_NS_PER_LOOK).div_ceil(FED_TOGETHER) {
                traffic.look(part as u64, 1, far);
                traffic.look(FED_TOGETHER - part as u64, 0, near);
            }
            return;
        }
        let height = u64::from(self.placer.tree().height());
        for node in 0..ns / LEAST_NS_PER_MOVE {
            let tiers = if node % 2 == 0 { (1, 0) } else { (0, 1) };
            traffic.look(height, 0, near.max(far));
            traffic.push(NODE_BYTES, NODE_BYTES, tiers, near.max(far));
        }
    }

    fn note_pace(&mut self, time: Duration, taken: u64) {
        let ns = time.as_nanos() as f64 / taken as f64;
        if self.is_looking {
            self.pace.ns_per_look = ns;
        } else {
            // A node's way from the root, its read and its write.
            self.pace.ns_per_move = ns * f64::from(self.placer.tree().height() + 2);
        }
    }

    /// Bytes of the tree that are near, and far.
    fn used_bytes(&self) -> [u64; 2] {
        let memory = self.placer.tree().memory();
        [TierId::NEAR, memory.farthest()].map(|tier| memory.ledger(tier).used_bytes())
    }

    fn far_share(&self) -> f64 {
        let [near, far] = self.used_bytes();
        far as f64 / (near + far).max(1) as f64
    }

    /// Leaves are where bytes are, and so are inner nodes. A wake-up that looks at no leaves costs none.
    fn lines_to_look_at(&self) -> u64 {
        let leaves: u64 = self.looked.iter().sum();
        (leaves as f64 * (1.0 + self.inner_lines_per_leaf)) as u64
    }

    /// Lets the framework do what is due; bytes promoted and demoted.
    fn step(&mut self, now: Duration) -> [u64; 2] {
        self.placer.step(now);
        let scanned = scanned_by(&self.placer);
        let before = std::mem::replace(&mut self.scanned, scanned);
        self.looked = std::array::from_fn(|worker| scanned[worker] - before[worker]);
        let before = std::mem::replace(&mut self.moved, moved_bytes(&self.placer));
        let [promoted, demoted] = [self.moved[0] - before[0], self.moved[1] - before[1]];
        self.moves = ByWorker::default();
        self.moves[Worker::Promoter as usize] = promoted;
        self.moves[Worker::Demoter as usize] = demoted;
        [promoted, demoted]
    }

    /// Charges the workers for the phase that ends.
    fn end_phase(&mut self, traffic: &Traffic) {
        self.charge(self.phase_ns(traffic));
        self.phase = Some((self.looked_at, traffic.idle()));
    }

    /// Time that the virtual core has worked in the present phase.
    fn phase_ns(&self, traffic: &Traffic) -> f64 {
        let Some((began, idle_before)) = self.phase else {
            return 0.0;
        };
        let idle = traffic.idle().saturating_sub(idle_before);
        self.looked_at
            .saturating_sub(began)
            .saturating_sub(idle)
            .as_nanos() as f64
    }

    /// Charges workers for so much time of the present phase: looks by leaves, moves by bytes.
    fn charge(&mut self, ns: f64) {
        let charged = self.charged(ns);
        for (busy_ns, ns) in self.busy_ns.iter_mut().zip(charged) {
            *busy_ns += ns;
        }
    }

    /// What each worker's part is of so much time of the present phase.
    fn charged(&self, ns: f64) -> WorkerNs {
        let parts = if self.is_looking {
            self.looked
        } else {
            self.moves
        };
        let all = parts.iter().sum::<u64>().max(1) as f64;
        parts.map(|part| ns * part as f64 / all)
    }
}

impl Pages {
    fn look(&mut self, now: Duration, space: &Space, traffic: Option<&Traffic>) {
        if now < self.next || traffic.is_some_and(|traffic| !traffic.is_idle()) {
            return;
        }
        let Some(pages) = space.pages() else { return };
        self.next = now + self.look_every;
        let table = pages.borrow();
        let moves = self.policy.look(&table);
        self.moved_pages += moves.promoted + moves.demoted;
        let all = self.page_bytes * self.pages as u64;
        let Some(traffic) = traffic else { return };
        traffic.push(
            moves.promoted * self.page_bytes,
            self.page_bytes,
            (1, 0),
            all,
        );
        traffic.push(
            moves.demoted * self.page_bytes,
            self.page_bytes,
            (0, 1),
            all,
        );
    }
}

/// Leaves that each worker has looked at so far.
fn scanned_by<T: PlacedTree>(placer: &Placer<Arc<T>>) -> ByWorker {
    placer.leaves_scanned_by().map(|(_, leaves)| leaves)
}

/// Bytes that were promoted and demoted so far.
fn moved_bytes<T: PlacedTree>(placer: &Placer<Arc<T>>) -> [u64; 2] {
    let moves = placer.moves().into_iter();
    moves.fold([0, 0], |[promoted, demoted], moves| {
        [
            promoted + moves.promoted_bytes,
            demoted + moves.demoted_bytes,
        ]
    })
}

/// Looks every key up, so that the table of pages knows which pages the tree has.
fn touch_all<S: KeySpace, M: OrderedMap<S::Key>>(map: &M, keys: &Rc<S>, space: &Rc<Space>) {
    let recorder = Recorder::new(Rc::clone(space));
    let mut arena = Vec::new();
    for id in 0..keys.count() {
        arena.clear();
        let token = keys.token(Pick::Id(id), &mut arena);
        let _ = map.session(&recorder).get(S::resolve(&token, &arena));
        recorder.clear();
    }
}
