//! The ends of threads, apart from the ends of heaps.
//!
//! When a thread ends, mimalloc gives up what the thread has of each heap, and when a heap is destroyed,
//! what each thread has of it. Version 3.3 does not keep the two apart: the heap takes itself out of what
//! the thread has before it waits for the thread's lock, and the thread then looks for the heap's
//! statistics behind a null pointer. So threads end under a lock here, and heaps are destroyed
//! under the same one.

use std::ffi::c_void;
use std::sync::{OnceLock, PoisonError, RwLock};

use libmimalloc_sys as mimalloc;

use crate::heap_counters;

unsafe extern "C" {
    /// The key by which mimalloc 3.3 has the system call it at the end of a thread.
    static mut _mi_heap_default_key: libc::pthread_key_t;
    /// What mimalloc 3.3 does at the end of a thread; its crate does not declare it.
    fn _mi_thread_done(default_heap_of_thread: *mut c_void);
}

/// Threads that end hold it together, a heap that is destroyed alone.
static ENDS: RwLock<()> = RwLock::new(());

/// Has threads that use mimalloc from now on end under the lock. To be done before the first heap is made.
///
/// # Errors
/// The system's error number where the process has no key left.
pub(super) fn watch() -> Result<(), i32> {
    static WATCHED: OnceLock<i32> = OnceLock::new();
    match *WATCHED.get_or_init(replace_key) {
        0 => Ok(()),
        errno => Err(errno),
    }
}

/// Puts a key of ours in the place of mimalloc's, with what this thread has set. Other threads that have
/// used mimalloc before have nothing of any heap yet.
fn replace_key() -> i32 {
    let mut key = 0;
    // SAFETY: any call has mimalloc make its key, which it does once; `key` is writable, the function is
    // what a key wants, and no other thread is in here. mimalloc reads its key again when a thread begins
    // to use it, which those that use heaps do after this.
    unsafe {
        mimalloc::mi_thread_init();
        let errno = libc::pthread_key_create(&raw mut key, Some(end_thread));
        if errno == 0 {
            let of_this_thread = libc::pthread_getspecific(_mi_heap_default_key);
            libc::pthread_key_delete(_mi_heap_default_key);
            _mi_heap_default_key = key;
            return libc::pthread_setspecific(key, of_this_thread);
        }
        errno
    }
}

/// Called by the system at the end of a thread that has used mimalloc.
unsafe extern "C" fn end_thread(default_heap_of_thread: *mut c_void) {
    heap_counters::give_back();
    let _ends = ENDS.read().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the value is what mimalloc set for the key in this thread, and not null, for which the system
    // does not call.
    unsafe { _mi_thread_done(default_heap_of_thread) };
}

/// Destroys a heap and all of its blocks, while no thread ends.
///
/// # Safety
/// The heap is live, and none of its blocks is used any more.
pub(super) unsafe fn destroy_heap(heap: *mut mimalloc::mi_heap_t) {
    let _alone = ENDS.write().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller says so.
    unsafe { mimalloc::mi_heap_destroy(heap) };
}
