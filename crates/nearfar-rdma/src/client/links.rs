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

/// What a transfer gets to end by itself when it is cancelled: a connection that is given up has to be made again.
const CANCEL_GRACE: Duration = Duration::from_millis(50);

struct Entries {
    idle: Vec<Link>,
    made: usize,
}

/// Connections to one host, made when they are first needed.
pub(super) struct Links {
    pub(super) system: Arc<MemorySystem>,
    pub(super) domain: Arc<Domain>,
    pub(super) state: Arc<HostState>,
    pub(super) control: Arc<Control>,
    pub(super) links_max: usize,
    pub(super) timeout: Duration,
    entries: Mutex<Entries>,
    returned: Condvar,
}

/// A connection that one thread has; dropping it lets another have it.
struct Taken<'a> {
    links: &'a Links,
    link: Option<Link>,
}

impl Links {
    pub(super) fn new(
        system: Arc<MemorySystem>,
        domain: Arc<Domain>,
        (state, control): (Arc<HostState>, Arc<Control>),
        links_max: usize,
        timeout: Duration,
    ) -> Self {
        let entries = Entries {
            idle: Vec::new(),
            made: 0,
        };
        Self {
            system,
            domain,
            state,
            control,
            links_max,
            timeout,
            entries: Mutex::new(entries),
            returned: Condvar::new(),
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a transfer over a connection that is free, or will be: other transfers end within their time. Where the
    /// caller has cancelled and the transfer does not end soon, the connection is given up, and the host is not.
    pub(super) fn run(
        &self,
        region: u64,
        is_cancelled: &dyn Fn() -> bool,
        transfer: impl FnOnce(&mut Link, &TransferLimits<'_>) -> Result<(), RdmaError>,
    ) -> Result<(), RemoteError> {
        self.state.check(Some(region))?;
        // A connection may have to be made first, for which the host is asked that may be lost.
        let mut taken = self.take().map_err(|error| error.needing(region))?;
        let link = taken.link.as_mut().expect("until it is returned");
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
        transfer(link, &limits).map_err(|error| match gave_up.get() {
            true => RemoteError::Cancelled {
                host: self.state.name().to_owned(),
            },
            false => self.state.failed(Some(region), &error),
        })
    }

    fn take(&self) -> Result<Taken<'_>, RemoteError> {
        let mut entries = self.entries();
        loop {
            if let Some(link) = entries.idle.pop() {
                let link = Some(link);
                return Ok(Taken { links: self, link });
            }
            if entries.made < self.links_max {
                entries.made += 1;
                break;
            }
            let waited = self.returned.wait(entries);
            entries = waited.unwrap_or_else(PoisonError::into_inner);
        }
        drop(entries);
        // Dropped without a connection, it lets another thread make one.
        let mut taken = Taken {
            links: self,
            link: None,
        };
        taken.link = Some(self.make()?);
        Ok(taken)
    }

    fn make(&self) -> Result<Link, RemoteError> {
        let near = Placement::Bind(TierId::NEAR);
        let staging =
            Region::allocate(&self.system, STAGING_BYTES, &near, RegionOptions::default())?;
        let refused = |error| self.state.refused(error);
        let mut link = Link::new(&self.domain, staging).map_err(refused)?;
        let endpoint = link.endpoint().expect("it was just made");
        let Message::Connected { endpoint } = self.control.ask(&Message::Connect { endpoint })?
        else {
            return Err(self.control.unexpected());
        };
        link.connect(&endpoint).map_err(refused)?;
        Ok(link)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut entries = self.links.entries();
        match self.link.take().filter(Link::is_open) {
            Some(link) => entries.idle.push(link),
            None => entries.made -= 1,
        }
        self.links.returned.notify_one();
    }
}
