//! How writes reach the memory of a pool for good, and how those of others are seen.

/// What the memory of a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Memory of this host that outlives a process and not the host: a file on tmpfs. Caches are
    /// coherent, nothing needs to be written back.
    Memory,
    /// Memory that outlives the host, or that another host sees without coherent caches: lines are
    /// written back (`clwb`, or the next best instruction) and fenced, and dropped from the cache
    /// before what another host wrote is read.
    Lines,
    /// A file on a disk: pages are written back by the kernel (`msync`).
    File,
}
