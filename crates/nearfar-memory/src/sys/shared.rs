//! Memory that others see too: DAX devices, files of DAX file systems, files in memory.

use std::fs::OpenOptions;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::SysError;

/// What has to have happened for a written byte to survive a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// [`SharedMapping::flush`], where the file is on a disk; in memory, nothing helps.
    Flush,
    /// Writing CPU caches back: the file's own records are durable before a page can be written
    /// (`MAP_SYNC`, Linux 4.15). Only DAX devices and files of DAX file systems on persistent memory
    /// have this.
    CpuCaches,
}

/// A file or DAX device in memory, shared with whoever else maps it; dropping it unmaps it.
///
/// Other processes, and on CXL memory other hosts, may write at any time. So its bytes are words that
/// are read and written atomically, never a slice of bytes.
///
/// The file must not be made shorter meanwhile: touching a page beyond its end is a `SIGBUS`.
///
/// ```
/// use std::sync::atomic::Ordering;
/// use nearfar_memory::sys::{Durability, SharedMapping};
///
/// let file = tempfile::NamedTempFile::new()?;
/// file.as_file().set_len(4096)?;
/// let here = SharedMapping::open(file.path(), 4096, Durability::Flush)?;
/// let there = SharedMapping::open(file.path(), 4096, Durability::Flush)?;
/// here.words()[7].store(42, Ordering::Release);
/// assert_eq!(there.words()[7].load(Ordering::Acquire), 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedMapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a SharedMapping is an owned range of address space with no thread affinity.
unsafe impl Send for SharedMapping {}
// SAFETY: through `&self` its memory is reached as atomics only, and its calls are thread-safe.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps the first `bytes` bytes of the file or device at `path`.
    ///
    /// Before: `bytes` is a positive multiple of the page size and of the device's alignment
    /// (2 MiB unless it was made with another); the file has as many. After: the range is readable
    /// and writable; no page is there yet (mmap(2), Documentation/filesystems/dax.rst).
    ///
    /// # Errors
    /// That of opening the file; that of `mmap`: `EOPNOTSUPP` where [`Durability::CpuCaches`] cannot
    /// be had, `EINVAL` for a size that the device's alignment does not divide.
    pub fn open(path: &Path, bytes: usize, durability: Durability) -> Result<Self, SysError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| SysError {
            call: "open",
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        if cfg!(miri) {
            return Err(SysError {
                call: "mmap",
                errno: libc::ENOSYS,
            });
        }
        let (call, flags) = match durability {
            Durability::Flush => ("mmap", libc::MAP_SHARED),
            Durability::CpuCaches => ("mmap(MAP_SYNC)", libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC),
        };
        // SAFETY: no address is asked for, so that no mapping of anyone is replaced; the descriptor
        // is open, and the mapping outlives it.
        let raw = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                file.as_raw_fd(),
                0,
            )
        };
        if raw == libc::MAP_FAILED {
            return Err(SysError::last(call));
        }
        // SAFETY: mmap never places a mapping at address zero unless asked to.
        let base = unsafe { NonNull::new_unchecked(raw.cast::<u8>()) };
        Ok(Self { base, bytes })
    }

    /// The memory as words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        let words = self.bytes / size_of::<AtomicU64>();
        // SAFETY: the mapping is page-aligned, has at least so many bytes and lives as long as
        // `self`; every bit pattern is a word; nobody in this process reaches it in another way than
        // as atomics, and what others do is as if done by another thread's atomics.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), words) }
    }

    /// Makes a range read-only for this process (mprotect(2)): a store to it is a `SIGSEGV` from then on.
    ///
    /// Before: `range` lies inside, and begins and ends with a page of the device's alignment. After: its words can be
    /// loaded only.
    ///
    /// # Errors
    /// That of `mprotect`.
    pub fn protect(&self, range: Range<usize>) -> Result<(), SysError> {
        self.check(&range);
        // SAFETY: the range lies inside the mapping that we own, and loses a right only.
        let code = unsafe {
            let start = self.base.as_ptr().add(range.start).cast();
            libc::mprotect(start, range.len(), libc::PROT_READ)
        };
        match code {
            0 => Ok(()),
            _ => Err(SysError::last("mprotect")),
        }
    }

    fn check(&self, range: &Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= self.bytes,
            "range {range:?} lies outside of a mapping of {} bytes",
            self.bytes
        );
    }

    /// Writes pages back to their file (`msync(MS_SYNC)`).
    ///
    /// Before: `range` lies inside and begins with a page. After: what was written to it before is
    /// in the file, where the file is on a disk or in persistent memory.
    ///
    /// # Errors
    /// The error of `msync`, `EINVAL` for a DAX device, which has no file.
    pub fn flush(&self, range: Range<usize>) -> Result<(), SysError> {
        self.check(&range);
        // SAFETY: the range lies inside the mapping that we own.
        let code = unsafe {
            libc::msync(
                self.base.as_ptr().add(range.start).cast(),
                range.len(),
                libc::MS_SYNC,
            )
        };
        match code {
            0 => Ok(()),
            _ => Err(SysError::last("msync")),
        }
    }

    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the mapping has no bytes; it never has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone and nobody in this process can name it after this.
        let code = unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert_eq!(code, 0, "munmap of an owned mapping");
    }
}

// Not under Miri, which maps no files.
#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn what_is_flushed_is_in_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8192).unwrap();
        let map = SharedMapping::open(file.path(), 8192, Durability::Flush).unwrap();
        assert_eq!((map.len(), map.words().len()), (8192, 1024));
        map.words()[1023].store(u64::from_le_bytes(*b"nearfar!"), Relaxed);
        map.flush(4096..8192).unwrap();
        let content = std::fs::read(file.path()).unwrap();
        assert_eq!(&content[8184..], b"nearfar!");
    }

    #[test]
    fn errors_name_the_call() {
        let nowhere = Path::new("/nowhere/at/all");
        let error = SharedMapping::open(nowhere, 4096, Durability::Flush).unwrap_err();
        assert_eq!((error.call, error.errno), ("open", libc::ENOENT));
    }
}
