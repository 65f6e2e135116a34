//! Operations that take no virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use nearfar_model::simulation::{OperationCost, Recorder, Simulation};
use nearfar_model::{Native, Probe};

use super::cores::{Board, DRAWN, Feed};
use super::space::Space;
use crate::map::{MapError, OrderedMap};
use crate::perform::{Batch, perform, read_batch};
use crate::workload::{Action, KeySpace, Request};

/// Keys that are looked up together, which takes less of this machine's time and leaves the same behind.
const BATCH: usize = 64;
/// Times that a core draws before it is another core's turn: where nothing but the tree is looked at, and where
/// accesses pass the caches, of which this machine's own then hold one core's.
const DRAWS_FOLLOWED: u64 = 1;
const DRAWS_WARMED: u64 = 16;

/// Carries out what cores would, in no virtual time, so that what comes next finds trees, placement and caches as it
/// would if they had.
pub(super) trait Untimed {
    /// Carries out about so many operations, of all cores in turn, so that placement has something to go by.
    fn follow(&mut self, operations: u64) -> Result<(), MapError>;

    /// As [`Untimed::follow`], and takes their accesses through the caches; how many lines no cache had.
    fn warm(&mut self, simulation: &mut Simulation, operations: u64) -> Result<u64, MapError>;
}

/// The requests of all cores on a map.
pub(super) struct UntimedRequests<M, S> {
    pub(super) map: Rc<M>,
    pub(super) keys: Rc<S>,
    pub(super) board: Rc<Board>,
    pub(super) recorder: Recorder<Rc<Space>>,
    /// Pages move: their uses are counted on the way of an access.
    pub(super) counts_pages: bool,
    pub(super) feeds: Vec<Rc<RefCell<Feed>>>,
}

impl<S: KeySpace, M: OrderedMap<S::Key>> Untimed for UntimedRequests<M, S> {
    fn follow(&mut self, operations: u64) -> Result<(), MapError> {
        self.for_each_feed((operations, DRAWS_FOLLOWED), |this, _, feed| {
            if this.counts_pages {
                this.recorder.begin(OperationCost::default(), false);
                this.perform(&this.recorder, feed)?;
                this.recorder.clear();
                return Ok(());
            }
            this.perform_reordered(feed)
        })
    }

    fn warm(&mut self, simulation: &mut Simulation, operations: u64) -> Result<u64, MapError> {
        let mut brought = 0;
        self.for_each_feed((operations, DRAWS_WARMED), |this, core, feed| {
            this.recorder.begin(OperationCost::default(), false);
            this.perform(&this.recorder, feed)?;
            brought += simulation.warm(core, this.recorder.drain());
            Ok(())
        })?;
        Ok(brought)
    }
}

impl<S: KeySpace, M: OrderedMap<S::Key>> UntimedRequests<M, S> {
    /// Has what is drawn for each core carried out, each so many draws in turn, until it is about so many operations.
    fn for_each_feed(
        &self,
        (operations, draws): (u64, u64),
        mut carry_out: impl FnMut(&Self, usize, &Feed) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        let mut rounds = operations.div_ceil((DRAWN * self.feeds.len()) as u64);
        while rounds > 0 {
            let draws = draws.min(rounds);
            rounds -= draws;
            for (core, feed) in self.feeds.iter().enumerate() {
                let mut feed = feed.borrow_mut();
                for _ in 0..draws {
                    feed.fill(&*self.keys, self.board.hot_start.get());
                    carry_out(self, core, &feed)?;
                    feed.skip_drawn();
                }
            }
        }
        Ok(())
    }

    /// Carries out what is left of what was drawn.
    fn perform<P: Probe>(&self, probe: &P, feed: &Feed) -> Result<(), MapError> {
        let mut session = self.map.session(probe);
        let found = &mut *self.board.found.borrow_mut();
        let mut rest = feed.rest().iter();
        rest.try_for_each(|request| perform::<S, _>(&mut session, request, feed.arena(), found))
    }

    /// As [`Self::perform`], where nobody looks: first what changes the tree, since others ask for what
    /// was inserted, and then lookups, many together.
    fn perform_reordered(&self, feed: &Feed) -> Result<(), MapError> {
        let mut session = self.map.session(&Native);
        let found = &mut *self.board.found.borrow_mut();
        let is_read = |request: &&Request| request.action == Action::Read;
        let mut others = feed.rest().iter().filter(|request| !is_read(request));
        others
            .try_for_each(|request| perform::<S, _>(&mut session, request, feed.arena(), found))?;
        let reads: Vec<Request> = feed.rest().iter().filter(is_read).copied().collect();
        for reads in reads.chunks(BATCH) {
            let room = &mut Batch::new(reads.len());
            read_batch::<S, _>(&mut session, reads, feed.arena(), room, found);
        }
        Ok(())
    }
}
