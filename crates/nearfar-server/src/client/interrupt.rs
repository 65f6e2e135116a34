//! What ends a statement before its own end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tokio::io::AsyncRead;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::failure::{Failure, state};
use crate::server::Halt;
use crate::wire::{Cancel, Reader};

/// The keys with which connections can be told to give up what they are doing.
#[derive(Debug, Default)]
pub struct CancelKeys {
    next: AtomicI32,
    keys: Mutex<HashMap<i32, (Bytes, Arc<Notify>)>>,
}

impl CancelKeys {
    /// Enters a connection: its number, and what is notified when it is to give up.
    pub fn enter(self: &Arc<Self>, key: Bytes) -> CancelKey {
        // Numbers come again after four thousand million connections, and those still there are passed.
        let signal = Arc::new(Notify::new());
        let mut keys = self.keys.lock();
        let mut id = self.next.fetch_add(1, Ordering::Relaxed);
        while keys.contains_key(&id) {
            id = self.next.fetch_add(1, Ordering::Relaxed);
        }
        keys.insert(id, (key, Arc::clone(&signal)));
        CancelKey {
            id,
            signal,
            keys: Arc::clone(self),
        }
    }

    /// Tells a connection to give up, if the key is its own.
    pub fn cancel(&self, request: &Cancel) {
        let keys = self.keys.lock();
        if let Some((key, signal)) = keys.get(&request.id)
            && bool::from(key.ct_eq(&request.key[..]))
        {
            signal.notify_waiters();
        }
    }
}

/// The entry of a connection, which is taken out when this is dropped.
#[derive(Debug)]
pub struct CancelKey {
    /// The number of the connection.
    pub id: i32,
    signal: Arc<Notify>,
    keys: Arc<CancelKeys>,
}

impl Drop for CancelKey {
    fn drop(&mut self) {
        self.keys.keys.lock().remove(&self.id);
    }
}

/// Why the client of a statement is not answered.
#[derive(Debug)]
pub enum Ended {
    /// It gets an error.
    Failed(Failure),
    /// It is not there any more.
    Gone,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<std::io::Error> for Ended {
    fn from(_: std::io::Error) -> Self {
        Self::Gone
    }
}

/// Ends when a statement has to end early, with what its client is told.
pub async fn interruption(cancel: &CancelKey, halt: &Halt, timeout: Option<Duration>) -> Failure {
    let canceled = |message: &str| Failure::new(state::QUERY_CANCELED, message);
    let late = async {
        match timeout {
            Some(timeout) => sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = cancel.signal.notified() => canceled("canceling statement due to user request"),
        () = halt.wait() => stopping(halt),
        () = late => canceled("canceling statement due to statement timeout"),
    }
}

/// Runs `work` until its end, or until something ends it early, which drops it.
pub async fn until_interrupted<T, R: AsyncRead + Unpin>(
    reader: &mut Reader<R>,
    cancel: &CancelKey,
    halt: &Halt,
    timeout: Option<Duration>,
    work: impl Future<Output = Result<T, Ended>>,
) -> Result<T, Ended> {
    tokio::select! {
        biased;
        failure = interruption(cancel, halt, timeout) => Err(failure.into()),
        () = reader.gone() => Err(Ended::Gone),
        done = work => done,
    }
}

/// The server ends.
pub fn stopping(halt: &Halt) -> Failure {
    let message = format!("terminating connection because {}", halt.reason());
    Failure::fatal(state::ADMIN_SHUTDOWN, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn only_the_right_key_cancels() {
        let keys = Arc::new(CancelKeys::default());
        let entry = keys.enter(Bytes::from_static(b"secret"));
        let signal = Arc::clone(&entry.signal);
        let mut notified = std::pin::pin!(signal.notified());
        notified.as_mut().enable();
        let request = |id, key| Cancel {
            id,
            key: Bytes::from_static(key),
        };
        keys.cancel(&request(entry.id, b"wrong!"));
        keys.cancel(&request(entry.id + 1, b"secret"));
        assert!(notified.as_mut().now_or_never().is_none());
        keys.cancel(&request(entry.id, b"secret"));
        assert!(notified.now_or_never().is_some());
        let id = entry.id;
        drop(entry);
        keys.cancel(&request(id, b"secret"));
        assert!(keys.keys.lock().is_empty());
    }
}
