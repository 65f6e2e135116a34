//! The lease of a pool's owner: renewed for as long as the process runs, and noticed when it is lost.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nearfar_memory::pool::{Owner, OwnerRecord, PoolError};
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

/// The lease is renewed so many times before it would end.
const RENEWALS_PER_LEASE: u32 = 5;

/// Renews the lease of an owner on a thread of its own, until it is dropped or the pool is lost.
#[derive(Debug)]
pub struct Lease {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    owner: Owner,
    /// Who has taken over.
    lost_to: watch::Sender<Option<OwnerRecord>>,
    is_ending: Mutex<bool>,
    ending: Condvar,
}

impl Lease {
    /// Begins to renew.
    pub(crate) fn start(owner: Owner) -> Self {
        let shared = Arc::new(Shared {
            owner,
            lost_to: watch::Sender::new(None),
            is_ending: Mutex::new(false),
            ending: Condvar::new(),
        });
        let renewing = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("nearfar-lease".to_owned());
        let thread = thread
            .spawn(move || renewing.renew())
            .inspect_err(|error| tracing::error!(%error, "no thread for the lease of the pool"));
        Self {
            shared,
            thread: Mutex::new(thread.ok()),
        }
    }

    /// Whether the pool still is this process's.
    ///
    /// # Errors
    /// Who has taken it over.
    pub fn check(&self) -> Result<(), OwnerRecord> {
        self.shared.check(Owner::check)
    }

    /// Who has taken the pool over, as soon as that is known.
    pub fn lost_to(&self) -> watch::Receiver<Option<OwnerRecord>> {
        self.shared.lost_to.subscribe()
    }
}

impl Shared {
    fn check(&self, ask: fn(&Owner) -> Result<(), PoolError>) -> Result<(), OwnerRecord> {
        match ask(&self.owner) {
            Err(PoolError::Fenced { .. }) => {}
            Err(error) => {
                // The claim word is memory that can be read: what failed is the write-back of the
                // heartbeat, and others will find the lease ended if that goes on.
                tracing::warn!(%error, "the lease of the pool could not be renewed");
                return Ok(());
            }
            Ok(()) => return Ok(()),
        }
        let record = self.owner.successor();
        self.lost_to.send_if_modified(|lost_to| {
            let is_new = lost_to.is_none();
            if is_new {
                tracing::error!(by = %record, "the pool was taken over: nothing can be changed here");
                *lost_to = Some(record.clone());
            }
            is_new
        });
        Err(record)
    }

    fn renew(&self) {
        let pause = self.owner.record().lease / RENEWALS_PER_LEASE;
        let pause = pause.max(Duration::from_millis(1));
        let mut is_ending = self.is_ending.lock();
        while !*is_ending {
            self.ending.wait_for(&mut is_ending, pause);
            if *is_ending || self.check(Owner::renew).is_err() {
                return;
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.shared.is_ending.lock() = true;
        self.shared.ending.notify_all();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the lease has panicked");
        }
    }
}
