//! The heap for everything that is not sent to a farther tier.

/// Which allocator serves the near tier.
///
/// Databases allocate, fill and free blocks of a MiB or more all the time, and where page faults are
/// dear (under virtualisation above all) the best heap is the one that keeps its pages. The platform's
/// allocator told to do so took the least processor time of all candidates on two cores, with one
/// arena: with several, threads other than the first map every block above 64 MiB anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NearHeap {
    /// The platform's allocator; glibc is told to keep freed memory, to serve large blocks from it,
    /// and to have one arena. For few threads.
    Platform,
    /// mimalloc in an own region, whose pages are kept. Threads seldom meet, so it is for many.
    Mimalloc {
        /// Ask for transparent huge pages: fewer page walks, but dear where the machine must
        /// first find or clear 2 MiB at a time.
        huge_pages: bool,
    },
}

/// The number of processors up to which one arena of the platform's allocator is enough.
const PLATFORM_THREADS_MAX: usize = 8;

impl Default for NearHeap {
    /// [`Self::Platform`] on machines of few processors, else [`Self::Mimalloc`] with base pages.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        if cfg!(target_env = "gnu") && threads <= PLATFORM_THREADS_MAX {
            Self::Platform
        } else {
            Self::Mimalloc { huge_pages: false }
        }
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
