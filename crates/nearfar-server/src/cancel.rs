//! The keys of cancel requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::wire::Cancel;

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

impl CancelKey {
    /// Ends when the connection is told to give up what it is doing, after this call.
    pub fn cancelled(&self) -> Notified<'_> {
        self.signal.notified()
    }
}

impl Drop for CancelKey {
    fn drop(&mut self) {
        self.keys.keys.lock().remove(&self.id);
    }
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
