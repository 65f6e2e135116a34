//! Numbers for objects, each given out once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;

use crate::failure::{Failure, Status};

/// An object. 0 is none.
pub type Handle = u64;

/// The objects of one kind.
pub struct Handles<T> {
    kind: &'static str,
    objects: LazyLock<RwLock<HashMap<Handle, Arc<T>>>>,
}

/// The number of the next object of any kind, so that those of one kind are none of another.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl<T> Handles<T> {
    /// None yet.
    pub const fn new(kind: &'static str) -> Self {
        Self {
            kind,
            objects: LazyLock::new(RwLock::default),
        }
    }

    /// Gives a number to an object.
    pub fn add(&self, object: T) -> Handle {
        // Only the number itself is shared; the lock orders the rest.
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        self.objects.write().insert(handle, Arc::new(object));
        handle
    }

    /// The object of a number.
    pub fn get(&self, handle: Handle) -> Result<Arc<T>, Failure> {
        let found = self.objects.read().get(&handle).cloned();
        found.ok_or_else(|| self.bad(handle))
    }

    /// Takes a number back. The object ends when no call uses it any more.
    pub fn remove(&self, handle: Handle) -> Result<(), Failure> {
        let removed = self.objects.write().remove(&handle);
        removed.map(drop).ok_or_else(|| self.bad(handle))
    }

    fn bad(&self, handle: Handle) -> Failure {
        let kind = self.kind;
        let message = format!("{handle} is no {kind}: it was freed before, or never was one");
        Failure::new(Status::BadHandle, message)
    }
}
