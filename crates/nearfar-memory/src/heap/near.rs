//! The heap for everything that is not sent to a farther tier.

/// Which allocator serves the near tier.
///
/// Databases allocate, fill and free blocks of a MiB or more all the time, and where page faults and page walks are
/// dear (under virtualisation above all) the best heap is the one that keeps its pages, and has large ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NearHeap {
    /// The platform's allocator; glibc is told to keep freed memory, to serve large blocks from it,
    /// and to have one arena. It takes the least memory.
    Platform,
    /// mimalloc in an own region, whose pages are kept. Threads seldom meet.
    Mimalloc {
        /// Ask for transparent huge pages: fewer page walks, but dear where the machine must
        /// first find or clear 2 MiB at a time.
        huge_pages: bool,
    },
}

impl Default for NearHeap {
    /// [`Self::Mimalloc`] with huge pages.
    fn default() -> Self {
        Self::Mimalloc { huge_pages: true }
    }
}

/// Tells the platform's allocator to keep what it has. To be done before threads are started, since
/// each gets its arena then.
#[cfg(target_env = "gnu")]
pub(super) fn keep_freed_memory() {
    /// Blocks below this size come from memory that is kept.
    const MAP_THRESHOLD_BYTES: libc::c_int = 1 << 30;
    /// What older versions allow at most.
    const MAP_THRESHOLD_BYTES_OLD: libc::c_int = 32 << 20;
    const GROW_BYTES: libc::c_int = 64 << 20;
    // SAFETY: mallopt sets a number of the allocator, under its lock.
    unsafe {
        if libc::mallopt(libc::M_MMAP_THRESHOLD, MAP_THRESHOLD_BYTES) == 0 {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAP_THRESHOLD_BYTES_OLD);
        }
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        libc::mallopt(libc::M_TOP_PAD, GROW_BYTES);
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Other allocators are left as they are.
#[cfg(not(target_env = "gnu"))]
pub(super) fn keep_freed_memory() {}
