//! Anonymous mappings and advice on them.

use std::ops::Range;
use std::ptr::NonNull;
#[cfg(not(miri))]
use std::sync::{Mutex, PoisonError};

use super::{SharedFile, SysError};

/// Bytes of a base page on the platforms that this crate supports.
pub const BASE_PAGE_BYTES: usize = 4096;
/// Bytes of a huge page (a page middle directory entry of x86-64 and of AArch64 with 4 KiB pages).
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// How often and after which pause a call is repeated that lacked a resource of the kernel's: one
/// that is not there then will not come by itself.
#[cfg(not(miri))]
const TRIES_WITHOUT_RESOURCE: u32 = 5;
#[cfg(not(miri))]
const PAUSE_WITHOUT_RESOURCE: std::time::Duration = std::time::Duration::from_millis(1);

/// Bytes of a base page as the kernel says (`sysconf(_SC_PAGESIZE)`).
#[must_use]
pub fn base_page_bytes() -> usize {
    // SAFETY: sysconf reads a constant of the system and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(BASE_PAGE_BYTES)
}

/// What backs a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MappingKind {
    /// Ordinary anonymous memory, transparent huge pages as advised.
    Anonymous,
    /// Explicitly reserved 2 MiB pages (`vm.nr_hugepages`).
    HugeTlb,
}

/// Advice of `madvise(2)` that this crate gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Use transparent huge pages where the range is aligned (`MADV_HUGEPAGE`).
    HugePages,
    /// Use base pages only (`MADV_NOHUGEPAGE`): a fault then fills exactly one page.
    BasePages,
    /// Fault every page in, writable; an unsuccessful fault is an error, not a signal
    /// (`MADV_POPULATE_WRITE`, Linux 5.14).
    PopulateWrite,
    /// Give the pages back; they read as zero afterwards (`MADV_DONTNEED`).
    Discard,
    /// Leave the range out of what children get (`MADV_DONTFORK`).
    KeepFromChildren,
}

impl Advice {
    fn number_and_name(self) -> (libc::c_int, &'static str) {
        match self {
            Self::HugePages => (libc::MADV_HUGEPAGE, "madvise(MADV_HUGEPAGE)"),
            Self::BasePages => (libc::MADV_NOHUGEPAGE, "madvise(MADV_NOHUGEPAGE)"),
            Self::PopulateWrite => (libc::MADV_POPULATE_WRITE, "madvise(MADV_POPULATE_WRITE)"),
            Self::Discard => (libc::MADV_DONTNEED, "madvise(MADV_DONTNEED)"),
            Self::KeepFromChildren => (libc::MADV_DONTFORK, "madvise(MADV_DONTFORK)"),
        }
    }
}

/// A private anonymous mapping that this value owns; dropping it unmaps it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// Ranges of which it is not known whether they are mapped, in their order: others may have them.
    #[cfg(not(miri))]
    lost: Mutex<Vec<Range<usize>>>,
    #[cfg(miri)]
    align: usize,
}

// SAFETY: a Mapping is an owned range of address space with no thread affinity; it hands out only
// its address, and whoever dereferences it upholds aliasing.
unsafe impl Send for Mapping {}
// SAFETY: as above; all methods that take `&self` make thread-safe system calls.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The address of the first byte.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
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

    /// Writes zero to all of `range`.
    ///
    /// Before: nobody refers into the range.
    pub(crate) fn zero(&self, range: Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= self.bytes,
            "range {range:?} lies outside of a mapping of {} bytes",
            self.bytes
        );
        // SAFETY: the range lies inside the mapping, which is writable; nobody refers into it.
        unsafe {
            let start = self.base.as_ptr().add(range.start);
            start.write_bytes(0, range.len());
        }
    }

    /// The address range.
    #[must_use]
    pub fn addresses(&self) -> Range<usize> {
        let start = self.base.as_ptr() as usize;
        start..start + self.bytes
    }
}

#[cfg(not(miri))]
impl Mapping {
    /// Maps `bytes` of anonymous memory whose first byte is a multiple of `align`.
    ///
    /// Before: `bytes` is a positive multiple of the page size of `kind`; `align` is a power of two
    /// and at least that page size. After: the range is reserved, readable and writable; no page is
    /// allocated; nothing is charged to the commit limit (`MAP_NORESERVE`, mmap(2)), unless
    /// `vm.overcommit_memory` is 2, when all of it is (Documentation/mm/overcommit-accounting.rst).
    ///
    /// # Errors
    /// The error of `mmap`, `ENOMEM` when address space or huge pages do not suffice.
    pub fn new(bytes: usize, align: usize, kind: MappingKind) -> Result<Self, SysError> {
        let (protection, flags) = match kind {
            MappingKind::Anonymous => (libc::PROT_READ | libc::PROT_WRITE, 0),
            MappingKind::HugeTlb => (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_HUGETLB | libc::MAP_HUGE_2MB,
            ),
        };
        let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // The kernel aligns huge page mappings itself; others are over-mapped and trimmed.
        let slack = if kind == MappingKind::HugeTlb {
            0
        } else {
            align - base_page_bytes()
        };
        let padded = bytes.checked_add(slack).ok_or(SysError {
            call: "mmap",
            errno: libc::ENOMEM,
        })?;
        // SAFETY: no address is asked for, so that no mapping of anyone is replaced.
        let raw = unsafe { libc::mmap(std::ptr::null_mut(), padded, protection, flags, -1, 0) };
        if raw == libc::MAP_FAILED {
            return Err(SysError::last("mmap"));
        }
        let start = raw as usize;
        let aligned = start.next_multiple_of(align);
        let before = aligned - start;
        let after = slack - before.min(slack);
        for (cut, length) in [(start, before), (aligned + bytes, after)] {
            if length > 0 {
                // SAFETY: the cut lies inside the mapping made above and outside of the part kept.
                unsafe { libc::munmap(cut as *mut libc::c_void, length) };
            }
        }
        // SAFETY: `aligned` lies `before` bytes into the live mapping that starts at `raw`, which
        // mmap never places at address zero.
        let base = unsafe { NonNull::new_unchecked(raw.cast::<u8>().add(before)) };
        let lost = Mutex::default();
        Ok(Self { base, bytes, lost })
    }

    /// Gives `advice` on `range`.
    ///
    /// Before: `range` lies inside and is page-aligned; for [`Advice::Discard`] nobody holds a
    /// reference into it. After: as the advice says (madvise(2)). A call is repeated while it is
    /// interrupted, and a few times while the kernel lacks a resource; `PopulateWrite` starts over
    /// harmlessly, present pages being left alone.
    ///
    /// # Errors
    /// The error of `madvise`: for `PopulateWrite`, `ENOMEM` when pages ran out, `EFAULT` where a
    /// fault would have raised `SIGBUS`, `EHWPOISON` for broken memory, `EINVAL` before Linux 5.14;
    /// `EAGAIN` when the resource stays lacking, such as mappings (`vm.max_map_count`).
    pub fn advise(&self, range: Range<usize>, advice: Advice) -> Result<(), SysError> {
        self.check(&range);
        let (number, call) = advice.number_and_name();
        let mut tries_left = TRIES_WITHOUT_RESOURCE;
        loop {
            // SAFETY: the range lies inside the mapping that we own; discarding needs the caller's
            // word that nobody refers to it, which the precondition states.
            let code = unsafe {
                libc::madvise(
                    self.base.as_ptr().add(range.start).cast(),
                    range.len(),
                    number,
                )
            };
            if code == 0 {
                return Ok(());
            }
            let error = SysError::last(call);
            match error.errno {
                libc::EINTR => {}
                libc::EAGAIN if tries_left > 0 => {
                    tries_left -= 1;
                    std::thread::sleep(PAUSE_WITHOUT_RESOURCE);
                }
                _ => return Err(error),
            }
        }
    }

    /// Puts bytes of `file` from `offset` on in place of `range` (`MAP_SHARED | MAP_FIXED`, mmap(2)).
    ///
    /// Before: the range lies inside; it, the offset and the address are multiples of the file's
    /// alignment; the mapping is [`MappingKind::Anonymous`]; the file has these bytes; nobody refers
    /// into the range. After: the range is readable and writable, and its bytes are the file's. It is
    /// unmapped with the rest. After an error nobody may access the range: kernels before Linux 6.12
    /// unmap it first, so that another mapping may be there, and it is not unmapped with the rest.
    ///
    /// # Errors
    /// The error of `mmap`: `EINVAL` for what the device's alignment does not divide, `ENOMEM` for too
    /// many mappings.
    pub fn map_file(
        &self,
        range: Range<usize>,
        file: &SharedFile,
        offset: u64,
    ) -> Result<(), SysError> {
        self.check(&range);
        // SAFETY: the range lies inside the mapping that we own, and the caller says that nobody refers
        // into it, so that what is replaced is nobody's; the descriptor is open.
        let raw = unsafe {
            libc::mmap(
                self.base.as_ptr().add(range.start).cast(),
                range.len(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.descriptor(),
                offset as libc::off_t,
            )
        };
        match raw {
            libc::MAP_FAILED => {
                let error = SysError::last("mmap(MAP_FIXED)");
                let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
                let at = lost.partition_point(|other| other.start < range.start);
                lost.insert(at, range);
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Keeps all pages of `range` in memory, and where they are (mlock(2)).
    ///
    /// Before: `range` lies inside and is page-aligned. After: its pages are there; the kernel neither swaps them out
    /// nor demotes them, until they are unmapped.
    ///
    /// # Errors
    /// `EPERM` or `ENOMEM` where it is more than the process may lock (`RLIMIT_MEMLOCK`), `EAGAIN` when pages ran out.
    pub fn lock(&self, range: Range<usize>) -> Result<(), SysError> {
        self.check(&range);
        // SAFETY: the range lies inside the mapping that we own; locking changes no byte.
        let code = unsafe { libc::mlock(self.base.as_ptr().add(range.start).cast(), range.len()) };
        if code == 0 {
            Ok(())
        } else {
            Err(SysError::last("mlock"))
        }
    }

    fn check(&self, range: &Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= self.bytes,
            "range {range:?} lies outside of a mapping of {} bytes",
            self.bytes
        );
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        let lost = self.lost.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut start = 0;
        let end = self.bytes..self.bytes;
        for next in lost.iter().chain(std::iter::once(&end)) {
            if start < next.start {
                // SAFETY: this part of the mapping is ours alone and nobody can name it after this.
                let code = unsafe {
                    let part = self.base.as_ptr().add(start);
                    libc::munmap(part.cast(), next.start - start)
                };
                debug_assert_eq!(code, 0, "munmap of an owned mapping");
            }
            start = start.max(next.end);
        }
    }
}

#[cfg(miri)]
impl Mapping {
    /// See the real implementation; here the standard allocator gives zeroed memory.
    pub fn new(bytes: usize, align: usize, _kind: MappingKind) -> Result<Self, SysError> {
        let layout = std::alloc::Layout::from_size_align(bytes, align).map_err(|_| SysError {
            call: "mmap",
            errno: libc::EINVAL,
        })?;
        // SAFETY: the layout has a positive size.
        let raw = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(raw).ok_or(SysError {
            call: "mmap",
            errno: libc::ENOMEM,
        })?;
        Ok(Self { base, bytes, align })
    }

    /// No file can be mapped there.
    pub fn map_file(
        &self,
        _range: Range<usize>,
        _file: &SharedFile,
        _offset: u64,
    ) -> Result<(), SysError> {
        Err(SysError {
            call: "mmap(MAP_FIXED)",
            errno: libc::ENOSYS,
        })
    }

    /// Accepted and without effect.
    pub fn lock(&self, _range: Range<usize>) -> Result<(), SysError> {
        Ok(())
    }

    /// Accepted and without effect, but for discarding, which zeroes.
    pub fn advise(&self, range: Range<usize>, advice: Advice) -> Result<(), SysError> {
        let _ = advice.number_and_name();
        if advice == Advice::Discard {
            // SAFETY: the range lies inside, and the caller says that nobody refers to it.
            unsafe {
                self.base
                    .as_ptr()
                    .add(range.start)
                    .write_bytes(0, range.len())
            };
        }
        Ok(())
    }
}

#[cfg(miri)]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very size and alignment.
        unsafe {
            let layout = std::alloc::Layout::from_size_align_unchecked(self.bytes, self.align);
            std::alloc::dealloc(self.base.as_ptr(), layout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_aligned_zero_and_writable() {
        for align in [BASE_PAGE_BYTES, HUGE_PAGE_BYTES] {
            let map = Mapping::new(align * 2, align, MappingKind::Anonymous).unwrap();
            assert_eq!(map.addresses().start % align, 0);
            assert_eq!(map.addresses().len(), align * 2);
            map.advise(0..map.len(), Advice::PopulateWrite).unwrap();
            // SAFETY: the byte lies inside the mapping.
            unsafe {
                assert_eq!(map.base().as_ptr().add(align).read(), 0);
                map.base().as_ptr().add(align).write(7);
            }
            map.advise(0..map.len(), Advice::Discard).unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { map.base().as_ptr().add(align).read() }, 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "no file can be mapped there")]
    fn what_may_be_anothers_after_an_error_is_not_unmapped() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        file.as_file().set_len(BASE_PAGE_BYTES as u64).unwrap();
        let file = SharedFile::open(file.path()).unwrap();
        let page = BASE_PAGE_BYTES;
        let map = Mapping::new(3 * page, page, MappingKind::Anonymous).unwrap();
        // SAFETY: the byte lies inside the mapping.
        let middle = unsafe { map.base().as_ptr().add(page) };
        assert!(map.map_file(page..2 * page, &file, 1).is_err());
        drop(map);
        // SAFETY: the kernel has refused the offset before it looked at the range, and the page was not
        // unmapped with the rest.
        assert_eq!(unsafe { middle.read() }, 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "address space is not limited there")]
    fn more_than_the_address_space_is_an_error_that_names_the_call() {
        let error = Mapping::new(1 << 62, BASE_PAGE_BYTES, MappingKind::Anonymous).unwrap_err();
        assert_eq!((error.call, error.errno), ("mmap", libc::ENOMEM));
    }
}
