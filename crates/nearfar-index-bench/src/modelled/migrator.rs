//! Who moves what while a run goes on.

use std::cell::Cell;
use std::ops::{ControlFlow, Range};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nearfar_index::placement::{PlacedTree, Placer};
use nearfar_memory::TierId;
use nearfar_model::simulation::Recorder;

use super::cores::Traffic;
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
    leaves_per_look: u64,
    /// Lines of inner nodes that a walk over the leaves reads per leaf.
    inner_lines_per_leaf: f64,
    is_looking: bool,
    scanned: u64,
    moved: [u64; 2],
}

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
/// The share of all pages that one look moves at most.
const PAGES_PER_LOOK: f64 = 0.02;
/// The tier of pages that are not near.
const FAR: u8 = 1;

impl<T: PlacedTree> Migrator<T> {
    /// How often policies of pages look at them.
    pub(super) const PAGE_LOOK: Duration = Duration::from_millis(500);

    /// The framework.
    pub(super) fn framework(placer: Placer<Arc<T>>) -> Self {
        let statistics = placer.statistics();
        let moved = moved_bytes(&statistics);
        let (mut leaves, mut leaf_bytes) = (0_u64, 0_u64);
        let tree = placer.tree();
        let _ = tree.visit_leaves(&mut |leaf| {
            leaves += 1;
            leaf_bytes += leaf.bytes as u64;
            ControlFlow::Continue(())
        });
        let inner_bytes = tree.memory().used_bytes().saturating_sub(leaf_bytes);
        Self::Framework(Box::new(Framework {
            inner_lines_per_leaf: inner_bytes as f64 / 64.0 / leaves.max(1) as f64,
            leaves_per_look: statistics.leaves_scanned / statistics.passes.max(1),
            scanned: statistics.leaves_scanned,
            placer,
            is_looking: false,
            moved,
        }))
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
        let statistics = self.placer.statistics();
        self.scanned = statistics.leaves_scanned;
        self.moved = moved_bytes(&statistics);
    }

    fn look(&mut self, now: Duration, traffic: &Traffic) {
        if !traffic.is_idle() {
            return;
        }
        let memory = self.placer.tree().memory();
        let far = memory.ledger(memory.farthest()).used_bytes();
        let near = memory.ledger(TierId::NEAR).used_bytes();
        if !self.is_looking {
            if self.placer.next_wakeup() <= now {
                self.is_looking = true;
                // Leaves are where bytes are, and so are inner nodes.
                let lines = self.leaves_per_look as f64 * (1.0 + self.inner_lines_per_leaf);
                let far_lines = (lines * far as f64 / (near + far).max(1) as f64) as u64;
                traffic.look(far_lines, 1, far);
                traffic.look(lines as u64 - far_lines, 0, near);
            }
            return;
        }
        self.is_looking = false;
        self.placer.step(now);
        let statistics = self.placer.statistics();
        // A wake-up that looks at no leaves costs none.
        self.leaves_per_look = statistics.leaves_scanned - self.scanned;
        self.scanned = statistics.leaves_scanned;
        let moved = moved_bytes(&statistics);
        let all = near.max(far);
        for (tiers, bytes) in [
            ((1, 0), moved[0] - self.moved[0]),
            ((0, 1), moved[1] - self.moved[1]),
        ] {
            // Each node is found from the root.
            traffic.look(
                bytes.div_ceil(NODE_BYTES) * u64::from(self.placer.tree().height()),
                0,
                all,
            );
            traffic.push(bytes, NODE_BYTES, tiers, all);
        }
        self.moved = moved;
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

/// Bytes that were promoted and demoted so far.
fn moved_bytes(statistics: &nearfar_index::placement::PlacementStatistics) -> [u64; 2] {
    let moves = statistics.tiers.iter().map(|tier| tier.moves);
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
