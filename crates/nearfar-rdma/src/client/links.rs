//! The connections of a client, which its threads take in turns.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nearfar_memory::rdma::{Domain, Link, RdmaError, TransferLimits};
use nearfar_memory::{MemorySystem, Placement, Region, RegionOptions, TierId};

use super::control::Control;
use super::state::HostState;
use crate::error::RemoteError;
use crate::protocol::Message;

/// Bytes of the near buffer of a connection, which what is in no near buffer goes through.
const STAGING_BYTES: usize = 256 << 10;

/// How often a thread that waits for a connection looks whether it still needs one.
const TURN: Duration = Duration::from_millis(5);
/// What a transfer gets to end by itself when it is cancelled: a connection that is given up has to be made again.
const CANCEL_GRACE: Duration = Duration::from_millis(50);

/// A connection, and the number of the queue of its end at the server.
struct Connection<L> {
    link: L,
    queue: u32,
}

/// Which connections there are.
struct Pool<L> {
    idle: Vec<Connection<L>>,
    /// Places of connections that threads have, or are about to make.
    taken: usize,
    /// Queues of the server's ends of connections that have ended here: it does not know that yet.
    ended: Vec<u32>,
}

/// What a thread gets that needs a connection.
enum Got<L> {
    Idle(Connection<L>),
    /// The place of one that is to be made.
    Place,
    Nothing,
}

impl<L> Pool<L> {
    const fn new() -> Self {
        Self {
            idle: Vec::new(),
            taken: 0,
            ended: Vec::new(),
        }
    }

    /// A connection or a place for one, where there are `max` at most. It is taken until [`Self::give_back`].
    fn take(&mut self, max: usize) -> Got<L> {
        let got = match self.idle.pop() {
            Some(connection) => Got::Idle(connection),
            None if self.taken < max => Got::Place,
            None => return Got::Nothing,
        };
        self.taken += 1;
        got
    }

    /// A thread is done: with a connection that can be used again, or with one that has ended, of which the queue is
    /// left, or it has made none.
    fn give_back(&mut self, connection: Option<Connection<L>>, ended: Option<u32>) {
        self.taken -= 1;
        self.idle.extend(connection);
        self.ended.extend(ended);
    }
}

/// Connections to one host, made when they are first needed.
pub(super) struct Links {
    pub(super) system: Arc<MemorySystem>,
    pub(super) domain: Arc<Domain>,
    pub(super) state: Arc<HostState>,
    pub(super) control: Arc<Control>,
    pub(super) links_max: usize,
    pub(super) timeout: Duration,
    pool: Mutex<Pool<Link>>,
    returned: Condvar,
}

/// The place of a connection that one thread has; dropping it lets another thread make one.
struct Place<'a> {
    links: &'a Links,
    /// The queue of the server's end, where there is a connection.
    queue: Option<u32>,
    kept: Option<Connection<Link>>,
}

impl Links {
    pub(super) fn new(
        system: Arc<MemorySystem>,
        domain: Arc<Domain>,
        (state, control): (Arc<HostState>, Arc<Control>),
        links_max: usize,
        timeout: Duration,
    ) -> Self {
        Self {
            system,
            domain,
            state,
            control,
            links_max,
            timeout,
            pool: Mutex::new(Pool::new()),
            returned: Condvar::new(),
        }
    }

    fn pool(&self) -> MutexGuard<'_, Pool<Link>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a transfer over a connection that is free, or will be: other transfers end within their time. Where the
    /// caller has cancelled, none is waited for any more; where the transfer does not end soon then, the connection is
    /// given up, and the host is not.
    pub(super) fn run(
        &self,
        region: u64,
        is_cancelled: &dyn Fn() -> bool,
        transfer: impl FnOnce(&mut Link, &TransferLimits<'_>) -> Result<(), RdmaError>,
    ) -> Result<(), RemoteError> {
        self.state.check(Some(region))?;
        // A connection may have to be made first, for which the host is asked that may be lost.
        let taken = self.take(is_cancelled);
        let (place, mut link) = taken.map_err(|error| error.needing(region))?;
        let cancelled = Cell::new(None);
        let is_late = || match cancelled.get() {
            None => {
                cancelled.set(is_cancelled().then(Instant::now));
                false
            }
            Some(since) => since.elapsed() > CANCEL_GRACE,
        };
        let gave_up = Cell::new(false);
        let is_lost = || {
            let lost = self.state.lost();
            gave_up.set(lost.is_none() && is_late());
            lost.or_else(|| gave_up.get().then(String::new))
        };
        let limits = TransferLimits {
            timeout: self.timeout,
            is_lost: &is_lost,
        };
        let transferred = transfer(&mut link, &limits);
        place.done(link);
        transferred.map_err(|error| match gave_up.get() {
            true => self.state.cancelled(),
            false => self.state.failed(Some(region), &error),
        })
    }

    fn take(&self, is_cancelled: &dyn Fn() -> bool) -> Result<(Place<'_>, Link), RemoteError> {
        let mut pool = self.pool();
        let got = loop {
            match pool.take(self.links_max) {
                Got::Idle(connection) => break Some(connection),
                Got::Place => break None,
                Got::Nothing => {}
            }
            let waited = self.returned.wait_timeout(pool, TURN);
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
            self.state.check(None)?;
            if is_cancelled() {
                return Err(self.state.cancelled());
            }
        };
        drop(pool);
        let mut place = Place {
            links: self,
            queue: None,
            kept: None,
        };
        let link = match got {
            Some(Connection { link, queue }) => {
                place.queue = Some(queue);
                link
            }
            None => self.make(&mut place, is_cancelled)?,
        };
        Ok((place, link))
    }

    /// Makes the connection of a place.
    fn make(
        &self,
        place: &mut Place<'_>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Link, RemoteError> {
        self.disconnect_ended(is_cancelled)?;
        let near = Placement::Bind(TierId::NEAR);
        let staging =
            Region::allocate(&self.system, STAGING_BYTES, &near, RegionOptions::default())?;
        let refused = |error| self.state.refused(error);
        let (mut link, endpoint) = Link::new(&self.domain, staging).map_err(refused)?;
        let request = Message::Connect { endpoint };
        let Message::Connected { endpoint } = self.control.ask_unless(&request, is_cancelled)?
        else {
            return Err(self.control.unexpected());
        };
        place.queue = Some(endpoint.queue);
        link.connect(&endpoint).map_err(refused)?;
        Ok(link)
    }

    /// Has the server end its ends of the connections that have ended here, of which it allows only so many.
    fn disconnect_ended(&self, is_cancelled: &dyn Fn() -> bool) -> Result<(), RemoteError> {
        loop {
            let Some(queue) = self.pool().ended.pop() else {
                return Ok(());
            };
            let request = Message::Disconnect { queue };
            match self.control.ask_unless(&request, is_cancelled) {
                Ok(Message::Disconnected) => {}
                Ok(_) => return Err(self.control.unexpected()),
                Err(error) => {
                    self.pool().ended.push(queue);
                    return Err(error);
                }
            }
        }
    }
}

impl Place<'_> {
    /// The thread is done with its connection: others may have it, unless it has ended.
    fn done(mut self, link: Link) {
        if link.is_open()
            && let Some(queue) = self.queue.take()
        {
            self.kept = Some(Connection { link, queue });
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let (kept, ended) = (self.kept.take(), self.queue.take());
        self.links.pool().give_back(kept, ended);
        self.links.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn connections_that_have_ended_are_remembered_until_the_server_knows() {
        let mut pool = Pool::<()>::new();
        let mut at_server = BTreeSet::new();
        for queue in 0..300 {
            assert!(matches!(pool.take(1), Got::Place), "{queue}");
            assert!(matches!(pool.take(1), Got::Nothing), "{queue}");
            for ended in pool.ended.drain(..) {
                assert!(at_server.remove(&ended), "{ended}");
            }
            at_server.insert(queue);
            assert_eq!(at_server.len(), 1);
            // It is used twice and then given up.
            pool.give_back(Some(Connection { link: (), queue }), None);
            let Got::Idle(used) = pool.take(1) else {
                panic!("{queue} is idle");
            };
            pool.give_back(None, Some(used.queue));
        }
        // Whoever fails to make one leaves nothing.
        assert!(matches!(pool.take(1), Got::Place));
        pool.give_back(None, None);
        assert_eq!((pool.taken, pool.ended), (0, vec![299]));
    }
}
